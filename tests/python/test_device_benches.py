"""The measurements of tools/gpu.sh on a card, for which tests/c/device/standin.c stands."""

from __future__ import annotations

import argparse
import contextlib
import json
import queue
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from card_support import OnHost, standin_card

import leat
from leat.device import table

torch: Any = pytest.importorskip("torch")
for folder in ("bench", "examples", "tools"):
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / folder))
gpu: Any = pytest.importorskip("gpu")
jobs: Any = pytest.importorskip("device_jobs")
bench: Any = pytest.importorskip("device_photos")
PIXELS = 224 * 224 * 3


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Iterator[argparse.Namespace]:
    with standin_card(tmp_path_factory.mktemp("standin")):
        options = {"without_card": True, "batch": 4, "workers": 1, "cores": 1, "jobs": 1, "seconds": 0.1}
        yield argparse.Namespace(**options, device="cuda")


@pytest.fixture(scope="module")
def photos(given: argparse.Namespace, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return bench.Photos(tmp_path_factory.mktemp("photos"), given, "original", "fast")


@pytest.mark.parametrize(
    ("way", "decoded"),
    [
        ("leat, pixels of JPEGs", 0),
        ("leat, coded JPEGs", 4),
        ("decoded on the card, alone", 4),
        ("coded JPEGs, alone", 4),
    ],
)
def test_batches_of_a_card_are_counted_with_what_went_over_the_link(photos: Any, way: str, decoded: int) -> None:
    batches, seen = bench.WAYS[way](photos), list[Any]()
    found = bench.spell(batches, seen.append, "cpu", 0)
    assert found["photos"] == 4 and seen[0].shape == (4, 3, 224, 224) and not seen[0].is_pinned()
    assert found["decoded"] >= decoded and found["link_gb_s"] > 0
    if not decoded:
        assert found["decoded"] == 0 and found["link_bytes"] >= 4 * PIXELS
    batches.source.close()


def test_a_training_of_a_port_finds_its_photos_on_the_card(given: Any, photos: Any, tmp_path: Path) -> None:
    given.folder, given.pack = tmp_path / "ports", photos.packs["original"]
    ready, start, results = threading.Event(), threading.Barrier(2), queue.Queue[Any]()
    port = threading.Thread(target=jobs.served, args=(jobs.ONE_THERE, given, ready, start, results), daemon=True)
    port.start()
    assert ready.wait(60)
    with jobs.opened(jobs.ONE_THERE, given) as source:
        start.wait(60)
        found = bench.spell(jobs.batches_of(jobs.ONE_THERE, source, given), None, "cpu", given.seconds)
    assert results.get(timeout=60)["photos"] == 0
    leat.ports.stop(jobs.PORT, folder=given.folder)
    port.join(60)
    assert found["photos"] >= 4 and found["shared_bytes"] >= 4 * PIXELS
    assert 0 < found["link_bytes"] < found["shared_bytes"]


def test_several_trainings_are_compared_with_one() -> None:
    one, four = {"link_bytes": 150.0, "photos_per_s": 1000.0}, {"link_bytes": 40.0, "photos_per_s": 2000.0}
    assert jobs.of_one(four, 4, one)["of_one"] == {"bytes": pytest.approx(16 / 15), "time": 2.0}
    assert jobs.of_one(four, 4, {}) == jobs.of_one({"failed": "why"}, 4, one) == {}


# --- all of them as on a card: PyTorch's calls of one are taken to the processor --------------------------------------
class Taken(torch.overrides.TorchFunctionMode):  # type: ignore[misc]
    """Copies to a card stay here."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function.__name__ == "pin_memory":
            return args[0]
        kwargs = {name: here(value) for name, value in (kwargs or {}).items() if name != "pin_memory"}
        return function(*map(here, args), **kwargs)


def here(value: Any) -> Any:
    return "cpu" if isinstance(value, (str, torch.device)) and str(value).startswith("cuda") else value


class Event:
    def __init__(self, timed: bool = False) -> None:
        self.at = time.perf_counter()

    def synchronize(self) -> None: ...

    def elapsed_time(self, end: Event) -> float:
        return 1e3 * (end.at - self.at)


class Stream:
    def record_event(self, event: Event | None = None) -> Event:
        return Event()

    def wait_event(self, event: Event) -> None: ...


class Thread(threading.Thread):
    """In the place of a process."""

    def __init__(self, target: Any, args: Any, daemon: bool) -> None:
        super().__init__(target=target, args=args, daemon=daemon)
        self.folder = args[1].folder if target is jobs.served else None

    def run(self) -> None:
        with Taken():
            super().run()

    def kill(self) -> None:
        if self.folder is not None:  # a training ends by itself
            leat.ports.stop(jobs.PORT, folder=self.folder)


@pytest.fixture
def pretended(given: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def few(folder: Path, different: int, times: int, *forms: Any) -> Any:
        return gpu.write_photos(folder, 8, 4, *forms)

    def small(device: str, widths: tuple[int, ...] = (), shrunk: int = 1) -> Any:
        return training(device, (16,), 4)

    training = bench.training
    for name, value in {
        "is_available": lambda: True,
        "synchronize": lambda: None,
        "get_device_name": lambda: "none",
        "current_stream": Stream,
        "Stream": Stream,
        "Event": Event,
        "stream": lambda stream: contextlib.nullcontext(),
    }.items():
        monkeypatch.setattr(torch.cuda, name, value)
    monkeypatch.setattr(torch.Tensor, "record_stream", lambda tensor, stream: None)
    monkeypatch.setattr(table, "card_of", lambda device: OnHost(0))
    monkeypatch.setattr(table, "nvrtc_path", lambda: None)
    monkeypatch.setattr(bench, "write_photos", few)
    for module in (bench, jobs):
        monkeypatch.setattr(module, "training", small)
    kinds = {"Barrier": threading.Barrier, "Event": threading.Event, "Queue": queue.Queue, "Process": Thread}
    monkeypatch.setattr(jobs.multiprocessing, "get_context", lambda how: argparse.Namespace(**kinds))
    threads = torch.get_num_threads()
    with Taken():
        yield
    torch.set_num_threads(threads)


def told(module: Any, capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, Any]]:
    """The lines of JSON that a program prints."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["program", *words])
        assert not module.main()
    return [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{")]


@pytest.mark.usefixtures("pretended")
def test_rows_are_measured_as_on_a_card(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--device", "cuda", "--mib", "1", "--out-mib", "1", "--rounds", "2", "--json"]
    link, *found = told(pytest.importorskip("device_rows"), capsys, *words)
    assert link["link_gb_s"] > 0 and [r["bytes"] for r in found] == [64, 128, 256, 512, 1000, 1024, 4096]
    assert all(set(r["gb_s"]) == {"leat", "pinned copy", "leat, ids there"} for r in found)


@pytest.mark.usefixtures("pretended")
@pytest.mark.filterwarnings("ignore:'pin_memory' argument is set")
@pytest.mark.shard("whole")  # 10 s
def test_photos_are_measured_as_on_a_card(capsys: pytest.CaptureFixture[str]) -> None:
    plain, *found = told(bench, capsys, "--seconds", "0.01", "--batch", "4", "--workers", "1")
    assert plain["plain_copy_gb_s"] > 0 and [r["way"] for r in found] == list(bench.WAYS)
    for r in found:
        assert r["photos_per_s"] > 0 if r["way"] not in ("DALI", "nvJPEG") else "absent" in r, r
    rates = {r["way"]: r for r in found}
    assert "decoded" in rates["leat, decoded on the card"] and rates["pixels, alone"]["of_link"] > 0


@pytest.mark.usefixtures("pretended")
@pytest.mark.shard("whole")  # 10 s
def test_trainings_are_measured_as_on_a_card(capsys: pytest.CaptureFixture[str]) -> None:
    found = told(jobs, capsys, "--seconds", "0.1", "--batch", "4", "--jobs", "2", "--cores", "2")
    assert [(r["way"], r["jobs"]) for r in found] == [(jobs.ONE_THERE, 1), *((way, 2) for way in jobs.WAYS)]
    assert all(r["photos_per_s"] > 0 for r in found) and found[1]["of_one"]["bytes"] > 0
    assert found[1]["shared_bytes"] > 0


@pytest.mark.usefixtures("pretended")
@pytest.mark.shard("whole")  # 20 s
@pytest.mark.parametrize("name", gpu.RECIPES)
def test_recipes_run_as_on_a_card(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert told(pytest.importorskip("recipes"), capsys, name, "--device", "cuda", "--size", "tiny")


@pytest.mark.usefixtures("pretended")
@pytest.mark.shard("whole")  # 3 s
def test_features_of_neighbours_run_as_on_a_card(capsys: pytest.CaptureFixture[str]) -> None:
    features = pytest.importorskip("graph_features")
    x = features.random_graph(500)
    assert features.compare(x, 2, "cuda")
    found = gpu.feature_seconds(capsys.readouterr().out)
    assert set(found[0]) == {"plain torch", "leat"}
