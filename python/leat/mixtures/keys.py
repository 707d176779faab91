"""Names of the sources of leat.Mix.by and leat.Mix.inferred: their own, or as in ``by``, the values of their
columns."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .. import _leat

Path = tuple[str, ...]

NEAR_ONE = 1e-6  #: how far a sum of weights may be from 1
LARGEST = 1e100  #: weight: their sum is finite


def checked_weights(weights: Mapping[str, Any], of: str, normalize: bool | None) -> dict[str, float]:
    """The weights as floats that sum to 1. `of` names their owner in errors; `normalize` is None if it has no such
    argument.
    """
    found: dict[str, float] = {}
    for name, weight in weights.items():
        if isinstance(weight, (bool, np.bool_, str, bytes)) or weight is None:
            raise TypeError(f"{of}: the weight of {name!r} is a number, not {weight!r:.60}")
        try:
            found[name] = float(weight)
        except (TypeError, ValueError, OverflowError):
            raise TypeError(f"{of}: the weight of {name!r} is a number, not {weight!r:.60}") from None
        if not 0 <= found[name] <= LARGEST:
            raise ValueError(f"{of}: the weight of {name!r} is {found[name]:g}: weights are finite and not negative")
    total = math.fsum(found.values())
    if total <= 0:
        raise ValueError(f"{of}: the weights sum to {total:g}: at least one is above 0")
    if not normalize and abs(total - 1) > NEAR_ONE:
        hint = ": correct them, or say normalize=True, which divides by their sum" if normalize is not None else ""
        raise ValueError(f"{of}: the weights sum to {total:.9g}, not to 1{hint}")
    return {name: weight / total for name, weight in found.items()} if normalize else found


def unknown_name(name: Any, names: Sequence[str]) -> str:
    near = _leat.nearest(str(name), list(names))
    hint = f"; did you mean {near!r}?" if near else ""
    some = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
    return f"there is no source {name!r}: the sources are {some}{hint}"


def _plain(value: Any) -> tuple[bool, Any]:
    """A value that is told apart from others: 1 is not True."""
    if isinstance(value, np.generic):
        value = value.item()
    return isinstance(value, (bool, np.bool_)), value


class Keys:
    """The values that stand for sources, below each branch (a path of names; the root is the empty one)."""

    def __init__(self) -> None:
        self._sources: dict[Path, dict[Any, str]] = {}
        self._classes: dict[Path, dict[str, int]] = {}

    def take(self, path: Path, name: str, values: Sequence[Any], classes: Sequence[str] = ()) -> None:
        """`values`: those of the source, or branch, `name`; none: it has all that are not named. Numbers may be
        written as the names of their classes."""
        self._sources.setdefault(path, {})[frozenset(map(_plain, values)) if values else ...] = name
        self._classes.setdefault(path, {}).update({c: i for i, c in enumerate(classes)})

    def find(self, path: Path, key: Any) -> str | None:
        """The name below a branch that a key stands for; None: there is none."""
        known = self._sources.get(path, {})
        if key is ...:
            return known.get(...)
        values = key if isinstance(key, tuple) else (key,)
        classes = self._classes.get(path, {})
        try:
            found = known.get(frozenset(_plain(classes.get(v, v) if isinstance(v, str) else v) for v in values))
        except TypeError:  # it has no hash
            return None
        return found if found is not None else key if isinstance(key, str) and key in known.values() else None

    def branch(self, key: Any, names: Sequence[str]) -> Any:
        """The name that a key stands for at the root; a key that is a name already, or is unknown, stays."""
        if isinstance(key, str) and any(n == key or n.startswith(f"{key}/") for n in names):
            return key
        found = self.find((), key)
        return key if found is None else found

    def flat(
        self, weights: Mapping[Any, Any], names: Sequence[str], of: str, normalize: bool | None = None
    ) -> dict[str, Any]:
        """Weights by name. `of` names their owner in errors."""
        found: dict[str, Any] = {}
        self._flatten(weights, (), None, names, of, normalize, found)
        return found

    def _flatten(
        self,
        weights: Mapping[Any, Any],
        path: Path,
        share: float | None,
        names: Sequence[str],
        of: str,
        normalize: bool | None,
        found: dict[str, Any],
    ) -> None:
        here: dict[str, Any] = {}
        for key, given in weights.items():
            name = key if not path and isinstance(key, str) and key in names else self.find(path, key)
            if name is None:
                raise ValueError(f"{of}: {unknown_name('/'.join((*path, str(key))) if path else key, names)}")
            if name in here:
                raise ValueError(f"{of}: source {'/'.join((*path, name))!r} has two weights")
            here[name] = given
        plain = {
            name: given[0] if isinstance(given, (tuple, list)) and given else given for name, given in here.items()
        }
        if share is not None:
            plain = {n: w * share for n, w in checked_weights(plain, f"{of}: {'/'.join(path)}", normalize).items()}
        for name, given in here.items():
            whole = "/".join((*path, name))
            if not isinstance(given, (tuple, list)):
                if whole not in names:
                    raise ValueError(
                        f"{of}: {whole!r} is divided further: give (weight, {{...}}), or name its sources, such as "
                        f"{next(n for n in names if n.startswith(f'{whole}/'))!r}"
                    )
                if whole in found:
                    raise ValueError(f"{of}: source {whole!r} has two weights")
                found[whole] = plain[name]
                continue
            if len(given) not in (2, 3) or not isinstance(given[-1], Mapping) or whole in names:
                raise TypeError(f"{of}: the weight of {whole!r} is a number, not {given!r:.60}")
            above = {name: plain[name]}
            if share is None and not (isinstance(plain[name], (int, float, np.number)) and plain[name] >= 0):
                checked_weights(above, of, True)  # says how it is wrong
            self._flatten(given[-1], (*path, name), float(plain[name]), names, of, normalize, found)
