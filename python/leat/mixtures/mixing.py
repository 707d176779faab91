"""Mixtures: several data sets as one stream, each with its share of the rows or of the tokens."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from .. import _leat, check
from ..data.column import opened
from ..data.dataset import Dataset
from ..data.one_of import handle_of, one_of_of
from ..data.packing import PackedRows, pack_of
from ..data.schema import Field
from ..data.tokenizers import Tokenizers, compare
from .by_value import all_parts, parts_of
from .keys import Keys, checked_weights, unknown_name

if TYPE_CHECKING:
    from .schedule import Schedule
    from .shown import Shown

Word = Literal["stop", "redistribute", "repeat"]
Exhausted = Word | Mapping[str, Word | tuple[Word, int]]

UNITS = {"samples": 0, "tokens": 1}
EXHAUSTED = {"stop": 0, "redistribute": 1, "repeat": 2}
MOST_SOURCES = 1024  #: the state has the rows that each has given, and stays small

NO_DATASET = (
    "a mixture has no samples of its own, and goes to a Loader only: join, zip, select or pack the sources before they "
    "are mixed; mix.map(function) does so for each"
)


class Mixed:
    """The common part of mixtures and of schedules of them."""

    def show(
        self,
        *,
        batch_size: int | None = None,
        epochs: int | None = None,
        steps: int | None = None,
        rows: int | None = None,
        log: Sequence[Mapping[str, Any]] | str | os.PathLike[str] | None = None,
        seed: int | None = None,
        shuffle: bool | None = None,
    ) -> Shown:
        """The result of a run of this mixture or schedule.

        It is computed from the plan, exactly, and nothing is read: the stated and the delivered shares, rows, tokens,
        passes of each source, and the row by which it has given each sample once. The result prints as a table, `save`
        draws it, and `as_dict` is plain data; ``leat mix show`` prints the same.

        Args:
            batch_size: rows of a batch of all ranks together. Then places are steps. Points that count steps need it.
            epochs, steps, rows: the length to show, in one of the three. None: whole epochs, as many as there are up to
                the last change of shares.
            log: decisions of a run, as :attr:`leat.Loader.log` has them, or a JSON file of them or of a state.
            seed, shuffle: as of the Loader; None: those of the state that `log` is a file of, else 0 and True. They
                matter only if rows differ in length, for their tokens.

        Raises:
            ValueError: steps without a batch size.
            leat.StateError: `log` is no log, or not one of this mixture.
            leat.RangeError: an epoch without rows.

        >>> ds = leat.open(path)
        >>> mix = leat.Mix({"small": (ds[:20], 0.5), "large": (ds[20:], 0.5)}, exhausted="repeat")
        >>> [(s.name, s.rows, s.passes, s.through and s.through.row) for s in mix.show().sources]
        [('small', 80, 4.0, 39), ('large', 80, 1.0, 160)]
        """
        from .shown import show

        return show(
            cast(Any, self),
            batch_size=batch_size,
            epochs=epochs,
            steps=steps,
            rows=rows,
            log=log,
            seed=seed,
            shuffle=shuffle,
        )

    def __bool__(self) -> bool:
        return True

    def __getitem__(self, key: Any) -> Any:
        raise TypeError(
            f"a {type(self).__name__} has no samples by position: its order is made by a Loader; `datasets` has the "
            "sources' data sets"
        )

    def __iter__(self) -> Any:
        raise TypeError(f"a {type(self).__name__} is iterated by a Loader: leat.Loader(mix, batch_size=32)")

    @cached_property
    def _rows(self) -> int:
        return rows_of_an_epoch(cast(Any, self))


class Mix(Mixed):
    """Several data sets as one stream of rows, each with its share: ``leat.Mix({"code": (ds1, 0.3), "books": (ds2,
    0.7)})``.

    A Mix goes to a Loader in the place of a data set. At every point of the stream each source has given its share of
    the rows so far, to within a small constant (docs/mixtures.md): nothing is drawn. A row comes from one source, and
    ``batch.domains`` says from which, by its number in ``mix.names``. The Loader's `shuffle` decides the order of
    samples within a source.

    Args:
        sources: ``{name: (data set, weight)}``. A data set may be the rows of :func:`leat.pack_rows`. All have the same
            fields. The weights sum to 1.
        unit: the unit of the weights: ``"samples"`` (rows), or ``"tokens"``: elements of `tokens_field`.
        exhausted: what happens when a source has no samples left in an epoch: ``"stop"``: the epoch ends;
            ``"redistribute"``: its share goes to the others in proportion, and the epoch ends when all such sources are
            through; ``"repeat"``: it begins again. One word, or ``{source: word}``, in which sources that are not named
            have ``"stop"``; ``("repeat", n)`` is at most n passes in an epoch, and then ``"redistribute"``. The name of
            a branch stands for all sources below it.
        epoch_rows: rows of an epoch. None: as many as the sources with ``"stop"`` and ``"redistribute"`` give; if all
            repeat, until the one that is largest relative to its share has been read once.
        tokens_field: the field whose elements are counted.
        normalize: divide the weights by their sum.
        tokenizers: ``"same"``: sources that say by which tokenizer their tokens were made must say the same one;
            ``"any"``: they need not.

    Raises:
        ValueError: weights that are negative, not finite, or do not sum to 1; a source with a weight and no samples;
            sources whose fields or tokenizers differ; names in `exhausted` that no source has.
        TypeError: something that is not a data set, or not a weight.

    >>> ds = leat.open(path)
    >>> mix = leat.Mix({"small": (ds[:20], 0.25), "large": (ds[20:], 0.75)}, exhausted="repeat")
    >>> batch = next(iter(leat.Loader(mix, batch_size=8, shuffle=True)))
    >>> [mix.names[k] for k in batch.domains].count("small")
    2
    """

    _instead = NO_DATASET

    def __init__(
        self,
        sources: Mapping[str, tuple[Dataset, float]],
        unit: Literal["samples", "tokens"] = "samples",
        exhausted: Exhausted = "stop",
        epoch_rows: int | None = None,
        tokens_field: str = "tokens",
        normalize: bool = False,
        tokenizers: Tokenizers = "same",
    ) -> None:
        if not isinstance(sources, Mapping):
            raise TypeError(
                'a Mix is made of a dict of sources: leat.Mix({"code": (ds1, 0.3), "books": (ds2, 0.7)}), not of '
                f"{type(sources).__name__}"
            )
        if not sources:
            raise ValueError("a Mix needs at least one source")
        if len(sources) > MOST_SOURCES:
            raise ValueError(
                f"a Mix has at most {MOST_SOURCES:,} sources, not {len(sources):,}: join those with like shares, "
                "leat.concat([...]), or let one source have several values, Mix.by(ds, column, {('a', 'b'): 0.1, ...})"
            )
        self._names: list[str] = []
        self._datasets: list[Dataset] = []
        given: dict[str, Any] = {}
        for name, source in sources.items():
            dataset, given[name] = _source(name, source)
            self._names.append(name)
            self._datasets.append(dataset)
        self._weights = list(checked_weights(given, "leat.Mix", check.flag("normalize", normalize)).values())
        self.unit: Literal["samples", "tokens"] = unit
        check.choice("unit", unit, UNITS)
        self._exhausted = _exhausted(exhausted, self._names)
        self.epoch_rows = None if epoch_rows is None else check.integer("epoch_rows", epoch_rows, 1)
        if not isinstance(tokens_field, str):
            raise TypeError(f"tokens_field is the name of a field, not {tokens_field!r:.60}")
        self.tokens_field = tokens_field
        #: samples of the data set that no weight names and that were therefore left out, by value (:meth:`by`)
        self.left_out: dict[str, int] = {}
        self._recipe: tuple[Any, ...] | None = None  # how by() or inferred() made it: smaller than lists of positions
        self.tokenizers: Tokenizers = tokenizers
        self._keys = Keys()  # further names of the sources
        self._check_sources()

    def _check_sources(self) -> None:
        first = fields_of(self._datasets[0])
        for name, dataset in zip(self._names[1:], self._datasets[1:], strict=True):
            if list((found := fields_of(dataset)).items()) != list(first.items()):
                raise ValueError(_differing(self._names[0], first, name, found))
        documents = _documents_of(self._datasets[0])
        for name, dataset in zip(self._names[1:], self._datasets[1:], strict=True):
            if (found := _documents_of(dataset)) != documents:
                what = "documents of the sources of a Mix"
                raise ValueError(_differing(self._names[0], documents, name, found, what))
        named = (f"source {name!r}" for name in self._names)
        compare("leat.Mix", zip(named, self._datasets, strict=True), self.tokenizers)
        for name, dataset, weight in zip(self._names, self._datasets, self._weights, strict=True):
            if weight > 0 and not len(dataset):
                raise ValueError(
                    f"source {name!r} has a weight of {weight:g} and no samples: leave it out, or give it weight 0"
                )
        if self.unit == "samples":
            return
        found_field = self._datasets[0].schema.get(self.tokens_field)
        if found_field is None:
            raise ValueError(
                f"unit='tokens' counts the elements of tokens_field={self.tokens_field!r}, and the sources have no "
                f"such field: they have {', '.join(first)}"
            )
        if found_field.kind != "array" or len(found_field.shape) != 1:
            raise ValueError(
                f"unit='tokens' counts the elements of tokens_field={self.tokens_field!r}, which is {found_field}, not "
                "a list of tokens, such as leat.field('uint16', (None,))"
            )
        for name, dataset, weight in zip(self._names, self._datasets, self._weights, strict=True):
            if weight > 0 and not self._token_sum(dataset):
                raise ValueError(
                    f"source {name!r} has a weight of {weight:g} and no tokens: all its {len(dataset)} samples are "
                    f"empty in {self.tokens_field!r}"
                )

    def _token_sum(self, dataset: Dataset) -> int:
        return int(token_lengths(dataset, self.tokens_field).sum())

    # ---- other ways to make one ----------------------------------------------------------------------------------

    @classmethod
    def by(
        cls,
        ds: Dataset,
        column: str | Sequence[str],
        weights: Mapping[Any, Any],
        *,
        others: Literal["error", "leave_out"] = "error",
        unit: Literal["samples", "tokens"] = "samples",
        exhausted: Exhausted = "stop",
        epoch_rows: int | None = None,
        tokens_field: str = "tokens",
        normalize: bool = False,
    ) -> Mix:
        """The samples of one data set by the value that they have in a column: ``leat.Mix.by(ds, "domain", {"code":
        0.3, "books": 0.7})``.

        A tuple of columns and nested dicts give shares of shares. Each dict sums to 1, and a pair is a weight and how
        it is divided: ``leat.Mix.by(ds, ("language", "domain"), {"en": (0.6, {"code": 0.3, "books": 0.7}), "de":
        0.4})`` has the sources ``en/code`` with 0.18, ``en/books`` with 0.42, and ``de`` with 0.4 of whatever domain. A
        branch may go on with a column of its own: ``{"en": (0.6, "topic", {...}), "de": (0.4, "license", {...})}``.

        Args:
            ds: samples; a column is a field of integers, truth values or texts.
            weights: by value. A tuple of values is one source: ``{("c", "c++"): 0.5, ...}`` is called ``c+c++``.
                ``...`` as a key stands for all values that are not named, called ``others``.
            others: samples whose value no weight names: ``"error"``, or ``"leave_out"``; then ``mix.left_out`` says how
                many of which value.

        The other arguments are those of :class:`Mix`.

        Raises:
            KeyError: `ds` has no such column.
            TypeError: the column has no values to choose by, such as floats or photos.
            ValueError: weights that do not sum to 1, a value that no sample has, or values that no weight names.

        >>> ds = leat.open(path)
        >>> mix = leat.Mix.by(ds, "label", {0: 0.5, (1, 2): 0.5}, others="leave_out")
        >>> mix.names, mix.left_out["9"]
        (['0', '1+2'], 10)
        """
        check.choice("others", others, {"error": 0, "leave_out": 1})
        parts, left_out, keys = parts_of(ds, column, weights, others == "leave_out", check.flag("normalize", normalize))
        ends = exhausted
        if isinstance(exhausted, Mapping):
            ends = {keys.branch(key, list(parts)): word for key, word in exhausted.items()}
        mix = cls(parts, unit, ends, epoch_rows, tokens_field, normalize)
        mix.left_out, mix._keys = left_out, keys
        said = _kept((column, weights, others, unit, exhausted, epoch_rows, tokens_field, normalize))
        mix._recipe = (_unpickle_by, ds, *said)
        return mix

    @classmethod
    def inferred(
        cls,
        ds: Dataset,
        column: str | Sequence[str],
        *,
        unit: Literal["samples", "tokens"] = "samples",
        exhausted: Exhausted = "stop",
        epoch_rows: int | None = None,
        tokens_field: str = "tokens",
    ) -> Mix:
        """A source per value of a column, or per combination of values of several, with the share that it has of the
        samples of `ds`, or with ``unit="tokens"`` of its tokens. Arguments and errors are those of :meth:`by`.

        >>> leat.Mix.inferred(leat.open(path), "label").weights["3"]
        0.1
        """
        parts, keys = all_parts(ds, column)
        ends = exhausted
        if isinstance(exhausted, Mapping):
            ends = {keys.branch(key, list(parts)): word for key, word in exhausted.items()}
        if unit == "tokens":
            sizes = {name: int(token_lengths(part, tokens_field).sum()) for name, part in parts.items()}
        else:
            sizes = {name: len(part) for name, part in parts.items()}
        total = sum(sizes.values())
        if not total:
            raise ValueError(f"there are no {unit} to infer shares from")
        shares = {name: (part, sizes[name] / total) for name, part in parts.items()}
        mix = cls(shares, unit, ends, epoch_rows, tokens_field)
        mix._keys = keys
        mix._recipe = (_unpickle_inferred, ds, *_kept((column, unit, exhausted, epoch_rows, tokens_field)))
        return mix

    def map(self, function: Callable[[Dataset], Dataset]) -> Mix:
        """The same mixture of ``function(data set)`` of each source, such as packed rows.

        >>> ds = leat.from_arrays(tokens=np.arange(24).reshape(6, 4), label=np.array([0, 0, 1, 1, 1, 1]))
        >>> mix = leat.Mix.by(ds, "label", {0: 0.5, 1: 0.5}).map(lambda part: leat.pack_rows(part, length=8))
        >>> [len(rows) for rows in mix.datasets]
        [1, 2]
        """
        mapped = {name: (function(ds), w) for name, ds, w in self._triples()}
        options = (self.unit, self.exhausted, self.epoch_rows, self.tokens_field)
        made = Mix(mapped, *options, tokenizers=self.tokenizers)
        made.left_out, made._keys = dict(self.left_out), self._keys
        return made

    def with_weights(self, weights: Mapping[Any, Any], normalize: bool = False) -> Mix:
        """The same sources with other weights, as the points of a :class:`leat.Schedule` have them. A source that is
        not named has weight 0. Sources of :meth:`by` may be named as there: by value, and nested.

        >>> ds = leat.open(path)
        >>> mix = leat.Mix({"a": (ds[:50], 0.5), "b": (ds[50:], 0.5)})
        >>> mix.with_weights({"b": 1}).weights
        {'a': 0.0, 'b': 1.0}
        """
        if not isinstance(weights, Mapping):
            raise TypeError(f"weights is a dict of numbers by source, not {weights!r:.60}")
        given = self._keys.flat(weights, self._names, "with_weights", check.flag("normalize", normalize))
        full = {name: given.get(name, 0.0) for name in self._names}
        made = Mix(
            {name: (ds, full[name]) for name, ds in zip(self._names, self._datasets, strict=True)},
            self.unit,
            self.exhausted,
            self.epoch_rows,
            self.tokens_field,
            normalize,
            self.tokenizers,
        )
        made.left_out, made._keys = dict(self.left_out), self._keys
        return made

    # ---- its properties ------------------------------------------------------------------------------------------

    def _triples(self) -> list[tuple[str, Dataset, float]]:
        return list(zip(self._names, self._datasets, self._weights, strict=True))

    @property
    def names(self) -> list[str]:
        """Names of the sources; ``batch.domains`` has their numbers."""
        return list(self._names)

    @property
    def datasets(self) -> list[Dataset]:
        """The data sets of the sources, in the order of `names`."""
        return list(self._datasets)

    @property
    def weights(self) -> dict[str, float]:
        """The share of each source; they sum to 1."""
        return dict(zip(self._names, self._weights, strict=True))

    @property
    def exhausted(self) -> dict[str, Word | tuple[Word, int]]:
        """The behaviour when each source has no samples left in an epoch."""
        return {
            name: (word, limit) if limit else word
            for name, (word, limit) in zip(self._names, self._exhausted, strict=True)
        }

    @property
    def schema(self) -> dict[str, Field]:
        """Name and type of each field; the same in all sources."""
        return self._datasets[0].schema

    @property
    def classes(self) -> list[str]:
        """Names of the classes of the field ``label``, if all sources have the same."""
        first = self._datasets[0].classes
        return first if all(ds.classes == first for ds in self._datasets[1:]) else []

    @cached_property
    def fingerprint(self) -> str:
        """128 bits in hex over the sources' fingerprints, the weights and everything else that says the order."""
        parts = (
            [(name, ds.fingerprint, weight) for name, ds, weight in self._triples()],
            self._exhausted,
            self.unit,
            self.epoch_rows,
            self.tokens_field if self.unit == "tokens" else None,
        )
        return hashlib.blake2b(repr(parts).encode(), digest_size=16).hexdigest()

    def __len__(self) -> int:
        """Rows of the first epoch. Later ones may differ by a few, because shares go on from the end of the last
        one."""
        return self._rows

    def _options(self, _: int) -> dict[str, Any]:
        """The mixture as the library takes it."""
        return {
            "sources": [
                {
                    "dataset": handle_of(source),
                    "pack": pack_of(source),
                    "one_of": one_of_of(source),
                    "share": share,
                    "exhausted": EXHAUSTED[word],
                    "limit": limit,
                }
                for source, share, (word, limit) in zip(self._datasets, self._weights, self._exhausted, strict=True)
            ],
            "unit": self.unit,
            "tokens_field": self.tokens_field,
            "epoch_rows": self.epoch_rows or 0,
            "schedule": [],
            "interpolate": "step",
        }

    def __reduce__(self) -> tuple[Any, ...]:
        if self._recipe is not None:
            return self._recipe[0], self._recipe[1:]
        options = (self.unit, self.exhausted, self.epoch_rows, self.tokens_field, False, self.tokenizers)
        return (_unpickle, (self._names, self._datasets, self._weights, options, self.left_out, self._keys))

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}: {weight:.4g}" for name, _, weight in self._triples()[:8])
        more = f", ... ({len(self._names)} sources)" if len(self._names) > 8 else ""
        return f"<leat.Mix of {self.unit} ({shown}{more})>"

    def _repr_html_(self) -> str:
        """Its display in a notebook: sources, sizes and shares."""
        return _html(self)


