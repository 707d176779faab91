"""The state of a loader: the library's, and beside it what was decided, reported and counted."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from ..errors import StateError, UnsupportedError
from ..feedback.table import Array
from ..mixtures.logs import is_within, lists_elsewhere, place_of
from ..mixtures.schedule import Schedule
from ..saved import check_whole, counted, damage_is_said, pair, part, plain
from .iteration import Taking
from .samplers import LIST, positions_of


class Prepared(NamedTuple):
    """The parts of a state beside the library's."""

    beside: dict[str, Any] | None  #: of the mixture, or decisions that the library has folded or left out
    lists: list[Array]  #: that the state names by their hash
    takes: list[Callable[[], None]]  #: to be called once the library has loaded it


class Stateful(Taking):
    """The part of a loader that saves its position and goes on from it."""

    _counters: dict[str, Any]
    _loaded_from = "none"  # the state that was loaded last, which is of the same position on all ranks
    _options: dict[str, Any]

    def state_dict(self) -> dict[str, Any]:
        """The position of training: a small dict of plain values, which counts the batches handed out and fits every
        rank. A stage in the middle of a pipeline that reads no batches knows none: its state fits only such stages.

        Without `in_order`, a state that is taken within an epoch on several ranks fits only the rank that took it, and
        so does one with `counters=`, which count what the rank consumed. Save the state of each rank.
        The values of a PyTorch ``Sampler`` with a ``state_dict`` of its own are in it as that gave them.
        """
        state = self._plain_state()
        self._deciding_state(state)
        if self._sampled is not None and self._reads_sampler:
            within = is_within(state)
            again = within and bool(lists_elsewhere(state))  # though log_dir has it, where there is one
            if (told := self._sampled.state(None if within else state["at"]["epoch"], again)) is not None:
                state["sampler"] = told
        if self._counters:
            state["counters"] = {name: counter.state_dict() for name, counter in self._counters.items()}
            state["counters_of"] = [self.rank, self.world_size]
        if self.mesh is not None and not (self.mesh.reads or self._moved):
            state["unread"] = list(self.mesh.pp)
        return counted(state)

    def _plain_state(self) -> dict[str, Any]:
        """The library's, and what was decided."""
        state: dict[str, Any] = json.loads(self._core.state() if self._kept is None else self._kept.before)
        if self._mixture is not None:
            state["mixture"] = self._mixture.state_dict(state)
        elif self._order_of != LIST and (more := self._decisions.state(state)):
            state["decisions"] = more
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues from a state: the next iteration begins with the batch after the last one that was handed out.

        Sizes and the number of ranks may differ from those of the saving run, except within an epoch without
        `in_order`.

        Raises:
            ValueError: the state is of another data set, order or version, is damaged, is none, or is that of a stage
                of a pipeline that has read nothing (:class:`leat.StateError`); nothing has changed.

        >>> loader = leat.Loader(leat.open(path), batch_size=32)
        >>> first = next(iter(loader))
        >>> again = leat.Loader(leat.open(path), batch_size=32)
        >>> again.load_state_dict(loader.state_dict())
        >>> next(iter(again)).ids[0].item()
        32
        """
        found, of_sampler = state, None
        if isinstance(state, Mapping):  # what a sampler says of itself may be no JSON
            found = {name: value for name, value in state.items() if name != "sampler"}
            of_sampler = state.get("sampler")
        found = plain(found)
        with damage_is_said():
            prepared = self._prepare(found)
        with self._sampler_of(of_sampler, found) as listed, damage_is_said():
            steered = None if self._mixture is None else self._mixture.prepared(prepared.beside, place_of(found))
            try:
                check_whole(state)
                self._load(found, prepared.lists + listed)
            except BaseException:
                if steered is not None:
                    steered.put_back()
                raise
        if steered is not None:
            steered.take()
        else:
            self._decisions.load(self._folded_log(), prepared.beside or {})
        self._global = self.global_batch_size  # the run may have decided another one than this loader opened with
        self._kept = self._unread = None
        self._loaded_from = told_of(found) if self._options["in_order"] else "one"
        for take in prepared.takes:
            take()
        self._resuming = self._sampler is not None and is_within(found)
        self._loaded = self._unspent = True
        self._moved = False

    def _is_within(self) -> bool:
        """Whether the next iteration begins within an epoch, where a state was loaded."""
        return self._loaded and is_within(self.state_dict())

    def _begin_at(self, step: int) -> None:
        """Makes the next iteration begin with that batch of its epoch, as if the state had been taken there. A position
        within the epoch that was loaded stays.

        Raises:
            leat.UnsupportedError: what was decided meanwhile decides about the batch, too.
        """
        if not step or self._is_within():
            return
        if self._feedback is not None or (self._mixture is not None and self._mixture.algorithm is not None):
            raise UnsupportedError(
                "which rows a batch has follows from what was reported of those before: load_state_dict() goes on"
            )
        iter(self)  # which says the epoch, and reads the list of a sampler
        self.load_state_dict(counted(json.loads(self._core.state_at(self.epoch, step))))

    def _leave_epoch(self) -> None:
        """Makes the epoch begin next that follows the one of the loaded state, if that was taken within it."""
        if is_within(self.state_dict()):
            self._loaded = False
            self.set_epoch(self.epoch + 1)
            self.load_state_dict(self.state_dict())

    @contextlib.contextmanager
    def _sampler_of(self, saved: Any, state: dict[str, Any]) -> Iterator[list[Array]]:
        """Puts the sampler where a state has it, and back if the state is refused within. Gives the lists of positions
        of which the state has the hash alone.
        """
        sampled = self._sampled
        if sampled is None:
            yield []
            return
        put_back, unread, told = sampled.unless_refused(), self._unread, None

        def ready() -> None:
            nonlocal told
            with damage_is_said():
                told = sampled.checked(saved)
                if told is not None and self._reads_sampler and sampled.go_back(told.get("again", told)):
                    self._unread = None

        try:
            lists = self._find_lists(state, ready)
            if told is not None and "again" in told and self._reads_sampler:
                sampled.go_on(told)
            yield lists
        except BaseException:
            if put_back():  # else it may have drawn the list, which is that of the next epoch then
                self._unread = unread
            raise

    def _prepare(self, state: dict[str, Any]) -> Prepared:
        """Checks all that the library knows nothing of, and takes it out of a state. Nothing changes."""
        if "unread" in state:
            stage, stages = pair(state, "unread")
            del state["unread"]
            if self.mesh is None or self.mesh.reads:
                raise StateError(
                    f"the state is of stage {stage} of the {stages} of a pipeline, which reads no batches and knows no "
                    "position: load that of the first stage, as rank 0 has it"
                )
        if isinstance(self.dataset, Schedule) and self.dataset.counts == "steps" and len(self.dataset.points) > 1:
            size = state["log"][0]["global_batch"]
            if size != self._opened_global:
                raise StateError(
                    f"the points of this schedule count steps, and the run was opened with {size} rows of all ranks a "
                    f"step, this loader with {self._opened_global}: open it with global_batch_size={size}, which "
                    "set_batch_size may change then. leat.Schedule(..., counts='rows') is for runs that resume with "
                    "another size"
                )
        take_counters = prepared_counters(state, self._counters, (self.rank, self.world_size))
        besides = {name: part(state, name) for name in ("mixture", "decisions")}
        for name in besides:
            state.pop(name, None)
        beside = besides["decisions" if self._mixture is None else "mixture"]
        self._decisions.check(beside or {}, None if self._mixture is None else len(self._mixture.names))
        self._decisions.complete(state, beside or {})
        take_deciding, lists = self._prepare_deciding(state)
        return Prepared(beside, lists, [take_deciding, take_counters])

    def _load(self, state: Mapping[str, Any], lists: Iterable[Array]) -> None:
        """Goes on from the library's part of a state, with the lists of positions that it names by their hash."""
        for positions in lists:
            self._core.know_list(positions)
        self._core.load_state(json.dumps(state))

    def _positions(self, values: Any, of: str = "sampler") -> Array:
        return positions_of(values, len(self.dataset), of)


