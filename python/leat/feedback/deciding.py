"""The part of a Loader that decides which rows epochs have: `report`, `select`, `set_order`, and a policy's
decisions.
"""

from __future__ import annotations

import base64
import contextlib
import json
import warnings
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .. import _leat, check, ranks
from ..data.dataset import Dataset
from ..errors import RangeError, StateError
from ..mixtures.deciding import Steering
from ..mixtures.logs import has_lists, is_within, lists_elsewhere, log_of
from ..saved import needed, part
from .driver import Feedback, check_batches
from .lists import load_list, positions_of, save_list, shown, unpacked
from .policies import Rows
from .replay import Replay, folder_of
from .table import Array

AS_OPENED, LISTED, SELECTED = range(3)  # numbers of the library's enum leat_rows
INSIDE = 1 << 20  #: bytes of lists, compressed, in a state of a loader without a folder


class Deciding(Steering):
    """A loader's part that decides on rows."""

    rank: int
    mesh: Any  # of the loader: see loading/mesh.py
    _distributed: bool
    _opened_global: int
    _options: dict[str, Any]
    _sampled: Any
    _sampler: Any
    _tail: str
    _leads: Callable[[], bool]
    _plain_state: Callable[[], dict[str, Any]]
    _positions: Callable[..., Array]
    _shared: Callable[[Callable[[], Array]], Array]
    _unread: Array | None = None  # a sampler's list
    _feedback: Feedback | None = None
    _replay: Replay | None = None

    def _start_deciding(
        self, dataset: Any, feedback: Any, log: Any, log_dir: Any, sampler: Any, other: Mapping[str, Any]
    ) -> Any:
        """Checks the options that feedback does not go with. Returns the log that the library is to take over, if
        any."""
        self._texts = {}
        self._lists: dict[str, Array] = {}  # without a folder, by hash: what states name and the library cannot show
        self._repeats = log is not None  # another run, with or without decisions on rows
        self._lacked = False  # whether a state had no room for them, which is said once
        if log is not None and sampler is None:
            entries = log_of(log)
            if has_lists(entries):
                if feedback is not None:
                    raise ValueError("log= repeats what feedback decided in another run: leave feedback out")
                self._replay = Replay(entries, folder_of(log, log_dir))
                log = None
        if feedback is None:
            return log
        if not isinstance(dataset, Dataset) or type(dataset) is not Dataset:
            raise ValueError("feedback= selects samples of a data set, not of a mixture, of packed rows or of groups")
        if sampler is not None:
            raise ValueError(
                "feedback= decides itself which samples come: give the part of the data set that a sampler would give, "
                "ds.select(positions), and leave the sampler out"
            )
        if wrong := [name for name, value in other.items() if value is not None]:
            raise ValueError(f"feedback= does not go with {wrong[0]}")
        return log

    # ---- reports -----------------------------------------------------------------------------------------------------

    @property
    def feedback(self) -> Feedback:
        """The reports: ``loader.feedback["loss"]`` is a table of the last value, its count and its step, of each sample
        (docs/feedback.md).

        Raises:
            ValueError: the loader was opened without ``feedback=``.
        """
        if self._feedback is None:
            raise ValueError(
                "this loader keeps no reports: open it with feedback=leat.TopBatches(0.3), or another policy, or a "
                "function of (table, epoch)"
            )
        return self._feedback

    def report(
        self,
        step: Any,
        losses: Mapping[str, Any] | None = None,
        counts: Mapping[str, Any] | None = None,
        *,
        at: tuple[int, int] | None = None,
        **values: Any,
    ) -> None:
        """Tells the loader the model's measurements: of samples, or of a mixture's domains.

        **Of samples**, for a loader with ``feedback=``: ``loader.report(batch, loss=losses)`` or
        ``loader.report(ids, loss=losses)``, one finite number for each id, arrays or tensors of any device. Any name
        makes a metric of its own. It copies the values and returns; values of a GPU are copied on its stream, and
        nobody waits for it. They belong to the step that was handed out last, to that of the batch, or to ``at=(epoch,
        step)``. A value replaces one of an earlier step. The greater of two values of one step stays, and one that
        comes after a value of a later step is dropped, so neither the order of reports matters, nor that one is
        repeated. On several ranks of `torch.distributed` each rank reports its own rows (or any), and they are
        exchanged as epochs begin; if ranks are stated by arguments, or are stages of a pipeline, each of them reports
        the rows of all.

        **Of a mixture**, for a loader with ``mixture=``: ``loader.report(step, losses, counts)``. The algorithm may
        then decide other weights. On several ranks each of them reports the same numbers, those of the whole global
        batch: reduce the losses first, and report in the same steps: if `torch.distributed` is initialised, the ranks
        compare their decisions in each report (8 bytes of each rank), before they hold.

        Args:
            step: the batch, or the ids, int64. For a mixture, the measured batch: ``batch.step``, ``(epoch,
                step)``, or the batch. Its reports come in the order of steps; steps may be left out.
            losses: by domain; finite. Domains that the step did not have are left out.
            counts: rows (or tokens) of each domain that the loss is of; since the last report, if steps were left out.
            at: (epoch, step) of the batch that `values` are of.
            values: one number for each id, by the metric's name.

        Raises:
            ValueError: a number that is NaN or infinite (nothing of that report is entered); not one for each id; a
                step that was not handed out yet. For a mixture also: a count below 0; a domain that is not known, or
                that has a count and no loss; a step that does not come after the last one reported; the loader has no
                algorithm.
            IndexError: an id that is none of the data set.
            leat.StateError: the ranks decide differently, because they have reported different losses.

        >>> loader = leat.Loader(leat.open(path), batch_size=10, feedback=leat.TopFraction(0.25))
        >>> for batch in loader:
        ...     loader.report(batch.ids, loss=batch["x"].mean(1))
        >>> loader.feedback["loss"].value[:3].tolist()
        [0.0, 1.0, 2.0]
        >>> next(iter(loader)).ids[0].item()
        75

        >>> ds = leat.open(path)
        >>> mix = leat.Mix({"a": (ds, 0.5), "b": (ds, 0.5)})
        >>> loader = leat.Loader(mix, batch_size=8, mixture=leat.DoReMi({"a": 1.0, "b": 1.0}, every=1))
        >>> batch = next(iter(loader))
        >>> loader.report(batch.step, {"a": 3.0, "b": 1.0}, {"a": 4, "b": 4})
        >>> round(loader.mixture.weights["a"], 2)
        0.88
        """
        if losses is None and counts is None:
            if not values:
                raise TypeError(
                    "report takes values by the metric's name, such as loss=, or losses and counts by domain"
                )
            self.feedback.report(step, values, at)
            return
        if values or at is not None:
            raise TypeError("report takes losses and counts by domain, or one value for each id, and not both")
        if losses is None or counts is None:
            raise TypeError("report takes losses and counts by domain, both")
        if self.mixture.report(step, losses, counts, ranks.agree if self._distributed else None):
            self._decided()

    # ---- decisions ---------------------------------------------------------------------------------------------------

    def select(self, positions: Any, at: tuple[int, int] | None = None) -> None:
        """Decides which samples epochs have from the next one on: these, in the loader's own order (with
        ``shuffle=True`` shuffled, each epoch anew). Samples that are left out are neither read nor decoded.

        Within an epoch, ``at=(batch.epoch, batch.step + 1)``: its rest then has those of the samples that it has not
        had, and the epochs behind it have all of them. It takes 8 bytes for each row of that epoch. A policy
        (``feedback=``) decides anew as the next epoch begins.

        The decision enters the log, and with it the state, so that a resumed run keeps it. Batches prefetched beyond it
        are computed again. The list is saved in `log_dir`, if there is one; a state has room for some 40,000 positions,
        and for 1 MiB of compressed ones without that folder.

        Args:
            positions: in the loader's data set; or one bool for each of its samples; None: all samples again.
            at: (epoch, step) from which it holds, which was not handed out yet. None: the epoch that begins next. On
                several ranks each of them gives the same.

        Raises:
            ValueError: nothing is selected, or is left of the epoch, or with ``drop_last`` fewer rows than a global
                batch has; that step was handed out; on several ranks `at` is missing; the order is ``leat.Weighted``; a
                policy decides as epochs begin; within an epoch also ``in_order=False``, further consumers, or the 257th
                time, or in a 17th epoch to come.
            IndexError: a position that is none of the data set. No such step (:class:`leat.RangeError`).

        >>> loader = leat.Loader(leat.open(path), batch_size=4, shuffle=True)
        >>> loader.select([1, 2, 3, 5])
        >>> sorted(next(iter(loader)).ids.tolist())
        [1, 2, 3, 5]

        >>> loader, seen = leat.Loader(leat.open(path), batch_size=4), []
        >>> for batch in loader:
        ...     seen += batch.ids.tolist()
        ...     if batch.step == 0:
        ...         loader.select([1, 2, 50, 60, 70], at=(0, 1))
        >>> seen
        [0, 1, 2, 3, 50, 60, 70]
        """
        self._decide_by_hand(positions, at, SELECTED, "select")

    def set_order(self, positions: Any, at: tuple[int, int] | None = None) -> None:
        """Decides the rows of epochs from the next one on: these positions, in this order, each epoch the same; a
        position may come several times. None: as the loader was opened. Within an epoch they are its rest. All else is
        as with :meth:`select`.

        >>> loader = leat.Loader(leat.open(path), batch_size=4)
        >>> loader.set_order([9, 7, 7, 1])
        >>> next(iter(loader)).ids.tolist()
        [9, 7, 7, 1]
        """
        self._decide_by_hand(positions, at, LISTED, "set_order")

    def _decide_by_hand(self, positions: Any, at: Any, how: int, what: str) -> None:
        epoch, step = (-1, 0) if at is None else check.place(at)
        self._check_by_hand(epoch, step, what)
        if positions is not None:
            array = np.asarray(positions)
            if array.dtype.kind == "b" and array.shape == (len(self.dataset),):
                positions = np.flatnonzero(array)
            positions = self._positions(positions, what)
            if not len(positions):
                raise ValueError(f"{what}: an epoch has at least one row")
            begins, within = self._core.next_start()
            check_batches(self, f"{what}:", len(positions), begins + within if epoch < 0 else epoch)
        self._decide_rows(Rows(positions, how == SELECTED), epoch, step)
        if self._feedback is not None:
            self._feedback.overruled()

    def _check_by_hand(self, epoch: int, step: int, what: str) -> None:
        """Whether somebody else decides from there on."""
        if self._replay is not None or self._sampler is not None:
            by = "a Sampler" if self._sampler is not None else "log="
            raise ValueError(f"{what}: {by} decides which rows the epochs of this loader have")
        if self._feedback is None:
            return
        begins, within = self._core.next_start()
        if not step or epoch != begins + within - 1:  # no epoch that has begun, and that the policy has decided
            raise ValueError(
                f"{what}: {self._feedback.name} decides as epochs begin which rows they have: give a step of the one "
                "that is read, at=(batch.epoch, batch.step + 1)"
            )

    def _decide_rows(self, rows: Rows, epoch: int, step: int) -> None:
        """Enters rows into the log, and their list where a resumed run finds it."""
        how = AS_OPENED if rows.positions is None else SELECTED if rows.selects else LISTED
        self._core.decide_rows(epoch, step, how, rows.positions)
        entry = self._decided()
        if rows.positions is not None:
            self._keep(entry["list"]["hash"], rows.positions)

    def _keep(self, name: str, positions: Array) -> None:
        """Keeps a list that was decided, in the folder or for the states to come."""
        if self._log_dir is not None:
            if self._leads():
                save_list(self._log_dir, name, positions)
        elif name not in self._texts:
            self._lists[name] = positions.copy()  # whatever becomes of the caller's
            with contextlib.suppress(RangeError):  # there is no state before what was folded
                named = self._named(self._plain_state())
                self._lists = {n: found for n, found in self._lists.items() if n in named}

    def _keep_all(self, lists: Mapping[str, Array]) -> None:
        """Keeps the lists of a state that was loaded. If the folder takes none, the loader goes on all the same."""
        for name, positions in lists.items():
            try:
                self._keep(name, positions)
            except OSError as e:
                warnings.warn(
                    f"positions-{name}.npy cannot be written to {self._log_dir} ({e}), without which no state of this "
                    "loader can be loaded",
                    stacklevel=4,
                )

    def _named(self, state: Mapping[str, Any]) -> dict[str, int]:
        """The lists that a state with its decisions names by their hash alone, and how many rows they have."""
        later = state.get("decisions", {}).get("later", [])
        log = [*state["log"], *(later if isinstance(later, list) else [])]
        return {told["hash"]: told["n"] for told in lists_elsewhere({"log": log})}

    # ---- as epochs begin ---------------------------------------------------------------------------------------------

    def _open_feedback(self, policy: Any) -> None:
        if policy is not None:
            self._feedback = Feedback(self, policy)

    def _decide_epoch(self) -> None:
        if self._feedback is not None:
            self._feedback.begin()
        if self._replay is not None:
            self._replay.begin(self, self._core.next_start()[0])

    def _opened_rows(self) -> Array:
        """Positions of the rows of epoch 0, as the loader was opened: int64."""
        n = len(self.dataset)
        if self._order_of == check.ORDERS["sequential"]:
            return np.arange(n)
        if self._order_of == check.ORDERS["shuffled"]:
            found: Array = np.frombuffer(memoryview(_leat.order_shuffled(n, self._options["seed"], 0, 0, n)), np.int64)
            return found
        raise ValueError("mini-batches that stay the same go with shuffle=True and shuffle=False")

    # ---- states ------------------------------------------------------------------------------------------------------

    def _deciding_state(self, state: dict[str, Any]) -> None:
        """Adds to a state of the library's the parts that it has no room for."""
        left, lists, lacking = INSIDE, {}, []
        named = self._named(state) if self._sampler is None and self._log_dir is None else {}
        for name, n in named.items():
            found = positions_of(self._texts[name]) if name in self._texts else self._lists.get(name)
            data = b"" if found is None else zlib.compress(found.tobytes(), 1)
            if not data or len(data) > left:
                lacking.append(f"{n:,}")
                continue
            left -= len(data)
            lists[name] = base64.b64encode(data).decode()
        if lacking and not self._lacked:
            self._lacked = True
            warnings.warn(
                f"lists of rows that were decided ({', '.join(lacking)} rows) are too large for a state, which has at "
                "most 1 MiB of them: open the Loader with log_dir=, or the state cannot be loaded",
                stacklevel=3,
            )
        if lists:
            state["lists"] = lists
        if self._feedback is not None:
            state["feedback"] = self._feedback.state_dict()

    def _prepare_deciding(self, state: dict[str, Any]) -> tuple[Callable[[], None], list[Array]]:
        """Takes its part out of a state, and checks it, before the library loads it. Returns the steps that are then
        due, and the lists that the library has to know for it.
        """
        saved, lists = part(state, "feedback"), part(state, "lists", dict, {})
        for name in ("feedback", "lists"):
            state.pop(name, None)
        if saved is not None and self._feedback is None and not self._repeats:
            raise StateError(
                f"the state has what was reported to {needed(saved, 'policy', str)}, and this loader has no "
                "policy: open it with the feedback= of the run. To go on with the rows that were decided last, and "
                "without reports, delete state['feedback']; loader.select(None) then gives all samples again"
            )
        if self._sampler is not None:
            return lambda: None, []
        prepared = None if self._feedback is None else self._feedback.prepare(saved)
        if self._replay is not None:
            self._replay.check(state)
        found = self._find_rows(state, lists)
        known = list(found.values())

        def take() -> None:
            log = json.loads(self._core.log(0))
            self._note(log)
            if self._log_dir is not None:  # which may be another than that of the run so far
                found.update(shown(log))
            self._keep_all(found)
            if self._feedback is not None and prepared is not None:
                self._feedback.load(prepared, log)
            if self._replay is not None:
                self._replay.loaded(log)

        return take, known

    def _find_lists(self, state: dict[str, Any], ready: Callable[[], None]) -> list[Array]:
        """A Sampler's list that is too large for a state: in `log_dir`, or by reading the sampler again, which must
        then give the same list. The library compares hashes. `ready` is called before, where no rank waits in vain if
        it raises.
        """
        wanted = self._wanted_list(state)
        if wanted is None:
            ready()
            return []
        found = None if self._log_dir is None else load_list(self._log_dir, wanted)

        def make() -> Array:
            ready()
            return self._read_once() if found is None else self._positions(found)

        return [self._shared(make)]

    def _wanted_list(self, state: dict[str, Any]) -> str | None:
        """The hash of the list of a state that has to be found."""
        missing = lists_elsewhere(state)
        if not missing:
            return None
        if not is_within(state):  # the next epoch reads a list of its own
            state["log"] = [e for e in state["log"] if not isinstance(e, dict) or e.get("list") not in missing]
            return None
        mine, wanted = json.loads(self._core.state()), missing[-1]["hash"]
        named = [entry["list"]["hash"] for entry in mine["log"] if entry.get("list")]
        if wanted in named or any(state.get(name) != mine[name] for name in ("fingerprint", "seed", "order")):
            return None  # the library has it, or refuses the state
        return str(wanted)

    def _read_once(self) -> Array:
        """The sampler's rows when it is read once more. A list that was read for a state which was refused then is
        given again: the sampler may have drawn it.
        """
        if self._unread is None:
            self._unread = self._positions(self._sampled.read())
        return self._unread

    def _find_rows(self, state: Mapping[str, Any], lists: Mapping[str, Any]) -> dict[str, Array]:
        """The lists of which a state has the hash alone, by it.

        Raises:
            StateError: one is nowhere, or is damaged.
        """
        rows: dict[str, Array] = {}
        for told in lists_elsewhere(state):
            name = told["hash"]
            found = None if self._log_dir is None else load_list(self._log_dir, name)
            if found is None and name in lists:
                found = unpacked(part(lists, name, str), name)
            if found is None:
                raise StateError(
                    f"the state has only the hash of the {told['n']} rows that were decided ({name}): open the Loader "
                    f"with the log_dir of the run, which has them in positions-{name}.npy"
                )
            if len(found) != told["n"] or (len(found) and not 0 <= found.min() <= found.max() < len(self.dataset)):
                raise StateError(f"the list of positions {name} in the state is of another data set")
            rows[name] = found
        return rows
