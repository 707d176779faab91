"""What bench/device_photos.py and bench/device_jobs.py do on a card, for which tests/c/device/standin.c stands."""

from __future__ import annotations

import argparse
import queue
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from card_support import standin_card

import leat

pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
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


@pytest.mark.parametrize(("way", "decoded"), [("leat, on the card", 0), ("decoded on the card, alone", 4)])
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
