"""Orders that a Loader takes beside ``shuffle=True``."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from .. import check
from ..data.dataset import positions_array

SEQUENTIAL, SHUFFLED, BLOCKS, WEIGHTED, LIST = check.ORDERS.values()


class Blocks:
    """``shuffle=leat.Blocks(rows)``: shuffles blocks of consecutive samples, then the samples of neighbouring blocks of
    that order among each other. Samples of a block are read at about the same time, for data that is slow to read one
    sample at a time.

    Args:
        rows: samples of a block.
        window: samples that are shuffled among each other, a multiple of `rows`. The larger, the closer to a shuffle of
            single samples. `None`: those of 8 blocks.

    >>> ids = leat.Loader(leat.open(path), 100, shuffle=leat.Blocks(10)).plan(0, 0)
    >>> sorted(ids.tolist()) == list(range(100))
    True
    >>> ids = leat.Loader(leat.open(path), 20, shuffle=leat.Blocks(10, window=20)).plan(0, 0)
    >>> sorted({i // 10 for i in ids.tolist()})  # a window of two blocks
    [2, 5]
    """

    __slots__ = ("rows", "window")

    def __init__(self, rows: int, window: int | None = None) -> None:
        self.rows = check.integer("rows", rows, 1)
        self.window = None if window is None else check.integer("window", window, 1)
        if self.window is not None and self.window % self.rows:
            raise ValueError(f"window is a multiple of rows ({self.rows}), not {self.window}")

    def __repr__(self) -> str:
        return f"Blocks({self.rows})" if self.window is None else f"Blocks({self.rows}, window={self.window})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Blocks) and (other.rows, other.window) == (self.rows, self.window)

    def __hash__(self) -> int:
        return hash(("Blocks", self.rows, self.window))


class Weighted:
    """``sampler=leat.Weighted(weights, num_samples)``: draws positions with these probabilities, up to a factor.

    Args:
        weights: one number per sample, none below 0.
        num_samples: rows of an epoch, of all ranks together.
        replacement: a position may come several times in an epoch.

    >>> weights = np.where(leat.open(path).column("label") == 7, 1, 0)
    >>> leat.Loader(leat.open(path), 4, sampler=leat.Weighted(weights, num_samples=8)).batch_at(0, 0)["label"]
    tensor([7, 7, 7, 7])
    """

    __slots__ = ("num_samples", "replacement", "weights")

    def __init__(self, weights: Any, num_samples: int, replacement: bool = True) -> None:
        self.weights = np.ascontiguousarray(weights, np.float64)
        if (
            self.weights.ndim != 1
            or not np.isfinite(self.weights).all()
            or (self.weights < 0).any()
            or not (self.weights > 0).any()
        ):
            raise ValueError("weights is a list of numbers, none below 0 and one above it")
        self.num_samples = check.integer("num_samples", num_samples, 1)
        self.replacement = check.flag("replacement", replacement)
        if not self.replacement and self.num_samples > np.count_nonzero(self.weights):
            raise ValueError(
                f"without replacement num_samples is at most {np.count_nonzero(self.weights)}, the number of weights "
                "above 0"
            )

    def __repr__(self) -> str:
        return f"Weighted({len(self.weights)} weights, num_samples={self.num_samples}, replacement={self.replacement})"


def order_of(dataset: Any, shuffle: bool | Blocks, sampler: Any) -> tuple[int, dict[str, Any], Any]:
    """The order that arguments of a Loader say: its number, the options beside it, and the Sampler to ask, if any."""
    if sampler is None:
        if isinstance(shuffle, Blocks):
            return BLOCKS, {"block_rows": shuffle.rows, "block_window": shuffle.window or 0}, None
        if not isinstance(shuffle, (bool, np.bool_)) and shuffle is not None:  # torch's DataLoader takes None too
            raise TypeError(f"shuffle is True, False or leat.Blocks(rows), not {shuffle!r:.60}")
        return (SHUFFLED if shuffle else SEQUENTIAL), {}, None
    if shuffle:
        raise ValueError("sampler and shuffle exclude each other: the sampler says the order")
    n = len(dataset)
    if isinstance(sampler, Weighted):
        if len(sampler.weights) != n:
            raise ValueError(
                f"Weighted has {len(sampler.weights)} weights, the data set {n} samples: one per sample is needed"
            )
        drawn = {"weights": sampler.weights, "num_samples": sampler.num_samples, "replacement": sampler.replacement}
        return WEIGHTED, drawn, None
    if any(c.__name__ == "DistributedSampler" for c in type(sampler).__mro__):
        raise ValueError(
            "a DistributedSampler would share the data out twice: leat.Loader does it by itself; leave the sampler out "
            "and say shuffle=True"
        )
    if isinstance(sampler, (list, tuple, range, np.ndarray)) or type(sampler).__name__ == "Tensor":
        return LIST, {"positions": positions_of(sampler, n, "sampler")}, None
    if not hasattr(sampler, "__iter__") or isinstance(sampler, (str, bytes)):
        raise TypeError(
            f"sampler is leat.Weighted, a list of positions or a PyTorch Sampler, not {type(sampler).__name__}"
        )
    if hasattr(sampler, "__next__"):
        raise TypeError(
            f"a {type(sampler).__name__} is used up after one epoch: give a list of positions, or an object with "
            "__iter__"
        )
    if hasattr(sampler, "batch_size") and hasattr(sampler, "sampler"):
        raise TypeError(
            f"a {type(sampler).__name__} makes batches, which the Loader does: give its sampler, and batch_size"
        )
    return LIST, {}, sampler


def positions_of(values: Any, count: int, of: str) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Positions in a data set of `count` samples; `of`: what gave them."""
    try:
        return positions_array(values, count)
    except (TypeError, IndexError) as e:
        raise type(e)(f"{of}: {e}") from None


def digest(arguments: Mapping[str, Any]) -> str:
    """A hash of numbers and arrays by name."""
    found = hashlib.sha256()
    for name, value in sorted(arguments.items()):
        array = np.ascontiguousarray(value)
        found.update(f"{name} {array.dtype} {array.shape} ".encode())
        found.update(array.tobytes())
    return found.hexdigest()
