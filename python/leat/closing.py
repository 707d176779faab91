"""Resources that end."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from . import _leat


class finalize(weakref.finalize):  # type: ignore[type-arg]  # noqa: N801  as its base
    """A finalizer that Ctrl-C does not end: `function` is called to its end, twice if need be, and KeyboardInterrupt
    reaches the main thread afterwards. Python would print it and go on.
    """

    __slots__ = ()

    def __init__(self, of: Any, function: Callable[..., Any], /, *arguments: Any) -> None:
        super().__init__(of, _leat.complete, function, arguments)
        registry: Any = self._registry  # type: ignore[attr-defined]
        registry[self].weakref = weakref.ref(of, _leat.collected(self))


class Closing:
    """A resource that ends when it is closed, or no longer referred to."""

    _finalizer: finalize

    def close(self) -> None:
        """Ends it; batches and tensors that are held stay valid."""
        self._finalizer()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
