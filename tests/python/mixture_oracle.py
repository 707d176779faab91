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
    tokens: int = 1  #: of each row


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


def of_rows(m: Mixture, shares: Sequence[int], through: Sequence[bool]) -> list[int]:
    """The shares of rows of those that are not through; all 0 where nobody with a share is left."""
    parts = [0 if done else share for share, done in zip(shares, through, strict=True)]
    if m.in_tokens:
        parts = [max((p << 31) // s.tokens, 1) if p else 0 for p, s in zip(parts, m.sources, strict=True)]
    elif not any(through):
        return parts
    return scaled(parts) if any(parts) else parts


class Phase:
    """A run of rows with the same shares. `given_too_much` is E of the page, at its beginning."""

    def __init__(self, shares: list[int], given_too_much: list[int]) -> None:
        self.shares, self.before = shares, given_too_much
        self.rows, self.counts = 0, [0] * len(shares)

    def given_too_much(self) -> list[int]:
        """E at its end."""
        return [
            e + WHOLE * n - self.rows * share for e, n, share in zip(self.before, self.counts, self.shares, strict=True)
        ]

    def source(self) -> int:
        """Of the next row."""
        i, low, high = self.rows, 0, len(self.shares)
        while high - low > 1:
            middle = (low + high) // 2
            left, total = sum(self.shares[low:middle]), sum(self.shares[low:high])
            e_left, e_total = sum(self.before[low:middle]), sum(self.before[low:high])
            c = (2**31 * total + left * e_total - total * e_left) // WHOLE

            def count(rows: int, left: int = left, total: int = total, c: int = c) -> int:
                if left in (0, total):
                    return rows if left else 0
                return min(max((rows * left + c) // total, 0), rows)

            here, after = count(i), count(i + 1)
            low, high, i = (low, middle, here) if after > here else (middle, high, i - here)
        return low

    def give(self, source: int) -> None:
        self.rows += 1
        self.counts[source] += 1


def opening_rows(m: Mixture) -> int:
    """Rows of an epoch in which all repeat without limit."""
    shares = of_rows(m, stated(m.points[0][1]), [False] * len(m.sources))
    most = 0
    for s, p in zip(m.sources, shares, strict=True):
        if p:
            rows, missing = divmod(WHOLE * s.count, p)
            most = max(most, rows + (missing > rows))
    return m.epoch_rows or most


def stream(m: Mixture) -> Iterator[tuple[int, int, int]]:
    """(epoch, source, position in it) of each row, without end."""
    k = range(len(m.sources))
    endless = all(s.word == "repeat" and not s.limit for s in m.sources)
    stated_rows = opening_rows(m) if endless else m.epoch_rows
    ever = [0] * len(k)  # rows that each source gave
    orders: dict[tuple[int, int], Callable[[int], int]] = {}
    phase = Phase(asked(m, 0), [0] * len(k))
    row = epoch = 0
    while True:
        through, given, rows = [False] * len(k), [0] * len(k), 0
        while not (stated_rows and rows == stated_rows):
            shares = asked(m, row)
            ending = [i for i in k if m.sources[i].word != "repeat" and shares[i]]
            if not endless:
                if ending and all(through[i] for i in ending):
                    break
                alive = [i for i in k if shares[i] and not through[i]]
                if not ending and not m.epoch_rows and all(given[i] >= m.sources[i].count for i in alive):
                    break
            now = of_rows(m, shares, through)
            if not any(now):
                break
            if now != phase.shares:
                phase = Phase(now, phase.given_too_much())
            i = phase.source()
            s = m.sources[i]
            most = s.limit * s.count if s.word == "repeat" else s.count
            if most and given[i] == most:
                if s.word == "stop":
                    break
                through[i] = True
                continue
            number, place = divmod(ever[i], s.count) if s.word == "repeat" else (epoch, given[i])
            if m.shuffled and (i, number) not in orders:
                orders[i, number] = permute(s.count, pass_key(m.seed, i, number))
            yield epoch, i, orders[i, number](place) if m.shuffled else place
            phase.give(i)
            ever[i] += 1
            given[i] += 1
            rows += 1
            row += 1
        if not rows:
            raise ValueError("an epoch without rows")
        epoch += 1