# ---- checks ----------------------------------------------------------------------------------------------------------


def _source(name: Any, source: Any) -> tuple[Dataset, Any]:
    if not isinstance(name, str) or "\0" in name:
        raise TypeError(f"the name of a source is a text without NUL, not {name!r:.60}")
    if isinstance(source, Dataset):
        raise TypeError(f"source {name!r} has no weight: {{{name!r}: (data set, weight)}}")
    if not isinstance(source, (tuple, list)) or len(source) != 2:
        raise TypeError(f"source {name!r} is (data set, weight), not {source!r:.60}")
    dataset, weight = source
    if hasattr(dataset, "_instead"):
        raise TypeError(
            f"source {name!r} is a {type(dataset).__name__}: mixtures do not nest; leat.Mix.by takes nested weights, "
            "or give the sources of the inner one with the products of the weights"
        )
    if not isinstance(dataset, Dataset):
        raise TypeError(f"source {name!r} has no leat.Dataset but {type(dataset).__name__}: leat.open(path) gives one")
    return dataset, weight


def _kept(given: Any) -> Any:
    """Arguments that the caller cannot change any more."""
    if isinstance(given, Mapping):
        return {key: _kept(value) for key, value in given.items()}
    if isinstance(given, (list, tuple)):
        return tuple(map(_kept, given))
    return given.item() if getattr(given, "shape", None) == () else given


