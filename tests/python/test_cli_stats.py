"""leat stats: numbers that are counted here by other means, and charts that show them."""

from __future__ import annotations

import io
import json
import os
import pty
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_support import Started, make_folder, png, real_data
from cli_support import command as executable
from cli_support import leat as command
from PIL import Image

import leat

NOISE = np.random.default_rng(7)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, Any]]]:
    path = tmp_path_factory.mktemp("stats") / "a.leat"
    fields = {"image": "image", "boxes": leat.boxes("xywh"), "label": leat.field("int64", (None,)), "text": "str"}
    samples = []
    with leat.Writer(path, {**fields, "score": "float64"}, classes=["ant", "bee", "\x1b[31mcat"]) as w:
        for i in range(40):
            width, height, n = int(NOISE.integers(20, 60)), int(NOISE.integers(20, 60)), int(NOISE.integers(0, 6))
            corner = NOISE.random((n, 2)) * (width / 2, height / 2)
            boxes = np.concatenate([corner, 1 + NOISE.random((n, 2)) * 5], 1).astype(np.float32)
            label = NOISE.integers(0, 3, n)
            sample = {"image": png(width, height, i), "boxes": boxes, "label": label, "text": "x" * i, "score": i / 4}
            w.add(**sample)
            samples.append(sample | {"width": width, "height": height})
    return path, samples


def stats(path: Path, *options: object) -> dict[str, Any]:
    return json.loads(command("stats", path, "--json", *options).stdout)  # type: ignore[no-any-return]


def test_each_distribution_has_the_quantiles_of_its_numbers(made: tuple[Path, list[dict[str, Any]]]) -> None:
    path, samples = made
    found = stats(path)
    boxes = np.concatenate([s["boxes"] for s in samples]).astype(float)
    expected = {
        "width": (found["images"][0]["width"], [s["width"] for s in samples]),
        "height": (found["images"][0]["height"], [s["height"] for s in samples]),
        "bytes": (found["images"][0]["bytes"], [len(s["image"]) for s in samples]),
        "per_image": (found["boxes"][0]["per_image"], [len(s["boxes"]) for s in samples]),
        "side": (found["boxes"][0]["side"], np.sqrt(boxes[:, 2] * boxes[:, 3])),
        "aspect": (found["boxes"][0]["aspect"], boxes[:, 2] / boxes[:, 3]),
        "text": (found["lengths"][0], [len(s["text"]) for s in samples]),
        "score": (found["numbers"][0], [s["score"] for s in samples]),
    }
    for name, (q, values) in expected.items():
        ordered = np.sort(np.asarray(values, float))
        for key, part in (("least", 0), ("p5", 0.05), ("median", 0.5), ("p95", 0.95), ("most", 1)):
            assert q[key] == pytest.approx(ordered[int(part * (len(ordered) - 1) + 0.5)]), (name, key)
        assert q["mean"] == pytest.approx(ordered.mean()), name
        edges = np.array(q["edges"])
        assert len(edges) == len(q["bins"]) + 1 and sum(q["bins"]) == len(ordered)
        inside = ordered[ordered < edges[-2]]  # the last bin has all that is above it
        assert np.histogram(inside, edges[:-1])[0].tolist() == q["bins"][:-1], name


def test_classes_are_counted_and_named(made: tuple[Path, list[dict[str, Any]]]) -> None:
    path, samples = made
    found = stats(path)["classes"][0]
    counts = np.bincount(np.concatenate([s["label"] for s in samples]).astype(int), minlength=3)
    assert [c["count"] for c in found["counts"]] == counts.tolist()
    assert [c["name"] for c in found["counts"]] == ["ant", "bee", "\x1b[31mcat"]
    assert (found["per"], found["count"], found["outside"]) == ("box", int(counts.sum()), 0)


def test_a_terminal_is_given_no_control_characters(made: tuple[Path, list[dict[str, Any]]]) -> None:
    text = command("stats", made[0]).stdout
    assert "\\x1b[31mcat" in text and "\x1b" not in text


