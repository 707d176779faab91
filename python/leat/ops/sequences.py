"""Residues: sequences of proteins, DNA and RNA as letters, and tokens of them."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY
from typing import Annotated, Any, Literal

from . import arguments as a
from .base import Operator
from .tokens import token

__all__ = ["Lookup", "RandomSlice", "ReverseComplement"]

#: tables that have names: the tokens of `unknown`, `bos` and `eos`
_NAMED: dict[str, tuple[int | None, ...]] = {"esm2": (3, 0, 2), "nucleotide": (None, None, None)}


def _table(what: str, table: Any) -> Any:
    if isinstance(table, str):
        return a.choice(*_NAMED)(what, table)
    if isinstance(table, Mapping):
        for key in table:
            if not (isinstance(key, str) and len(key) == 1 and "\0" < key < "\x80"):
                raise ValueError(f"{what} has a token for each of some ASCII characters, and {key!r:.60} is none")
        if not table:
            raise ValueError(f"{what} has a token for each of some characters, and is empty")
        return {key: token(f"{what}[{key!r}]", value) for key, value in table.items()}
    tokens = a.integers(what, table.tolist() if hasattr(table, "tolist") else table)
    if len(tokens) != 256 or not all(-1 <= v < 1 << 53 for v in tokens):
        raise ValueError(f"{what} has a token for each of 256 bytes, -1 for none; not {len(tokens)} numbers")
    return tokens


def _other(what: str, value: Any) -> int | str | None:
    return value if value is None or value == "default" else token(what, value)


def _letters(what: str, letters: Any) -> str | None:
    if letters is None or (isinstance(letters, str) and letters and letters.isascii() and "\0" not in letters):
        return letters
    raise ValueError(f"{what} is ASCII letters, such as 'ACGT', not {letters!r:.60}")


class ReverseComplement(Operator):
    """Reads the other strand: with a probability, the sequence is reversed, and each nucleotide becomes its complement.

    Args:
        p: the probability.

    Takes and gives uint8 of shape ``(length,)``, of any length or a fixed one. Codes are those of IUPAC, in upper and
    lower case: A and T, C and G, R and Y, K and M, B and V, D and H change places, S, W and N stay, U becomes A. Other
    bytes, such as ``-``, only change their place.

    >>> both = leat.apply({"dna": [leat.ops.ReverseComplement(1.0)]}, {"dna": [np.frombuffer(b"AACGt-n", np.uint8)]})
    >>> both["dna"].values.tobytes()
    b'n-aCGTT'
    """

    p: a.Chance = 0.5


class RandomSlice(Operator):
    """Takes a piece of `n` elements of a list, from a place that is drawn: all ``length - n + 1`` are equally likely.

    Args:
        n: elements. A list that is shorter, or as long, stays whole.

    Takes and gives a list of numbers, shape ``(length,)``, of residues, tokens or whatever there is one of for each. If
    two chains have the same operator object, they take the same piece of lists that are equally long. Before
    :class:`Lookup` it counts residues: 1,024 tokens with `bos` and `eos` are ``RandomSlice(1022)``.

    >>> made = leat.apply({"x": [leat.ops.RandomSlice(3)]}, {"x": [np.arange(9), np.arange(2)]})
    >>> [len(x) for x in made["x"].unbind()], np.diff(made["x"].unbind()[0]).tolist()
    ([3, 2], [1, 1])
    """

    n: Annotated[int, a.whole(1, 1 << 53)]


class Lookup(Operator):
    """Makes tokens of letters: uint8 of shape ``(length,)`` becomes int64, with `bos` and `eos` one or two longer.

    Args:
        table: ``{"A": 5, ...}``, a token for each of some characters; 256 integers, the token of each byte, -1 for
            none; or a name:

            ``"esm2"``: the 33 tokens of ESM-2 (Lin et al., "Evolutionary-scale prediction of atomic-level protein
            structure with a language model", 2023): ``<cls> <pad> <eos> <unk>`` are 0 to 3, ``L A G V S E R T I D P K Q
            N F Y M H W C X B U Z O . -`` 4 to 30, ``<null_1>`` 31, ``<mask>`` 32. Lower case is unknown there.

            ``"nucleotide"``: IUPAC's codes of nucleotides in upper and lower case, and ``-``, are the bytes that they
            are, ``A`` 65: the vocabulary of Evo 2 (Brixi et al., "Genome modeling and design across all domains of
            life with Evo 2", 2025), where 0 ends a sequence and 1 is padding.
        unknown: the token of bytes without an entry. None: such a byte is a broken sample, and the error names it, its
            place in the list as it comes here, and the sample.
        upper: lower case letters get the tokens of upper case.
        bos: put before the tokens of each row; None: nothing.
        eos: put behind them; None: nothing.
        loss_mask: the letters, in either case, that have a loss, such as ``"ACGT"``: one more output,
            ``"<name>.loss_mask"``, bool, as long as the tokens, is True for them, and False for all others, `bos` and
            `eos`. None: there is no such output.

    ``"default"`` is what the table says: ``unknown=3, bos=0, eos=2`` of ``"esm2"``, None of others. Behind it may stand
    :class:`MaskTokens`, :class:`ToDtype`, which concern the tokens alone, and :class:`PadTo`, which fills a mask with
    False and labels with -100.

    >>> esm2 = leat.ops.Lookup("esm2")
    >>> esm2
    Lookup(table='esm2', unknown=3, upper=False, bos=0, eos=2, loss_mask=None)
    >>> protein = {"sequence": [np.frombuffer(b"MKV*", np.uint8)]}
    >>> leat.apply({"sequence": [esm2, leat.ops.PadTo(8, fill=1)]}, protein)["sequence"]
    array([[ 0, 20, 15,  7,  3,  2,  1,  1]])
    >>> dna = {"sequence": [np.frombuffer(b"ACgN", np.uint8)]}
    >>> made = leat.apply({"sequence": [leat.ops.Lookup("nucleotide", loss_mask="ACGT")]}, dna)
    >>> made["sequence"].values.tolist(), made["sequence.loss_mask"].values.tolist()
    ([65, 67, 103, 78], [True, True, True, False])
    """

    table: Annotated[Mapping[str, int] | Sequence[int] | str, _table]
    _: KW_ONLY
    unknown: Annotated[int | Literal["default"] | None, _other] = "default"
    upper: a.Flag = False
    bos: Annotated[int | Literal["default"] | None, _other] = "default"
    eos: Annotated[int | Literal["default"] | None, _other] = "default"
    loss_mask: Annotated[str | None, _letters] = None
    part: Annotated[str | None, a.maybe(a.choice("loss_mask"))] = None

    def _set(self, name: str | None, **values: Any) -> None:
        table = values["table"]
        named = _NAMED[table] if isinstance(table, str) else (None, None, None)
        for key, default in zip(("unknown", "bos", "eos"), named, strict=True):
            values[key] = default if values[key] == "default" else values[key]
        super()._set(name, **{k: v for k, v in values.items() if k != "part" or v is not None})

    def __hash__(self) -> int:
        return hash(repr(self))

    def to_json(self) -> dict[str, Any]:
        """As that of other operators, but with None where it is not what the table says."""
        return super().to_json() | {key: self._values[key] for key in ("unknown", "bos", "eos")}
