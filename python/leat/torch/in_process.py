"""Batches that the process itself makes: ``num_workers=0``."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from .. import _leat
from ..workers import loop
from ..workers.feed import Delivered, Planned
from ..workers.loop import ITER, Job


class InProcess:
    """Batches made by the process itself: ``num_workers=0``."""

    def __init__(self, job: Job, plan: Iterator[Planned], resume: Any, ended: set[int]) -> None:
        self.job, self.plan = job, plan
        self.worker = _Local(job)
        self.stats = {"batches": 0, "broken": 0}
        self.failed: Planned | None = None
        self.ahead: Planned | None = None
        self.plan_error: Exception | None = None
        self.waiting = False  # nothing is in progress
        self.ended = ended
        self.end_states: dict[int, Any] = {}
        self.stream: Any = None
        self.begun: Any = None  # the state before the first batch
        if job.iterable:
            self.stream = loop.stream(job, None if resume is None else (resume[0], -resume[1]))
            self.begun = loop.stream_state(job, self.stream) if resume is None else None

    def head(self) -> Planned | None:
        """The next batch. An exception of the sampler passes through, each time."""
        if self.plan_error is not None:
            raise self.plan_error
        if self.ahead is None:
            try:
                self.ahead = next(self.plan, None)
            except Exception as e:
                self.plan_error = e
                raise
        return self.ahead

    def next(self, timeout_s: float | None = None) -> Delivered | None:
        self.waiting = False
        try:
            planned, self.ahead = self.head(), None
        finally:
            self.plan_error = None
        if planned is None:
            return None
        try:
            return self._make(planned)
        except StopIteration:
            self.ended.add(0)
            if planned.kind == ITER and (state := loop.end_state(self.job, self.stream)) is not None:
                self.end_states[0] = state
            return None
        except Exception:
            self.failed = planned
            raise
        except BaseException:  # Ctrl-C: the batch is made again
            if planned.kind != ITER:
                self.ahead, self.waiting = planned, True
            raise
        finally:
            _leat.set_current_row()

    def _make(self, planned: Planned) -> Delivered:
        self.stats["batches"] += 1
        if planned.kind == ITER:
            _leat.set_current_row(planned.seed, planned.epoch, planned.first_row)
            value = next(self.stream)
            return Delivered(planned, value, [], loop.stream_state(self.job, self.stream))
        indices = planned.asked
        # the training draws from them too
        with loop.kept_generators() if self.job.reseed else contextlib.nullcontext():
            value, broken = self.worker.whole(self.worker.client, planned, indices)
        self.stats["broken"] += len(broken)
        return Delivered(planned, value, [(row, indices[row], other, reason) for row, other, reason in broken])

    def close(self) -> None:
        """Does nothing: there is nothing to end."""


class _NoBoard:
    def at_row(self, row: int) -> None:
        """Does nothing: a worker reports its position here."""


class _Local(loop.Worker):
    """Makes a batch as a worker does."""

    def __init__(self, job: Job) -> None:
        self.client: Any = loop._Client(_NoBoard(), job)  # type: ignore[arg-type]
        self.index = None

    def where(self, calls: bool = False) -> str:
        return "in the main process"
