"""A PyTorch Sampler that a Loader reads whole as each epoch begins, and its part of the loader's states."""

from __future__ import annotations

import copy
import importlib.util
from collections.abc import Callable, Mapping
from typing import Any

from ..errors import InvalidError


class Elsewhere:
    """In the place of a Sampler, whose lists come with the decisions."""

    def __iter__(self) -> Any:
        raise InvalidError("the list of this epoch is not known where its rows are made")


class Sampled:
    """The sampler of a loader, which `Known` takes for one of PyTorch's.

    Its part of a state is what `Known.between` says: the generators that the sampler holds or draws
    from, its attributes that have changed, its own ``state_dict``. ``again`` says the same of before the list was read
    that a state has the hash of. Where torch is not installed, a state has no such part.
    """

    batch_sampler = generator = None

    def __init__(self, dataset: Any, sampler: Any) -> None:
        self.dataset, self.sampler = dataset, sampler
        self._index_sampler = sampler
        self._before: dict[str, Any] | None = None  # the list that was read last, and whose epoch
        self._epoch: int | None = None
        self._went_back = False
        self._moved = False  # read, or put back, for a state that is being loaded
        self._watch: Any = None
        if importlib.util.find_spec("torch") is not None and not isinstance(sampler, Elsewhere):
            from .known import Watch

            self._watch = Watch(self)

    def _known(self) -> Any:
        from .known import Known

        return Known(self)

    def now(self) -> dict[str, Any]:
        """The sampler as it is."""
        return {} if self._watch is None else copy.deepcopy(self._known().between())

    def _told(self) -> dict[str, Any] | None:
        """The same; None if its own ``state_dict`` fails, which matters where a state is asked for."""
        try:
            return self.now()
        except Exception:
            return None

    def read(self) -> list[Any]:
        """The list of the epoch that begins."""
        if self._watch is None:
            return list(self.sampler)
        before, known, self._moved = self._told(), self._known(), True
        with known.drawing() as drawn:
            found = list(self.sampler)
            if self._went_back and not found:  # the state of one that counts what it has given, at its end
                found = list(self.sampler)
        self._went_back = False
        if before is not None and drawn and not known.theirs:
            before["now"] = drawn | before.get("now", {})
        self._before = before
        return found

    def begins(self, epoch: int | None) -> None:
        """The list that was read last is that of an epoch of which no batch is handed out yet."""
        self._epoch = epoch

    def state(self, epoch: int | None, again: bool) -> dict[str, Any] | None:
        """Its part of a state from before the first batch of this epoch, or (None) from within one; `again`: of one
        that has only the hash of the list.
        """
        if self._watch is None:
            return None
        if epoch is not None and epoch == self._epoch and self._before is not None:
            return copy.deepcopy(self._before)
        return self.now() | ({"again": copy.deepcopy(self._before)} if again and self._before is not None else {})

    def checked(self, saved: Any) -> dict[str, Any] | None:
        """That part of a state; None: it has none.

        Raises:
            StateError: it is damaged.
        """
        if saved is None or self._watch is None:
            return None
        from .known import checked_sampler

        found = checked_sampler(saved, self)
        return found | {"again": checked_sampler(found["again"], self)} if "again" in found else found

    def unless_refused(self) -> Callable[[], bool]:
        """Forgets the list that was read last. The function puts the sampler where it is now, and all generators that
        it may have drawn from, for a state that is refused; False: nothing of it can be put back.
        """
        now, rest = self._told(), (self._before, self._epoch)
        put_generators_back: Callable[[], bool] = bool
        if self._watch is not None:
            from .generators import puts_back

            put_generators_back = puts_back(self)
        self._before, self._epoch, self._moved = None, None, False

        def put_back() -> bool:
            seen = self._moved and now is not None and self.go_back(now)
            self._before, self._epoch = rest
            return put_generators_back() or seen

        return put_back

    def go_back(self, saved: Mapping[str, Any]) -> bool:
        """Puts the sampler where it was when this was said of it; False: nothing of it is known, now or then."""
        if not (saved or self.now()):
            return False
        self._went_back = self._moved = True
        known = self._known()
        known.put_back(copy.deepcopy(saved), others=not known.theirs)
        return True

    def go_on(self, saved: Mapping[str, Any]) -> None:
        """Puts it behind the list that it gives from ``again``, which need not have been read."""
        self.go_back(saved)
        self._before = copy.deepcopy(saved["again"])
