"""leat replay of photos that are stored as pixels, and of runs over a part of the data set."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
from cli_support import leat as command
from PIL import Image

import leat


def test_photos_that_are_stored_as_pixels_are_written_as_pictures(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    sizes, noise = [(1, 1), (40, 30), (301, 200)], np.random.default_rng(1)
    for i, (width, height) in enumerate(sizes):
        for mode in ("RGB", "L"):
            exif = Image.Exif()
            exif[0x0112] = 1 + (2 * i + (mode == "L")) % 8
            pixels = noise.integers(0, 256, (height, width, 3)[: 3 if mode == "RGB" else 2], np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / f"{i}{mode}.jpg", exif=exif)
    command("pack", tmp_path / "photos", tmp_path / "raw.leat", "--photos", "raw", "--quiet")
    data = leat.open(tmp_path / "raw.leat")
    with leat.Loader(data, len(data)) as loader:
        (tmp_path / "state.json").write_text(json.dumps(loader.state_dict()))
    command("replay", tmp_path / "state.json", tmp_path / "raw.leat", "--out", tmp_path / "out")
    files = json.loads((tmp_path / "out" / "batch.json").read_text())["outputs"]["image"]["files"]
    assert len(files) == 6
    for i, name in enumerate(files):
        assert name.endswith(f"-id{i}.png")
        with (
            Image.open(io.BytesIO((tmp_path / "out" / name).read_bytes())) as picture,
            Image.open(tmp_path / "photos" / data[i]["name"]) as came,
        ):
            assert picture.mode == came.mode and picture.getexif().get(0x0112, 1) == came.getexif()[0x0112]
            assert np.array_equal(np.asarray(picture).reshape(data[i]["image"].shape), data[i]["image"])


def test_such_pictures_pack_to_the_same_pixels(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.linear_gradient("L").convert("RGB").resize((90, 40)).save(tmp_path / "photos" / "a.jpg", exif=exif)
    command("pack", tmp_path / "photos", tmp_path / "raw.leat", "--photos", "raw", "--quiet")
    with leat.Loader(leat.open(tmp_path / "raw.leat"), 1) as loader:
        (tmp_path / "state.json").write_text(json.dumps(loader.state_dict()))
    command("replay", tmp_path / "state.json", tmp_path / "raw.leat", "--out", tmp_path / "out")
    command("pack", tmp_path / "out" / "image", tmp_path / "again.leat", "--photos", "raw", "--quiet")
    stored = []
    for name in ("raw", "again"):
        with leat.Loader(leat.open(tmp_path / f"{name}.leat"), 1, framework="numpy") as loader:
            stored.append(bytes(next(iter(loader))["image"].values))
    assert stored[0] == stored[1]


def test_a_state_of_a_run_over_a_part_says_that_the_command_cannot_build_it(tmp_path: Path) -> None:
    with leat.Writer(tmp_path / "numbers.leat", {"x": "int64"}) as w:
        for i in range(10):
            w.add(x=i)
    with leat.Loader(leat.open(tmp_path / "numbers.leat")[3:7], 2) as loader:
        (tmp_path / "state.json").write_text(json.dumps(loader.state_dict()))
    said = command(
        "replay", tmp_path / "state.json", tmp_path / "numbers.leat", "--out", tmp_path / "out", code=2
    ).stderr
    assert "its run was over 4 samples, this one is over 10" in said and "loader.batch_at()" in said
