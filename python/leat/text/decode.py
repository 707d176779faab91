"""Tokens to text again, by the tokenizer that made them."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from ..data.packing import PackedRows
from ..data.tokenizers import named
from ..errors import ChangedError, InvalidError
from . import tokenizer as _tokenizer

if TYPE_CHECKING:
    from ..data.dataset import Dataset


class Decoder:
    """Decodes the tokens of a data set. `where`: its path, beside which a tokenizer is looked for."""

    def __init__(
        self, dataset: Dataset, tokenizer: Any = None, field: str | None = None, where: str = "", **options: Any
    ) -> None:
        self._dataset, self._where = dataset, where or "the data set"
        self.field = _field(dataset, field)
        self._padded = self.field != "doc_ids" and "doc_ids" in dataset.schema
        said = named(dataset)
        if len(said) > 1:
            raise InvalidError(
                f"{self._where}: its tokens were made by {' and by '.join(map(_named, said))}, so no tokenizer fits all"
            )
        self._said = said[0] if said else None
        path = self._found(where) if tokenizer is None else tokenizer
        if self._said is not None and self._said.get("kind") == "tiktoken" and isinstance(path, (str, os.PathLike)):
            for name in ("pattern", "special_tokens"):
                options[name] = self._said.get(name) if options.get(name) is None else options[name]
        self.core = _tokenizer.kept(path, **options)
        if self._said is not None and self._said["hash"] != self.core.hash:
            raise ChangedError(
                f"{self._where}: its tokens were made by {_named(self._said)}, and this tokenizer is "
                f"{_named(self.core.about)}"
            )

    def _found(self, where: str) -> str:
        if self._said is None:
            raise InvalidError(f"{self._where} does not say which tokenizer its tokens are of: name it (tokenizer=)")
        name = os.path.basename(str(self._said.get("file")))
        folders = [os.path.dirname(os.path.abspath(where))] if where else []
        for folder in [*folders, os.getcwd()]:
            path = os.path.join(folder, name)
            if name and os.path.isfile(path):
                return path
        raise FileNotFoundError(
            f"{self._where}: its tokens were made by {_named(self._said)}, which lies neither beside it nor in the "
            "present folder: name it (tokenizer=)"
        )

    def __call__(self, position: int) -> str:
        """The text of one sample; for a row of documents without its padding."""
        ids = np.asarray(self._dataset.stored(position, self.field)).reshape(-1)
        if self._padded:
            documents = np.asarray(self._dataset.stored(position, "doc_ids")).reshape(-1)
            ids = ids[documents >= 0] if len(documents) == len(ids) else ids
        packed = isinstance(self._dataset, PackedRows)
        number = position if packed else int.from_bytes(self._dataset._handle.ids(position, 1), sys.byteorder)
        where = f"{self._where}, {'row' if packed else 'sample'} {number}, field {self.field!r}"
        return self.core.decode(self.core.checked(ids, where, every=True))


def decode(dataset: Dataset, position: int, tokenizer: Any = None, *, field: str | None = None, **options: Any) -> str:
    """The text of a sample's tokens, special tokens included.

    Args:
        dataset: of tokens: a pack of :func:`leat.tokenize`, rows of :func:`leat.pack_rows` (without their padding),
            Megatron's.
        position: of the sample.
        tokenizer: as of :func:`leat.tokenize`. None: the file that the data set names, if it lies in the present
            folder.
        field: of the tokens; None: ``"tokens"``, or the only one that is an array of integers.
        options: ``pattern`` and ``special_tokens``, as of :func:`leat.tokenize`, for a tiktoken file.

    Raises:
        FileNotFoundError: the tokenizer is not there.
        OSError: it is not the one that made the tokens (:class:`leat.ChangedError`).
        ValueError: the data set does not name its tokenizer; or a token is beyond the vocabulary.

    >>> import tokenizers
    >>> words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"to": 0, "be": 1}, unk_token="to"))
    >>> leat.decode(leat.from_arrays(tokens=np.array([[0, 1, 0]], np.uint16)), 0, words)
    'to be to'
    """
    count = len(dataset)
    if not -count <= position < count:
        raise IndexError(f"position {position} is out of range: the data set has {count} samples")
    return Decoder(dataset, tokenizer, field, **options)(position % count)


def _named(about: Any) -> str:
    return f"{about.get('file')} ({about.get('hash')})"


def _field(dataset: Dataset, name: str | None) -> str:
    fits = [
        n
        for n, f in dataset.schema.items()
        if f.kind == "array" and len(f.shape) == 1 and "int" in f.dtype and n not in ("doc_ids", "positions")
    ]
    if name is not None:
        dataset._find(name)
        if name not in fits:
            raise TypeError(f"field {name!r} has no tokens: it is {dataset.schema[name]}")
        return name
    if "tokens" in fits:
        return "tokens"
    if len(fits) == 1:
        return fits[0]
    raise InvalidError(f"which field has the tokens? Name one (field=): there are {', '.join(dataset.schema)}")
