"""The tie between a mixture's weights and a loader: reports go to the algorithm, and its decisions into the loader's
log."""

from __future__ import annotations

import contextlib
import copy
import json
import math
import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from .. import _leat, check, ranks
from ..errors import RangeError, StateError
from ..saved import needed, pair, part
from .algorithm import Algorithm, Weights, algorithm_of, counted, total
from .decisions import Decisions, Place
from .keys import Keys, checked_weights, unknown_name
from .logs import place_of, step_of

LEAD = 4  #: steps from a report to its decision, more than frameworks fetch ahead


class Prepared(NamedTuple):
    """A state that was checked."""

    take: Callable[[], None]  #: goes on there
    put_back: Callable[[], None]  #: as if it had not been checked


class Mixture:
    """The mixture of a loader, as it stands: ``loader.mixture``."""

    def __init__(
        self, core: _leat.Loader, weights: Weights, algorithm: Any, world_size: int, folder: str | None, writes: bool
    ) -> None:
        self.core = core
        self._world_size = world_size
        self._opened = dict(weights)
        self._names = list(weights)
        self.keys = Keys()  #: further names of the domains (leat.Mix.by)
        self._lead = check.integer("lead", getattr(algorithm, "lead", LEAD), 1)
        self.decisions = Decisions(json.loads(core.log(0)), folder, writes)
        self._handed: Place | None = None  # the last batch that was handed out
        self._reported: Place | None = None
        self._reports = 0
        self.algorithm: Algorithm | None = None if algorithm is None else algorithm_of(algorithm)
        if self.algorithm is not None:
            self.algorithm.start(dict(weights))

    @property
    def names(self) -> list[str]:
        """Names of the domains; ``batch.domains`` has their numbers."""
        return list(self._names)

    @property
    def weights(self) -> Weights:
        """The weights that were decided last; they may hold from a batch on that is still to come."""
        return self._of(self.decisions.last)

    def _of(self, shares: list[int] | None) -> Weights:
        if shares is None:
            return dict(self._opened)
        whole = total(shares)
        return {name: share / whole for name, share in zip(self._names, shares, strict=True)}

    def weights_at(self, epoch: int, step: int) -> Weights:
        """The weights that hold in a step.

        Raises:
            leat.errors.RangeError: a decision before it was folded, and this process does not know it.

        >>> ds = leat.open(path)
        >>> loader = leat.Loader(leat.Mix({"a": (ds, 0.5), "b": (ds, 0.5)}), batch_size=8)
        >>> loader.set_mixture({"a": 0.25, "b": 0.75}, at=(0, 3))
        >>> loader.mixture.weights_at(0, 2)["a"], loader.mixture.weights_at(0, 3)["a"]
        (0.5, 0.25)
        """
        return self._of(self.decisions.at((epoch, step)))

    def state(self) -> dict[str, Any]:
        """``"weights"``, and the algorithm's numbers by domain: for :class:`leat.ADO` ``"alpha"``, ``"beta"``,
        ``"eps"`` and ``"slopes"``, for :class:`leat.DoReMi` ``"excess"``, ``"current"`` and ``"average"``.
        """
        more = getattr(self.algorithm, "state", None)
        return {"weights": self.weights, **(more() if callable(more) else {})}

    # ---- deciding ----------------------------------------------------------------------------------------------------

    def decide(self, weights: Mapping[str, float], at: Place | None, of: str) -> None:
        """Enters weights into the loader's log."""
        if not isinstance(weights, Mapping):
            raise TypeError(f"{of}: weights are a dict of numbers by domain, not {weights!r:.60}")
        weights = self.keys.flat(weights, self._names, of)
        if missing := [name for name in self._names if name not in weights]:
            raise ValueError(f"{of}: no weight is given for {', '.join(missing)}: give each domain one, which may be 0")
        found = checked_weights({name: weights[name] for name in self._names}, of, None)
        if at is None:
            state = json.loads(self.core.state())
            at = step_of(state, state)
        self.core.set_shares(*at, list(found.values()))
        self.decisions.take(self.core)

    # ---- reports -----------------------------------------------------------------------------------------------------

    def handed(self, batch: _leat.Batch) -> None:
        self._handed = (batch.epoch(), batch.step())

    def report(
        self,
        step: Any,
        losses: Mapping[str, Any],
        counts: Mapping[str, Any],
        agree: Callable[[dict[str, str]], None] | None,
    ) -> bool:
        """Whether it led to a decision."""
        if self.algorithm is None:
            raise ValueError(
                "this loader has no algorithm that takes reports: open it with mixture=leat.ADO(...), "
                "leat.DoReMi(...) or one of your own"
            )
        about = "the weights that were decided, because they have reported different losses"
        try:
            place = self._place(step)
            at = max((place[0], place[1] + self._lead), self.decisions.place)
            late = self._is_late(place, at)
            decided = self._measured(place, losses, counts)
        except Exception as e:
            if agree is not None:  # else the others would wait
                with contextlib.suppress(StateError):
                    agree({about: f"none: {e}"})
            raise
        if agree is not None:  # also without a decision: another rank may have made one
            agree({about: repr(None if decided is None else dict(decided))})
        if decided is None:
            return False
        name = type(self.algorithm).__name__
        try:
            self.decide(decided, None if late else at, name)
        except RangeError:  # it lies beyond the end of the epoch
            self.decide(decided, (at[0] + 1, 0), name)
        return True

    def _is_late(self, place: Place, at: Place) -> bool:
        """Whether the step from which a decision on the report of `place` would hold was handed out.

        Raises:
            ValueError: it was, and there are other ranks, which may have been handed out fewer batches.
        """
        handed = self._handed
        if handed is None or at > handed:
            return self._world_size == 1 and at[0] < self.core.epoch()  # which may have been left before its end
        if self._world_size > 1:
            raise ValueError(
                f"step {place[1]} of epoch {place[0]} is reported too late: a decision on it holds {self._lead} steps "
                f"later, and step {handed[1]} of epoch {handed[0]} was handed out. Report earlier, or let the "
                "algorithm's attribute lead be more"
            )
        return True

    def _by_name(self, given: Any) -> Any:
        return {self.keys.branch(k, self._names): v for k, v in given.items()} if isinstance(given, Mapping) else given

    def _measured(
        self, place: Place, losses: Mapping[str, Any], counts: Mapping[str, Any]
    ) -> Mapping[str, float] | None:
        """The algorithm's decision on a report."""
        assert self.algorithm is not None
        measured = _losses(self._by_name(losses), self._names, place)
        rows = _counts(self._by_name(counts), self._names, place)
        if measured and (silent := [name for name, n in rows.items() if n and name not in measured]):
            raise ValueError(
                f"step {place[1]} had {rows[silent[0]]} of {silent[0]!r}, whose loss is not given: report all domains "
                "that were in the step, or no loss at all where nothing was measured"
            )
        decided = self.algorithm.report(self._reports, measured, rows, self.weights_at(*place))
        self._reported = place
        self._reports += 1
        return decided

    def _place(self, step: Any) -> Place:
        if hasattr(step, "epoch") and hasattr(step, "step"):
            place = int(step.epoch), int(step.step)
        elif isinstance(step, (tuple, list)):
            if len(step) != 2:
                raise TypeError(f"step is a number, (epoch, step) or a batch, not {step!r:.60}")
            place = check.integer("epoch", step[0]), check.integer("step", step[1])
        else:
            number = check.integer("step", step)
            place = (self._handed[0] if self._handed else self.core.epoch()), number
        beyond = self._handed is None or place > self._handed
        if beyond and ranks.may_have_handed(place, self._handed, self.core.epoch(), self._world_size):
            self._handed = place
        elif beyond:
            last = "none was" if self._handed is None else f"the last one was step {self._handed[1]} of epoch "
            raise ValueError(
                f"step {place[1]} of epoch {place[0]} was not handed out yet: {last}"
                + ("" if self._handed is None else str(self._handed[0]))
            )
        if self._reported is not None and place <= self._reported:
            raise ValueError(
                f"reports come in order, each step once: step {place[1]} of epoch {place[0]} comes after step "
                f"{self._reported[1]} of epoch {self._reported[0]} was reported"
            )
        return place

    # ---- state -------------------------------------------------------------------------------------------------------

    def state_dict(self, core: Mapping[str, Any]) -> dict[str, Any]:
        """Its part of a loader's state, beside the library's."""
        state: dict[str, Any] = {"names": self._names, **self.decisions.state(core)}
        if self.algorithm is not None:
            # a run that went back has handed out, and reported, the batches before it again
            position, handed, reported = place_of(core), self._handed, self._reported
            handed = None if handed is None or (position is not None and handed >= position) else handed
            reported = None if handed is None or reported is None or reported > handed else reported
            state |= {
                "algorithm": type(self.algorithm).__name__,
                "handed": None if handed is None else list(handed),
                "reported": None if reported is None else list(reported),
                "reports": self._reports,
                "state": self.algorithm.state_dict(),
            }
        return state

    def load_state_dict(self, state: Mapping[str, Any] | None) -> None:
        """Goes on from the state of a run, which the library has loaded. None: it was made without this.

        Raises:
            StateError: it is of other domains or another algorithm, or is damaged; nothing has changed.
        """
        self.prepared(state).take()

    def prepared(self, state: Mapping[str, Any] | None, position: Place | None = None) -> Prepared:
        """Checks a state, and moves the algorithm there, which has no other way to check its part. Nothing else moves.
        `position`: of the state, if it is known.

        Raises:
            StateError: as of `load_state_dict`.
        """
        if state is not None and not isinstance(state, Mapping):
            raise StateError(f"the state is damaged: 'mixture' cannot be {state!r:.60}")
        if state is None and self.algorithm is not None:
            self._begins_anew(3)
        self.decisions.check(state or {}, len(self._names))
        saved = None if state is None else self._checked(state)
        places: dict[str, Place | None] = {"handed": None, "reported": None}
        reports = 0
        if saved is not None:
            places = {name: None if saved.get(name, 0) is None else pair(saved, name) for name in places}
            reports = counted(saved, "reports")
            _check_places(places["reported"], places["handed"], position)
        algorithm = self.algorithm
        before = None if algorithm is None else copy.deepcopy(algorithm.state_dict())

        def put_back() -> None:
            if algorithm is not None:
                algorithm.start(dict(self._opened))
                algorithm.load_state_dict(before or {})

        def take() -> None:
            self.decisions.load(json.loads(self.core.log(0)), state or {})
            self._handed, self._reported, self._reports = places["handed"], places["reported"], reports

        try:
            if algorithm is not None:
                algorithm.start(dict(self._opened))
                if saved is not None:
                    algorithm.load_state_dict(saved["state"])
        except Exception as e:
            put_back()
            raise StateError(f"the state of the mixture is damaged ({e!r:.120})") from None
        return Prepared(take, put_back)

    def _checked(self, state: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """A state that is of these domains, if it has the algorithm's numbers."""
        names = needed(state, "names", list)
        if names != self._names:
            theirs, mine = (f"{', '.join(map(str, those)):.300}" for those in (names, self._names))
            raise StateError(f"the state is of a mixture of the domains {theirs}, and this one has, in order, {mine}")
        name = part(state, "algorithm", str)
        own = None if self.algorithm is None else type(self.algorithm).__name__
        if name == own:
            return None if name is None else state
        if name is None:
            self._begins_anew(4)
        elif own is None:
            warnings.warn(
                f"the state is of a run whose mixture {name} decided; this loader has no algorithm, and keeps the "
                "weights that were decided",
                stacklevel=4,
            )
        else:
            raise StateError(f"the state is of a run whose mixture {name} decided, and this loader has {own}")
        return None

    def _begins_anew(self, stacklevel: int) -> None:
        warnings.warn(
            f"the state has no reports for {type(self.algorithm).__name__}, which begins with what is reported from "
            "here on",
            stacklevel=stacklevel + 1,
        )


def _check_places(reported: Place | None, handed: Place | None, position: Place | None) -> None:
    """Batches are handed out before they are reported, and a state is taken behind them."""
    if reported is not None and (handed is None or reported > handed):
        raise StateError(f"the state is damaged: {reported} was reported and not handed out")
    if handed is not None and position is not None and handed >= position:
        raise StateError(f"the state is damaged: {handed} was handed out, and lies behind its position, {position}")


def _named(what: str, given: Any, names: list[str]) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise TypeError(f"{what} are a dict by domain, not {given!r:.60}")
    for name in given:
        if name not in names:
            raise ValueError(f"{what}: {unknown_name(name, names)}")
    return given


def _losses(given: Any, names: list[str], place: Place) -> dict[str, float]:
    found = {}
    for name, value in _named("losses", given, names).items():
        try:
            found[name] = float(value)
        except (TypeError, ValueError):
            raise TypeError(f"the loss of {name!r} is a number, not {value!r:.60}") from None
        if not math.isfinite(found[name]):
            raise ValueError(
                f"the loss of {name!r} in step {place[1]} of epoch {place[0]} is {found[name]}: losses are finite"
            )
    return {name: found[name] for name in names if name in found}


def _counts(given: Any, names: list[str], place: Place) -> dict[str, int]:
    found = {}
    for name, value in _named("counts", given, names).items():
        try:
            found[name] = check.integer(f"the count of {name!r}", value.item() if hasattr(value, "item") else value)
        except ValueError as e:
            raise ValueError(f"step {place[1]} of epoch {place[0]}: {e}") from None
    return {name: found.get(name, 0) for name in names}