def test_what_goes_with_the_boxes_is_said_so_and_has_no_chart(tmp_path: Path) -> None:
    fields = {"boxes": leat.boxes(), "label": leat.field("int64", (None,)), "crowd": leat.field("uint8", (None,))}
    heights = []
    for more in (0, 1):
        with leat.Writer(tmp_path / f"{more}.leat", fields, classes=["ant", "bee", "cat"]) as w:
            for n in (0, 3, 2, 5):
                box = np.tile(np.array([[1, 1, 5, 5]], np.float32), (n, 1))
                w.add(boxes=box, label=np.full(n, 1), crowd=np.zeros(n + more, np.uint8))
        said = command("stats", tmp_path / f"{more}.leat", "--plot", tmp_path / "a.png").stdout
        assert "10 boxes; 1 sample without any" in said
        assert "10 boxes; 1 of 3 classes occur\n" in said
        assert ("crowd          one for each box" in said) == (not more)
        assert ("crowd          14 rows; per sample 1 to 6" in said) == bool(more)
        with Image.open(tmp_path / "a.png") as picture:
            heights.append(picture.height)
    assert heights[0] < heights[1]


def test_boxes_that_a_training_would_stumble_over_are_counted(tmp_path: Path) -> None:
    boxes = [[0, 0, 10, 10], [5, 5, 5, 9], [9, 9, 3, 3], [float("nan"), 0, 1, 1], [-20, 0, 5, 5], [0, 0, 100, 5]]
    fields = {"image": "image", "boxes": leat.boxes("xyxy")}
    with pytest.warns(UserWarning, match="6 of 8 boxes do not fit"), leat.Writer(tmp_path / "a.leat", fields) as w:
        w.add(image=png(64, 64), boxes=np.array([*boxes, [70, 0, 90, 5], [3, 3, 3.5, 9]], np.float32))
    found = stats(tmp_path / "a.leat")["boxes"][0]
    kinds = ("count", "not_finite", "empty", "outside", "cut", "tiny")
    assert [found[kind] for kind in kinds] == [8, 1, 2, 1, 2, 1]
    text = command("stats", tmp_path / "a.leat").stdout
    assert "2 reach out of their image, 1 lie outside of it, 2 have no area" in text and "1 have a side below" in text


def test_of_a_folder_photos_are_decoded_and_broken_ones_found(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "photos", {"ant": 3, "bee": 4})
    broken = folder / "bee" / "0001.png"
    broken.write_bytes(broken.read_bytes()[:200])
    found = stats(folder)
    assert (found["count"], found["looked_at"], found["broken"]) == (7, 7, 1)
    assert found["images"][0]["shapes"] == [[40, 30, 6]] and found["images"][0]["kinds"] == {"PNG": 7}
    assert [c["count"] for c in found["classes"][0]["counts"]] == [3, 4]
    assert stats(folder, "--samples", 2)["looked_at"] == 2


def test_each_kind_of_photo_has_its_name_in_place_and_packed(tmp_path: Path) -> None:
    folder = tmp_path / "photos"
    folder.mkdir()
    image = Image.fromarray(NOISE.integers(0, 255, (20, 30, 3), np.uint8))
    kinds = {"png": "PNG", "jpg": "JPEG", "webp": "WebP", "gif": "GIF", "bmp": "BMP", "ppm": "PNM"}
    for extension in kinds:
        image.save(folder / f"a.{extension}")
    image.save(folder / "b.jpg", progressive=True)
    command("pack", folder, tmp_path / "a.leat", "--quiet")
    for path in (folder, tmp_path / "a.leat"):
        assert stats(path)["images"][0]["kinds"] == {**dict.fromkeys(kinds.values(), 1), "progressive JPEG": 1}


def test_packed_photos_have_the_statistics_of_their_folder(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "photos", {"ant": 3, "bee": 4})
    command("pack", folder, tmp_path / "a.leat", "--quiet")
    one, two = stats(folder), stats(tmp_path / "a.leat")
    for key in ("count", "classes", "boxes", "images"):
        assert one[key] == two[key], key


def test_the_charts_are_a_picture_with_bars_in_the_colours_of_classes(
    made: tuple[Path, list[dict[str, Any]]], tmp_path: Path
) -> None:
    said = command("stats", made[0], "--plot", tmp_path / "a.png").stdout
    assert said == command("stats", made[0]).stdout
    pixels = np.asarray(Image.open(io.BytesIO((tmp_path / "a.png").read_bytes())).convert("RGB")).astype(int)
    counts = [c["count"] for c in stats(made[0])["classes"][0]["counts"]]
    lengths = []
    for colour in [(255, 59, 48), (30, 144, 255), (52, 199, 89)]:
        rows = (pixels == colour).all(2).sum(1)
        assert rows.max() > 100
        lengths.append(int(rows.max()))
    assert np.allclose(np.array(lengths) / max(lengths), np.array(counts) / max(counts), atol=0.01)


