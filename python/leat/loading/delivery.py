"""The common part of loaders and attached readers: the form in which batches are handed out."""

from __future__ import annotations

from typing import Any

from .. import _leat
from .batch import Batch, Form


class Delivering:
    """Gives batches of the engine in the form that the user wants."""

    world_size: int
    _form: Form
    _tail: str
    _yields: str

    def _batch(self, core: _leat.Batch) -> Batch:
        if not self._form.makers:
            self._form.learn(core)
        return self._form.batch(core)

    def _deliver(self, core: _leat.Batch) -> Any:
        """A batch of the engine's in the form that iterating gives."""
        batch = self._batch(core)
        return self._tuple(batch) if self._yields == "tuple" else batch

    def _tuple(self, batch: Batch) -> tuple[Any, ...]:
        """The outputs, with `valid` if there can be padding."""
        padded = self._tail == "pad" and self.world_size > 1
        return (*batch.tuple(), batch.valid) if padded else batch.tuple()