def _exhausted(given: Any, names: Sequence[str]) -> list[tuple[Word, int]]:
    if not isinstance(given, Mapping):
        return [_word("exhausted", given)] * len(names)
    found: list[tuple[Word, int]] = [("stop", 0)] * len(names)
    for name in sorted(given, key=lambda n: len(str(n))):  # a branch before everything below it
        fitting = [i for i, n in enumerate(names) if n == name or (name not in names and n.startswith(f"{name}/"))]
        if not fitting:
            raise ValueError("exhausted: " + unknown_name(name, names))
        for i in fitting:
            found[i] = _word(f"exhausted of {name!r}", given[name])
    return found


def _word(what: str, given: Any) -> tuple[Word, int]:
    word, limit = given, 0
    if isinstance(given, (tuple, list)):
        if len(given) != 2:
            raise ValueError(f"{what} is a word, or ('repeat', passes), not {given!r:.60}")
        word, limit = given[0], check.integer(f"the limit in {what}", given[1], 1, 1 << 32)
        if word != "repeat":
            raise ValueError(f"{what}: only 'repeat' has a limit of passes, not {word!r}")
    check.choice(what, word, EXHAUSTED)
    return word, limit


def fields_of(dataset: Dataset) -> dict[str, Field]:
    """The fields that sources must have in common."""
    return {name: field for name, field in dataset.schema.items() if not field.derived}


