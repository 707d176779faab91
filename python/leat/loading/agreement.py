"""Whether the ranks of ``torch.distributed`` agree. None of them waits for another.

At the first batch of each pass and at every hundredth step, a rank hands the values that all must have in common to a
thread (:class:`~leat.loading.group.Group`), which compares them with those of the other ranks at the same step. A stage
of a pipeline that waits for the one before it, or never reads, holds up nobody. A difference is an error on each rank,
at its next batch.
"""

from __future__ import annotations

import weakref
from collections import Counter
from typing import Any

from ..errors import StateError
from .differences import LOADERS, Difference, said
from .group import Group, Put

EVERY = 100  #: steps


class Agreement:
    """The values that the ranks of one loader have in common. Each rank makes the same loaders in the same order.

    Args:
        distributed: the loader takes its rank from ``torch.distributed``; without, nothing is compared.
        finalizer: of the loader, which is open as long as this one is alive.
        reads: the loader's data, for people.
        fingerprint: of these.
        tells: this rank raises errors; else one that reads for it does.
        all_open: every rank of the process group has to open the loader.
    """

    def __init__(
        self,
        distributed: bool,
        finalizer: weakref.finalize[Any, Any],
        reads: str,
        fingerprint: str,
        *,
        tells: bool = True,
        all_open: bool = True,
    ) -> None:
        self.at: tuple[int, int] | None = None  #: the batch that was handed out last
        self._finalizer, self._tells = finalizer, tells
        self._round = 0  # which a difference ends
        self._begun: Counter[int] = Counter()  # times that each epoch has begun in it
        self._first = True
        self._compared = False  # in this round
        self._raised = False
        self._problem: tuple[int, str] | None = None  # the round that it is of
        self._group = Group.joined() if distributed else None
        if self._group is not None:
            self._number = self._group.add(self, reads, fingerprint, all_open)

    @property
    def is_open(self) -> bool:
        return self._finalizer.alive

    def begin(self, epoch: int) -> None:
        """An epoch begins. After a difference that was raised, ranks compare anew."""
        if self._raised or (self._problem is not None and not self._tells):
            self._raised, self._problem = False, None
            self._round += 1
            self._compared = False
            self._begun.clear()
        self._begun[epoch] += 1
        self._first = True

    def check(self) -> None:
        """Looks whether a difference was found, on whichever rank.

        Raises:
            StateError: the ranks differ; the text says which, and in what. It is raised until the next :meth:`begin`.
        """
        found = self._problem
        if found is not None and self._tells and found[0] == self._round:
            self._raised = True
            raise StateError(found[1])

    def due(self, place: tuple[int, int]) -> bool:
        """Notes the epoch and step of a batch that is handed out. Returns whether ranks compare there."""
        self.at = place
        if self._group is None or not (self._first or place[1] % EVERY == 0):
            return False
        number = place[0] if self._first else place[1] // EVERY
        self._first = False
        return not self._compared or self._group.has_time(number)

    def put(self, facts: dict[str, str]) -> None:
        """Compares the facts that hold at this batch, in the background."""
        assert self._group is not None
        assert self.at is not None
        turn = f"{self.at[0]}/{self._begun[self.at[0]]}"
        facts = {**facts, LOADERS: str(self._group.opened)}
        self._group.put(Put(self._number, self._round, turn, self.at, facts, not self._compared))
        self._compared = True

    def hear(self, found: list[Difference]) -> None:
        """Takes from all differences those that concern this loader."""
        now = self._round
        mine = [one for one in found if one.place is None or (one.loader, one.round) == (self._number, now)]
        if mine:
            self._problem = now, said(mine)