def told_of(state: Mapping[str, Any]) -> str:
    """The position of a state that was loaded, for ranks to compare."""
    return f"epoch {state['at']['epoch']}, row {state['at']['row']}"


def checked_counters(counters: Any) -> dict[str, Any]:
    """The argument ``counters=``.

    Raises:
        TypeError: it is no dict of counters by name.
    """
    given = {} if counters is None else counters
    if not isinstance(given, Mapping):
        raise TypeError(f"counters is {{name: counter}}, not {type(given).__name__}")
    for name, counter in given.items():
        if not isinstance(name, str):
            raise TypeError(f"counters is {{name: counter}}, and a name is a str, not {name!r:.60}")
        if not (hasattr(counter, "prepared") and hasattr(counter, "state_dict")) or isinstance(counter, type):
            raise TypeError(f"counters: {name!r} is no counter of leat.privacy, but {counter!r:.60}")
    return dict(given)


def prepared_counters(state: dict[str, Any], counters: Mapping[str, Any], place: tuple[int, int]) -> Callable[[], None]:
    """Takes the states of counters out of a state and checks them; the call that goes on there. `place`: the rank, and
    how many there are.

    Raises:
        StateError: a counter has no state there, or one of another counter. Counting anew would spend privacy twice. Or
            they are those of another rank, which has counted other samples.
    """
    saved, of = part(state, "counters", dict, {}), pair(state, "counters_of") if "counters_of" in state else (0, 1)
    for name in ("counters", "counters_of"):
        state.pop(name, None)
    if counters and of != place:
        raise StateError(
            f"the state has the counters of rank {of[0]} of {of[1]}, and this is {place[0]} of {place[1]}: what a rank "
            "has consumed is counted by that rank, so each saves and loads a state of its own, of as many ranks"
        )
    if saved.keys() != counters.keys():
        raise StateError(
            f"the state has counters {sorted(saved)}, and the loader {sorted(counters)}: open it with counters= of the "
            "same names, because one that begins anew spends its epsilon again"
        )
    takes = [counter.prepared(saved[name]) for name, counter in counters.items()]

    def take() -> None:
        for each in takes:
            each()

    return take
