"""Names of genes in the arguments of operators, and the columns that they are of in a data set."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from .ops.base import Operator
from .ops.cells import ByGene
from .program import Out, Outputs

#: the names of the columns of a field; None: they have none
Genes = Callable[[str], Sequence[str] | None]


def genes_of(dataset: Any) -> Genes:
    """Those of a data set, or of all that are mixed, by ``ds.genes``."""

    def found(field: str) -> list[str] | None:
        known: list[list[str]] = []
        for one in getattr(dataset, "datasets", [dataset]):
            genes = one._genes_of(field) if hasattr(one, "_genes_of") else None
            if genes is None or field not in one.schema or one.schema[field].shape != (len(genes),):
                return None
            known.append(genes)
        if any(genes != known[0] for genes in known[1:]):
            raise ValueError(
                "the data sets that are mixed have different genes: names say no column; open them with the same genes"
            )
        return known[0]

    return found


def no_genes(field: str) -> None:
    """Of samples that have none."""


def by_columns(outputs: Outputs | None, genes: Genes) -> Outputs | None:
    """The outputs, with column numbers where operators name genes. An operator that stands in several chains stays one.

    Raises:
        ValueError: an operator names genes, and the columns of its field have no names, or not these.
    """
    made: dict[tuple[int, tuple[str, ...]], Operator] = {}
    if not isinstance(outputs, Mapping) or not any(_named(_operators(value)) for value in outputs.values()):
        return outputs
    found: dict[str | tuple[str, ...], Any] = {}
    for name, value in outputs.items():
        operators, field = _operators(value), value.field if isinstance(value, Out) else name
        found[name] = value
        if isinstance(field, str) and _named(operators):
            chain = _of_columns(str(name), field, operators, genes(field), made)
            found[name] = replace(value, chain=chain) if isinstance(value, Out) else chain
    return found


def _operators(value: Any) -> list[Any]:
    """Those of an output; what else it may be is refused later."""
    chain = value.chain if isinstance(value, Out) else value
    return [chain] if isinstance(chain, Operator) else list(chain) if isinstance(chain, (list, tuple)) else []


def _named(operators: list[Any]) -> bool:
    return any(isinstance(op, ByGene) and op.names_genes() for op in operators)


def _of_columns(
    output: str,
    field: str,
    operators: list[Any],
    genes: Sequence[str] | None,
    made: dict[tuple[int, tuple[str, ...]], Operator],
) -> list[Any]:
    chain = []
    for op in operators:
        if isinstance(op, ByGene) and op.names_genes():
            if genes is None:
                raise ValueError(
                    f"output {output!r}: {type(op).__name__} names genes, and the columns of {field!r} have no names "
                    "here: give column numbers"
                )
            key = (id(op), tuple(genes))
            if key not in made:
                made[key] = op.of_columns(genes)
            chain.append(made[key])
        else:
            chain.append(op)
        genes = op.behind(genes) if isinstance(op, ByGene) else genes
    return chain
