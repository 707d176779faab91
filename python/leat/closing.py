"""Resources that end."""

from __future__ import annotations

import weakref
from types import TracebackType
from typing import Any, Self


class Closing:
    """A resource that ends when it is closed, or no longer referred to."""

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
