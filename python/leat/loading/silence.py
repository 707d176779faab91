"""Ranks that have fallen silent, told from what each rank leaves in the store of the process group now and then.

A rank looks at the next one of the ring of all ranks. If that one is silent, it looks at the one behind it as well, so
that each silent rank is seen by one that is not, and nobody reads what all have left.

    no sign of life    it has left nothing new for long: the process was stopped, killed, or its host is gone
    not moved          its threads run, and it takes no batch, while the one that looks is far ahead, or waits ahead
    ended              it has ended well, or has closed its loaders, and the others go on far beyond
    absent             it has opened no loader at all, and the others are far into theirs
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

FAR = 100  #: steps by which a rank is far ahead: in step with others none is, with whatever it prefetches

Place = tuple[int, int]  #: epoch and step


class _Seen:
    """The last sign of life of a rank, and since when there is none, by the clock of this process."""

    def __init__(self, now: float) -> None:
        self.looked = self.heard = now
        self.beat: Mapping[str, Any] | None = None
        self.moved: dict[str, float] = {}  # by the loader's number
        self.named = False  # once for each silence

    def take(self, beat: Mapping[str, Any] | None, now: float) -> None:
        self.looked = now
        if beat is None or beat == self.beat:
            return
        at = {} if self.beat is None else self.beat["at"]
        self.moved = {i: self.moved.get(i, now) if at.get(i) == place else now for i, place in beat["at"].items()}
        if beat["at"] != at:
            self.named = False
        self.beat, self.heard = beat, now


class Silence:
    """The ranks that this one looks at.

    Args:
        rank: of this process.
        limit: seconds from which on a rank is silent.
    """

    def __init__(self, rank: int, limit: float) -> None:
        self._rank, self._limit = rank, limit
        self._seen: dict[int, _Seen] = {}

    def take(self, rank: int, beat: Mapping[str, Any] | None, now: float) -> None:
        """Takes what a rank (this one, too) left last: its places by the numbers of its loaders (``at``), whether it
        has ended, and a count that rises (``n``). None: it has left nothing yet.
        """
        seen = self._seen.get(rank)
        if seen is None or now - seen.looked > self._limit / 2:  # nobody has looked, as while this process was stopped
            seen = self._seen[rank] = _Seen(now)
        seen.take(beat, now)

    def verdict(self, rank: int, now: float, all_open: bool) -> tuple[bool, str | None]:
        """Whether a rank is silent, and a text to be told of it, once.

        Args:
            all_open: each rank has to open the loaders that this one has opened.
        """
        seen = self._seen[rank]
        text = self._absent(rank, seen, now, all_open) if seen.beat is None else self._silent(rank, seen, now)
        if text is None and seen.beat is not None:
            return False, None
        named, seen.named = seen.named, seen.named or text is not None
        return True, None if named else text

    def _absent(self, rank: int, seen: _Seen, now: float, all_open: bool) -> str | None:
        mine = self._seen[self._rank].beat or {"at": {}}
        far = [(number, place) for number, place in mine["at"].items() if place and is_far(place, (0, 0))]
        if not all_open or not far or now - seen.heard < self._limit:
            return None
        where = _where(self._rank, *far[0])
        return f"rank {rank} has opened no loader that takes its rank from torch.distributed, and {where}"

    def _silent(self, rank: int, seen: _Seen, now: float) -> str | None:
        assert seen.beat is not None
        ended, since = seen.beat.get("ended"), now - seen.heard
        if since >= self._limit and not ended:
            at = max(seen.moved, key=seen.moved.__getitem__, default=None)
            return f"rank {rank} has given no sign of life for {since:.0f} s{self._places(rank, seen, at)}"
        own = self._seen[self._rank]
        for number, place in seen.beat["at"].items():
            mine = None if own.beat is None else own.beat["at"].get(number)
            since = now - (seen.heard if ended else seen.moved[number])
            if place is None or mine is None or since < self._limit:
                continue
            waits = not ended and tuple(mine) > tuple(place) and now - own.moved[number] >= self._limit
            if waits or is_far(mine, place):
                how = (
                    f"ended, or closed its loaders, {since:.0f} s ago" if ended else f"taken no batch for {since:.0f} s"
                )
                return f"rank {rank} has {how}{self._places(rank, seen, number)}"
        return None

    def _places(self, rank: int, seen: _Seen, number: str | None) -> str:
        """The places of that rank and of this one in a loader."""
        if number is None or seen.beat is None:
            return ""
        own = self._seen[self._rank].beat
        mine = None if own is None else own["at"].get(number)
        text = ": " + _where(rank, number, seen.beat["at"][number])
        return text if mine is None else f"{text}, and {_where(self._rank, number, mine)}"


def is_far(mine: Place, other: Place) -> bool:
    """Whether a place is at least FAR steps, or two short epochs, ahead of another one."""
    if mine[0] == other[0]:
        return mine[1] - other[1] >= FAR
    return mine[0] - other[0] >= 2 or (mine[0] > other[0] and mine[1] >= FAR)


def _where(rank: int, number: str, place: Any) -> str:
    if place is None:
        return f"rank {rank} has read nothing from loader {number}"
    return f"rank {rank} is at epoch {place[0]}, step {place[1]} of loader {number}"
