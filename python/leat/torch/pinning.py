"""Batches in pinned memory, one ahead of the consumer: ``pin_memory=True``.

Copying a batch into pinned memory takes as long as reading it. If the next batch is complete, a thread copies it while
the consumer trains on the one before. If not, the consumer waits for it anyway, and copies it itself.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import torch
from torch.utils.data._utils import pin_memory as torch_pin

from ..workers.feed import Delivered, NotYet, Planned


class Pinning:
    """A source of batches (`leat.workers.feed.Feed` and the like) whose values went through `pin`."""

    def __init__(self, source: Any, pin: Callable[[Any], Any]) -> None:
        self.source, self.pin = source, pin
        self.thread = ThreadPoolExecutor(1, "leat-pin")
        self.ahead: tuple[Delivered, Future[Any]] | None = None
        self.error: tuple[BaseException, Planned | None] | None = None  # of the batch ahead: raised when it is its turn
        self.failed: Planned | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.source, name)

    def head(self) -> Planned | None:
        """The batch that is delivered next, in order."""
        if self.error is not None:
            if self.error[1] is None:
                raise self.error[0]
            return self.error[1]
        found: Planned | None = self.ahead[0].planned if self.ahead is not None else self.source.head()
        return found

    def next(self, timeout_s: float | None = None) -> Delivered | None:
        """The next batch of the source, pinned."""
        if self.error is not None:
            (error, self.failed), self.error = self.error, None
            if self.failed is not None:
                self.source.advance()
            raise error
        if self.ahead is not None:
            made, future = self.ahead
            try:
                made.value = future.result()
            except Exception:
                self.failed, self.ahead = made.planned, None
                self.source.advance()
                raise
            self.ahead = None
            self.source.advance()
        else:
            try:
                found: Delivered | None = self.source.next(timeout_s)
            except NotYet:
                raise
            except BaseException:
                self.failed, self.source.failed = self.source.failed, None
                raise
            if found is None:
                return None
            made = found
            try:
                made.value = self.pin(made.value)
            except Exception:
                self.failed = made.planned
                raise
        self._look_ahead()
        return made

    def _look_ahead(self) -> None:
        try:
            made = self.source.next(0, advance=False)
        except NotYet:
            return
        except Exception as e:
            self.error, self.source.failed = (e, self.source.failed), None
            return
        if made is not None:
            self.ahead = made, self.thread.submit(self.pin, made.value)

    def restart(self, plan: Iterator[Planned]) -> None:
        """Drops the batch ahead, and continues with another plan."""
        self.ahead = self.error = None
        self.source.restart(plan)

    def close(self) -> None:
        """Ends the thread and the source."""
        self.ahead = self.error = None
        self.thread.shutdown(wait=False, cancel_futures=True)
        self.source.close()


def pinned(value: Any, device: str) -> Any:
    return torch_pin.pin_memory(value, device)  # type: ignore[no-untyped-call]


def pin_device(loader: Any) -> str | None:
    if not loader.pin_memory:
        return None
    if loader.pin_memory_device:
        warnings.warn(
            "pin_memory_device is deprecated, the current accelerator will be used as the device,"
            f"ignore pin_memory_device='{loader.pin_memory_device}'.",
            stacklevel=4,
        )
    accelerator = getattr(torch, "accelerator", None)
    if accelerator is None or not accelerator.is_available():
        warnings.warn(
            "'pin_memory' argument is set as true but no accelerator is found, then device pinned memory won't be "
            "used.",
            stacklevel=4,
        )
        return None
    found = accelerator.current_accelerator()
    return None if found is None or found.type == "mps" else str(found.type)
