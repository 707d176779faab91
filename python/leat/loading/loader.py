"""The loader: samples at rest to batches, in a declared order, resumable at any batch."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from .. import _leat, check, ranks, skipping
from ..closing import finalize
from ..data.dataset import Dataset
from ..device.card import card_of
from ..device.table import Rows
from ..files import writing
from ..mixtures.mixing import Mix, source_options
from ..mixtures.schedule import Schedule
from ..privacy import RunningArgmax, TreeCounter
from ..program import Outputs, entries
from ..sampling.sampled import Sampled
from ..sharing.job import job_core
from ..stores.store import Store
from . import html, on_card, opening
from .agreement import Agreement
from .consumer import Consumer
from .context import HOW
from .energy import Spent
from .lineage import Lineage, Planning
from .mesh import place_of
from .peers import joined
from .programs import Program, described, program_of
from .samplers import Blocks, digest, order_of
from .states import checked_counters


class Loader(Planning):
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
            ``leat.Blocks(rows, window=None)``: blocks of ``rows`` neighbours in random order, shuffled within windows
            of ``window`` samples (``None``: of 8 blocks), for data that is slow to read one sample at a time
            (docs/loader.md).
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
        batch_cost: in the place of `batch_size`: the costs of the samples of a batch of a rank sum to at most so much,
            and come close to it; `batch_size` may bound their number (docs/packing.md).
        cost: with `batch_cost`: what each sample costs: the name of a column of numbers, ``"tokens.length"`` for the
            lengths of a field, or an array or list with one number for each sample. Whole numbers from 0 to 2^48. With
            `batch_tokens` or `buckets`: the length of each sample, in the place of its field's (docs/packing.md).
        batch_kv: in the place of `batch_size`, with what ``leat.group_prompts`` has made: the keys and values of a
            batch of a rank are those of at most so many tokens: the prefix of each group once, the other tokens of each
            prompt, and those that it is answered by; `batch_size` may bound the number of prompts (docs/prompts.md).
        oversize: a sample that costs more than `batch_cost`, or `batch_kv`: ``"error"``: one that names it as the
            loader opens; ``"alone"``: it is a batch of its own.
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
            and a quarter of the memory that the process may use, but at least 3 batches. 64 MiB are added if photos are
            decoded (at most an eighth of that memory), for photos of which more than the crop is kept while they
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
            labels, positions, position_ids, doc_ids or loss_mask, the tokens of packed rows, and the labels and loss
            masks beside these.
        tp_read: ``"first"``: of tensor-parallel peers only the first on each host reads, and sends batches to the
            others there through ``torch.distributed``. ``"each"``: all read.
        share: ``"job"``: the ranks of a job on one host read one loader, which its first process opens
            (docs/loader.md); `num_threads` and `budget_bytes` are then of that one. ``None``: each its own.
        stores: ``{name: store}``: rows that a :class:`leat.Store` has for the samples of a batch are ``batch[name]``
            (or ``batch["name.field"]`` of each of several fields), read ahead, and ``batch["name.present"]`` says for
            which rows it has something (docs/stores.md). ``{name: (rows, output)}``: rows of ``leat.device.rows``, by
            the numbers that an output has, gathered as ``batch[name]`` is asked for (docs/device.md).
        counters: ``{name: counter}``: counters of ``leat.privacy`` whose states are a part of the loader's, so that
            both go on together (docs/privacy.md).
        device: ``"cuda"``, ``"cuda:1"``: batches come as tensors of that card, copied while they fill and while the
            model works on those before (docs/device.md). ``None``: in the host's memory.
        prefetch: with `device`: batches that are copied before they are asked for.
        device_budget_bytes: with `device`: bound of the card's memory for batches on their way and those that you keep.
            ``None``: half of what is free as the loader opens.

    Raises:
        ValueError: an argument is not valid, or the budget holds no three batches (:class:`leat.BudgetError`).
        TypeError: a chain does not fit its field (:class:`leat.ProgramError`); the text says what would.

    >>> loader = leat.Loader(leat.open(path), batch_size=32, shuffle=True, seed=1, drop_last=True)
    >>> [batch["x"].shape[0] for batch in loader]
    [32, 32, 32]
    """

    _elsewhere = False  #: whether other machines make its rows

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
        batch_cost: int | None = None,
        cost: Any = None,
        batch_kv: int | None = None,
        oversize: Literal["error", "alone"] = "error",
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
        stores: Mapping[str, Store | tuple[Rows, str]] | None = None,
        counters: Mapping[str, TreeCounter | RunningArgmax] | None = None,
        device: Any = None,
        prefetch: int = 2,
        device_budget_bytes: int | None = None,
    ) -> None:
        in_order = check.flag("in_order", in_order)
        opening.check_together(dataset, sampler, in_order, mixture, yields, share, tp_read)
        card = None if device is None else card_of(device)
        asked: dict[str, Any] = {
            "batch_size": batch_size,
            "global_batch_size": global_batch_size,
            "batch_tokens": batch_tokens,
            "buckets": None if buckets is None else list(buckets),
            "tokens_field": tokens_field,
        }
        plain = sampler is None and not isinstance(shuffle, Blocks) and bool(in_order)
        costed = {"batch_cost": batch_cost, "cost": cost, "oversize": oversize}
        rows = opening.rows_of(dataset, outputs, plain, **asked, **costed, batch_kv=batch_kv)
        if batch_kv is not None:
            asked |= {"batch_kv": batch_kv, "oversize": oversize}
        elif rows.buckets is not None and rows.buckets.costs is not None:
            asked |= {**costed, "cost": cost if isinstance(cost, str) else rows.buckets.costs}
        other = {"batch_tokens=": batch_tokens, "buckets=": buckets, "batch_cost=": batch_cost, "share=": share}
        other |= {"batch_kv=": batch_kv}
        other |= {'tp_read="first"': mesh if tp_read == "first" else None}
        log = self._start_deciding(rows.dataset, feedback, log, log_dir, sampler, other)
        given = {"batch_size": rows.batch_size, "global_batch_size": global_batch_size}
        given |= {"budget_bytes": budget_bytes, "max_held_bytes": max_held_bytes}
        sizes = {name: 0 if value is None else check.integer(name, value, 1) for name, value in given.items()}
        seed = check.seed(seed)
        self.dataset = rows.dataset
        self.mesh, self.rank, self.world_size, self._distributed = place_of(mesh, rank, world_size)
        self._is_placed = mesh is not None or rank is not None
        self._global = self._opened_global = sizes["global_batch_size"] or sizes["batch_size"] * self.world_size
        if check.flag("drop_last", drop_last) and tail == "uneven":
            raise ValueError('drop_last=True is tail="drop", and tail="uneven" was given: give one of them')
        self._tail = tail = "drop" if drop_last else tail
        self._counters = checked_counters(counters)
        self._kept = None
        self._yields = yields
        self._framework = framework  # as it was said
        self._share = share
        self._resuming = False
        self._log_dir = None if log_dir is None else os.fspath(log_dir)
        self._outputs = rows.outputs
        self._entries = None if rows.outputs is None else entries(rows.outputs)
        marks, looks = on_error != "raise", in_order and share is None
        self._form = opening.form_of(rows, self._entries, framework, stores, seed, marks, looks)
        self._order_of, arrays, self._sampler = order_of(self.dataset, shuffle, sampler)
        self._sampled = None if self._sampler is None else Sampled(self.dataset, self._sampler)
        follows = {**asked, "dataset": dataset, "outputs": outputs, "shuffle": shuffle, "seed": seed, "tail": tail}
        follows |= {"sampler": arrays.get("positions", sampler), "on_error": on_error, "rank": self.rank}
        follows |= {"world_size": self.world_size, "framework": self._form.framework}
        hashed = digest(arrays)
        self._lineage = Lineage(follows, arrays, hashed, self._log_dir)
        first = bool(check.choice("tp_read", tp_read, {"each": 0, "first": 1}))
        check.choice("cp", cp, HOW)
        self._peers = joined(self.mesh, self._form, cp, cp_outputs, first, in_order)
        program = program_of(rows.outputs, self.dataset, self._form, seed, in_order)
        if card is not None and not self._form.hidden:
            on_card.check_together(card, share, tp_read, self._form.framework, self._form.gathered)
            ahead = check.integer("prefetch", prefetch, 0, 256)
            budget = 0 if device_budget_bytes is None else check.integer("device_budget_bytes", device_budget_bytes, 1)
            self._form.card = on_card.OnCard(card, ahead, budget)
        self._facts = {
            "the data set": self.dataset.fingerprint,
            "seed": str(seed),
            "global_batch_size": str(self._global),
            "world_size": str(self.world_size),
            "shuffle or sampler": opening.order_told(self._order_of, hashed if arrays else None),
            "tail": tail,
            "on_error": on_error,
            "outputs": described(rows.outputs),
        }
        if rows.buckets is not None:
            self._facts |= [rows.buckets.facts()]
        if self.mesh is not None:
            self._facts["the mesh"] = repr((self.mesh.sizes, cp if self.mesh.cp.size > 1 else None, tp_read))
        self._options: dict[str, Any] = {  # a port opens the same once more
            **source_options(self.dataset, self._global),
            **sizes,
            **arrays,
            **program.options,
            "order": self._order_of,
            "seed": seed,
            "epochs": -1 if epochs is None else check.integer("epochs", epochs, 1),
            "tail": check.choice("tail", tail, check.TAILS),
            "rank": self.rank,
            "world_size": self.world_size,
            "local_ranks": ranks.local(self.world_size if self.mesh is None else self.mesh.processes),
            "on_error": check.choice("on_error", on_error, check.ON_ERROR),
            "error_report": error_report,
            "num_threads": check.threads(num_threads),
            "weight": weight,
            "log_dir": log_dir,
            "in_order": in_order,
            "buckets": rows.buckets,
            "decided": feedback is not None or self._replay is not None,
        }
        self._open(program, on_error, mixture, log)
        self._open_feedback(feedback)
        self._agreement = Agreement(  # which counts loaders that are open
            self._distributed,
            self._finalizer,
            opening.named(self.dataset),
            self.dataset.fingerprint,
            tells=self._peers is None or self._peers.reads,
            all_open=self.mesh is None,
        )

    def _open(self, program: Program, on_error: str, mixture: Any, log: Any) -> None:
        """Opens the library's loader, with what decides about it and what runs its functions."""
        if not self._options["in_order"] and self._log_dir is not None:
            os.makedirs(self._log_dir, exist_ok=True)
        skipping.install_if_here()
        self._core = self._opened()
        self._open_decisions(mixture, self._leads(), log)
        self._calls = program.calls(self._core, on_error, self._options["weight"])
        if self._share is not None:
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
        # Ends the engine's work for this loader when it is no longer referred to, whoever still holds an iterator's
        # core. Not at exit: a daemon thread that iterates would then see an error; the engine's threads touch nothing
        # of Python.
        self._finalizer = finalize(self, _close, self._core, self._calls, self._form.card)
        self._finalizer.atexit = False

    def _opened(self) -> _leat.Loader:
        """The library's loader; for a card one with its memory pinned, and up to where its rows are smallest."""
        there = self._form.card
        if there is None or self._form.by_host:
            return _leat.Loader.open(**self._options)
        core, tables = on_card.opened(self._options, self._outputs, self.dataset.schema, there.card, True)
        try:
            there.open(core, tables)
        except BaseException:
            core.close()
            raise
        return core

    def _leads(self) -> bool:
        """Whether this process is the first of those that read together."""
        if self._distributed:
            return ranks.leads()
        mesh = self.mesh
        return self.rank == 0 and (mesh is None or not (mesh.tp.rank or mesh.pp.rank or mesh.cp.rank))

    def _common(self, place: tuple[int, int] | None = None) -> dict[str, str]:
        """The values that all ranks must have in common at an epoch and step; None: with all decisions so far."""
        return {**self._facts, "the loaded state": self._loaded_from, "decisions": self._decisions.told(place)}

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
        self._check_rows(batch_size)
        return Consumer(self, self._core.consumer(batch_size, bool(places)), batch_size)

    def _check_rows(self, rows: int) -> None:
        self._form.check_rows(rows)

    def stats(self) -> dict[str, Any]:
        """Statistics since the loader was opened: samples and bytes per second, time per operator, bytes in use and
        held.

        ``stats()["agreement"]`` is a hash of what all ranks must have in common, ``stats()["energy"]`` what was used
        since, and for a thousand samples (docs/loader.md).
        """
        found: dict[str, Any] = json.loads(self._core.stats())
        if self._calls is not None:
            found["python"] = self._calls.about(found)
        if self._form.card is not None and not self._form.by_host:
            found["device"] = self._form.card.stats()
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
        """Its display in a notebook: sizes, position, speed, and the operators of each output."""
        return html.loader(self, self._entries)

    def __repr__(self) -> str:
        return f"<leat.Loader of {self.dataset!r}, global batch {self._global}, rank {self.rank} of {self.world_size}>"


opening.fix_arguments(Loader)


def _close(core: _leat.Loader, calls: Any, card: on_card.OnCard | None = None) -> None:
    if card is not None:
        card.close()
    core.close()
    if calls is not None:
        calls.close()
