"""Further readers of a loader's rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .. import _leat
from ..closing import finalize
from .reader import Pass, Reader

if TYPE_CHECKING:
    from .loader import Loader


class Consumer(Reader):
    """A second reader of a loader's rows, made by :meth:`leat.Loader.consumer`.

    It gets every row of this rank once an epoch, in the order of the loader, in batches of its own size and at its own
    pace. Rows that others read at about the same time are decoded once; rows that it missed are computed again.
    Iterating once is one epoch, and iterating again the next one, as with a :class:`leat.Loader`. The last batch of an
    epoch may be shorter.
    """

    def __init__(self, loader: Loader, core: _leat.Consumer, batch_size: int) -> None:
        self.loader = loader  #: its source; kept open
        self.batch_size = batch_size
        self.world_size = loader.world_size
        self._form, self._tail, self._yields = loader._form, loader._tail, loader._yields
        self._core = core
        self._next = loader._asked(core.next, core.epoch)
        self._peek = loader._asked(core.peek, core.epoch)
        self._finalizer = finalize(self, core.close)
        self._finalizer.atexit = False

    def __iter__(self) -> Iterator[Any]:
        self._go_back()
        self._loaded = False
        return Pass(self, self._core.start())

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError(
            "a consumer cannot be pickled: pickle its state_dict(), and open one of a Loader in the other process"
        )

    def __repr__(self) -> str:
        return f"<leat.Consumer of {self.loader!r}, batches of {self.batch_size}>"
