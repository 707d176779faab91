"""Tokenising: records with text become documents of tokens, in a pack.

    data set --records, raw--> batches of about 1 MiB of text --> the tokenizer, all cores --> Writer --> PATH.partial
        main thread               two or three in flight              its own threads           main thread

A pack has the same bytes however often it was interrupted: records go through in their order, and the Writer trusts
only complete samples. Facts that the Writer cannot know stand in ``PATH.tokens``, a text beside it: the inputs of the
tokenising, and the records that were left out. A record that is left out is written there before the records behind it
are given to the Writer. When the pack is finished the file goes; the list of records left out stays in
``PATH.bad.jsonl``.
"""

from __future__ import annotations

import os
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import check
from ..data.dataset import Dataset
from ..data.dataset import open as _open
from ..data.schema import Field, field
from ..data.writer import Writer
from ..errors import BrokenSampleError, ChangedError, InvalidError
from . import progress as _progress
from . import tokenizer as _tokenizer
from .chat import Chat
from .notes import Notes
from .records import BadText, Chats, Ready, Records, reason_of
from .skipped import is_foreign, joined, listed
from .tokenizer import Spans, Tokenizer

# For a batch: enough for all cores, so that the call of the tokenizer costs nothing beside its work (measured: below
# 256 KiB it does on two cores), and little beside the memory of a tokenizer.
BATCH_BYTES = 1 << 20
BATCH_RECORDS = 8192
# Batches in flight: while the last documents of one keep a core busy, the others work on the next one.
BATCHES = 3


@dataclass(frozen=True)
class Tokenized:
    """The result of :func:`leat.tokenize`.

    Attributes:
        path: of the pack.
        documents: in it.
        tokens: in it.
        empty: documents without a token.
        skipped: records that were left out while they were tokenised; PATH.bad.jsonl lists them.
        skipped_on_open: records that opening the data set had left out (``leat.open(on_bad="skip")``).
        skipped_first: of both the first few, at most ten: dicts with ``file``, ``line``, ``byte`` (as far as there are
            some), ``record`` (its number in the data set) and ``reason``. They and the counts are in the pack's
            ``metadata["skipped"]``, too.
        learned: for chats, tokens that are learned; else None.
        text_bytes: read by this run, as UTF-8.
        seconds: that this run took.
    """

    path: str
    documents: int
    tokens: int
    empty: int
    skipped: int
    text_bytes: int
    seconds: float
    learned: int | None = None
    skipped_on_open: int = 0
    skipped_first: tuple[Mapping[str, Any], ...] = ()

    def open(self) -> Dataset:
        """The pack as a data set."""
        return _open(self.path)


