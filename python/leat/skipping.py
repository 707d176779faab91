"""Accelerate's ``skip_first_batches`` of a :class:`leat.Loader` and of a reader of a port, which Hugging Face Trainer
calls as it resumes.

Accelerate makes a new DataLoader of the given one's parts. These have none, and need not read what is skipped: a state
of that batch is loaded.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from typing import Any

_MODULE, _NAME = "accelerate.data_loader", "skip_first_batches"


def install_if_here() -> None:
    """If Accelerate is imported, its function takes them. They call this as they open, and as their length is asked
    for, which Trainer does before it skips.
    """
    if _MODULE in sys.modules:
        install()


@functools.cache
def install() -> None:
    """Puts a function in the place of Accelerate's, wherever that has been imported to; once in a process."""
    original: Any = getattr(sys.modules[_MODULE], _NAME, None)
    if original is None:
        return

    @functools.wraps(original)
    def skip(dataloader: Any, num_batches: int = 0) -> Any:
        if isinstance(dataloader, Rest):
            return Rest(dataloader.loader, dataloader.begins + num_batches)
        if hasattr(dataloader, "_begin_at"):
            return Rest(dataloader, num_batches)
        return original(dataloader, num_batches)

    for module in list(sys.modules.values()):
        if getattr(module, "__dict__", {}).get(_NAME) is original:
            setattr(module, _NAME, skip)


class Rest:
    """A loader whose epochs begin with a later batch. A position that was loaded into it counts instead."""

    def __init__(self, loader: Any, begins: int) -> None:
        self.loader, self.begins = loader, max(begins, 0)

    def __iter__(self) -> Iterator[Any]:
        if self.begins >= len(self.loader) and not self.loader._is_within():
            self.loader.set_epoch(self.loader.epoch + 1)
            return iter(())
        self.loader._begin_at(self.begins)
        return iter(self.loader)

    def __len__(self) -> int:
        return max(len(self.loader) - self.begins, 0)

    def __getattr__(self, name: str) -> Any:
        if name == "loader":  # not there yet: this is being unpickled
            raise AttributeError(name)
        return getattr(self.loader, name)
