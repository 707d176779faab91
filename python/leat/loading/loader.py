"""The loader: samples at rest to batches, in a declared order, resumable at any batch."""

from __future__ import annotations

import contextlib
import json
import os
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np

from .. import _leat, check, ranks
from ..data.dataset import Dataset
from ..data.mixing import Mix
from ..data.schedule import Schedule
from ..errors import UnsupportedError
from ..feedback.deciding import Deciding
from ..files import writing
from ..mixtures.decisions import Decisions
from ..mixtures.steering import Mixture
from ..privacy import RunningArgmax, TreeCounter
from ..program import Outputs, entries
from ..stores.beside import Beside
from ..stores.store import Store
from . import html, mixtures, opening, states
from .agreement import Agreement
from .batch import Batch
from .consumer import Consumer
from .context import HOW, Slices
from .delivery import checked_step
from .energy import Spent
from .iteration import Kept, Taking
from .lineage import Lineage, planned_rows
from .mesh import place_of
from .peers import Peers
from .programs import Program, described, program_of
from .reader import Pass
from .samplers import LIST, Blocks, digest, order_of, positions_of, save_list

# Numbers of the library's enumerations.
TAILS = {"pad": 0, "drop": 1, "uneven": 2}
ON_ERROR = {"raise": 0, "skip": 1, "substitute": 2}