def tokenize(
    dataset: Dataset,
    path: str | os.PathLike[str],
    *,
    tokenizer: Any,
    text: str = "text",
    chat: Chat | None = None,
    tokens: str | None = None,
    field: str = "tokens",
    fields: Sequence[str] | None = None,
    on_bad: str = "raise",
    add_special_tokens: bool = False,
    parse_special: bool = True,
    pattern: str | None = None,
    special_tokens: Mapping[str, int] | None = None,
    shard_bytes: int | None = None,
    metadata: Mapping[str, Any] | None = None,
    overwrite: bool = False,
    resume: bool = False,
    progress: bool = False,
) -> Tokenized:
    """Tokenises the text of each record, on all cores, and packs the tokens with the record's other fields.

    Args:
        dataset: records with a field of text.
        path: the pack to make. Its field `field` has the tokens of a record: uint16 if the vocabulary fits, else
            uint32; shape (None,). ``metadata["tokenizer"]`` has ``hash``, ``file``, ``vocab_size`` and ``kind``.
        tokenizer: the path of a ``tokenizer.json``, of a folder with one, or of a tiktoken file; or a tokenizer of
            `tokenizers`, `transformers` (a fast one) or `tiktoken`. Its truncation and padding are not applied.
        text: the field with the text: of kind ``"str"``, or ``"bytes"`` that are UTF-8.
        chat: records are chats (:func:`leat.chat`), in the place of `text`. The pack has the field ``loss_mask`` beside
            the tokens: bool, shape (None,), True where a model is to learn a token. ``metadata["chat"]`` has ``hash``
            (of the template and of its variables), ``file``, ``learn`` and ``turns``.
        tokens: records are tokens already, in this field, as of Megatron's files: they are compared with the vocabulary
            and stored in the smaller type, with the tokenizer's hash.
        field: the name of the field of tokens.
        fields: names of fields to keep as properties; None: all but the text and those that leat derives.
        on_bad: of a record that cannot be read or tokenised: ``"raise"``, or ``"skip"`` it: ``path.bad.jsonl`` lists
            which and why.
        add_special_tokens: also those that the tokenizer adds around a text. Off, because
            ``leat.pack_rows(bos=, eos=)`` adds them around documents.
        parse_special: a special token that is written out in a text becomes this token, as by the tokenizer itself.
            False: it is text like any other.
        pattern: for a tiktoken file, which lacks it: the regular expression that cuts text into words, or the name of
            an encoding that tiktoken knows. Not needed for a file with such a name (``cl100k_base.tiktoken``).
        special_tokens: for a tiktoken file: {text: id}.
        shard_bytes, metadata, overwrite, resume: as of :class:`leat.Writer`. A resumed run gives the same bytes as one
            that was not interrupted. A run that could be resumed is not overwritten, unless `overwrite` is set.
        progress: show a line with the rate and the time left on standard error.

    Returns: The numbers of documents and tokens, and of records left out (:class:`Tokenized`).

    Raises:
        ImportError: `tokenizers` or `tiktoken` is needed and not installed.
        KeyError: there is no field of the name.
        ValueError: a file is no tokenizer; a record is broken (:class:`leat.BrokenSampleError`) or its text is not
            UTF-8; a token is beyond the vocabulary; or, with `resume`, data set, tokenizer or options are not those
            that it was begun with (:class:`leat.ChangedError`).
        FileExistsError: `path` exists, or an unfinished run that could be resumed.

    >>> import tokenizers
    >>> words = {"to": 0, "be": 1, "or": 2, "not": 3}
    >>> simple = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="or"))
    >>> simple.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    >>> with leat.Writer(tmp / "text.leat", {"text": "str", "year": "int64"}) as w:
    ...     w.add(text="to be or not to be", year=1603)
    0
    >>> made = leat.tokenize(leat.open(tmp / "text.leat"), tmp / "tokens.leat", tokenizer=simple)
    >>> made.tokens, made.open()[0]
    (6, {'tokens': array([0, 1, 2, 3, 0, 1], dtype=uint16), 'year': 1603})
    """
    check.choice("on_bad", on_bad, {"raise": 0, "skip": 1})
    check.flags(overwrite=overwrite, resume=resume, progress=progress)
    if not isinstance(dataset, Dataset):
        raise TypeError(f"tokenize takes a data set, not {type(dataset).__name__}: leat.open(path)")
    core = _tokenizer.load(
        tokenizer,
        add_special_tokens=check.flag("add_special_tokens", add_special_tokens),
        parse_special=check.flag("parse_special", parse_special),
        pattern=pattern,
        special_tokens=special_tokens,
    )
    if chat is not None and (add_special_tokens or not parse_special or text != "text"):
        raise ValueError("the template of a chat writes special tokens, and takes messages: give chat alone")
    records: Records
    if tokens is not None:
        if chat is not None or text != "text" or add_special_tokens:
            raise ValueError("records that are tokens are no text and no chats: give tokens alone")
        records = Ready(dataset, tokens, field, fields)
    else:
        records = Chats(dataset, chat, tokenizer, field, fields) if chat else Records(dataset, text, field, fields)
    about = {**(dict(metadata) if metadata is not None else dataset.metadata), "tokenizer": core.about, **records.about}
    unread = listed(dataset.about)
    own = is_foreign(about.get("skipped"))
    if unread and not own:
        about["skipped"] = joined(about.get("skipped"), unread)
    begun = {
        "tokenizer": core.about,
        "library": core.backend,
        "data set": dataset.fingerprint,
        "records": len(dataset),
        "options": [
            text if tokens is None else ["tokens", tokens],
            field,
            records.kept,
            add_special_tokens,
            parse_special,
            on_bad,
            shard_bytes,
        ],
        **records.about,
    }
    target = os.path.abspath(os.fspath(path))
    notes = Notes(target, begun)
    notes.prepare(resume, overwrite)
    schema = {field: _ragged(core.dtype), **dict.fromkeys(records.masks, _ragged("bool")), **records.properties}
    run = _Run(core, records, notes, on_bad == "skip", progress)
    if not (resume and notes.published(about)):
        try:
            writer = Writer(
                target, schema, check=False, shard_bytes=shard_bytes, metadata=about, overwrite=overwrite, resume=resume
            )
        except ChangedError as e:
            raise notes.fault or e from None  # the noted facts say it better
        with writer:
            run.go(writer)
            counted = notes.skipped and not own
            writer.close({**about, "skipped": notes.summary(about.get("skipped"))} if counted else None)
    if own and (unread or notes.skipped):
        warnings.warn(
            f'{target}: what was left out is not counted in the metadata, whose "skipped" is something else',
            stacklevel=2,
        )
    notes.finish()
    made = _report(target, field, records.masks, notes, run, unread)
    if isinstance(records, Chats) and (
        said := records.warning(made.tokens, made.learned, run.documents == made.documents)
    ):
        warnings.warn(f"{target}: {said}", stacklevel=2)
    return made


def _ragged(dtype: str) -> Field:
    return field(dtype, (None,))


