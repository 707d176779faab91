"""leat stats of files of events, against counts that are made here by other means; and leat pack of them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from cli_support import leat as command
from cli_support import real_data

import leat


def pending(src: list[int], dst: list[int], batch: int) -> float:
    """The share of the sides of events whose node has an earlier event in its batch."""
    found = 0
    for begin in range(0, len(src), batch):
        seen: set[int] = set()
        for pair in zip(src[begin : begin + batch], dst[begin : begin + batch], strict=True):
            found += sum(node in seen for node in pair)
            seen.update(pair)
    return found / (2 * len(src))


def test_stats_of_events_are_those_counted_by_other_means(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    src, dst = rng.integers(0, 40, (2, 700)) * 53_000_000
    t = np.sort(rng.integers(0, 500, 700))
    path = tmp_path / "a.txt"
    np.savetxt(path, np.column_stack((src, dst, t)), fmt="%d")
    found = json.loads(command("stats", "--events", path, "--json").stdout)["events"]
    ends = [np.append(src[i : i + 1], dst[i : i + 1][dst[i : i + 1] != src[i]]) for i in range(700)]
    degrees = np.unique(np.concatenate(ends), return_counts=True)[1]
    pairs = np.unique(np.column_stack((src, dst)), axis=0)
    assert found["events"] == 700
    assert found["nodes"] == len(degrees)
    assert [found["first"], found["last"]] == [int(t[0]), int(t[-1])]
    assert found["equal_times"] == int((np.diff(t) == 0).sum())
    assert found["out_of_order"] == 0
    assert found["self_loops"] == int((src == dst).sum())
    assert found["repeated"] == 700 - len(pairs)
    assert [found["degree"]["least"], found["degree"]["most"]] == [degrees.min(), degrees.max()]
    for one in found["pending"]:
        assert one["share"] == pending(src.tolist(), dst.tolist(), one["batch"])
    shown = command("stats", "--events", path).stdout
    assert f"events         700 of {len(degrees)} nodes" in shown
    assert "in batches of 50, 200, 800, 3,200" in shown


def test_a_pack_of_events_has_their_fingerprint_and_their_stats(tmp_path: Path) -> None:
    path, packed = tmp_path / "a.txt", tmp_path / "a.leat"
    path.write_text("1 2 5.5\n3 4 4\n5 5 6\n")
    np.save(tmp_path / "f.npy", np.arange(6, dtype="float32").reshape(3, 2))
    refused = command("pack", "--events", path, packed, code=1)
    assert (
        "a.txt, line 2: time 4 comes after 5.5, and events stand in order of time: sort=True (--sort)" in refused.stderr
    )
    command("pack", "--events", "--sort", "--features", tmp_path / "f.npy", path, packed)
    ds = leat.open(path, format="events", sort=True, features=tmp_path / "f.npy")
    assert leat.open(packed).fingerprint == ds.fingerprint
    assert leat.open(packed).column("feat").tolist() == [[2, 3], [0, 1], [4, 5]]
    shown = command("stats", packed).stdout
    assert "  times        4 to 6; 0.00% as the event before" in shown
    assert "1 of a node with itself" in shown


def test_events_are_no_annotations(tmp_path: Path) -> None:
    refused = command("stats", "--events", "--yolo", tmp_path, tmp_path, code=2)
    assert '--events is for lines "src dst time", and annotations are given' in refused.stderr


def test_real_messages_are_mostly_pending_in_large_batches(tmp_path: Path) -> None:
    folder = real_data("temporal-graph")
    path = tmp_path / "CollegeMsg.txt"
    path.symlink_to(folder / "CollegeMsg.txt")
    found = json.loads(command("stats", "--events", path, "--json").stdout)["events"]
    assert [found["events"], found["nodes"]] == [59835, 1899]
    assert [round(100 * one["share"]) for one in found["pending"]] == [55, 70, 83, 92]