class Loader(Deciding, Taking):
    """Makes batches of a data set. Iterating once is one epoch, iterating again the next one.

    That holds after a ``break`` too: the rest of the epoch is not delivered. To continue within it, load a state into a
    loader.

    The order of samples, and every byte of every tensor, is a function of the data set, `seed` and the position alone.
    It is the same for any number of threads, any budget and any number of ranks.

    Args:
        dataset: what to load: a data set from ``leat.open``, or a view of it (``split``, ``select``, a slice); or a
            :class:`leat.Mix` or :class:`leat.Schedule` of several.
        batch_size: rows per batch and rank.
        shuffle: ``False``: in order of position. ``True``: a permutation of the whole data set each epoch.
            ``leat.Blocks(rows)``: blocks of neighbours in random order, shuffled among few blocks, for disks that are
            slow at short reads.
        outputs: ``{name: chain}``: what a batch holds (docs/loader.md). Each name is a field and the list of operators
            that its values go through; ``leat.Out(field, chain)`` names the field. A tuple of fields, ``{("image",
            "boxes"): chain}``, is moved together, and gives one output each (docs/targets.md). ``[]`` delivers the
            value as stored. ``None``: every field as stored.
        global_batch_size: in the place of `batch_size`: rows per batch of all ranks together. The sequence of global
            batches stays the same when the number of ranks changes.
        batch_tokens: in the place of `batch_size`: a batch of a rank has samples of about one length, so many that they
            have at most `batch_tokens` tokens when they are padded to one length; `batch_size` may bound their number
            (docs/packing.md). With ``leat.pack_rows(how="ragged")``: sequences of at most so many tokens per rank and
            batch, one behind the other, of shape ``(1, tokens)``; ``batch["cu_seqlens"]`` says where each begins
            (docs/packing.md).
        buckets: lengths that rise, such as ``[128, 256, 512]``: samples come together that are padded to the same one
            of these. The last is not below the longest sample. With `batch_tokens` or `batch_size`; ``None``: eight to
            each doubling of the length.
        tokens_field: the field whose lengths count. ``None``: ``tokens``, or the only one of varying length.
        sampler: in the place of `shuffle`: ``leat.Weighted(weights, num_samples)``, a list of positions, or a PyTorch
            ``Sampler`` of positions, which is read once per epoch.
        seed: of the order and of the augmentations: 64 bits.
        epochs: the number that will be read. ``None``: not known, and at most one window of batches is prefetched from
            the next one.
        drop_last: the same as ``tail="drop"``.
        tail: the last rows of an epoch, if they fill no global batch: ``"pad"`` (each rank has equally many rows;
            ``batch.valid`` says which count), ``"drop"``, ``"uneven"``.
        rank: of data-parallel training, with `world_size`. ``None``: from ``torch.distributed``, else from RANK and
            WORLD_SIZE, else 0 of 1.
        world_size: how many ranks there are.
        in_order: ``False``: rows are delivered as they are finished, within bounds, so that a slow one delays no batch
            (docs/order.md). Sizes and bytes of rows are the same; only which rows are together differs from run to run.
        on_error: a broken sample: ``"raise"``, ``"skip"`` (its row is left out; a batch without a row is an error),
            ``"substitute"`` (another sample takes its place; outputs have fixed shapes).
        error_report: a file to which broken samples are appended, one JSON object per line.
        num_threads: at most so many threads work for this loader. ``"auto"``: the cores of this process, divided among
            the ranks of this host.
        budget_bytes: bound of the memory in flight: batches, values that are read, scratch of the threads. ``None``:
            the smaller of 24 batches (of small ones as many as 2 MiB hold, up to 256, as far as they are cheap to make)
            and a quarter of the memory that the process may use, but at least 3 batches. Where photos are decoded, 64
            MiB are added (at most an eighth of that memory), for photos of which more than the crop is kept while they
            decode.
        max_held_bytes: bound of batches and tensors that you keep; beyond it the next batch is :class:`leat.HeldError`.
            ``None``: as much again, without what is for decoding, at least 64 MiB.
        weight: share of the threads, relative to other loaders of this process.
        framework: the type of the arrays in batches: ``"torch"``, ``"numpy"``, or ``"auto"``: torch if it is imported.
        yields: ``"dict"``: a :class:`leat.Batch`. ``"tuple"``: its outputs in order, for ``for x, y in loader``, with
            ``valid`` appended if there can be padding.
        log_dir: a folder of this run. It gets what is too large for a state (the lists of a ``Sampler``; all decisions
            about a mixture, in ``decisions.jsonl``) and, without `in_order`, the record of which rows came together.
            Recorded batches are delivered again as they were.
        mixture: the algorithm that decides the weights of a :class:`leat.Mix` while the model trains, from what
            ``loader.report`` is given: :class:`leat.ADO`, :class:`leat.DoReMi`, or one of your own (docs/mixtures.md).
            Not with ``in_order=False``.
        log: decisions of another run, as its ``loader.log`` gave them, or a JSON file of them: this loader repeats that
            run, without the losses that led to them.
        feedback: the policy that selects the samples of each epoch as it begins, from the reports of ``loader.report``:
            :class:`leat.TopBatches`, :class:`leat.TopFraction`, :class:`leat.LossWeighted`, :class:`leat.Curriculum`,
            or a function of (table, epoch) (docs/feedback.md). Samples that are not selected are neither read nor
            decoded.
        mesh: in the place of `rank` and `world_size`, if training is parallel in more ways than over data: a torch
            DeviceMesh, a topology or grid of DeepSpeed, or ``{"dp": (rank, size), "tp": ..., "pp": ..., "cp": ...}``
            (docs/frameworks.md). Tensor- and pipeline-parallel peers see identical batches, those of context
            parallelism slices of identical rows. Between the first and the last stage of a pipeline batches have no
            outputs.
        cp: how context-parallel ranks share a row: ``"zigzag"``: of 2n chunks rank r has r and 2n - 1 - r;
            ``"contiguous"``: the r-th of n.
        cp_outputs: outputs that are sliced, along their second dimension. ``None``: those called tokens, input_ids,
            labels, positions, position_ids, doc_ids or loss_mask.
        tp_read: ``"first"``: of tensor-parallel peers only the first on each host reads, and sends batches to the
            others there through ``torch.distributed``. ``"each"``: all read.
        share: ``"job"``: the ranks of a job on one host read one loader, which its first process opens
            (docs/loader.md); `num_threads` and `budget_bytes` are then of that one. ``None``: each its own.
        stores: ``{name: store}``: rows that a :class:`leat.Store` has for the samples of a batch are ``batch[name]``
            (or ``batch["name.field"]`` of each of several fields), read ahead, and ``batch["name.present"]`` says for
            which rows it has something (docs/stores.md).
        counters: ``{name: counter}``: counters of ``leat.privacy`` whose states are a part of the loader's, so that
            both go on together (docs/privacy.md).

    Raises:
        ValueError: an argument is not valid, or the budget holds no three batches (:class:`leat.BudgetError`).
        TypeError: a chain does not fit its field (:class:`leat.ProgramError`); the text says what would.

    >>> loader = leat.Loader(leat.open(path), batch_size=32, shuffle=True, seed=1, drop_last=True)
    >>> [batch["x"].shape[0] for batch in loader]
    [32, 32, 32]
    """

    @check.explained
    def __init__(
        self,
        dataset: Dataset | Mix | Schedule,
        batch_size: int | None = None,
        shuffle: bool | Blocks = False,
        *,
        outputs: Outputs | None = None,
        global_batch_size: int | None = None,
        batch_tokens: int | None = None,
        buckets: Sequence[int] | None = None,
        tokens_field: str | None = None,
        sampler: Any = None,
        seed: int = 0,
        epochs: int | None = None,
        drop_last: bool = False,
        tail: Literal["pad", "drop", "uneven"] = "pad",
        rank: int | None = None,
        world_size: int | None = None,
        in_order: bool = True,
        on_error: Literal["raise", "skip", "substitute"] = "raise",
        error_report: str | os.PathLike[str] | None = None,
        num_threads: int | Literal["auto"] = "auto",
        budget_bytes: int | None = None,
        max_held_bytes: int | None = None,
        weight: float = 1.0,
        framework: Literal["torch", "numpy", "auto"] = "auto",
        yields: Literal["dict", "tuple"] = "dict",
        log_dir: str | os.PathLike[str] | None = None,
        mixture: Any = None,
        log: Sequence[Mapping[str, Any]] | str | os.PathLike[str] | None = None,
        feedback: Any = None,
        mesh: Any = None,
        cp: Literal["zigzag", "contiguous"] = "zigzag",
        cp_outputs: Sequence[str] | None = None,
        tp_read: Literal["each", "first"] = "each",
        share: Literal["job"] | None = None,
        stores: Mapping[str, Store] | None = None,
        counters: Mapping[str, TreeCounter | RunningArgmax] | None = None,
    ) -> None:
        opening.check_together(dataset, sampler, in_order, mixture, yields, share, tp_read)
        asked: dict[str, Any] = {
            "batch_size": batch_size,
            "global_batch_size": global_batch_size,
            "batch_tokens": batch_tokens,
            "buckets": None if buckets is None else list(buckets),
            "tokens_field": tokens_field,
        }
        plain = sampler is None and not isinstance(shuffle, Blocks) and bool(in_order)
        rows = opening.rows_of(dataset, outputs, plain, **asked)
        other = {"batch_tokens": batch_tokens, "buckets": buckets, "mesh": mesh, "share": share}
        log = self._start_deciding(rows.dataset, feedback, log, log_dir, sampler, other)
        given = {"batch_size": rows.batch_size, "global_batch_size": global_batch_size}
        given |= {"budget_bytes": budget_bytes, "max_held_bytes": max_held_bytes}
        sizes = {name: 0 if value is None else check.integer(name, value, 1) for name, value in given.items()}
        seed = check.seed(seed)
        self.dataset = rows.dataset
        self.mesh, self.rank, self.world_size, self._distributed = place_of(mesh, rank, world_size)
        self._global = self._opened_global = sizes["global_batch_size"] or sizes["batch_size"] * self.world_size
        self._tail = tail = "drop" if drop_last else tail
        self._counters = states.checked_counters(counters)
        self._kept: Kept | None = None
        self._yields = yields
        self._framework = framework  # as it was said
        self._share = share
        self._resuming = False
        self._log_dir = None if log_dir is None else os.fspath(log_dir)
        self._entries = None if rows.outputs is None else entries(rows.outputs)
        marks, looks = on_error != "raise", bool(in_order) and share is None
        self._form = opening.form_of(rows, self._entries, framework, stores, seed, marks, looks)
        self._order_of, arrays, self._sampler = order_of(self.dataset, shuffle, sampler)
        follows = {**asked, "dataset": dataset, "outputs": outputs, "shuffle": shuffle, "seed": seed, "tail": tail}
        follows |= {"sampler": arrays.get("positions", sampler), "on_error": on_error, "rank": self.rank}
        follows |= {"world_size": self.world_size, "framework": self._form.framework}
        hashed = digest(arrays)
        self._lineage = Lineage(follows, arrays, hashed, self._log_dir)
        self._peers = self._join(cp, cp_outputs, tp_read, in_order)
        program = program_of(rows.outputs, self.dataset, self._form, seed, in_order)
        sizes_and_policy = (self._global, self._order_of, hashed, tail, on_error, self.world_size)
        self._facts = {
            "the data set": self.dataset.fingerprint,
            "seed": str(seed),
            "outputs": described(rows.outputs),
            "order, sizes and error policy": repr((*sizes_and_policy, *rows.facts())),
        }
        if self.mesh is not None:
            self._facts["the mesh"] = repr((self.mesh.sizes, cp if self.mesh.cp.size > 1 else None, tp_read))
        self._options: dict[str, Any] = {  # a port opens the same once more
            **mixtures.source_options(self.dataset, self._global),
            **sizes,
            **arrays,
            **program.options,
            "order": self._order_of,
            "seed": seed,
            "epochs": -1 if epochs is None else check.integer("epochs", epochs, 1),
            "tail": check.choice("tail", tail, TAILS),
            "rank": self.rank,
            "world_size": self.world_size,
            "local_ranks": ranks.local(self.world_size if self.mesh is None else self.mesh.processes),
            "on_error": check.choice("on_error", on_error, ON_ERROR),
            "error_report": error_report,
            "num_threads": check.threads(num_threads),
            "weight": weight,
            "log_dir": log_dir,
            "in_order": bool(in_order),
            "buckets": rows.buckets,
            "decided": feedback is not None or self._replay is not None,
        }
        self._open(program, on_error, mixture, log)
        self._open_feedback(feedback)
        self._agreement = Agreement(self._distributed)  # which counts loaders that are open

    def _open(self, program: Program, on_error: str, mixture: Any, log: Any) -> None:
        """Opens the library's loader, with what decides about it and what runs its functions."""
        if not self._options["in_order"] and self._log_dir is not None:
            os.makedirs(self._log_dir, exist_ok=True)
        self._core = _leat.Loader.open(**self._options)
        self._mixture = mixtures.mixture_of(self.dataset, self._core, mixture, self._log_dir, self._leads())
        self._decisions = self._mixture.decisions if self._mixture else Decisions(self._folded_log(), None, False)
        if log is not None:
            self._repeat(log)
        self._calls = program.calls(self._core, on_error, self._options["weight"])
        if self._share is not None:
            from ..ports.job import job_core

            try:
                self._core = job_core(self)
            except BaseException:
                _close(self._core, self._calls)
                raise
            if self._mixture is not None:
                self._mixture.core = self._core
        self._energy = Spent()
        self._next = self._asked(self._core.next, self._core.epoch)
        self._peek = self._asked(self._core.peek, self._core.epoch)
        self._ahead = None
        # Ends the engine's work for this loader when it is no longer referred to, whoever still holds an iterator's
        # core. Not at exit: a daemon thread that iterates would then see an error; the engine's threads touch nothing
        # of Python.
        self._finalizer = weakref.finalize(self, _close, self._core, self._calls)
        self._finalizer.atexit = False

    def _join(self, cp: str, cp_outputs: Sequence[str] | None, tp_read: str, in_order: bool) -> Peers | None:
        """What this process makes of batches, by its place in the mesh, and the peers that it shares them with."""
        first = bool(check.choice("tp_read", tp_read, {"each": 0, "first": 1}))
        check.choice("cp", cp, HOW)
        self._makes = True
        mesh = self.mesh
        if mesh is None:
            return None
        if not in_order and mesh.processes > mesh.dp.size:
            raise ValueError(
                "in_order=False does not go with a mesh in which several processes have the same rows: each of them "
                "would have these in an order of its own"
            )
        peers = None
        if first and mesh.tp.size > 1 and mesh.reads:
            if self._form.framework != "torch":
                raise ValueError("tp_read='first' sends tensors: open the Loader with framework='torch'")
            peers = Peers(mesh.tp_group)
        self._makes = mesh.reads and (peers is None or peers.reads)
        self._form.hidden = not self._makes
        if mesh.cp.size > 1 and self._makes:
            self._form.slices = Slices(mesh.cp, cp, cp_outputs)
        return peers

    def _leads(self) -> bool:
        """Whether this process is the first of those that read together."""
        if self._distributed:
            return ranks.leads()
        mesh = self.mesh
        return self.rank == 0 and (mesh is None or not (mesh.tp.rank or mesh.pp.rank or mesh.cp.rank))

    def _positions(self, values: Any, of: str = "sampler") -> np.ndarray[Any, np.dtype[np.int64]]:
        return positions_of(values, len(self.dataset), of)

    # ---- iterating ---------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Any]:
        self._agreement.begin(self._common, self._core.next_start()[0])
        if self._sampler is not None:
            self._read_sampler()
        self._decide_epoch()
        iteration = Pass(self, self._core.start())
        self._kept, self._loaded = None, False
        if self._calls is not None:
            self._calls.open()
        if self._form.beside is not None:
            self._expect(self._form.beside, self._core.epoch(), -1)
        return iteration

    def _expect(self, beside: Beside, epoch: int, step: int) -> None:
        """Has what stores have for the batches behind a step read ahead."""
        beside.expect(self._core, epoch, step, self.rank * self._global // self.world_size, self._global)

    def peek(self) -> Any:
        """The batch that ``next`` would give now, without handing it out: the look-ahead of one batch that stale copies
        of a batch, prefetches to a device and stores need. None behind the last batch of an epoch.

        The position, ``state_dict()``, ``epoch`` and the counts of :meth:`stats` stay as they are, and ``next`` then
        gives the same batch: the same object as long as it is kept, the same memory in any case. It counts as held
        (``max_held_bytes``). Where something is decided in between that changes that batch, ``next`` gives the one that
        is planned then, and what was peeked at stays valid. A broken sample raises as it would from ``next``.

        Raises:
            ValueError: no epoch has begun: ``iter(loader)`` begins one (:class:`leat.InvalidError`).
            leat.UnsupportedError: with ``in_order=False``, where the next batch is the one that is ready;
                with ``tp_read="first"`` or ``share="job"``.

        >>> loader = leat.Loader(leat.open(path), batch_size=32)
        >>> batches = iter(loader)
        >>> ahead = loader.peek()
        >>> loader.state_dict()["at"], next(batches) is ahead, loader.peek().step
        ({'epoch': 0, 'row': 0}, True, 1)
        """
        if self._peers is not None:
            raise UnsupportedError("peek() is of one process: with tp_read='first' several have one batch")
        batch = self._look()
        return self._tuple(batch) if batch is not None and self._yields == "tuple" else batch

    def _look(self) -> Batch | None:
        core = self._peek()
        if core is None:
            return None
        batch = self._seen(core) or self._batch(core)
        self._ahead = weakref.ref(batch)
        return batch

    def _seen(self, core: _leat.Batch) -> Batch | None:
        """The batch that was peeked at, if it is this one and is kept."""
        ahead = None if self._ahead is None else self._ahead()
        return ahead if ahead is not None and core.same(ahead._core) else None

    def _read_sampler(self) -> None:
        """Takes over the PyTorch Sampler's list for the epoch that begins."""
        if self._resuming:  # within an epoch, with the positions that it began with
            self._resuming = False
            return
        positions = self._read_list()
        self._unread = None
        self._core.set_positions(positions)
        self._decisions.take(self._core)
        if self._log_dir is not None and (not self._distributed or ranks.leads()):
            for entry in states.lists_elsewhere(self.state_dict()):
                save_list(self._log_dir, entry["hash"], positions)

    def _shared(self, make: Callable[[], np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
        """The result of `make`, which only rank 0 calls where torch.distributed is initialised."""
        if not self._distributed:
            return make()
        if not ranks.leads():
            return ranks.broadcast(None)
        try:
            positions = make()
        except BaseException:
            with contextlib.suppress(RuntimeError):
                ranks.broadcast(None)  # tells the others
            raise
        return ranks.broadcast(positions)

    def __len__(self) -> int:
        """Batches of this rank in an epoch.

        Raises:
            RangeError: of a mixture whose epochs end by their sources, the epoch is too far ahead to be known.
        """
        if self._sampler is None:
            steps = self._core.steps()
            if not steps and self._mixture is not None:  # raises where the epoch has no rows for any rank
                self._core.mix_counts(self.epoch, 0, np.zeros(len(self._mixture.names), np.uint64))
            return steps
        n = len(self._sampler)
        whole, rest = divmod(n, self._global)
        if not rest or self._tail == "drop":
            return whole
        if self._tail == "pad":
            return whole + 1
        mine = (self.rank + 1) * rest // self.world_size > self.rank * rest // self.world_size
        return whole + mine

    def set_epoch(self, epoch: int) -> None:
        epoch = check.integer("epoch", epoch)
        if hasattr(self._sampler, "set_epoch"):
            self._sampler.set_epoch(epoch)
            self._unread = None
        if self._drops(epoch):
            self._resuming = False

    # ---- state -------------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """The position of training: a small dict of plain values, which counts the batches handed out and fits every
        rank.

        Without `in_order`, a state that is taken within an epoch on several ranks fits only the rank that took it, and
        so does one with `counters=`, which count what the rank consumed. Save the state of each rank.
        """
        state = self._plain_state()
        self._deciding_state(state)
        if self._counters:
            state["counters"] = {name: counter.state_dict() for name, counter in self._counters.items()}
            state["counters_of"] = [self.rank, self.world_size]
        return state

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
            ValueError: the state is of another data set, order or version, is damaged, or is none
                (:class:`leat.StateError`); nothing has changed.

        >>> loader = leat.Loader(leat.open(path), batch_size=32)
        >>> first = next(iter(loader))
        >>> again = leat.Loader(leat.open(path), batch_size=32)
        >>> again.load_state_dict(loader.state_dict())
        >>> next(iter(again)).ids[0].item()
        32
        """
        plain = states.plain(state)
        with states.damage_is_said():
            prepared = self._prepare(plain)
        lists = self._find_lists(plain) if self._sampler is not None else prepared.lists
        with states.damage_is_said():
            mixture = (
                None if self._mixture is None else self._mixture.prepared(prepared.decided, states.place_of(plain))
            )
            try:
                for positions in lists:
                    self._core.know_list(positions)
                self._core.load_state(json.dumps(plain))
            except BaseException:
                if mixture is not None:
                    mixture.put_back()
                raise
        if mixture is not None:
            mixture.take()
        else:
            self._decisions.load(self._folded_log(), prepared.beside)
        self._global = self.global_batch_size  # the run may have decided another one than this loader opened with
        self._kept = self._unread = None
        for take in prepared.takes:
            take()
        self._resuming = self._sampler is not None and states.is_within(plain)
        self._loaded = True

    # ---- decisions ---------------------------------------------------------------------------------------------------

    @property
    def global_batch_size(self) -> int:
        """Rows per batch of all ranks together, as it was last decided."""
        size: int = next(e["global_batch"] for e in reversed(self._folded_log()) if "global_batch" in e)
        return size

    def set_batch_size(
        self,
        n: int | None = None,
        at: tuple[int, int] | None = None,
        *,
        batch_size: int | None = None,
        global_batch_size: int | None = None,
    ) -> None:
        """Decides the size of batches from here on, in later epochs too: rows per rank, or rows of all ranks together.

        The decision enters the log, and with it the state, so that a resumed run keeps it, as long as it opens with
        the same global batch size (``batch_size`` times the number of ranks); another one is a new decision.
        Prefetched batches are computed again.

        Args:
            n, batch_size: rows per batch and rank; `n` is the same without its name.
            global_batch_size: rows per batch of all ranks, in the place of `batch_size`.
            at: (epoch, step) of the first such batch. None: the first one not yet handed out. On several ranks every
                rank gives the same.

        Raises:
            ValueError: that batch was handed out; on several ranks `at` is missing; so many rows need more than
                `budget_bytes` (:class:`leat.BudgetError`); without `in_order`, within an epoch.
            TypeError: no size, or more than one.
            IndexError: the epoch has no such step.

        >>> loader = leat.Loader(leat.open(path), batch_size=32)
        >>> batches = iter(loader)
        >>> next(batches)["x"].shape[0]
        32
        >>> loader.set_batch_size(batch_size=8)
        >>> next(batches)["x"].shape[0]
        8
        """
        given = {"n": n, "batch_size": batch_size, "global_batch_size": global_batch_size}
        sizes = [(name, check.integer(name, value, 1)) for name, value in given.items() if value is not None]
        if len(sizes) != 1:
            raise TypeError("set_batch_size takes batch_size (rows per rank) or global_batch_size (rows of all ranks)")
        rows = sizes[0][1] * (1 if sizes[0][0] == "global_batch_size" else self.world_size)
        if at is not None and not (isinstance(at, (tuple, list)) and len(at) == 2):
            raise TypeError(f"at is (epoch, step), not {at!r:.60}")
        self._core.set_global_batch_size(rows, *((-1, -1) if at is None else checked_step(*at)))
        self._global = rows
        self._decided()

    # ---- mixtures ----------------------------------------------------------------------------------------------------

    @property
    def mixture(self) -> Mixture:
        """The mixture as it stands: ``mixture.weights``, ``mixture.state()``, ``mixture.weights_at(epoch, step)``.

        Raises:
            ValueError: the loader reads a data set and no mixture.
        """
        if self._mixture is None:
            raise ValueError("this loader reads a data set, not a leat.Mix: it has no mixture")
        return self._mixture

    def set_mixture(self, weights: Mapping[Any, Any], at: tuple[int, int] | None = None) -> None:
        """Decides other weights of the mixture's domains from here on, in later epochs too.

        The decision enters the log, and with it the state, so that a resumed run keeps it. Prefetched batches are
        computed again.

        Args:
            weights: a number for each domain; they sum to 1. Domains of ``leat.Mix.by`` may be named as there: by
                value, and nested.
            at: (epoch, step) of the first batch under these weights. None: the first one not yet handed out. On several
                ranks every rank gives the same.

        Raises:
            ValueError: the weights do not sum to 1, or one is negative or not finite; a domain is missing or unknown;
                that batch was handed out; on several ranks `at` is missing.
            IndexError: the epoch has no such step.

        >>> ds = leat.open(path)
        >>> loader = leat.Loader(leat.Mix({"a": (ds, 0.5), "b": (ds, 0.5)}), batch_size=8)
        >>> loader.set_mixture({"a": 0.25, "b": 0.75})
        >>> next(iter(loader)).domains.tolist().count(1)
        6
        """
        place = None
        if at is not None:
            if not (isinstance(at, (tuple, list)) and len(at) == 2):
                raise TypeError(f"at is (epoch, step), not {at!r:.60}")
            place = checked_step(*at)
        elif self.world_size > 1:
            raise ValueError(
                "on several ranks say from which (epoch, step) the weights hold, the same on each: the ranks may have "
                "been handed out different numbers of batches"
            )
        self.mixture.decide(weights, place, "set_mixture")
        self._decided()

    def _common(self) -> dict[str, str]:
        """What all ranks must have in common, as each epoch begins."""
        return {**self._facts, "decisions": self._decisions.told()}

    def _repeat(self, log: Sequence[Mapping[str, Any]] | str | os.PathLike[str]) -> None:
        """Takes over the decisions of another run's log, from its beginning."""
        entries = states.log_of(log)
        state = json.loads(self._core.state())
        state["log"] = entries
        with states.damage_is_said():
            self._core.load_state(json.dumps(state))
        self._decisions.repeat(self._folded_log())

    def _folded_log(self) -> list[dict[str, Any]]:
        """The library's."""
        log: list[dict[str, Any]] = json.loads(self._core.log(0))
        return log

    def consumer(self, batch_size: int, start: Literal["here", "beginning"] = "here") -> Consumer:
        """Opens a second reader of the same rows in this process: each gets every row once an epoch, in the same order.

        Rows are decoded once for all readers that are near each other (within half of the window). For one that lags,
        or comes later, the rows that it missed are computed again, and it never delays another. The batches are its own
        to write to.

        Args:
            batch_size: rows per batch of this reader.
            start: ``"here"``: where the reader is that is farthest ahead; ``"beginning"``: at the beginning of the
                epoch that the loader is in.

        Raises:
            ValueError: the loader has ``in_order=False``, or draws sizes per batch.
            leat.BudgetError: the first batch takes more batches of the loader than its window holds.

        >>> loader = leat.Loader(leat.open(path), batch_size=32, shuffle=True)
        >>> probe = loader.consumer(batch_size=8)
        >>> first = next(iter(loader)).ids
        >>> [batch.ids.tolist() for batch, _ in zip(probe, range(4))] == first.reshape(4, 8).tolist()
        True
        """
        if self._feedback is not None or self._replay is not None:
            raise ValueError("a loader whose epochs are decided as they begin has no further consumers")
        places = check.choice("start", start, {"here": 0, "beginning": 1})
        batch_size = check.integer("batch_size", batch_size, 1)
        return Consumer(self, self._core.consumer(batch_size, bool(places)), batch_size)

    def _asked(self, function: Callable[..., Any], epoch: Callable[[], int]) -> Callable[..., Any]:
        """A function of the engine's that makes batches of an epoch, which may need functions of the program."""
        return function if self._calls is None else partial(self._calls.ask, function, epoch)

    @property
    def log(self) -> list[dict[str, Any]]:
        """The decisions that the order follows from, each with the position from which it holds (docs/order.md).

        The first one is what the loader was opened with. Of a long run with a Sampler, whose lists are large, the first
        decisions are folded into one; else they are all there as long as this process has made them, or was given them.
        """
        return self._folded_log() if self._order_of == LIST else self._with_lists(self._decisions.entries())

    def plan(self, epoch: int, step: int) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The sample ids planned for this rank's batch `step` of `epoch`, without reading anything: int64.

        >>> leat.Loader(leat.open(path), batch_size=4).plan(0, 2).tolist()
        [8, 9, 10, 11]
        """
        return np.asarray(self._core.plan(*checked_step(epoch, step)))

    def batch_at(self, epoch: int | Mapping[str, Any], step: int | None = None) -> Batch:
        """Computes a batch again: that of an epoch and step, or the one that a state points at. The loader's position
        does not move.

        Raises:
            IndexError: the epoch has no such step.
            ValueError: the state is of another run (:class:`leat.StateError`).

        >>> loader = leat.Loader(leat.open(path), batch_size=32)
        >>> batches = iter(loader)
        >>> next(batches).step, loader.batch_at(loader.state_dict()).step, next(batches).step
        (0, 1, 1)

        Without `in_order` which rows it had stands only in the record in `log_dir`: ValueError without that, IndexError
        for a batch that was not handed out.
        """
        if isinstance(epoch, Mapping):
            if step is not None:
                raise TypeError("batch_at takes a state, or epoch and step")
            mine = self.state_dict()
            whole = "later" in mine and self._order_of != LIST
            epoch, step = states.step_of(mine, epoch, self._decisions.entries() if whole else None)
        elif step is None:
            raise TypeError("batch_at takes epoch and step, or a state")
        return self._batch(self._asked(self._core.batch_at, lambda: int(epoch))(*checked_step(epoch, step)))

    def plan_rows(self, epoch: int, step: int, rows: Any = None) -> dict[str, Any]:
        """What the rows of this rank's batch `step` of `epoch` follow from: plain values (paths and fingerprint of the
        data set, program, order, decisions, position), that can be pickled or written as JSON and are at most 64 KiB.
        Whoever reads the same files makes the rows of it with :func:`leat.make_rows`, with the same bytes.

        Args:
            rows: a range of rows within the batch: a range, a slice, or ``(first, end)``. None: all.

        Raises:
            IndexError: the epoch has no such step, or the batch no such rows.
            leat.UnsupportedError: the data lie in memory (`from_arrays`, `from_source`), where nobody else reads them;
                with ``in_order=False``, and with slices for context-parallel ranks.
            leat.InvalidError: without `log_dir`, a selection, paths or decisions are too long to stand in the plan.
            leat.ChangedError: weights or positions of the sampler were changed after the loader was opened.

        >>> loader = leat.Loader(leat.open(path), batch_size=32, shuffle=True)
        >>> leat.make_rows(loader.plan_rows(0, 2)).ids.tolist() == loader.plan(0, 2).tolist()
        True
        """
        return planned_rows(self, epoch, step, rows)

    def stats(self) -> dict[str, Any]:
        """Statistics since the loader was opened: samples and bytes per second, time per operator, bytes in use and
        held.

        ``stats()["agreement"]`` is a hash of what all ranks must have in common, ``stats()["energy"]`` what was used
        since, and for a thousand samples (docs/loader.md).
        """
        found: dict[str, Any] = json.loads(self._core.stats())
        if self._calls is not None:
            found["python"] = self._calls.about(found)
        found["energy"] = self._energy.told(found["samples"])
        found["agreement"] = f"{ranks.short_hash(repr(self._common())):016x}"
        return found

    @contextlib.contextmanager
    def trace(self, path: str | os.PathLike[str], *, max_events: int = 1_000_000) -> Iterator[None]:
        """Records what the loader's threads and workers do inside of the ``with`` block, and writes it to `path`, which
        https://ui.perfetto.dev and chrome://tracing open: tasks and reads by thread, functions by worker process, how
        long this iteration waits for batches and how long it is busy with them, and how many batches are ready.

        Events beyond `max_events` (72 bytes each) are dropped, and ``otherData`` in the file counts them. While nothing
        is recorded, this costs nothing. `leat trace` does the same for a loader of its own.

        >>> with leat.Loader(photos, 2) as loader, loader.trace(tmp / "trace.json"):
        ...     batches = list(loader)
        >>> "traceEvents" in (tmp / "trace.json").read_text()
        True
        """
        self._core.trace(check.integer("max_events", max_events, 1, 2**40))
        try:
            yield
        finally:
            self._core.trace(0)
            with writing(path), open(path, "w") as out:
                out.write(self._core.trace_json())

    # ---- end ---------------------------------------------------------------------------------------------------------

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError(
            "a Loader cannot be pickled: pickle its data set and its state_dict(), and open a Loader in the other "
            "process"
        )

    def _repr_html_(self) -> str:
        """What a notebook shows: sizes, position, speed, and the operators of each output."""
        return html.loader(self, self._entries)

    def __repr__(self) -> str:
        return f"<leat.Loader of {self.dataset!r}, global batch {self._global}, rank {self.rank} of {self.world_size}>"


def _close(core: _leat.Loader, calls: Any) -> None:
    core.close()
    if calls is not None:
        calls.close()
