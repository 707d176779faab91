"""A loader's sampler between two epochs: what is known of it, how it is put back, and how a state of it is checked."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from typing import Any

from torch.utils.data import (
    BatchSampler,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from torch.utils.data.distributed import DistributedSampler

from ..errors import StateError
from ..saved import damaged
from .generators import (
    GLOBAL,
    attributes_in,
    checked,
    generators_in,
    mark,
    objects_in,
    set_attributes,
    set_state,
    state_of,
)

#: PyTorch's samplers whose batches follow from their draws before the first one
AT_ONCE = {SequentialSampler, SubsetRandomSampler, WeightedRandomSampler, DistributedSampler, list, tuple, range}


class Watch:
    """The known facts of a loader's sampler beyond one epoch."""

    def __init__(self, loader: Any) -> None:
        self.attributes = attributes_in(loader)  # when the loader was made
        self.changed: set[str] = set()  # those that differ, or differed when a state was taken
        self.drawn: set[str] = set()  # global generators that the sampler drew from, in any epoch
        self.warned = False

    def now(self, loader: Any) -> dict[str, Any]:
        """The attributes that have changed since the loader was made."""
        found = attributes_in(loader)
        self.changed |= {
            name for name, value in found.items() if name not in self.attributes or self.attributes[name] != value
        }
        return {name: found[name] for name in sorted(self.changed) if name in found}

    def changed_since(self, loader: Any) -> dict[str, Any]:
        """The attributes that differ now, as they were when the loader was made."""
        now = attributes_in(loader)
        return {name: value for name, value in self.attributes.items() if name in now and now[name] != value}


class Known:
    """The sampler of a loader, and what is known of it: generators that it may draw from, and states inside it."""

    def __init__(self, loader: Any) -> None:
        self.loader, self.watch = loader, loader._watch
        self.source = source = loader._index_sampler
        whole = type(source) is BatchSampler
        self.sampler = sampler = source.sampler if whole else source
        self.theirs = type(sampler) in AT_ONCE or (
            type(sampler) is RandomSampler
            and (
                sampler.generator is None or not (sampler.replacement or sampler.num_samples > len(sampler.data_source))
            )
        )
        self.stateful = next((s for s in ((source, sampler) if whole else (source,)) if _is_stateful(s)), None)
        self.seeded = self.theirs and type(sampler) is RandomSampler and sampler.generator is None
        self.generators = {} if self.seeded else generators_in(loader)
        if self.theirs:
            self.generators = {n: g for n, g in self.generators.items() if n not in ("random", "numpy")}
        inside = [] if self.theirs or self.stateful is not None else objects_in(loader)
        self.inner = {path: each for path, each in inside if each is not source and _is_stateful(each)}
        self.restored: set[str] = set()  # generators that the sampler's own state has put back

    def between(self) -> dict[str, Any]:
        """The data that another process needs to read the epoch that begins next."""
        held = self.generators.keys() - {*GLOBAL, "generator"} | (set() if self.theirs else self.watch.drawn)
        found: dict[str, Any] = {
            "now": {name: state_of(self.generators[name]) for name in sorted(held)},
            "attributes": {} if self.theirs else self.watch.now(self.loader),
            "inner": {path: each.state_dict() for path, each in self.inner.items()},
        }
        if self.stateful is not None:
            found["sampler"] = self.stateful.state_dict()
        return {name: value for name, value in found.items() if value}

    @contextlib.contextmanager
    def drawing(self) -> Iterator[dict[str, Any]]:
        """Notes which global generators are drawn from within, and gives their states before, by name, at its end."""
        before = {name: mark(self.generators[name]) for name in GLOBAL if name in self.generators}
        drawn = dict[str, Any]()
        try:
            yield drawn
        finally:
            for name, marked in before.items():
                if mark(self.generators[name]) != marked:
                    drawn[name] = state_of(self.generators[name], marked)
            self.watch.drawn |= drawn.keys()

    def put_back(
        self, saved: dict[str, Any], others: bool = True, told: bool | None = None, drawn: Collection[str] = ()
    ) -> None:
        """Puts the sampler where it was when `between` said this.

        Args:
            others: attributes that it does not name were as when the loader was made; they may have changed since.
            told: attributes only of samplers with, or without, ``set_epoch``.
            drawn: generators that stay.
        """
        attributes = saved.get("attributes", {})
        self.watch.changed |= attributes.keys()
        attributes = self.watch.changed_since(self.loader) | attributes if others else attributes
        if attributes:
            set_attributes(self.loader, attributes, told)
        for path, state in saved.get("inner", {}).items():
            if path in self.inner:
                self.inner[path].load_state_dict(state)
        if self.stateful is not None and saved.get("sampler") is not None:
            before = {name: mark(generator) for name, generator in self.generators.items()}
            self.stateful.load_state_dict(saved["sampler"])
            self.restored = {name for name, marked in before.items() if mark(self.generators[name]) != marked}
        for name, state in saved.get("now", {}).items():
            if name not in drawn:
                self._set(name, state)

    def _set(self, name: str, state: Any) -> None:
        if name in self.generators and name not in self.restored:  # a sampler may make one when it is first read
            set_state(self.generators[name], state)


def _is_stateful(found: Any) -> bool:
    return hasattr(found, "state_dict") and hasattr(found, "load_state_dict")


def checked_sampler(saved: Any, loader: Any) -> dict[str, Any]:
    """A copy of what is known of a sampler, with its shape checked.

    Raises:
        StateError: it is damaged.
    """
    if not isinstance(saved, dict):
        damaged("reading", saved)
    for name in ("now", "draws", "attributes", "inner"):
        if not isinstance(saved.get(name, {}), dict) or not all(isinstance(n, str) for n in saved.get(name, {})):
            damaged(name, saved[name])
    _attributes(saved.get("attributes", {}), attributes_in(loader))
    mine = generators_in(loader)
    for name, state in saved.get("now", {}).items():
        tried(name, state, mine.get(name))
    return dict(saved)


def _attributes(saved: dict[str, Any], mine: dict[str, Any]) -> None:
    """Attributes of samplers have the types that they have. One that is None may become anything, and a number one with
    a fraction; an epoch is no text and no fraction.
    """
    for name in saved.keys() & mine.keys():
        kinds = {list if isinstance(each, tuple) else type(each) for each in (saved[name], mine[name])}
        loose = mine[name] is None or kinds <= {bool, int}
        loose |= not name.endswith(".epoch") and (type(None) in kinds or kinds == {int, float})
        if len(kinds) > 1 and not loose:
            damaged(name, saved[name])


def tried(name: str, state: Any, like: Any = None) -> None:
    """Checks the state of a generator.

    Raises:
        StateError: it is none.
    """
    try:
        checked(name, state, like)
    except Exception as e:
        raise StateError(f"the state is damaged: {name!r} is no state of a generator ({e!s:.120})") from e
