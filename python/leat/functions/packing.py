"""Rows of a fixed number of tokens, made of documents by operators, or as they are."""

from __future__ import annotations

from collections.abc import Sequence

from ..data.dataset import Dataset
from ..data.packing import PackedRows, packed
from ..ops import Operator
from ..program import program_to_json


def pack_rows(
    ds: Dataset,
    field: str = "tokens",
    length: int = 2048,
    how: str = "cut",
    *,
    bos: int | None = None,
    eos: int | None = None,
    fill: int = 0,
    seed: int = 0,
    multiple: int = 1,
    chain: Sequence[Operator] | None = None,
) -> PackedRows:
    """Rows of `length` tokens that are made of documents: nothing is copied or stored.

    Each document is a sample of `ds`. A row has the fields

    - `field`, shape ``(length,)``, of the dtype that is stored;
    - ``doc_ids``, int64: the sample id of the document that each token is of, -1 on padding;
    - ``positions``, int64: 0, 1, ... from each document's first token in the row on;
    - ``loss_mask``, bool: False on padding, and for tokens whose own ``loss_mask`` (bool or uint8, one for each) is 0.
      Then `bos` is False, and `eos` is True.

    Ways to make rows:

    - ``"cut"``: the documents of an epoch are joined in its order and cut every `length` tokens, as for pre-training
      ("concatenate and chunk"). The tokens after the last cut are a row that is padded with `fill`; a Loader with
      ``drop_last=True`` drops it. With ``shuffle=True`` a Loader permutes the documents of each epoch, and then the
      rows, so that each epoch has other rows.
    - ``"best_fit"``: no document is cut that fits into a row. They are packed best-fit decreasing (Ding et al., "Fewer
      Truncations Improve Language Modeling", ICML 2024), in never more rows than first-fit decreasing needs. Rows are
      the same in each epoch; ``shuffle=True`` permutes them. For documents of one length, `seed` decides which comes
      first, so that neighbours in `ds` come into different rows.
    - ``"pad"``: one document a row, then `fill`.
    - ``"ragged"``: for attention over sequences of varying length (THD). A Loader takes ``batch_tokens=N`` in the place
      of a batch size: a batch of a rank has documents of at most N tokens together, one behind the other, without
      padding, put together as by ``"best_fit"`` (docs/packing.md). As a data set it has the rows of ``"best_fit"``.

    But for ``"cut"``, a document longer than a row is cut into pieces of `length` and the rest: the pieces are rows,
    and the rest is treated as a document. Documents without a token are in no row.

    Args:
        ds: documents; `field` is of integers, with one dimension, which may vary (``leat.field("uint16", (None,))``).
        length: tokens of a row; at most 2^24 with ``"best_fit"``.
        bos, eos: a token that is put before or after each document; it counts as the document's.
        fill: the token on padding.
        multiple: with ``"best_fit"`` and ``"ragged"``, each document (or piece of one) is padded to a multiple of so
            many tokens, which count as the row's: as Transformer Engine wants for FP8, and context parallelism.
            ``batch["cu_seqlens_padded"]`` then has the starts of sequences.
        chain: operators that make the tokens of each document as it is packed, with draws of their own in each epoch:
            ``[RandomSlice(1022), Lookup("esm2"), MaskTokens(...)]`` packs residues of proteins. Lengths follow from
            those of the documents, so these are not read before. Labels of MaskTokens are the field ``NAME.labels``,
            -100 on padding; the loss mask of Lookup is that of the row. Not with `bos`, `eos` and documents that have a
            ``loss_mask``. As a data set, rows show the draws of `seed`, in the first epoch.

    Raises:
        KeyError: `ds` has no such field.
        TypeError: it is no field of tokens; the chain makes no lists whose lengths follow from those of documents.
        ValueError: `how` is not known, a token does not fit the dtype, or `length` is no multiple of `multiple` (of
            ``"ragged"`` rows it is rounded down to one).

    >>> import leat, numpy as np, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "documents.leat")
    >>> with leat.Writer(path, {"tokens": leat.field("uint16", (None,))}) as w:
    ...     for n in (5, 2, 4, 3):
    ...         _ = w.add(tokens=np.full(n, n, np.uint16))
    >>> rows = leat.pack_rows(leat.open(path), length=7, how="best_fit")
    >>> [rows[i]["tokens"].tolist() for i in range(len(rows))]
    [[5, 5, 5, 5, 5, 2, 2], [4, 4, 4, 4, 3, 3, 3]]
    """
    program = None if chain is None else program_to_json({field: list(chain)})
    return packed(ds, field, length, how, bos, eos, fill, seed, multiple, program)