def _documents_of(dataset: Dataset) -> dict[str, Field]:
    """The fields of the documents that its rows are packed of, as far as these take them."""
    if not isinstance(dataset, PackedRows):
        return {}
    schema = dataset.documents.schema
    return {name: schema[name] for name in (dataset.pack[0], "loss_mask") if name in schema}


def _differing(
    first: str,
    fields: Mapping[str, Field],
    second: str,
    others: Mapping[str, Field],
    what: str = "sources of a Mix",
) -> str:
    said = f"the {what} have the same fields"
    for name, field in fields.items():
        if name not in others:
            return f"{said}: {first!r} has {name!r} ({field}), {second!r} does not"
        if others[name] != field:
            return f"{said}: {name!r} is {field} in {first!r} and {others[name]} in {second!r}"
    if more := [name for name in others if name not in fields]:
        return f"{said}: {second!r} has {more[0]!r}, {first!r} does not"
    return (
        f"{said}, in the same order, and that of {first!r} and {second!r} differs: leat.open(path, fields=[...]) takes "
        "them in the order that it is given"
    )


def token_lengths(dataset: Dataset, name: str) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The number of elements of a list field in each sample."""
    field = dataset._find(name)[1]
    if field.kind != "array" or not field.shape:
        raise TypeError(f"field {name!r} is {field}, not a list of tokens, such as leat.field('uint16', (None,))")
    if field.shape[0] is not None:
        return np.full(len(dataset), math.prod(n or 1 for n in field.shape), np.int64)
    return dataset._lengths_of(name) * math.prod(n or 1 for n in field.shape[1:])


def source_options(dataset: Dataset | Mix | Schedule, global_batch: int) -> dict[str, Any]:
    """The data that a loader reads, among the options of ``_leat.Loader.open``."""
    if isinstance(dataset, Dataset):
        return {"dataset": handle_of(dataset), "pack": pack_of(dataset), "one_of": one_of_of(dataset)}
    return {"mix": dataset._options(global_batch)}


def planning(mixture: Mix | Schedule, batch: int, **options: Any) -> _leat.Loader:
    """A loader of the library whose plan alone is used."""
    fixed = (name for name, f in mixture.schema.items() if f.kind == "array" and None not in f.shape)
    field = next(fixed, next(iter(mixture.schema)))  # it has to deliver one: memory for batches is small then
    return opened(field, global_batch_size=batch, **source_options(mixture, batch), **options)


def rows_of_an_epoch(mixture: Mix | Schedule) -> int:
    """Rows of the first epoch, as the plan has them.

    Raises:
        RangeError: it has none.
    """
    core = planning(mixture, 1)
    try:
        core.mix_counts(0, 0, np.zeros(len(mixture.names), np.uint64))  # raises
        return core.steps()
    finally:
        core.close()


def _html(mix: Mix) -> str:
    from ..data.html import table, text

    head = f"<div><b>leat.Mix</b> of {text(mix.unit)}</div>"
    rows = (
        (name, f"{weight:.4g}", f"{len(ds):,}" + (" rows" if isinstance(ds, PackedRows) else ""), exhausted)
        for (name, ds, weight), exhausted in zip(mix._triples(), mix.exhausted.values(), strict=True)
    )
    left = f"<div>left out: {text(mix.left_out)}</div>" if mix.left_out else ""
    return f"<div>{head}{table(('source', 'weight', 'samples', 'exhausted'), rows)}{left}</div>"


def _unpickle(
    names: list[str],
    datasets: list[Dataset],
    weights: list[float],
    options: tuple[Any, ...],
    left_out: dict[str, int],
    keys: Keys | None = None,
) -> Mix:
    mix = Mix(dict(zip(names, zip(datasets, weights, strict=True), strict=True)), *options)
    mix.left_out, mix._keys = left_out, keys or Keys()
    return mix


def _unpickle_by(
    ds: Dataset, column: Any, weights: Any, others: Any, unit: Any, exhausted: Any, rows: Any, field: str, divide: bool
) -> Mix:
    return Mix.by(
        ds,
        column,
        weights,
        others=others,
        unit=unit,
        exhausted=exhausted,
        epoch_rows=rows,
        tokens_field=field,
        normalize=divide,
    )


def _unpickle_inferred(ds: Dataset, column: Any, unit: Any, exhausted: Any, rows: Any, field: str) -> Mix:
    return Mix.inferred(ds, column, unit=unit, exhausted=exhausted, epoch_rows=rows, tokens_field=field)
