"""Mixtures that follow each other."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Literal

from .. import check
from ..data.dataset import Dataset
from ..data.schema import Field
from .mixing import NO_DATASET, Mix, Mixed

INTERPOLATE = {"step": 0, "linear": 1}
MOST_ROWS = 1 << 62  #: up to the last point


class Schedule(Mixed):
    """Mixtures of the same sources that follow each other: ``leat.Schedule([(0, mix_a), (10_000, mix_b)])``.

    A Schedule goes to a Loader in the place of a data set. Its points count over all epochs, from the start of
    training.

    Args:
        points: ``[(step, mix)]``: the mixture from the global batch `step` on. The first is 0, and they rise. The mixes
            have the same sources, and differ in their weights only: ``mix.with_weights({...})``.
        interpolate: ``"step"``: each holds until the next one; ``"linear"``: the weights follow the straight line from
            one point to the next (in at most 64 equal parts), and stay as in the last one.
        counts: the unit of the points: ``"steps"``: batches of all ranks together, of the size that the Loader is
            opened with; ``"rows"``. A run that is to resume with another global batch size has to count rows.

    Raises:
        ValueError: no points, a first one that is not 0, points that do not rise, or mixes whose sources differ.

    >>> ds = leat.open(path)
    >>> easy = leat.Mix({"a": (ds[:50], 0.9), "b": (ds[50:], 0.1)}, exhausted="repeat")
    >>> schedule = leat.Schedule([(0, easy), (100, easy.with_weights({"a": 0.5, "b": 0.5}))], interpolate="linear")
    >>> {name: round(w, 3) for name, w in schedule.weights_at(50).items()}
    {'a': 0.7, 'b': 0.3}
    """

    _instead = NO_DATASET

    def __init__(
        self,
        points: Sequence[tuple[int, Mix]],
        interpolate: Literal["step", "linear"] = "step",
        counts: Literal["steps", "rows"] = "steps",
    ) -> None:
        if isinstance(points, (str, bytes, Mapping)) or not isinstance(points, Sequence):
            raise TypeError(f"a Schedule is a list of points, [(0, mix_a), (10_000, mix_b)], not {points!r:.60}")
        check.choice("interpolate", interpolate, INTERPOLATE)
        check.choice("counts", counts, {"steps": 0, "rows": 1})
        self.points: list[tuple[int, Mix]] = []
        for i, point in enumerate(points):
            if not isinstance(point, (tuple, list)) or len(point) != 2:
                raise TypeError(f"point {i} of the schedule is (step, mix), not {point!r:.60}")
            at, mix = check.integer(f"the step of point {i}", point[0]), point[1]
            if not isinstance(mix, Mix):
                raise TypeError(f"point {i} of the schedule has no leat.Mix but {type(mix).__name__}")
            if self.points and at <= self.points[-1][0]:
                raise ValueError(f"the points of a schedule rise: {at} comes after {self.points[-1][0]}")
            if not self.points and at:
                raise ValueError(f"the first point of a schedule is 0, not {at}: it says what training begins with")
            if self.points:
                _check_alike(self.points[0][1], mix, i)
            self.points.append((at, mix))
        if not self.points:
            raise ValueError("a schedule needs at least one point: [(0, mix)]")
        self.interpolate: Literal["step", "linear"] = interpolate
        self.counts: Literal["steps", "rows"] = counts

    @property
    def first(self) -> Mix:
        """The mixture of the first point."""
        return self.points[0][1]

    def weights_at(self, step: int) -> dict[str, float]:
        """The stated weights at a step (or row, as `counts` says)."""
        step = check.integer("step", step)
        i = max(k for k, (at, _) in enumerate(self.points) if at <= step)
        weights = self.points[i][1].weights
        if self.interpolate == "step" or i + 1 == len(self.points):
            return weights
        (begin, _), (end, after) = self.points[i : i + 2]
        part = (step - begin) / (end - begin)
        return {name: w + (after.weights[name] - w) * part for name, w in weights.items()}

    @property
    def names(self) -> list[str]:
        """Names of the sources; ``batch.domains`` has their numbers."""
        return self.first.names

    @property
    def datasets(self) -> list[Dataset]:
        """The data sets of the sources, in the order of `names`."""
        return self.first.datasets

    @property
    def weights(self) -> dict[str, float]:
        """The weights at the start."""
        return self.first.weights

    @property
    def schema(self) -> dict[str, Field]:
        """Name and type of each field."""
        return self.first.schema

    @property
    def classes(self) -> list[str]:
        """Names of the classes of the field ``label``, if all sources have the same."""
        return self.first.classes

    @cached_property
    def fingerprint(self) -> str:
        """128 bits in hex over the points."""
        points = [(at, mix.fingerprint) for at, mix in self.points]
        return hashlib.blake2b(repr((points, self.interpolate, self.counts)).encode(), digest_size=16).hexdigest()

    def __len__(self) -> int:
        """Rows of the first epoch, if the points count rows."""
        if self.counts == "steps" and len(self.points) > 1:
            raise TypeError(
                "how many rows an epoch of this schedule has depends on the size of a batch: len(loader) counts batches"
            )
        return self._rows

    def _options(self, global_batch: int) -> dict[str, Any]:
        """The schedule as the library takes it, which counts rows."""
        rows = global_batch if self.counts == "steps" else 1
        last = self.points[-1][0]
        if last * rows >= MOST_ROWS:
            raise ValueError(f"the last point of the schedule, {last}, is too far away: {last * rows:,} rows")
        schedule = [[at * rows, list(point.weights.values())] for at, point in self.points]
        return {**self.first._options(global_batch), "schedule": schedule, "interpolate": self.interpolate}

    def __reduce__(self) -> tuple[Any, ...]:
        return (Schedule, (self.points, self.interpolate, self.counts))

    def __repr__(self) -> str:
        shown = ", ".join(f"{at}: {mix!r}" for at, mix in self.points[:3])
        more = f", ... ({len(self.points)} points)" if len(self.points) > 3 else ""
        return f"<leat.Schedule, {self.interpolate}, by {self.counts} ({shown}{more})>"

    def _repr_html_(self) -> str:
        """Its display in a notebook: the weights at each point."""
        from ..data.html import table, text

        rows = ((at, *(f"{w:.4g}" for w in mix.weights.values())) for at, mix in self.points)
        head = f"<div><b>leat.Schedule</b>, {text(self.interpolate)}, points count {text(self.counts)}</div>"
        return f"<div>{head}{table((self.counts[:-1], *self.names), rows)}</div>"


def _check_alike(first: Mix, other: Mix, i: int) -> None:
    if other.names != first.names:
        odd = sorted(set(first.names) ^ set(other.names))
        what = f"{odd[0]!r} is only in one of them" if odd else "their order differs"
        raise ValueError(
            f"point {i} of the schedule has other sources than the first one ({what}): mix.with_weights({{...}}) "
            "changes weights only, and a source that rests has weight 0"
        )
    for name, a, b in zip(first.names, first.datasets, other.datasets, strict=True):
        if a is not b and a.fingerprint != b.fingerprint:
            raise ValueError(f"point {i} of the schedule has other data as source {name!r} than the first one")
    for what in ("unit", "exhausted", "epoch_rows", "tokens_field"):
        if getattr(other, what) != getattr(first, what):
            raise ValueError(
                f"point {i} of the schedule has {what}={getattr(other, what)!r}, the first one "
                f"{getattr(first, what)!r}: only weights change"
            )
