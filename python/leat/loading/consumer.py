"""Further readers of a loader's rows."""

from __future__ import annotations

import json
import weakref
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from .. import _leat, check
from . import states

if TYPE_CHECKING:
    from .loader import Loader


class Closing:
    """What ends when it is closed, or no longer referred to."""

    _finalizer: weakref.finalize[Any, Any]

    def close(self) -> None:
        """Ends it; batches and tensors that are held stay valid."""
        self._finalizer()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Consumer(Closing):
    """A second reader of a loader's rows, made by :meth:`leat.Loader.consumer`.

    It gets every row of this rank once an epoch, in the order of the loader, in batches of its own size and at its own
    pace. Rows that others read at about the same time are decoded once; rows that it missed are computed again.
    Iterating once is one epoch, and iterating again the next one, as with a :class:`leat.Loader`. The last batch of an
    epoch may be shorter.
    """

    def __init__(self, loader: Loader, core: _leat.Consumer, batch_size: int) -> None:
        self.loader = loader  #: what it reads; kept open
        self.batch_size = batch_size
        self._core = core
        self._next = loader._asked(core.next, core.epoch)
        self._peek = loader._asked(core.peek, core.epoch)
        self._finalizer = weakref.finalize(self, core.close)
        self._finalizer.atexit = False

    def __iter__(self) -> Iterator[Any]:
        return _Reading(self, self._core.start())

    def peek(self) -> Any:
        """The batch that comes next, without handing it out, as :meth:`leat.Loader.peek`; None at an epoch's end."""
        core = self._peek()
        return None if core is None else self.loader._deliver(core)

    def __len__(self) -> int:
        """Batches in an epoch."""
        return self._core.steps()

    @property
    def epoch(self) -> int:
        """The epoch that is being iterated, or that begins next."""
        return self._core.epoch()

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch that begins next."""
        self._core.set_epoch(check.integer("epoch", epoch))

    def state_dict(self) -> dict[str, Any]:
        """Its position: the epoch, and how many rows of it were handed out."""
        state: dict[str, Any] = json.loads(self._core.state())
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues from the state of a consumer of any batch size.

        Raises:
            ValueError: the state is of another data set, order or rank (:class:`leat.StateError`), or is none.
        """
        text = json.dumps(states.plain(state))
        with states.damage_is_said():
            self._core.load_state(text)

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError(
            "a consumer cannot be pickled: pickle its state_dict(), and open one of a Loader in the other process"
        )

    def __repr__(self) -> str:
        return f"<leat.Consumer of {self.loader!r}, batches of {self.batch_size}>"


class _Reading:
    """One pass through an epoch. After an exception the position has not moved: calling ``next`` again tries again."""

    def __init__(self, consumer: Consumer, number: int) -> None:
        self._consumer, self._number = consumer, number

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        consumer, batch, ahead = self._consumer, None, None
        if consumer.loader._form.beside is not None:  # what stores have is read before the position moves
            ahead = consumer._peek()
            batch = None if ahead is None else consumer.loader._deliver(ahead)
        core = consumer._next(self._number)
        if core is None:
            raise StopIteration
        return batch if ahead is not None and core.same(ahead) else consumer.loader._deliver(core)
