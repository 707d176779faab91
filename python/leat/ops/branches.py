"""Branches: operators that hold others, and draw which of them run."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any

from . import arguments as a
from .base import Operator
from .functions import Map, Native

__all__ = ["RandomApply", "RandomChoice", "RandomOrder"]


class Branch(Operator):
    """The common part of RandomApply, RandomChoice and RandomOrder: `transforms`."""

    @property
    def _moves(self) -> bool:  # type: ignore[override]
        return any(op._moves for op in self.operators())

    def operators(self) -> Iterator[Operator]:
        """The operators in it, in the order of their JSON form, without those in their own branches."""
        for entry in self._values["transforms"]:
            yield from entry if isinstance(entry, tuple) else (entry,)

    def __repr__(self) -> str:
        shown = [f"{k}={_listed(v)!r}" for k, v in self._values.items()] + (
            [f"name={self.name!r}"] if self.name else []
        )
        return f"{type(self).__name__}({', '.join(shown)})"


def _listed(value: Any) -> Any:
    return [_listed(v) for v in value] if isinstance(value, tuple) else value


def _chain(parent: str, given: Any, place: str) -> tuple[Operator, ...]:
    """An operator, or the operators of a list, in which lists stand for their operators."""
    from . import from_json

    if isinstance(given, Sequence) and not isinstance(given, str):
        return tuple(op for i, one in enumerate(given) for op in _chain(parent, one, f"{place}[{i}]"))
    op = from_json(given) if isinstance(given, Mapping) else given
    if isinstance(op, (Map, Native)):
        raise TypeError(
            f"{parent} holds operators of the library, and {place} is a {type(op).__name__}, which runs a function: "
            "put it into the chain itself, and draw in the function"
        )
    if isinstance(op, Operator) and "epochs" in op._values:
        raise ValueError(f"{place} of {parent} is for some epochs only: give these to {parent}(...).epochs()")
    if not isinstance(op, Operator):
        raise TypeError(f"{parent} takes a list of leat.ops operators, and {place} is {op!r:.60}")
    return (op,)


def _list(parent: str, transforms: Any) -> Sequence[Any]:
    if not isinstance(transforms, Sequence) or isinstance(transforms, str):
        raise TypeError(f"{parent} takes a list of leat.ops operators, not {transforms!r:.60}")
    return transforms


def _alternatives(parent: str) -> Callable[[str, Any], tuple[Operator | tuple[Operator, ...], ...]]:
    """The check for operators, and lists of them."""

    def alternatives(what: str, transforms: Any) -> tuple[Operator | tuple[Operator, ...], ...]:
        given = _list(parent, transforms)
        if not 1 <= len(given) <= 256:
            raise ValueError(f"{parent} takes 1 to 256 operators or lists of them, not {len(given)}")
        found = [(one, _chain(parent, one, f"{what}[{i}]")) for i, one in enumerate(given)]
        return tuple(chain if isinstance(one, Sequence) else chain[0] for one, chain in found)

    return alternatives


class RandomApply(Branch):
    """Applies a list of operators with a probability, or leaves the image as it is.

    Args:
        transforms: operators from image to image; lists in the list stand for their operators.
        p: the probability that they run.

    For a row either all of them run or none. Boxes, masks and keypoints of a tuple follow. Functions in Python, and
    ``Native``, stand in no branch.

    >>> leat.ops.RandomApply([leat.ops.GaussianBlur(23)], p=0.2)
    RandomApply(transforms=[GaussianBlur(kernel_size=(23, 23), sigma=(0.1, 2.0))], p=0.2)
    """

    transforms: Annotated[Any, lambda what, given: _chain("RandomApply", _list("RandomApply", given), what)]
    p: a.Chance = 0.5


class RandomChoice(Branch):
    """Applies one of several operators.

    Args:
        transforms: operators from image to image, or lists of them. An empty list leaves the image as it is.
        p: how often each is drawn, relative to the others; None: all alike.

    If the results differ in size, that of the branch is open: a ``Resize`` or a crop has to follow before the batch.

    >>> sizes = [leat.ops.Resize((s, s)) for s in (16, 24)]
    >>> leat.ops.RandomChoice(sizes, p=[1, 3]).p
    (0.25, 0.75)
    """

    transforms: Annotated[Any, _alternatives("RandomChoice")]
    p: Annotated[Any, a.maybe(a.numbers)] = None

    def _set(self, name: str | None, **values: Any) -> None:
        weights, n = values["p"], len(values["transforms"])
        if weights is not None:
            if len(weights) != n or min(weights) < 0 or not 0 < sum(weights) < float("inf"):
                raise ValueError(
                    f"p is a number from 0 for each of the {n} transforms, one of them above 0, not {weights!r:.60}"
                )
            values["p"] = tuple(w / sum(weights) for w in weights)
        super()._set(name, **values)


class RandomOrder(Branch):
    """Applies all operators of a list, in an order that is drawn for each row.

    Args:
        transforms: operators from image to image, or lists of them, which keep their own order.

    >>> leat.ops.RandomOrder([leat.ops.ColorJitter(0.4), leat.ops.GaussianBlur(3)]).name is None
    True
    """

    transforms: Annotated[Any, _alternatives("RandomOrder")]


def visit(op: Operator, json: dict[str, Any], act: Callable[[Operator, dict[str, Any]], None]) -> None:
    """Calls `act` for an operator and those in its branches, each with its JSON form."""
    act(op, json)
    if isinstance(op, Branch):
        listed = [one for entry in json["transforms"] for one in (entry if isinstance(entry, list) else [entry])]
        for child, form in zip(op.operators(), listed, strict=True):
            visit(child, form, act)
