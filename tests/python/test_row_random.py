"""Numbers drawn from the keys of rows: leat.rng(batch.row_keys)."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import leat
from leat.functions import rows

KEYS = np.array([0, 2**64 - 1, 0x299F31D0A4093822, 123456789012345678], dtype=np.uint64)
DRAWS: dict[str, Callable[[leat.RowGenerator, int], Any]] = {
    "uniform": lambda g, n: g.uniform(n),
    "uniform64": lambda g, n: g.uniform(n, "float64"),
    "normal": lambda g, n: g.normal(n),
    "normal64": lambda g, n: g.normal(n, torch.float64),
    "integers": lambda g, n: g.integers(-5, 17, n),
    "all integers": lambda g, n: g.integers(-(2**63), 2**63 - 1, n),
    "far integers": lambda g, n: g.integers(-(2**40), 2**50 + 3, n),
    "permutation": lambda g, n: g.permutation(n),
    "words": lambda g, n: g.words(n),
}


def by_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes generators on the CPU take the way of other devices."""

    def elsewhere(self: Any, kind: int, shape: tuple[int, ...], dtype: str, low: int = 0, high: int = 0) -> Any:
        call, self.calls = self.calls, self.calls + 1
        n = int(np.prod(shape))
        made = rows._elsewhere(self._keys, kind, call, n, dtype == "float64", low, high)
        return made.reshape(len(self), *shape)

    monkeypatch.setattr(leat.RowGenerator, "_draw", elsewhere)


@pytest.mark.parametrize("name", DRAWS)
@pytest.mark.parametrize("n", [0, 1, 3, 4, 5, 33, 1000, 4099])
def test_numpy_torch_and_operations_of_torch_give_the_same_bits(
    name: str, n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = torch.from_numpy(KEYS)
    found = []
    for source in (KEYS, keys, keys):
        if found[1:]:
            by_torch(monkeypatch)
        generator = leat.rng(source)
        made = [np.asarray(DRAWS[name](generator, n)) for _ in range(3)]
        generator.calls = 2**32 - 1
        found.append([*made, np.asarray(DRAWS[name](generator, n))])
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            assert a.shape == (4, n)
            assert a.astype(b.dtype).tobytes() == b.tobytes()


def philox(key: int, counter: list[int]) -> list[int]:
    """As its authors describe it."""
    low = 0xFFFFFFFF
    k = [key & low, key >> 32]
    c = list(counter)
    for _ in range(10):
        p, q = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(q >> 32) ^ c[1] ^ k[0], q & low, (p >> 32) ^ c[3] ^ k[1], p & low]
        k = [(k[0] + 0x9E3779B9) & low, (k[1] + 0xBB67AE85) & low]
    return c


