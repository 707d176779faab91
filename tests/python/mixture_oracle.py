"""The order of mixtures a second time, in plain Python from docs/order.md ("Several sources"): row by row.

It is written to be read next to that page, not to be fast, and needs nothing of leat.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from test_order_reference import pass_key, permute

WHOLE = 1 << 32


@dataclass
class Source:
    count: int
    word: str = "repeat"
    limit: int = 0
    tokens: int | list[int] = 1  #: of each row

    def of(self, position: int) -> int:
        """Tokens of a row."""
        return self.tokens if isinstance(self.tokens, int) else self.tokens[position]


@dataclass
class Mixture:
    sources: list[Source]
    points: list[tuple[int, list[float]]]  #: (row of the stream, weights); without a schedule one, at 0
    linear: bool = False
    in_tokens: bool = False
    epoch_rows: int = 0
    seed: int = 0
    shuffled: bool = True
    decisions: list[tuple[int, list[float]]] = field(default_factory=list)  #: (row of the stream, weights)


def settle(parts: list[int]) -> list[int]:
    """The largest, the first of equals, takes what is missing."""
    parts = list(parts)
    parts[parts.index(max(parts))] += WHOLE - sum(parts)
    return parts


def stated(weights: Sequence[float]) -> list[int]:
    total = 0.0
    for w in weights:
        total += w
    return settle([max(int(w / total * WHOLE), 1) if w > 0 else 0 for w in weights])


def scaled(parts: Sequence[int]) -> list[int]:
    total = sum(parts)
    return settle([max(WHOLE * part // total, 1) if part else 0 for part in parts])


def asked(m: Mixture, row: int) -> list[int]:
    """The shares that a schedule or a decision asks for at a row of the stream."""
    for at, weights in reversed(m.decisions):
        if row >= at:
            return stated(weights)
    i = max(k for k, (at, _) in enumerate(m.points) if at <= row)
    here = stated(m.points[i][1])
    if not m.linear or i + 1 == len(m.points):
        return here
    (begin, _), (end, weights) = m.points[i], m.points[i + 1]
    there, length = stated(weights), end - begin
    parts = min(64, length)
    cuts = [j * length // parts for j in range(parts + 1)]
    b, e = next((b, e) for b, e in pairwise(cuts) if b <= row - begin < e)
    return settle([(p * (2 * length - b - e) + q * (b + e)) // (2 * length) for p, q in zip(here, there, strict=True)])


def vary(m: Mixture) -> bool:
    """Whether rows of some source differ in length."""
    return m.in_tokens and any(not isinstance(s.tokens, int) and len(set(s.tokens)) > 1 for s in m.sources)


def of_rows(m: Mixture, shares: Sequence[int], through: Sequence[bool]) -> list[int]:
    """The shares of rows of those that are not through; all 0 where nobody with a share is left."""
    parts = [0 if done else share for share, done in zip(shares, through, strict=True)]
    if m.in_tokens and not vary(m):
        parts = [max((p << 31) // s.of(0), 1) if p else 0 for p, s in zip(parts, m.sources, strict=True)]
    elif not any(through):
        return parts
    return scaled(parts) if any(parts) else parts


class Phase:
    """A run of rows with the same shares. `given_too_much` is E of the page, at its beginning. `given` counts rows, or
    tokens where rows vary in length."""

    def __init__(self, shares: list[int], given_too_much: list[int]) -> None:
        self.shares, self.before = shares, given_too_much
        self.rows, self.given = 0, [0] * len(shares)
        here = [e for e, share in zip(given_too_much, shares, strict=True) if share]
        mean = sum(here) // len(here)
        self.aimed = [e - mean if share else 0 for e, share in zip(given_too_much, shares, strict=True)]

    def given_too_much(self) -> list[int]:
        """E at its end."""
        whole = sum(self.given)
        return [e + WHOLE * n - whole * share for e, n, share in zip(self.before, self.given, self.shares, strict=True)]

    def source(self) -> int:
        """Of the next row."""
        i, low, high = self.rows, 0, len(self.shares)
        while high - low > 1:
            middle = (low + high) // 2
            left, total = sum(self.shares[low:middle]), sum(self.shares[low:high])
            e_left, e_total = sum(self.aimed[low:middle]), sum(self.aimed[low:high])
            c = (2**31 * total + left * e_total - total * e_left) // WHOLE

            def count(rows: int, left: int = left, total: int = total, c: int = c) -> int:
                if left in (0, total):
                    return rows if left else 0
                return min(max((rows * left + c) // total, 0), rows)

            here, after = count(i), count(i + 1)
            low, high, i = (low, middle, here) if after > here else (middle, high, i - here)
        return low

    def source_by_tokens(self, lengths: Sequence[int]) -> int:
        """Of the next row, where the next ones of the sources have these lengths; 0: there is none."""
        tags = [
            (-(-(2**31 * (2 * n + length) + e) // share), k)
            for k, (n, length, e, share) in enumerate(zip(self.given, lengths, self.aimed, self.shares, strict=True))
            if share
        ]
        return min(tags)[1]

    def give(self, source: int, tokens: int = 1) -> None:
        self.rows += 1
        self.given[source] += tokens


class Rows:
    """The rows of each source in turn: which is next."""

    def __init__(self, m: Mixture) -> None:
        self.m = m
        self.ever, self.given = [0] * len(m.sources), [0] * len(m.sources)  #: rows, in all and in this epoch
        self.epoch = 0
        self.orders: dict[tuple[int, int], Callable[[int], int]] = {}

    def position(self, i: int) -> int | None:
        """Of the next row of a source; None: it cannot give one."""
        s = self.m.sources[i]
        most = s.limit * s.count if s.word == "repeat" else s.count
        if (most and self.given[i] == most) or not s.count:
            return None
        number, place = divmod(self.ever[i], s.count) if s.word == "repeat" else (self.epoch, self.given[i])
        if self.m.shuffled and (i, number) not in self.orders:
            self.orders[i, number] = permute(s.count, pass_key(self.m.seed, i, number))
        return self.orders[i, number](place) if self.m.shuffled else place

    def source(self, phase: Phase) -> int:
        """Of the next row."""
        if not vary(self.m):
            return phase.source()
        at = [self.position(i) if share else None for i, share in enumerate(phase.shares)]
        return phase.source_by_tokens([0 if p is None else s.of(p) for s, p in zip(self.m.sources, at, strict=True)])

    def give(self, i: int, phase: Phase) -> int:
        """Takes the next row of a source. Returns its position."""
        position = self.position(i)
        assert position is not None
        phase.give(i, self.m.sources[i].of(position) if vary(self.m) else 1)
        self.ever[i] += 1
        self.given[i] += 1
        return position


def opening_rows(m: Mixture) -> int:
    """Rows of an epoch in which all repeat without limit."""
    shares = of_rows(m, stated(m.points[0][1]), [False] * len(m.sources))
    if m.epoch_rows:
        return m.epoch_rows
    if vary(m):
        rows, phase = Rows(m), Phase(shares, [0] * len(m.sources))
        while any(rows.given[i] < s.count for i, s in enumerate(m.sources) if shares[i]):
            rows.give(rows.source(phase), phase)
        return phase.rows
    most = 0
    for s, p in zip(m.sources, shares, strict=True):
        if p:
            whole, missing = divmod(WHOLE * s.count, p)
            most = max(most, whole + (missing > whole))
    return most


def stream(m: Mixture) -> Iterator[tuple[int, int, int]]:
    """(epoch, source, position in it) of each row, without end."""
    k = range(len(m.sources))
    endless = all(s.word == "repeat" and not s.limit for s in m.sources)
    stated_rows = opening_rows(m) if endless else m.epoch_rows
    all_rows = Rows(m)
    phase = Phase(asked(m, 0), [0] * len(k))
    row = 0
    while True:
        through, rows = [False] * len(k), 0
        all_rows.given = [0] * len(k)
        while not (stated_rows and rows == stated_rows):
            shares = asked(m, row)
            ending = [i for i in k if m.sources[i].word != "repeat" and shares[i]]
            if not endless:
                if ending and all(through[i] for i in ending):
                    break
                alive = [i for i in k if shares[i] and not through[i]]
                if not ending and not m.epoch_rows and all(all_rows.given[i] >= m.sources[i].count for i in alive):
                    break
            now = of_rows(m, shares, through)
            if not any(now):
                break
            if now != phase.shares:
                phase = Phase(now, phase.given_too_much())
            i = all_rows.source(phase)
            if all_rows.position(i) is None:
                if m.sources[i].word == "stop":
                    break
                through[i] = True
                continue
            yield all_rows.epoch, i, all_rows.give(i, phase)
            rows += 1
            row += 1
        if not rows:
            raise ValueError("an epoch without rows")
        all_rows.epoch += 1
