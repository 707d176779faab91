"""The common part of all readers: a loader, a further consumer of it, and a reader attached to a port."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

from .. import check
from ..closing import Closing
from ..saved import damage_is_said, plain


class Reader(Closing):
    """Epochs and position. Iterating once is one epoch, iterating again the next one."""

    _core: Any
    _loaded = False  # a position, by load_state_dict, in which nothing was read yet

    def _take(self, number: int) -> Any:
        """The next batch of pass `number` as iterating gives it, or None behind the last one."""
        raise NotImplementedError

    def __len__(self) -> int:
        """Batches of this rank in an epoch."""
        steps: int = self._core.steps()
        return steps

    @property
    def epoch(self) -> int:
        """The epoch that is being iterated, or that begins next. Right after the end of an epoch it is the next one."""
        epoch: int = self._core.epoch()
        return epoch

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch that begins next. If a position was loaded, its own epoch keeps it, and another one drops it
        with a warning.
        """
        self._drops(check.integer("epoch", epoch))

    def _drops(self, epoch: int) -> bool:
        """Sets it; whether that drops a position. A position from opening needs no warning."""
        dropped: bool = self._core.set_epoch(epoch)
        if dropped and self._loaded:
            self._loaded = False
            warnings.warn(f"set_epoch({epoch}) drops the loaded position, which is in another epoch", stacklevel=3)
        return dropped

    def state_dict(self) -> dict[str, Any]:
        """Its position: the epoch, and how many rows of it were handed out."""
        state: dict[str, Any] = json.loads(self._core.state())
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues from a state: the next iteration begins with the row after the last one that was handed out.

        Raises:
            ValueError: the state is of another data set or order (:class:`leat.StateError`), or is none.
        """
        text = json.dumps(plain(state))
        with damage_is_said():
            self._core.load_state(text)
        self._loaded = True


class Pass:
    """One pass through an epoch. After an exception the position has not moved: calling ``next`` again tries again."""

    __slots__ = ("__weakref__", "_done", "_number", "_reader")

    def __init__(self, reader: Reader, number: int) -> None:
        self._reader, self._number = reader, number  # keeps it open
        self._done = False

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        batch = None if self._done else self._reader._take(self._number)
        if batch is None:
            self._done = True
            raise StopIteration
        return batch
