"""The arguments of a Loader, checked and put together before it is opened."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from .. import check
from ..data.dataset import Dataset
from ..data.packing import PackedRows
from ..device.table import Rows as DeviceRows
from ..genes import by_columns, genes_of
from ..mixtures.mixing import Mix
from ..mixtures.schedule import Schedule
from ..program import Entry, Outputs, sparse_outputs, sparse_parts
from ..stores.beside import Beside
from . import html, thd
from .batch import Form
from .buckets import Grouping, grouping_of


class Fixed:
    """An argument of a Loader that is said once, as it is opened: setting it later would change nothing. Subclasses of
    a user's may have attributes of these names.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, loader: Any, owner: Any = None) -> Any:
        try:
            return vars(loader)[self._name]
        except (KeyError, TypeError):
            raise AttributeError(f"a Loader has no attribute {self._name!r}") from None

    def __set__(self, loader: Any, value: Any) -> None:
        if "_core" in vars(loader) and type(loader).__module__.startswith("leat."):
            instead = "open another leat.Loader, which goes on from this one's state"
            if self._name in ("batch_size", "global_batch_size"):
                instead = "loader.set_batch_size() changes it"
            raise AttributeError(f"{self._name} is an argument of leat.Loader, which is open: {instead}")
        vars(loader)[self._name] = value


def fix_arguments(kind: Any) -> None:
    """Makes the arguments of a kind of Loader fixed that it does not tell of by itself."""
    for name in list(inspect.signature(kind.__init__).parameters)[1:]:
        if not hasattr(kind, name):
            setattr(kind, name, Fixed(name))


def named(dataset: Any) -> str:
    """A data set for people who are to tell it from others."""
    base, text = dataset, repr(dataset)
    while isinstance(base, Dataset) and isinstance(base._recipe[0], Dataset):  # a view
        base = base._recipe[0]
    if isinstance(base, Dataset) and base._recipe[0] == "open":
        text = f"{text} of {base._recipe[1]}"
    return f"{text:.300}, fingerprint {dataset.fingerprint[:8]}"


def order_told(order: int, arrays: str | None) -> str:
    """An order for ranks to compare; `arrays`: the hash of the arrays that say it."""
    name = next(name for name, number in check.ORDERS.items() if number == order)
    return name if arrays is None else f"{name} {arrays[:16]}"


def check_together(
    dataset: Any, sampler: Any, in_order: Any, mixture: Any, yields: Any, share: Any, tp_read: Any
) -> None:
    """Refuses what is of another type, and what does not go together."""
    if not isinstance(dataset, (Dataset, Mix, Schedule)):
        raise TypeError(f"dataset is a leat.Dataset, not {type(dataset).__name__}: leat.open(path) gives one")
    if not isinstance(dataset, Dataset) and sampler is not None:
        raise ValueError("sampler does not go with a mixture, which says itself what comes: leave it out")
    if mixture is not None and not in_order:
        raise ValueError("in_order=False does not go with mixture=, which decides from some planned batch on")
    if yields not in ("dict", "tuple"):
        raise ValueError(f"yields is 'dict' or 'tuple', not {yields!r}")
    if share not in (None, "job"):
        raise ValueError(f"share is 'job' or None, not {share!r:.60}")
    if share and tp_read == "first":
        raise ValueError("tp_read='first' and share='job' both let one process read for others: give one of them")


class Rows(NamedTuple):
    """The rows of a loader, and how many of them a batch has."""

    dataset: Any
    outputs: Outputs | None
    batch_size: int | None
    buckets: Grouping | None  #: batches by size; a row is a group of samples
    lines: PackedRows | None  #: a row is sequences, one behind the other


def rows_of(
    dataset: Any,
    outputs: Outputs | None,
    plain: bool,
    batch_size: int | None,
    global_batch_size: int | None,
    batch_tokens: int | None,
    **sizes: Any,
) -> Rows:
    """The rows of a data set, by the sizes of batches that were asked for. `plain`: in order or shuffled."""
    grouped = grouping_of(dataset, batch_size, global_batch_size, batch_tokens, **sizes)
    if grouped is not None:
        if not plain:
            by = "of prompts" if grouped.firsts is not None else "by length" if grouped.by_length else "by cost"
            raise ValueError(f"batches {by} are in order or shuffled: leave sampler, Blocks and in_order out")
        batch_size = 1  # of a rank, one group of samples
    outputs = sparse_parts(by_columns(outputs, genes_of(dataset)), dataset.schema)
    dataset, batch_size = thd.rows_of(dataset, batch_tokens, batch_size, global_batch_size)
    lines = dataset if grouped is None and batch_tokens is not None and isinstance(dataset, PackedRows) else None
    if lines is not None:
        outputs = thd.outputs_of(outputs, lines)
    if isinstance(dataset, PackedRows) and outputs is not None and dataset.pack[0] in outputs:
        outputs = {**{name: [] for name in dataset.made_beside}, **outputs}
    if (batch_size is None) == (global_batch_size is None):
        raise ValueError("give batch_size (rows per rank) or global_batch_size (rows of all ranks), one of them")
    return Rows(dataset, outputs, batch_size, grouped, lines)


def check_gathered(gathered: Mapping[str, Any], taken: Sequence[str], framework: str) -> None:
    """Refuses what is no pair of rows and an output that there is."""
    for name, given in gathered.items():
        if len(given) != 2 or not isinstance(given[0], DeviceRows) or not isinstance(given[1], str):
            raise TypeError(
                f"store {name!r} is a leat.Store, or (leat.device.rows(...), the output with their numbers)"
            )
        if given[1] not in taken:
            raise ValueError(
                f"store {name!r}: no output {given[1]!r} has the numbers of rows: {', '.join(taken)} are there"
            )
        if name in taken:
            raise ValueError(f"{name}: an output and rows that are gathered have the same name")
        if framework == "numpy" and given[0].device != "cpu":
            raise ValueError(
                f"store {name!r}: {given[0].device} gathers its rows into tensors, which framework='numpy' has none "
                "of: open the Loader with framework='torch', or the rows with device='cpu'"
            )


def form_of(
    rows: Rows,
    outputs: list[Entry] | None,
    framework: str,
    stores: Mapping[str, Any] | None,
    seed: int,
    marks: bool,
    looks: bool,
) -> Form:
    """The form of batches, with the stores whose values come with them; `marks`: of :class:`Beside`; `looks`: of
    :class:`Form`."""
    form = Form(check.framework(framework))
    form.looks = looks
    if rows.lines is not None:
        form.length, form.multiple = rows.lines.length, rows.lines.multiple
    if isinstance(rows.dataset, PackedRows):
        packed = rows.dataset.pack[0]
        form.tokens = [packed] if outputs is None else [e.names[0] for e in outputs if e.fields == (packed,)]
    form.sparse = sparse_outputs(outputs, rows.dataset.schema)
    form.meaning = html.meaning(rows.dataset.schema, rows.dataset.classes, outputs)
    taken = list(rows.dataset.schema) if outputs is None else [name for entry in outputs for name in entry.outputs]
    if isinstance(stores, Mapping):
        form.gathered = {name: given for name, given in stores.items() if isinstance(given, tuple)}
        check_gathered(form.gathered, taken, form.framework)
        stores = {name: store for name, store in stores.items() if name not in form.gathered}
        taken += form.gathered
    if stores:
        form.beside = Beside(stores, taken, seed, form.framework)
        form.beside.check(rows.dataset)
        form.beside.marks = marks
    return form
