"""The command line on real photos: those of LEAT_DATA, skipped where there are none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_support import leat, leat_bytes, real_data


@pytest.fixture(scope="module")
def imagenet() -> Path:
    return real_data("imagenet")


@pytest.fixture(scope="module")
def packed(imagenet: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("real") / "imagenet.leat"
    done = leat("pack", imagenet, target)
    assert "broken" not in done.stdout
    return target


def test_every_photo_of_imagenet_comes_back_byte_for_byte(imagenet: Path, packed: Path) -> None:
    photos = sorted(p for p in imagenet.iterdir() if p.suffix == ".JPEG")
    assert json.loads(leat("info", "--json", packed).stdout)["count"] == len(photos)
    for i in range(0, len(photos), 29):
        assert leat("cat", packed, "--id", i, "--field", "name").stdout == photos[i].name
        assert leat_bytes("cat", packed, "--id", i, "--field", "image") == photos[i].read_bytes()


def test_imagenet_verifies_in_the_folder_and_in_the_file(imagenet: Path, packed: Path) -> None:
    leat("verify", packed)
    leat("verify", imagenet)


def test_imagenet_can_be_benched(packed: Path) -> None:
    report = json.loads(leat("bench", packed, "--json", "--seconds", 0.05, "--num-threads", 1).stdout)
    assert report["runs"][0]["samples"] > 0


def test_odd_images_are_packed_with_the_broken_ones_marked(tmp_path: Path) -> None:
    odd = real_data("odd-images")
    leat("pack", odd, tmp_path / "odd.leat", "--labels", "none")
    about = json.loads(leat("info", "--json", tmp_path / "odd.leat").stdout)
    bad = [json.loads(line) for line in (tmp_path / "odd.leat.bad.jsonl").read_text().splitlines()]
    assert about["broken"] == len(bad) > 50 and about["count"] > 400
    assert all(b["reason"] and not b["skipped"] for b in bad)
    leat("verify", tmp_path / "odd.leat")
    leat("pack", odd, tmp_path / "good.leat", "--labels", "none", "--on-error", "skip", "--quiet")
    assert json.loads(leat("info", "--json", tmp_path / "good.leat").stdout)["count"] == about["count"] - len(bad)


def test_odd_images_do_not_stop_a_bench(tmp_path: Path) -> None:
    odd = real_data("odd-images")
    leat("pack", odd, tmp_path / "odd.leat", "--labels", "none", "--no-check", "--quiet")
    report = json.loads(leat("bench", tmp_path / "odd.leat", "--json", "--seconds", 0.1, "--num-threads", 2).stdout)
    assert report["runs"][0]["samples"] > 0
