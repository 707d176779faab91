"""The common part of all readers: a loader, a further consumer of it, and a reader attached to a port."""

from __future__ import annotations

import json
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .. import _leat, check, skipping
from ..closing import Closing
from ..errors import HeldError
from ..saved import damage_is_said, plain
from ..workers import give_back
from .batch import Batch, Form


class Reader(Closing):
    """Epochs, position, and batches of the engine in the form that the user wants. Iterating once is one epoch,
    iterating again the next one.
    """

    world_size: int
    _core: Any
    _next: Callable[[int], _leat.Batch | None]
    _peek: Callable[[], _leat.Batch | None]
    _form: Form
    _tail: str
    _yields: str
    _loaded = False  # a position, by load_state_dict, in which no pass has begun,
    _unspent = False  # or one has that was not asked for a batch
    _ahead: weakref.ref[Batch] | None = None  # the peeked batch, if it is kept, ...
    _there: Any = None  # ... and what is on a card of it

    # ---- batches -----------------------------------------------------------------------------------------------------

    def _take(self, number: int) -> Any:
        """The next batch of pass `number` as iterating gives it, or None behind the last one."""
        core, batch = self._taken(number)
        return None if core is None else self._given(self._batch(core) if batch is None else batch)

    def _taken(self, number: int) -> tuple[_leat.Batch | None, Batch | None]:
        """The engine's next batch, and the one made of it if it was peeked at."""
        # Stores are read, and cards reached, before the position moves: after an error of theirs the batch comes again.
        form = self._form
        ahead = self._look() if form.looks and (form.card is not None or form.beside is not None) else None
        core = self._got(self._next, number)
        batch = None if core is None or self._ahead is None else self._seen(core) or self._again(core)
        del ahead  # kept until here
        self._ahead = self._there = None
        return core, batch

    def _put_back(self) -> None:
        """The batch of a step that was not ended comes again."""
        self._core.put_back()

    def _got(self, function: Callable[..., _leat.Batch | None], *args: int) -> _leat.Batch | None:
        """A batch of the engine. If there is no memory for it, workers give theirs back first."""
        try:
            return function(*args)
        except HeldError:
            if not give_back():
                raise
        return function(*args)

    def peek(self) -> Any:
        """The batch that ``next`` would give now, without handing it out, as :meth:`leat.Loader.peek`. None behind the
        last batch of an epoch.

        Raises:
            ValueError: no epoch has begun: ``iter()`` begins one (:class:`leat.InvalidError`).
        """
        batch = self._look()
        return None if batch is None else self._given(batch)

    def _look(self) -> Batch | None:
        core = self._got(self._peek)
        if core is None:
            return None
        batch = self._seen(core) or self._again(core) or self._batch(core)
        self._ahead = weakref.ref(batch)
        if self._form.card is not None:
            self._there = batch._core
        return batch

    def _again(self, core: _leat.Batch) -> Batch | None:
        """A batch that was peeked at and let go of, if it is this one and on a card, where it comes once."""
        there = self._there
        return self._form.batch(there) if isinstance(there, _leat.DeviceBatch) and there.same(core) else None

    def _seen(self, core: _leat.Batch) -> Batch | None:
        """The batch that was peeked at, if it is this one and is kept."""
        ahead = None if self._ahead is None else self._ahead()
        there = None if ahead is None else ahead._core
        return ahead if there is not None and there.same(core) else None

    def _batch(self, core: _leat.Batch) -> Batch:
        there = core if self._form.card is None else self._form.there(core)
        if not self._form.makers:
            self._form.learn(there)
        return self._form.batch(there)

    def _given(self, batch: Batch) -> Any:
        """A batch as iterating gives it: itself, or its outputs, with `valid` if there can be padding."""
        if self._yields != "tuple":
            return batch
        padded = self._tail == "pad" and self.world_size > 1
        return (*batch.tuple(), batch.valid) if padded else batch.tuple()

    # ---- position ----------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """Batches of this rank in an epoch."""
        skipping.install_if_here()
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
        self._unspent = self._unspent and epoch == self.epoch
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
        self._loaded = self._unspent = True

    def _go_back(self) -> None:
        """As a pass begins: one before it that was not asked for a batch has not used up the state that was loaded."""
        if self._unspent and not self._loaded:
            self.load_state_dict(self.state_dict())


class Pass:
    """One pass through an epoch. After an exception the position has not moved: calling ``next`` again tries again.
    That holds for KeyboardInterrupt, which comes between any two lines here.
    """

    __slots__ = ("__weakref__", "_done", "_number", "_reader", "_turn")

    def __init__(self, reader: Reader, number: int) -> None:
        self._reader, self._number = reader, number  # keeps it open
        self._done = False
        form = reader._form
        # A batch that takes several steps is taken by one of the threads that share an iterator.
        self._turn = None if form.card is None and form.beside is None else threading.RLock()

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        try:
            self._reader._core.begin_step()
            if self._turn is None:
                batch = None if self._done else self._reader._take(self._number)
            else:
                with self._turn:
                    batch = None if self._done else self._reader._take(self._number)
        except BaseException as e:
            if not isinstance(e, Exception):  # KeyboardInterrupt: errors of the data come once
                self._reader._put_back()
            raise
        self._reader._unspent = False
        if batch is None:
            self._done = True
            raise StopIteration
        return batch
