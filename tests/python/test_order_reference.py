"""Plan version 1 a second time, in plain Python from docs/order.md: the golden hashes are not only what the C code
gave.

It is written to be read next to that page, not to be fast, and needs nothing of leat.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

GOLDEN = Path(__file__).resolve().parent.parent / "golden" / "plan-v1.txt"
MASK = (1 << 64) - 1


def cases(kind: str) -> list[tuple[str, int, int, int]]:
    lines = [line.split() for line in GOLDEN.read_text().splitlines() if not line.startswith("#")]
    return [(name, int(n), int(key), int(hashed, 16)) for which, name, n, key, hashed in lines if which == kind]


# ---- random numbers and permutations ---------------------------------------------------------------------------------


def mix64(x: int) -> int:
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ x >> 27) * 0x94D049BB133111EB & MASK
    return x ^ x >> 31


def mix(key: int, value: int) -> int:
    salted = (value * 0xD1342543DE82EF95 + 0x2545F4914F6CDD1D) & MASK
    return mix64(mix64((key + 0x9E3779B97F4A7C15) & MASK) ^ salted)


def draw(key: int, counter: int) -> int:
    return mix64(mix64((key + (counter + 1) * 0x9E3779B97F4A7C15) & MASK))


def draw_unit(key: int, counter: int) -> float:
    return (draw(key, counter) >> 11) * 2.0**-53


def draw_below(key: int, counter: int, n: int) -> int:
    return draw(key, counter) * n >> 64


def permute(n: int, key: int) -> Callable[[int], int]:
    a = math.isqrt(n - 1) + 1  # the root of n, rounded up
    b = -(-n // a)
    rounds = 20 if n < 256 else 8 if n < 4096 else 6
    keys = [mix(key, r) for r in range(rounds)]

    def spread(x: int, key: int, size: int) -> int:
        x = (x ^ key) * 0x9FB21C651E98DF25 & MASK
        return ((x ^ x >> 32) * 0xD6E8FEB86659FD93 & MASK) * size >> 64

    def image(i: int) -> int:
        while True:
            x, y = divmod(i, b)
            for r in range(0, rounds, 2):
                x = (x + spread(y, keys[r], a)) % a
                y = (y + spread(x, keys[r + 1], b)) % b
            i = x * b + y
            if i < n:
                return i

    return image


# ---- the orders of one source: rows of a pass
# -------------------------------------------------------------------------


def blocks(n: int, size: int, key: int, window: int | None = None) -> Iterator[int]:
    size = min(size, n)
    window = min(window or 8 * size, n)
    full, short = divmod(n, size)
    outer = permute(full, key)
    before = draw_below(key, 0, full + 1) * size
    for begin in range(0, n, window):
        rows = min(window, n - begin)
        inner = permute(rows, mix(key, begin // window))
        for i in range(rows):
            j = begin + inner(i)
            if before <= j < before + short:
                yield full * size + j - before
            else:
                j -= short if j >= before else 0
                yield outer(j // size) * size + j % size


def with_replacement(weights: list[float], rows: int, key: int) -> Iterator[int]:
    sums: list[float] = []
    for w in weights:
        sums.append(w + (sums[-1] if sums else 0.0))
    for i in range(rows):
        target = draw_unit(key, i) * sums[-1]
        yield next(k for k, s in enumerate(sums) if s > target)


def minus_log(x: float) -> float:
    m, e = math.frexp(x)
    if m < float.fromhex("0x1.6a09e667f3bcdp-1"):
        m, e = m * 2, e - 1
    s = (m - 1) / (m + 1)
    total = 0.0
    for k in range(23, 0, -2):
        total = total * (s * s) + 1.0 / k
    return -(e * float.fromhex("0x1.62e42fefa39efp-1") + 2 * s * total)


def without_replacement(weights: list[float], rows: int, key: int) -> list[int]:
    keyed = [(minus_log(draw_unit(key, i) + 2.0**-54) / w, i) for i, w in enumerate(weights) if w > 0]
    return [i for _, i in sorted(keyed)[:rows]]


def one_source(name: str, n: int, key: int) -> list[int]:
    """A pass with the key `key` over the source of tests/c/plan/test_orders.c."""
    weights = [float(i % 7) for i in range(n)]
    if name == "sequential":
        return list(range(n))
    if name == "shuffled":
        return list(map(permute(n, key), range(n)))
    if name == "blocks":
        return list(blocks(n, 7, key))
    if name == "weighted":
        return list(with_replacement(weights, n // 2, key))
    if name == "weighted_without":
        return without_replacement(weights, n // 2, key)
    assert name == "list"
    return [i * i % n for i in range(n)]


# ---- several sources
# --------------------------------------------------------------------------------------------------


def pick(shares: list[int], i: int) -> tuple[int, int]:
    """The source of the i-th row and how many rows that source gave before."""
    low, high = 0, len(shares)
    while high - low > 1:
        middle = (low + high) // 2
        left, total = sum(shares[low:middle]), sum(shares[low:high])
        here, after = ((k * left + total // 2) // total for k in (i, i + 1))
        low, high, i = (low, middle, here) if after > here else (middle, high, i - here)
    return low, i


def pass_key(seed: int, source: int, number: int) -> int:
    return mix(mix(mix(seed, (1 << 63) + 1), source), number)


def mixture(n: int, seed: int, epoch: int) -> list[tuple[int, int]]:
    """An epoch of n rows from sources of n, n / 2 + 1 and 3 samples with shares 5, 2 and 1, the first two shuffled."""
    counts, shares = [n, n // 2 + 1, 3], [s << 29 for s in (5, 2, 1)]
    orders: dict[tuple[int, int], Callable[[int], int]] = {}
    rows = []
    for row in range(n):
        k, ordinal = pick(shares, epoch * n + row)
        number, i = divmod(ordinal, counts[k])
        if k < 2 and (k, number) not in orders:
            orders[k, number] = permute(counts[k], pass_key(seed, k, number))
        rows.append((k, orders[k, number](i) if k < 2 else i))
    return rows


# ---- substitutes
# ------------------------------------------------------------------------------------------------------


def substitute(name: str, n: int, seed: int, epoch: int, row: int, attempt: int, planned: tuple[int, int]) -> int:
    key = mix(mix(mix(seed, epoch), row), (1 << 63) + 2)
    source, broken = planned
    if name == "list":
        entries = [i * i % n for i in range(n)]
        i = draw_below(key, attempt, n)
        while entries[i] == broken:
            i = (i + 1) % n
        return entries[i]
    if name.startswith("weighted"):
        sums = [0.0]
        for i in range(n):
            sums.append(sums[-1] + i % 7)
        for k in range(64):
            target = draw_unit(key, attempt * 64 + k) * sums[-1]
            position = next(i for i in range(n) if sums[i + 1] > target)
            if position != broken:
                return position
        raise AssertionError("64 draws of one sample: its weight is not so large")
    count = [n, n // 2 + 1, 3][source]
    position = draw_below(key, attempt, count - 1)
    return position + (position >= broken)


def order_hash(name: str, n: int, seed: int) -> int:
    hashed = 0
    for epoch in (0, 5):
        key = mix(seed, epoch)
        rows = (
            mixture(n, seed, epoch)
            if name == "mixture"
            else [(0, p) for p in one_source(name, n, pass_key(seed, 0, epoch))]
        )
        for row, (source, position) in enumerate(rows):
            hashed = mix(hashed, position)
            hashed = mix(hashed, (mix(key, row) + source) & MASK)
        middle = len(rows) // 2
        for attempt in range(3):
            hashed = mix(hashed, substitute(name, n, seed, epoch, middle, attempt, rows[middle]))
    return hashed


@pytest.mark.parametrize(("_name", "n", "key", "golden"), cases("permutation"))
def test_the_permutation_is_that_of_the_page(_name: str, n: int, key: int, golden: int) -> None:
    image, hashed = permute(n, key), 0
    for i in range(min(n, 1000)):
        hashed = mix(hashed, image(i))
    assert f"{hashed:016x}" == f"{golden:016x}"


@pytest.mark.parametrize(("name", "n", "seed", "golden"), cases("order"))
def test_the_order_is_that_of_the_page(name: str, n: int, seed: int, golden: int) -> None:
    assert f"{order_hash(name, n, seed):016x}" == f"{golden:016x}"
