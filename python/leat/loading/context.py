"""Slices of rows along the sequence, for ranks of context parallelism.

Rank r of n has a contiguous nth of each row, or with ``"zigzag"`` chunks r and 2n - 1 - r of 2n. With causal attention
an early token attends to few others and a late one to many, so all ranks then have as much to do.

    zigzag, n = 2      | 0 | 1 | 2 | 3 |      rank 0: 0 and 3      rank 1: 1 and 2
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import _leat, check
from ..data.ragged import Ragged
from ..data.sparse import Sparse
from .mesh import Place

HOW = {"zigzag": 0, "contiguous": 1}
#: Outputs that are sliced if none are named, with those that operators make beside them.
NAMES = ("tokens", "input_ids", "labels", "positions", "position_ids", "doc_ids", "loss_mask")
BESIDE = ("labels", "loss_mask")
#: Outputs that hold the starts and ends of sequences of one long row, padding included.
BORDERS = ("cu_seqlens_padded", "cu_seqlens", "cu_seq_lens")

_DP = "where none is, as of images, let these ranks be data parallel (dp of the mesh)"

Maker = Callable[[_leat.Batch], Any]


class Slices:
    """The part of each row that a rank has."""

    def __init__(self, place: Place, how: str, outputs: Sequence[str] | None) -> None:
        self.zigzag = not check.choice("cp", how, HOW)
        self.how, self.place = how, place
        self.outputs = None if outputs is None else check.names("cp_outputs", outputs)
        if self.outputs == []:
            raise ValueError(f"cp_outputs is empty: name the outputs that are sequences; {_DP}")

    def wrap(self, makers: dict[str, Maker], tokens: Sequence[str]) -> dict[str, Maker]:
        """The makers of all outputs, with slices of those that have a sequence. `tokens`: outputs of the tokens of
        packed rows."""
        if self.outputs is None:
            names = dict.fromkeys([*NAMES, *tokens])
            of_them = (f"{name}.{what}" for name in names for what in BESIDE)
            chosen = [name for name in (*names, *of_them) if name in makers]
        else:
            chosen = list(self.outputs)
            if missing := [name for name in chosen if name not in makers]:
                raise ValueError(f"cp_outputs: no output {missing[0]!r}: there are {', '.join(makers)}")
        if not chosen:
            raise ValueError(
                f"the mesh has {self.place.size} ranks of context parallelism, which share the sequence of each row, "
                f"and no output is called {', '.join(NAMES[:-1])} or {NAMES[-1]}: name those that are sequences with "
                f"cp_outputs=[...], among {', '.join(makers)}; {_DP}"
            )
        borders = next((makers[name] for name in BORDERS if name in makers), None)
        return {name: self._sliced(name, make, borders) if name in chosen else make for name, make in makers.items()}

    def _sliced(self, name: str, make: Maker, borders: Maker | None) -> Maker:
        def made(core: _leat.Batch) -> Any:
            value = make(core)
            if isinstance(value, Sparse):
                raise TypeError(f"output {name!r} has sparse rows, which have no sequence to slice among ranks; {_DP}")
            if isinstance(value, Ragged):
                index, offsets = self.index(name, np.asarray(value.offsets))
                return Ragged(_taken(value.values, index, 0), _like(value.offsets, offsets))
            if borders is not None and len(value.shape) == 2 and value.shape[0] == 1:
                index, _ = self.index(name, np.asarray(borders(core)).reshape(-1))
                return _taken(value, index, 1)
            if not hasattr(value, "shape") or len(value.shape) < 2:
                shape = f"{tuple(value.shape)}" if hasattr(value, "shape") else type(value).__name__
                raise TypeError(
                    f"output {name!r} is {shape} and has no sequence dimension to slice among {self.place.size} ranks "
                    f"of context parallelism: name those that have with cp_outputs=[...]; {_DP}"
                )
            return self.dense(name, value)

        return made

    def dense(self, name: str, value: Any) -> Any:
        """For a tensor (rows, length, ...)."""
        r, n = self.place
        length = self._chunk(name, value.shape[1])
        if not self.zigzag:
            return value[:, r * length : (r + 1) * length]
        first = value[:, r * length : (r + 1) * length]
        second = value[:, (2 * n - 1 - r) * length : (2 * n - r) * length]
        if isinstance(value, np.ndarray):
            return np.concatenate([first, second], axis=1)
        import torch

        return torch.cat([first, second], dim=1)

    def index(self, name: str, borders: Any) -> tuple[Any, Any]:
        """For sequences that begin and end at `borders`: the elements to keep, and the borders of these."""
        r, n = self.place
        parts, offsets = [], [0]
        for begin, end in zip(borders[:-1].tolist(), borders[1:].tolist()):
            length = self._chunk(name, end - begin)
            mine = [r, 2 * n - 1 - r] if self.zigzag else [r]
            parts += [np.arange(begin + i * length, begin + (i + 1) * length) for i in mine]
            offsets.append(offsets[-1] + len(mine) * length)
        return np.concatenate([np.empty(0, np.int64), *parts]), np.array(offsets, np.int64)

    def _chunk(self, name: str, length: int) -> int:
        parts = self.place.size * (2 if self.zigzag else 1)
        if length % parts:
            raise ValueError(
                f"output {name!r} has sequences of {length}, which {self.place.size} ranks of context parallelism "
                f"cannot share ({self.how}): lengths are multiples of {parts}"
            )
        return length // parts


def _taken(values: Any, index: Any, axis: int) -> Any:
    if isinstance(values, np.ndarray):
        return values.take(index, axis)
    import torch

    return values.index_select(axis, torch.from_numpy(index))


def _like(offsets: Any, made: Any) -> Any:
    if isinstance(offsets, np.ndarray):
        return made.astype(offsets.dtype)
    import torch

    return torch.from_numpy(made).to(offsets.dtype)
