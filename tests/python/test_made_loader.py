"""What a Loader makes of sources and IDX files that misbehave."""

from __future__ import annotations

import gzip
import itertools
import os
import pickle
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leat

N = 60
Positions = np.ndarray[Any, Any]


class Source:
    """x follows from the position; `spoil` may change what is returned where 42 is asked for."""

    fields = {"x": leat.field("int64", (2,)), "y": leat.field("float32")}

    def __init__(self, spoil: Callable[[dict[str, Any]], Any] | None = None) -> None:
        self.spoil = spoil

    def __len__(self) -> int:
        return N

    def read(self, p: Positions) -> Any:
        right = {"x": np.stack([p, p * 2], 1), "y": p.astype(np.float32)}
        return self.spoil(right) if self.spoil and (p == 42).any() else right


def raising(right: dict[str, Any]) -> Any:
    raise KeyError("the forty-second")


WRONG: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "raises": (raising, "KeyError"),
    "another dtype": (lambda right: right | {"x": right["x"].astype(np.float64)}, "float64"),
    "another shape": (lambda right: right | {"x": right["x"][:, :1]}, "shape"),
    "fewer values": (lambda right: right | {"y": right["y"][:-1]}, "values"),
    "no field": (lambda right: {"y": right["y"]}, "no field 'x'"),
    "no dict": (lambda right: None, "not a dict"),
}


def loader(dataset: leat.Dataset, **options: Any) -> leat.Loader:
    return leat.Loader(dataset, **{"batch_size": 8, "shuffle": True, "epochs": 1, "framework": "numpy", **options})


def run(opened: leat.Loader) -> list[int]:
    seen = []
    for batch in opened:
        seen += batch.ids.tolist()
        assert np.array_equal(batch["x"], np.stack([batch.ids, batch.ids * 2], 1))
        assert np.array_equal(batch["y"], batch.ids.astype(np.float32))
    return seen


@pytest.mark.parametrize("in_order", [True, False])
@pytest.mark.parametrize("wrong", WRONG)
def test_a_value_that_a_source_cannot_give_is_raised(wrong: str, in_order: bool) -> None:
    spoil, why = WRONG[wrong]
    with pytest.raises(leat.Error, match=why) as e:
        run(loader(leat.from_source(Source(spoil)), in_order=in_order))
    assert "Source.read" in str(e.value)


@pytest.mark.parametrize("in_order", [True, False])
@pytest.mark.parametrize("on_error", ["skip", "substitute"])
def test_an_exception_of_a_source_is_its_samples_fault(on_error: str, in_order: bool) -> None:
    opened = loader(leat.from_source(Source(raising)), on_error=on_error, in_order=in_order)
    seen = run(opened)
    assert set(seen) == set(range(N)) - {42}
    assert len(seen) == N - (on_error == "skip")
    assert sum(opened.stats()["broken"].values()) == 1


def test_values_that_do_not_fit_are_the_sources_fault_and_raised_whatever_the_policy() -> None:
    for on_error in ("skip", "substitute"):
        for wrong in ("another dtype", "another shape", "fewer values", "no field", "no dict"):
            spoil, why = WRONG[wrong]
            with pytest.raises(leat.InvalidError, match=why):
                run(loader(leat.from_source(Source(spoil)), on_error=on_error))


def test_a_run_over_a_source_resumes_also_out_of_order() -> None:
    dataset = leat.from_source(Source())
    for in_order in (True, False):
        opened = loader(dataset, in_order=in_order)
        rows = iter(opened)
        seen = [i for _ in range(3) for i in next(rows).ids.tolist()]
        again = loader(dataset, in_order=in_order)
        again.load_state_dict(opened.state_dict())
        assert sorted(seen + run(again)) == list(range(N))


class Pickled(Source):
    """Where it is read is where it was unpickled."""

    fields = {"x": leat.field("int64"), "y": leat.field("int64")}

    def read(self, p: Positions) -> Any:
        return {"x": p, "y": np.full(len(p), os.getpid())}


def test_a_source_is_loaded_where_it_was_unpickled_and_in_a_forked_child() -> None:
    dataset = leat.from_source(Pickled())[::2]
    copy = pickle.loads(pickle.dumps(dataset))
    ids = [b.ids.tolist() for b in loader(dataset, seed=3)]
    assert [b.ids.tolist() for b in loader(copy, seed=3)] == ids
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            batches = list(loader(dataset, seed=3))
            code = [b.ids.tolist() for b in batches] != ids or any((b["y"] != os.getpid()).any() for b in batches)
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0


class Hangs(Source):
    def __init__(self) -> None:
        super().__init__()
        self.reads, self.go_on = threading.Event(), threading.Event()

    def read(self, p: Positions) -> Any:
        if (p == 42).any():
            self.reads.set()
            self.go_on.wait()
        return super().read(p)


def test_closing_a_loader_does_not_wait_for_a_source_that_hangs() -> None:
    source = Hangs()
    opened = loader(leat.from_source(source))
    ended: list[type[BaseException]] = []

    def read() -> None:
        try:
            run(opened)
        except leat.ClosedError as e:
            ended.append(type(e))

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    source.reads.wait()
    opened.close()
    reader.join()
    assert ended == [leat.ClosedError]
    source.go_on.set()


@pytest.mark.parametrize("on_error", ["raise", "skip", "substitute"])
def test_a_source_that_hangs_longer_than_its_time_limit_is_an_error_of_the_loader(on_error: str) -> None:
    source = Hangs()
    several = r"source (that )?hangs: read of (sample 42|\d+ samples, \d+ to \d+,) has not returned"
    with pytest.raises(OSError, match=several) as e:
        run(loader(leat.from_source(source, timeout_s=1.0), on_error=on_error, shuffle=False))
    # Of several, none is named, but one that was asked for alone while they were read.
    assert e.value.sample in (None, 42) or str(e.value).startswith("waiting for a source that hangs")
    source.go_on.set()


# ---- IDX


def idx(shape: tuple[int, ...], values: bytes) -> bytes:
    return struct.pack(f">BBBB{len(shape)}I", 0, 0, 8, len(shape), *shape) + values


IMAGES = np.random.default_rng(0).integers(0, 256, (500, 28, 28), np.uint8)


def test_a_gz_file_whose_trailer_lies_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x-idx3-ubyte.gz"
    good = gzip.compress(idx(IMAGES.shape, IMAGES.tobytes()), 1)
    for at in (-1, -5):  # the length, the checksum
        bad = bytearray(good)
        bad[at] ^= 1
        path.write_bytes(bad)
        with pytest.raises(leat.CorruptError, match="x-idx3-ubyte.gz"):
            leat.open(path)


class Slow(Source):
    """Takes as long as a photo or two."""

    def __len__(self) -> int:
        return 100 * N

    def read(self, p: Positions) -> Any:
        time.sleep(0.002)
        return super().read(p)


def depths(dataset: leat.Dataset, in_order: bool = True) -> Iterator[int]:
    """How many batches are in flight, looked at after each of them, with time to make more."""
    with loader(dataset, epochs=None, in_order=in_order) as opened:
        while True:
            for _ in opened:
                time.sleep(0.002)
                yield opened.stats()["window"]["depth"]


def test_small_batches_run_further_ahead_only_where_they_are_cheap_and_in_order() -> None:
    numbers = leat.from_arrays(x=np.arange(1 << 16))
    assert any(depth > 24 for depth in depths(numbers))  # at some time: without end it would be a hang
    for others in (depths(numbers, in_order=False), depths(leat.from_source(Slow()))):
        assert max(itertools.islice(others, 80)) <= 24
