"""Operators on sparse rows, such as the counts of genes in cells (:func:`leat.sparse`), and on dense ones like them."""

from typing import Annotated, Literal

from . import arguments as a
from .base import Operator

__all__ = ["Densify", "Log1p", "NormalizeTotal", "SparsePart"]


class Densify(Operator):
    """Makes sparse rows dense: shape ``(n,)``, 0 where there is no value. Dense rows stay as they are.

    >>> cells = {"X": [leat.Sparse(np.array([3, 1]), np.array([0, 2], np.int32), np.array([0, 2]), 4)]}
    >>> leat.apply({"X": [leat.ops.Densify()]}, cells, schema={"X": leat.sparse("int64", 4)})["X"].tolist()
    [[3, 0, 1, 0]]
    """


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