def test_large_numbers_have_charts(tmp_path: Path) -> None:
    columns = {
        "id": [10**18, 10**18 + 5, 10**18],
        "time": [1_700_000_000_000_000_000] * 3,
        "x": [1e16, 1e16, 1e16],
        "wide": [-1e308, 1e308, 0.0],
    }
    fields = {name: "float64" if name in ("x", "wide") else "int64" for name in columns}
    with leat.Writer(tmp_path / "a.leat", {**fields, "boxes": leat.boxes("xyxy")}) as w:
        for row in zip(*columns.values()):
            w.add(**dict(zip(columns, row)), boxes=np.array([[0, 0, 1e38, 1e38]], np.float32))
    found = {q["field"]: q for q in stats(tmp_path / "a.leat", "--plot", tmp_path / "a.png")["numbers"]}
    for name in ("id", "time", "x"):
        assert sum(found[name]["bins"]) == 3 and found[name]["edges"] == sorted(set(found[name]["edges"]))
    assert found["wide"]["bins"] == [] and found["wide"]["most"] == 1e308
    command("stats", tmp_path / "a.leat")


def test_of_very_many_numbers_some_stand_for_all(tmp_path: Path) -> None:
    n = 2 * 4_194_304 + 10  # more than are kept (cli/stats/numbers.c)
    values = np.arange(n)
    values[-1] = 10 * n  # which is not kept, and still the largest
    with leat.Writer(tmp_path / "a.leat", {"x": "int64"}) as w:
        w.write_batch({"x": values})
    q = stats(tmp_path / "a.leat")["numbers"][0]
    assert (q["least"], q["most"]) == (0, 10 * n) and q["mean"] == pytest.approx(values.mean())
    assert q["median"] == pytest.approx(n / 2, rel=1e-5) and sum(q["bins"]) == pytest.approx(n, rel=1e-5)


def test_a_damaged_column_is_told_beside_broken_photos(tmp_path: Path) -> None:
    path = tmp_path / "a.leat"
    boxes = np.array([[11, 22, 33, 44.5]], np.float32)
    with leat.Writer(path, {"image": "image", "boxes": leat.boxes("xyxy")}) as w:
        for i in range(4):
            w.add(image=png(8, 8, i) if i else b"no photo", boxes=boxes)
    whole = path.read_bytes()
    at = whole.index(boxes.tobytes())
    path.write_bytes(whole[:at] + b"x" + whole[at + 1 :])
    done = command("stats", path, code=1)
    assert "boxes" in done.stderr and "checksum" in done.stderr and done.stdout == ""


def test_the_decoding_of_a_folder_shows_progress_on_a_terminal(tmp_path: Path) -> None:
    (tmp_path / "0.png").write_bytes(png(2000, 2000, 0))
    for i in range(1, 2000):
        os.link(tmp_path / "0.png", tmp_path / f"{i}.png")
    terminal, other = pty.openpty()
    with Started([executable(), "stats", tmp_path, "--samples", "2000"], stderr=other):
        os.close(other)
        assert re.match(rb"\rreading +\d+%", os.read(terminal, 4096))
    os.close(terminal)


def test_an_empty_data_set_has_statistics(tmp_path: Path) -> None:
    with leat.Writer(tmp_path / "a.leat", {"image": "image", "label": "int64"}):
        pass
    found = stats(tmp_path / "a.leat", "--plot", tmp_path / "a.png")
    assert found["count"] == 0 and found["images"][0]["width"] is None
    command("stats", tmp_path / "a.leat")


def test_charts_that_cannot_be_written_are_told_before_anything_is_read(made: tuple[Path, list[Any]]) -> None:
    done = command("stats", made[0], "--plot", "/no/such/a.png", code=2)
    assert "/no/such/a.png" in done.stderr and done.stdout == ""


def test_real_photos_have_statistics() -> None:
    found = stats(real_data("imagenet"), "--samples", 50)
    assert found["images"][0]["width"]["median"] > 100 and found["looked_at"] == 50