def test_numbers_are_those_that_the_page_on_order_describes() -> None:
    n, call = 500, 3
    w = np.array([[w for b in range(n // 2) for w in philox(int(k), [b, 0, call, 0])] for k in KEYS], dtype=np.uint64)
    d = [[int(r[2 * i]) + (int(r[2 * i + 1]) << 32) for i in range(n)] for r in w]

    def drawn(name: str) -> Any:
        generator = leat.rng(KEYS)
        generator.calls = call
        return DRAWS[name](generator, n)

    assert (drawn("words") == w[:, :n]).all()
    assert (drawn("uniform") == (w[:, :n] >> np.uint64(8)) / 2**24).all()
    assert drawn("uniform64").tolist() == [[(x >> 11) / 2**53 for x in r] for r in d]
    assert drawn("integers").tolist() == [[-5 + x * 22 // 2**64 for x in r] for r in d]
    assert drawn("permutation").tolist() == [sorted(range(n), key=lambda i, r=r: (r[i] >> 1, i)) for r in d]
    exact = statistics.NormalDist()
    want = [[exact.inv_cdf(((x >> 12) + 0.5) / 2**52) for x in r] for r in d]
    assert np.allclose(drawn("normal64"), want, rtol=2e-15, atol=0)
    assert np.allclose(drawn("normal"), [[exact.inv_cdf((int(x) + 0.5) / 2**32) for x in r[:n]] for r in w], rtol=1e-7)


def test_a_part_of_the_rows_goes_on_with_their_numbers() -> None:
    whole = leat.rng(KEYS)
    whole.normal()
    parts = [whole[1:], whole[[3, 0]], whole[np.array([False, True, False, True])]]
    drawn = whole.uniform((2, 3))
    for part, chosen in zip(parts, ([1, 2, 3], [3, 0], [1, 3]), strict=True):
        assert (part.uniform((2, 3)) == drawn[chosen]).all()


def test_rows_of_a_loader_have_the_same_numbers_in_any_batch_and_on_any_rank() -> None:
    data = leat.from_arrays(x=np.arange(96))

    def noise(batch_size: int, rank: int, world_size: int) -> dict[int, bytes]:
        found = {}
        options: dict[str, Any] = {"rank": rank, "world_size": world_size, "framework": "numpy"}
        for batch in leat.Loader(data, batch_size, shuffle=True, seed=3, **options):
            made = leat.rng(batch.row_keys).normal(4)
            found.update({int(i): row.tobytes() for i, row in zip(batch.ids, made, strict=True)})
        return found

    one = noise(32, 0, 1)
    assert len(set(one.values())) == 96
    assert one == noise(8, 0, 2) | noise(8, 1, 2)


def test_what_is_drawn_is_on_the_device_that_was_asked_for() -> None:
    assert isinstance(leat.rng(KEYS).uniform(), np.ndarray)
    assert leat.rng(KEYS, "cpu").uniform().device == torch.device("cpu")
    assert leat.rng(torch.from_numpy(KEYS), "meta").normal((2, 3)).shape == (4, 2, 3)
    assert leat.rng(torch.from_numpy(KEYS), "meta").permutation(5).device.type == "meta"


def test_the_default_device_has_no_say() -> None:
    torch.set_default_device("meta")
    try:
        drawn = leat.rng(torch.from_numpy(KEYS)).uniform(3)
    finally:
        torch.set_default_device(None)
    assert drawn.tolist() == leat.rng(KEYS).uniform(3).tolist()


@pytest.mark.card
@pytest.mark.parametrize("name", DRAWS)
def test_a_gpu_gives_the_same_bits(name: str) -> None:
    found = DRAWS[name](leat.rng(KEYS, "cuda"), 4099).cpu().numpy()
    want = np.asarray(DRAWS[name](leat.rng(KEYS), 4099))
    assert want.astype(found.dtype).tobytes() == found.tobytes()


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: leat.rng(np.zeros(3)), TypeError, "keys are integers of 64 bits, as batch.row_keys are, not float64"),
        (lambda: leat.rng([1, 2]), TypeError, "keys are integers of 64 bits, as batch.row_keys are, not list"),
        (lambda: leat.rng(np.zeros((2, 2), np.uint64)), ValueError, "keys have one dimension, the row, not 2"),
        (lambda: leat.rng(device="cpu"), TypeError, "device goes with keys"),
        (lambda: leat.rng(KEYS)[0], TypeError, "a slice, a mask or a list"),
        (lambda: leat.rng(KEYS).uniform(2, 3), TypeError, r"a tuple, such as \(2, 3\), and behind it comes a dtype"),
        (lambda: leat.rng(KEYS).uniform(3, "float16"), ValueError, "float32 or float64, not float16"),
        (lambda: leat.rng(KEYS).integers(3, 3), ValueError, "no integer is at least 3 and below 3"),
        (lambda: leat.rng(KEYS).integers(0, 2**64), ValueError, "high is"),
        (lambda: leat.rng(KEYS).permutation(-1), ValueError, "n is"),
        (lambda: leat.rng(KEYS).uniform((2, -1)), ValueError, "shape is"),
    ],
)
def test_what_cannot_be_drawn_is_an_error(call: Callable[[], Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()


def test_any_part_of_a_generator_and_none_of_it_can_be_drawn_from() -> None:
    keys = np.arange(7, dtype=np.uint64) * 977
    whole = leat.rng(keys).normal(3)
    for part in (slice(None, None, 2), slice(None, None, -1), keys % 2 == 0, []):
        rows = part if not isinstance(part, list) else np.array(part, np.int64)
        assert (leat.rng(keys)[rows].normal(3) == whole[rows]).all()


def test_no_rows_draw_nothing_in_torch_too() -> None:
    torch = pytest.importorskip("torch")
    for device in ("cpu", "meta"):
        keys = torch.zeros(0, dtype=torch.int64, device=device)
        assert leat.rng(keys).words(5).shape == (0, 5) and leat.rng(keys).uniform((2, 3)).shape == (0, 2, 3)
