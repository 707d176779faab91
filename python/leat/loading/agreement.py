"""Whether the ranks of ``torch.distributed`` agree. None of them waits for another.

At the first batch of each pass and at every hundredth step, a rank hands the values that all must have in common to a
thread (:class:`~leat.loading.group.Group`), which compares them with those of the other ranks at the same step. A stage
of a pipeline that waits for the one before it, or never reads, holds up nobody. A difference is an error on each rank,
at its next batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from ..closing import finalize
from ..errors import StateError
from .differences import LOADERS, Difference, said
from .exchange import Put
from .group import Group

EVERY = 100  #: steps


class Begun:
    """How many times each epoch has begun. A million that follow one another take as much room as one."""

    def __init__(self) -> None:
        self._steps: Counter[int] = Counter()  # the times of an epoch less those of the one before, where they differ

    def add(self, epoch: int) -> None:
        for place, step in ((epoch, 1), (epoch + 1, -1)):
            self._steps[place] += step
            if not self._steps[place]:
                del self._steps[place]

    def times(self, epoch: int) -> int:
        return sum(step for place, step in self._steps.items() if place <= epoch)


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
        finalizer: finalize,
        reads: str,
        fingerprint: str,
        *,
        tells: bool = True,
        all_open: bool = True,
    ) -> None:
        self.left = 1  #: batches until ranks compare: counted by the code that hands them out, so that a step is cheap
        self._last: tuple[int, int, int] | None = None  # epoch and step where they did, and what was `left` then
        self._finalizer, self._tells = finalizer, tells
        self._round = 0  # which a difference ends
        self._begun = Begun()  # in it
        self._first = True
        self._compared = False  # in this round
        self._raised = False
        self._problem: tuple[int | None, str] | None = None  # with the round that it is of; None: all
        self._group = Group.joined() if distributed else None
        if self._group is not None:
            self._number = self._group.add(self, reads, fingerprint, all_open)

    @property
    def is_open(self) -> bool:
        return self._finalizer.alive

    @property
    def at(self) -> tuple[int, int] | None:
        """Epoch and step that were handed out last. Another thread asks, so that it may be of a moment ago."""
        if self._last is None:
            return None
        epoch, step, left = self._last
        return epoch, step + left - self.left

    def begin(self, epoch: int) -> None:
        """An epoch begins. After a difference that was raised, ranks compare anew."""
        known = self._problem is not None and self._problem[0] == self._round
        if self._raised or (known and not self._tells):
            self._raised = self._compared = False
            self._round += 1
            self._begun = Begun()
        self._begun.add(epoch)
        if (at := self.at) is not None:
            self._last = *at, 1
        self._first, self.left = True, 1

    def check(self) -> None:
        """Looks whether a difference was found, on whichever rank.

        Raises:
            StateError: the ranks differ; the text says which, and in what. It is raised until the next :meth:`begin`,
                or for ever if they have opened different loaders.
        """
        found = self._problem
        if found is not None and self._tells and found[0] in (None, self._round):
            self._raised = True
            raise StateError(found[1])

    def compare(self, epoch: int, step: int, facts: Callable[[tuple[int, int]], dict[str, str]]) -> None:
        """Compares the facts that hold at this batch, in the background. Called when nothing is `left`."""
        first, self._first = self._first, False
        self.left = EVERY - step % EVERY
        self._last = epoch, step, self.left
        if self._group is None or (self._compared and not self._group.has_time(epoch if first else step // EVERY)):
            return
        mine = {**facts((epoch, step)), LOADERS: str(self._group.opened)}
        turn = f"{epoch}/{self._begun.times(epoch)}"
        self._group.put(Put(self._number, self._round, turn, (epoch, step), mine, not self._compared))
        self._compared = True

    def hear(self, found: list[Difference]) -> None:
        """Takes from all differences those that concern this loader."""
        now = self._round
        mine = [one for one in found if one.place is None or (one.loader, one.round) == (self._number, now)]
        if mine:
            self._problem = (None if any(one.place is None for one in mine) else now), said(mine)
