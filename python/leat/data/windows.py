"""Windows over the records of a data set: parts of one length, never stored."""

from __future__ import annotations

from .. import _leat, check
from .dataset import Dataset, no_dataset

TAILS = {"short": 0, "cover": 1, "drop": 2}


def windows(ds: Dataset, field: str, length: int, stride: int | None = None, tail: str = "short") -> Dataset:
    """Windows of `length` elements over a field of each record of `ds`, such as the residues of a genome or tokens.

    Nothing is copied or stored: the windows follow from the lengths of the records, of which 16 bytes each are kept. A
    window is read without the rest of its record, and verified as it is (docs/datasets.md). It is a data set like any
    other: views, ``where("begin = 0")``, `split`, `concat`, loaders, packed rows. Ids are numbers of windows.

    Windows of a record of n elements begin at 0, `stride`, 2 * `stride`, ... as long as these are below n and no window
    before has reached the end. An empty record has none. A stride above `length` leaves elements out between windows.

    Args:
        ds: the records, a data set or a view of one. `field` is of one dimension, which varies
            (``leat.field("uint8", (None,))``).
        length: elements of a window.
        stride: elements from the begin of one to that of the next; None: `length`, so that they touch.
        tail: the last window of a record, if it would have less than `length` elements: ``"short"``: it has what is
            left; ``"cover"``: it begins at n - `length` (of a record shorter than that, it is the record), so that the
            end is seen, whatever the stride; ``"drop"``: there is none.

    Returns:
        A data set with the fields `field` (of the same dtype; shape ``(None,)``, with ``"drop"`` ``(length,)``),
        ``name`` if `ds` has a text of that name, and ``begin`` (int64, the first element in its record).

    Raises:
        KeyError: `ds` has no such field.
        TypeError: it is no list that varies in length.
        ValueError: a number is not above 0, `tail` is no such word, or the field is called ``name`` or ``begin``.

    >>> records = leat.from_arrays(s=leat.Ragged(np.arange(14, dtype=np.uint8), [0, 11, 14]))
    >>> w = leat.windows(records, "s", 4, stride=3, tail="cover")
    >>> [(s["begin"], s["s"].tolist()) for s in w]
    [(0, [0, 1, 2, 3]), (3, [3, 4, 5, 6]), (6, [6, 7, 8, 9]), (7, [7, 8, 9, 10]), (0, [11, 12, 13])]
    """
    if not isinstance(ds, Dataset):
        raise no_dataset("windows takes a data set of records", ds)
    length = check.integer("length", length, 1, 1 << 62)
    stride = length if stride is None else check.integer("stride", stride, 1, 1 << 62)
    number = check.choice("tail", tail, TAILS)
    ds._find(field)
    handle = _leat.windows(ds._part(), field, length, stride, number)
    return Dataset(handle, ("windows", ds, field, length, stride, tail))