def _report(
    target: str, name: str, masks: Sequence[str], notes: Notes, run: _Run, unread: Mapping[str, Any]
) -> Tokenized:
    made = _open(target)
    lengths = np.asarray(made._handle.column(made._find(name)[0], False, True)).view(np.uint64)
    size = np.dtype(made.schema[name].dtype).itemsize
    learned = run.learned if masks else None
    for mask in masks:
        index = made._find(mask)[0]  # of documents that earlier runs wrote
        before = len(made) - run.documents
        learned = run.learned + sum(made._handle.read(i, index, True).count(1) for i in range(before))
    return Tokenized(
        target,
        len(made),
        int(lengths.sum()) // size,
        int((lengths == 0).sum()),
        len(notes.skipped),
        run.text_bytes,
        run.seconds,
        learned,
        unread.get("on_open", 0),
        tuple(notes.summary(unread)["first"]),
    )


class _Run:
    """Records through the tokenizer into the writer."""

    _writer: Writer

    def __init__(self, core: Tokenizer, records: Records, notes: Notes, skip: bool, progress: bool) -> None:
        self._core, self._records, self._notes = core, records, notes
        self._skip, self._progress = skip, progress
        self.text_bytes = self.tokens = self.learned = self.documents = 0
        self.seconds = 0.0

    def go(self, writer: Writer) -> None:
        self._writer, begin = writer, time.monotonic()
        written = len(writer)
        first = self._notes.start(written)
        line = _progress.Line("tokenising", len(self._records), first) if self._progress else None
        pool = ThreadPoolExecutor(BATCHES, thread_name_prefix="leat-tokenize")
        waiting: deque[tuple[_Batch, Future[list[Any]]]] = deque()
        try:
            for batch in self._batches(first):
                waiting.append((batch, pool.submit(self._encode, batch)))
                if len(waiting) >= BATCHES:
                    self._put(*waiting.popleft(), line)
            while waiting:
                self._put(*waiting.popleft(), line)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            if line is not None:
                line.close()
            self._notes.close()
            self.seconds = time.monotonic() - begin
            self.documents = len(writer) - written

    def _batches(self, first: int) -> Iterator[_Batch]:
        batch = _Batch()
        for i in range(first, len(self._records)):
            try:
                text, spans, size, values = self._records.read(i)
            except (BrokenSampleError, BadText) as e:
                if not self._skip:
                    batch.error = e  # raised once everything before it is written
                    yield batch
                    return
                batch.bad.append((len(batch), i, e))
                continue
            batch.add(i, text, spans, size, values)
            if batch.bytes >= BATCH_BYTES or len(batch) >= BATCH_RECORDS:
                yield batch
                batch = _Batch()
        if len(batch) or batch.bad:
            yield batch

    def _encode(self, batch: _Batch) -> list[Any]:
        return self._records.encode(self._core, batch.texts, batch.spans) if batch.texts else []

    def _put(self, batch: _Batch, future: Future[list[Any]], line: _progress.Line | None) -> None:
        add: Callable[[list[Any]], int] = self._writer._handle.add
        bad = deque(batch.bad)
        for k, (ids, *masks) in enumerate(future.result()):
            while bad and bad[0][0] == k:
                self._leave_out(*bad.popleft()[1:])
            try:
                self._core.checked(ids, lambda i=batch.numbers[k]: self._records.place(i).words)  # type: ignore[misc]
            except InvalidError as e:
                if not self._skip:
                    raise
                self._leave_out(batch.numbers[k], e)
                continue
            self.tokens += len(ids)
            self.learned += sum(int(mask.sum()) for mask in masks)
            add([ids.astype(self._core.dtype, copy=False), *masks, *batch.values[k]])
        for _, number, fault in bad:
            self._leave_out(number, fault)
        if batch.error is not None:
            raise batch.error
        self.text_bytes += batch.bytes
        if line is not None:
            left_out = len(self._notes.skipped)
            note = f"{left_out} left out" if left_out else ""
            line.say(len(self._writer) + left_out, self.tokens, self.text_bytes, note)

    def _leave_out(self, number: int, e: Exception) -> None:
        place = e.place if isinstance(e, BadText) else self._records.place(number)
        self._notes.skip(number, len(self._writer), str(e), place.about, reason_of(e, place))


class _Batch:
    """Records on their way through the tokenizer, in their order."""

    def __init__(self) -> None:
        self.texts: list[Any] = []
        self.spans: list[Spans] = []
        self.numbers: list[int] = []
        self.values: list[list[Any]] = []
        self.bad: list[tuple[int, int, Exception]] = []  # before which of the texts, number of the record
        self.error: Exception | None = None  # of the record behind the last one
        self.bytes = 0

    def __len__(self) -> int:
        return len(self.texts)

    def add(self, number: int, text: Any, spans: Spans, size: int, values: list[Any]) -> None:
        self.texts.append(text)
        self.spans.append(spans)
        self.numbers.append(number)
        self.values.append(values)
        self.bytes += size
