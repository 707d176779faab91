"""Operators on sparse rows, such as the counts of genes in cells (:func:`leat.sparse`), and on dense ones like them."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY
from typing import Annotated, Any, Literal

from . import arguments as a
from .base import Operator, named
from .tokens import MaybeToken, token

__all__ = ["Densify", "Log1p", "NormalizeTotal", "RankTokens", "SelectGenes", "SparsePart"]

MOST_GENES = 1 << 24


class Densify(Operator):
    """Makes sparse rows dense: shape ``(n,)``, 0 where there is no value. Dense rows stay as they are.

    >>> cells = {"X": [leat.Sparse(np.array([3, 1]), np.array([0, 2], np.int32), np.array([0, 2]), 4)]}
    >>> leat.apply({"X": [leat.ops.Densify()]}, cells, schema={"X": leat.sparse("int64", 4)})["X"].tolist()
    [[3, 0, 1, 0]]
    """


class ByGene(Operator):
    """Operators whose arguments may name genes: the columns of these follow from the data set."""

    def names_genes(self) -> bool:
        """Whether some argument does."""
        raise NotImplementedError

    def of_columns(self, genes: Sequence[str]) -> "ByGene":
        """The operator with column numbers in place of names, for rows whose columns are these genes."""
        raise NotImplementedError

    def behind(self, genes: Sequence[str] | None) -> Sequence[str] | None:
        """The genes of the columns of its result."""
        return genes

    def _with(self, **values: Any) -> "ByGene":
        made = named(self, self.name or "")
        object.__setattr__(made, "name", self.name)
        object.__setattr__(made, "_values", {**self._values, **values})
        return made


def _listed(what: str, values: Any) -> list[Any]:
    found = values.tolist() if hasattr(values, "tolist") else values
    if isinstance(found, (str, bytes)) or not isinstance(found, Iterable):
        raise TypeError(f"{what} is a list, not {values!r:.60}")
    found = list(found)
    if len(found) > MOST_GENES:
        raise ValueError(f"{what} has at most {MOST_GENES} entries, not {len(found)}")
    return found


def _some(names: Iterable[Any]) -> str:
    """Up to five of several, for messages."""
    found = list(names)
    return ", ".join(map(repr, found[:5])) + (f" and {len(found) - 5} more" if len(found) > 5 else "")


def _numbers_of(genes: Sequence[str]) -> dict[str, int]:
    return {name: number for number, name in enumerate(genes)}


def _check_once(wanted: Iterable[str], genes: Sequence[str], numbers: Mapping[str, int]) -> None:
    if len(numbers) < len(genes):
        counts = Counter(genes)
        if twice := [name for name in wanted if counts[name] > 1]:
            raise ValueError(
                f"several columns are of one gene, so that its name says none: {_some(twice)}; give column numbers"
            )


def _genes(what: str, given: Any) -> tuple[str, ...] | tuple[int, ...]:
    names = _listed(what, given)
    if not names:
        raise ValueError(f"{what} has at least one gene")
    if not all(isinstance(name, str) for name in names):
        try:
            names = [a.whole(0, (1 << 31) - 2)(what, name) for name in names]
        except TypeError:
            raise TypeError(f"{what} is a list of names, or of column numbers, not {given!r:.60}") from None
    if len(set(names)) < len(names):
        raise ValueError(f"{what} has {_some(n for n, count in Counter(names).items() if count > 1)} more than once")
    return tuple(names)


class SelectGenes(ByGene):
    """Keeps some columns, in another order: column i of the result is the one of the i-th gene of `names`. Sparse rows
    stay sparse, dense ones dense.

    Args:
        names: of genes, as the data set has them in ``ds.genes``; or column numbers, from 0.

    Names become column numbers when a Loader is opened, which raises a ValueError where the data set has no gene of
    that name, or several.

    >>> cells = {"X": np.array([[5, 0, 7, 8]])}
    >>> leat.apply({"X": [leat.ops.SelectGenes([3, 0, 1])]}, cells)["X"].tolist()
    [[8, 5, 0]]
    """

    names: Annotated[Sequence[str] | Sequence[int], _genes]

    def names_genes(self) -> bool:
        return isinstance(self.names[0], str)

    def of_columns(self, genes: Sequence[str]) -> ByGene:
        numbers, names = _numbers_of(genes), [str(name) for name in self.names]
        if missing := [name for name in names if name not in numbers]:
            raise ValueError(f"SelectGenes: the data set has no gene {_some(missing)}")
        _check_once(names, genes, numbers)
        return self._with(names=tuple(numbers[name] for name in names))

    def behind(self, genes: Sequence[str] | None) -> Sequence[str] | None:
        if self.names_genes():
            return [str(name) for name in self.names]
        columns = [int(column) for column in self.names]
        return None if genes is None or max(columns) >= len(genes) else [genes[column] for column in columns]

    def __repr__(self) -> str:
        return _short(self, "names")


def _short(op: Operator, *long: str) -> str:
    """As the repr of an operator, with long arguments by their number."""
    values = {k: f"<{len(v)} genes>" if k in long and len(v) > 8 else repr(v) for k, v in op._values.items()}
    values |= {"name": repr(op.name)} if op.name else {}
    return f"{type(op).__name__}({', '.join(f'{k}={v}' for k, v in values.items())})"


class NormalizeTotal(Operator):
    """Multiplies the values of a row so that they sum to `target`; a row whose sum is 0 stays. As
    ``scanpy.pp.normalize_total`` (Wolf et al., "SCANPY: large-scale single-cell gene expression data analysis", 2018).
    Sparse rows stay sparse. The result is float32, of float64 float64; the sum is of float64.

    Args:
        target: the sum, above 0.

    >>> cells = {"X": np.array([[1, 3, 0]])}
    >>> leat.apply({"X": [leat.ops.NormalizeTotal(8)]}, cells)["X"].tolist()
    [[2.0, 6.0, 0.0]]
    """

    target: Annotated[float, a.number(1e-30, 1e30)] = 1e4


class Log1p(Operator):
    """The natural logarithm of 1 + value, as float32, of float64 as float64. Sparse rows stay sparse.

    >>> leat.apply({"X": [leat.ops.Log1p()]}, {"X": np.array([[0, 1]])})["X"].tolist()
    [[0.0, 0.6931...]]
    """


class SparsePart(Operator):
    """The values or the columns of sparse rows, as lists. A Loader puts both behind a chain that leaves rows sparse,
    and makes a :class:`leat.Sparse` of them.

    Args:
        which: ``"values"`` or ``"columns"``, int32.
    """

    which: Annotated[Literal["values", "columns"], a.choice("values", "columns")]


def _tokens(what: str, given: Any) -> dict[str, int] | tuple[int, ...]:
    if isinstance(given, Mapping):
        return {_gene(what, name): token(f"{what}[{name!r}]", value) for name, value in given.items()}
    tokens = a.integers(what, _listed(what, given))
    if not tokens or not all(-1 <= v < 1 << 53 for v in tokens):
        raise ValueError(f"{what} is a token of each column, below 2**53, and -1 for a gene that has none")
    return tokens


def _gene(what: str, name: Any) -> str:
    if not isinstance(name, str):
        raise TypeError(f"{what} is a dict by names of genes, and {name!r:.60} is none")
    return name


def _median(what: str, value: Any) -> float:
    """0 for a gene that has none."""
    try:
        median = float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{what} is a number, not {value!r:.60}") from None
    if math.isinf(median):
        raise ValueError(f"{what} is a finite number, not {value!r}")
    return median if median > 0 else 0.0


def _medians(what: str, given: Any) -> dict[str, float] | tuple[float, ...]:
    if isinstance(given, Mapping):
        return {_gene(what, name): _median(f"{what}[{name!r}]", value) for name, value in given.items()}
    return tuple(_median(what, value) for value in _listed(what, given))


class RankTokens(ByGene):
    """The genes of a cell as tokens, the most strongly expressed one first: Geneformer's rank value encoding (Theodoris
    et al., "Transfer learning enables predictions in network biology", 2023). Gives int64 of any length.

    Args:
        tokens: the token of each gene: ``{name: token}``, or as many integers as there are columns, -1 for a gene that
            has none. Genes without a token are left out.
        medians: of the values of each gene that are not 0: ``{name: median}``, or as many numbers as there are columns.
            Genes whose median is not above 0, or NaN, are left out.
        max_length: the most tokens of a row, with `bos` and `eos`; the genes that come last are cut off.
        bos: put before the tokens of each row, such as that of ``<cls>``; None: nothing.
        eos: put behind them; None: nothing.

    Takes sparse rows, and dense ones. Values above 0 are divided by the median of their gene, as float64; the genes
    are sorted by this, falling, and by column where it is equal. Geneformer divides by the sum of the cell and
    multiplies by 10,000, too, which changes no rank, so that neither is done here; and its order of equal ones is not
    settled. A value that is NaN makes a broken sample.

    Names are those of ``ds.genes``. Names of tokens and medians that the data set lacks are left out, so that the whole
    vocabulary may be given; a gene that has a token and no median is an error when a Loader is opened.

    >>> rank = leat.ops.RankTokens([7, 8, 9, -1], [1, 2, 10, 1], 4, bos=0, eos=2)
    >>> cells = {"X": np.array([[1, 6, 5, 4], [0, 0, 3, 0]])}
    >>> [row.tolist() for row in leat.apply({"X": [rank]}, cells)["X"].unbind()]
    [[0, 8, 7, 2], [0, 9, 2]]
    """

    tokens: Annotated[Mapping[str, int] | Sequence[int], _tokens]
    medians: Annotated[Mapping[str, float] | Sequence[float], _medians]
    max_length: Annotated[int, a.whole(1, MOST_GENES)]
    _: KW_ONLY
    bos: MaybeToken = None
    eos: MaybeToken = None

    def _check(self) -> None:
        if self.max_length <= (self.bos is not None) + (self.eos is not None):
            raise ValueError(f"max_length has room for a gene beside bos and eos, and {self.max_length} has not")
        if not self.names_genes() and len(self.tokens) != len(self.medians):
            raise ValueError(f"there are {len(self.tokens)} tokens and {len(self.medians)} medians")

    def names_genes(self) -> bool:
        return isinstance(self.tokens, dict) or isinstance(self.medians, dict)

    def of_columns(self, genes: Sequence[str]) -> ByGene:
        numbers = _numbers_of(genes)
        tokens: Any = self.tokens
        medians: Any = self.medians
        for what, values in (("tokens", tokens), ("medians", medians)):
            if isinstance(values, dict):
                _check_once(values, genes, numbers)
            elif len(values) != len(genes):
                raise ValueError(f"RankTokens: {what} has {len(values)} entries, and rows have {len(genes)} columns")
        if isinstance(tokens, dict):
            if not any(name in tokens for name in genes):
                raise ValueError(
                    f"RankTokens: no gene of the data set has a token: it has {_some(genes)}, and tokens are of "
                    f"{_some(tokens)}"
                )
            tokens = tuple(tokens.get(name, -1) for name in genes)
        if isinstance(medians, dict):
            known = [name for name, number in zip(genes, tokens, strict=True) if number >= 0]
            if missing := [name for name in known if name not in medians]:
                raise ValueError(f"RankTokens: there is a token and no median of {_some(missing)}")
            medians = tuple(medians.get(name, 0.0) for name in genes)
        return self._with(tokens=tokens, medians=medians)

    def __repr__(self) -> str:
        return _short(self, "tokens", "medians")

    def __hash__(self) -> int:
        return hash((len(self.tokens), self.max_length, self.bos, self.eos, self.name))
