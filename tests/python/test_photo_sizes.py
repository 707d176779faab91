"""Photos of another size than their annotations say, and photos that EXIF turns."""

from __future__ import annotations

import io
import json
import random
import re
import struct
import warnings
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_support import leat as run
from cli_support import real_data
from drawn_support import SEEDS
from PIL import Image

import leat
from leat import ops

WIDTH, HEIGHT = 60, 40
BOX = (12, 8, 30, 14)  # xyxy, in the photo as it is stored


def photo(orientation: int = 1) -> bytes:
    """A dark photo with a bright box."""
    pixels = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    pixels[BOX[1] : BOX[3], BOX[0] : BOX[2]] = 255
    out, exif = io.BytesIO(), Image.Exif()
    exif[0x0112] = orientation
    Image.fromarray(pixels).save(out, "JPEG", quality=95, exif=exif)
    return out.getvalue()


# Orientation 6: turned by 90 degrees to the right, (x, y) of the stored photo is (HEIGHT - y, x).
TURNED = (HEIGHT - BOX[3], BOX[0], HEIGHT - BOX[1], BOX[2])


def write(tmp_path: Path, form: str, said: list[tuple[int, int]], box: Any = BOX, orientation: int = 1) -> Any:
    """A folder of photos, and annotations that say these sizes."""
    folder = tmp_path / "images"
    folder.mkdir()
    for i in range(len(said)):
        (folder / f"{i:04d}.jpg").write_bytes(photo(orientation))
    x0, y0, x1, y1 = box
    if form == "coco":
        images = [{"id": i, "file_name": f"{i:04d}.jpg", "width": w, "height": h} for i, (w, h) in enumerate(said)]
        bbox = {"category_id": 1, "bbox": [x0, y0, x1 - x0, y1 - y0]}
        annotations = [{"image_id": i, **bbox} for i in range(len(said))]
        text = {"images": images, "annotations": annotations, "categories": [{"id": 1, "name": "a"}]}
        (tmp_path / "boxes.json").write_text(json.dumps(text, indent=0))
        return folder, tmp_path / "boxes.json"
    (tmp_path / "voc").mkdir()
    for i, (w, h) in enumerate(said):
        (tmp_path / f"voc/{i:04d}.xml").write_text(
            f"<annotation>\n<size>\n<width>{w}</width><height>{h}</height></size><object><name>a</name><bndbox>"
            f"<xmin>{x0}</xmin><ymin>{y0}</ymin><xmax>{x1}</xmax><ymax>{y1}</ymax></bndbox></object></annotation>"
        )
    return folder, tmp_path / "voc"


def notes(folder: Path, path: Path, **options: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        leat.open(folder, annotations=path, **options)
    return [line for w in caught for line in str(w.message).split("\n")]


@pytest.mark.parametrize("form", ["coco", "voc"])
def test_photos_of_another_size_are_named_with_the_line_that_says_it(tmp_path: Path, form: str) -> None:
    said = [(WIDTH, HEIGHT), (WIDTH * 2, HEIGHT * 2), (HEIGHT, WIDTH), (WIDTH, HEIGHT)]
    folder, path = write(tmp_path, form, said)
    (line,) = notes(folder, path)
    where = r"images\[1\] \(line (\d+), byte \d+\)" if form == "coco" else r"0001\.xml line (\d+)"
    found = re.search(f"2 of 4 photos that were looked at have another size.*: 0001.jpg is 60 x 40, and {where}", line)
    assert found and "says 120 x 80; 0002.jpg is 60 x 40" in line
    if form == "voc":
        assert found[1] == "3"
    else:
        assert '"id": 1' in "".join(path.read_text().split("\n")[int(found[1]) - 1 :][:2])
    with pytest.raises(leat.CorruptError, match="0001.jpg is 60 x 40"):
        leat.open(folder, annotations=path, on_bad="raise")


@pytest.mark.parametrize("form", ["coco", "voc"])
def test_opening_looks_at_some_photos_and_packing_at_all(tmp_path: Path, form: str) -> None:
    said = [(WIDTH, HEIGHT)] * 300
    folder, path = write(tmp_path, form, said)
    assert notes(folder, path) == []
    said[299] = (WIDTH, HEIGHT + 2)
    (tmp_path / "again").mkdir()
    folder, path = write(tmp_path / "again", form, said)
    assert notes(folder, path) == []
    made = tmp_path / "made.leat"
    packed = run("pack", f"--{form}", path, folder, made)
    assert "1 of 300 photos that were looked at have another size" in packed.stderr and "0299.jpg" in packed.stderr
    run("pack", f"--{form}", path, folder, made, "--overwrite", "--on-bad", "raise", code=1)
    (tmp_path / "many").mkdir()
    folder, path = write(tmp_path / "many", form, [(WIDTH, HEIGHT + 2)] * 300)
    (line,) = notes(folder, path)
    assert "64 of 64 photos" in line and line.endswith("; ...")


def shown(ds: leat.Dataset, exif: bool) -> Any:
    """The mean of the pixels in the boxes of the first sample as it is delivered, and the image's shape."""
    outputs = {("image", "boxes"): [ops.Decode(exif=exif)]}
    (batch,) = leat.Loader(ds.select([0]), 1, outputs=outputs, framework="numpy")
    x0, y0, x1, y1 = batch["boxes"].values[0].astype(int)
    return batch["image"][0, :, y0 + 1 : y1 - 1, x0 + 1 : x1 - 1].mean(), batch["image"].shape[2:]


def test_annotations_of_photos_as_exif_turns_them_go_with_decode_exif(tmp_path: Path) -> None:
    folder, path = write(tmp_path, "coco", [(HEIGHT, WIDTH)] * 4, TURNED, orientation=6)
    (line,) = notes(folder, path)
    assert "4 of 4 photos" in line and "as their EXIF orientation turns them: decode them by Decode(exif=True)" in line
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ds = leat.open(folder, annotations=path)
    bright, shape = shown(ds, exif=True)
    assert bright > 250 and shape == (WIDTH, HEIGHT)
    assert shown(ds, exif=False)[0] < 250
    run("pack", "--coco", path, folder, tmp_path / "made.leat")
    assert shown(leat.open(tmp_path / "made.leat"), exif=True)[0] > 250


def test_annotations_of_photos_as_they_are_stored_go_with_decode(tmp_path: Path) -> None:
    folder, path = write(tmp_path, "coco", [(WIDTH, HEIGHT)] * 4, orientation=6)
    assert notes(folder, path, on_bad="raise") == []
    bright, shape = shown(leat.open(folder, annotations=path), exif=False)
    assert bright > 250 and shape == (HEIGHT, WIDTH)


# ---- annotations that do not say the size ----

KINDS = {"jpg": "JPEG", "png": "PNG", "webp": "WEBP", "tif": "TIFF", "bmp": "BMP", "gif": "GIF"}


def file(kind: str, w: int, h: int, orientation: int = 1) -> bytes:
    out, exif = io.BytesIO(), Image.Exif()
    exif[0x0112] = orientation
    Image.new("RGB", (w, h)).save(out, KINDS[kind], **({} if orientation == 1 else {"exif": exif}))
    return out.getvalue()


Box = tuple[float, float, float, float]


class Made:
    """Photos with boxes, and annotations of both formats that say what `said` makes of their sizes."""

    def __init__(self, root: Path, photos: list[tuple[str, bytes, int, int, list[Box]]]) -> None:
        self.root, self.photos, self.images = root, photos, root / "images"
        self.images.mkdir()
        for name, data, *_ in photos:
            (self.images / name).write_bytes(data)

    def coco(self, said: Any) -> Path:
        images, boxes = [], []
        for i, (name, _, w, h, of) in enumerate(self.photos):
            images.append({"id": i, "file_name": name, **said(w, h)})
            boxes += [{"image_id": i, "category_id": 1, "bbox": [x, y, x1 - x, y1 - y]} for x, y, x1, y1 in of]
        path = self.root / "boxes.json"
        path.write_text(json.dumps({"images": images, "annotations": boxes, "categories": [{"id": 1, "name": "a"}]}))
        return path

    def voc(self, said: Any) -> Path:
        (self.root / "voc").mkdir(exist_ok=True)
        for name, _, w, h, of in self.photos:
            size = "".join(f"<{k}>{v}</{k}>" for k, v in said(w, h).items())
            text = f"<annotation><size>{size}</size>\n"
            for x0, y0, x1, y1 in of:
                text += f"<object><name>a</name><bndbox><xmin>{x0}</xmin><ymin>{y0}</ymin>"
                text += f"<xmax>{x1}</xmax><ymax>{y1}</ymax></bndbox></object>\n"
            (self.root / f"voc/{name.split('.')[0]}.xml").write_text(text + "</annotation>")
        return self.root / "voc"

    def open(self, form: str, said: Any, **options: Any) -> tuple[leat.Dataset, list[str]]:
        path = getattr(self, form)(said)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            ds = leat.open(self.images, annotations=path, **options)
        return ds, [line for w in caught for line in str(w.message).split("\n")]


def both(w: int, h: int) -> dict[str, int]:
    return {"width": w, "height": h}


def nothing(w: int, h: int) -> dict[str, int]:
    return {}


def drawn_boxes(w: int, h: int) -> list[Box]:
    """In whole numbers; each meets the photo, and about half of them reach out of it."""
    boxes: list[Box] = []
    for _ in range(random.randrange(6)):
        x, y = random.randrange(-9, w - 1), random.randrange(-9, h - 1)
        boxes.append((x, y, random.randrange(max(x, 0) + 1, w + 20), random.randrange(max(y, 0) + 1, h + 20)))
    return boxes


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("form", ["coco", "voc"])
def test_boxes_are_cut_off_at_the_photo_where_its_size_is_not_said(tmp_path: Path, form: str, seed: int) -> None:
    """120 photos of six formats, with some 300 boxes."""
    random.seed(seed)
    photos = []
    for i in range(120):
        kind, w, h = random.choice(list(KINDS)), random.randrange(3, 80), random.randrange(3, 80)
        photos.append((f"{i:03d}.{kind}", file(kind, w, h), w, h, drawn_boxes(w, h)))
    made = Made(tmp_path, photos)
    (said, said_of), (found, found_of) = made.open(form, both), made.open(form, nothing)
    assert found.about["boxes"] == said.about["boxes"] and found.about["boxes"]["cut"] > 50
    (line,), (line_of_said,) = found_of, said_of  # the same numbers; bytes of the file differ
    assert line.split(" The first")[0] == line_of_said.split(" The first")[0] and "boxes do not fit" in line
    assert found.fingerprint == said.fingerprint
    for sample, (_, _, w, h, of) in zip(found, photos, strict=True):
        expected = np.clip(np.array(of, np.float32).reshape(-1, 4), 0, [w, h] * 2)
        assert np.array_equal(sample["boxes"], expected)
    run("pack", f"--{form}", getattr(made, form)(nothing), made.images, tmp_path / "made.leat")
    packed = leat.open(tmp_path / "made.leat")
    assert packed.fingerprint == said.fingerprint


UNSIZED = "boxes may reach out of their photo and are not cut off"


@pytest.mark.parametrize("form", ["coco", "voc"])
def test_boxes_of_photos_that_exif_turns_are_counted_unless_they_lie_in_both_sizes(tmp_path: Path, form: str) -> None:
    inside, beyond = (1, 1, 40, 40), (1, 1, 50, 40)  # of photos of 60 x 40 and 40 x 60
    photos = [
        (f"{i}.{kind}", file(kind, 60, 40, orientation), 60, 40, [inside, beyond])
        for i, (kind, orientation) in enumerate((k, o) for k in ("jpg", "png", "webp") for o in range(1, 9))
    ]
    photos.append(("square.jpg", file("jpg", 40, 40, 6), 40, 40, [inside, beyond]))
    ds, said = Made(tmp_path, photos).open(form, nothing)
    (line,) = (line for line in said if UNSIZED in line)
    assert line.startswith("12 boxes") and "or EXIF turns it" in line and line.endswith("; ...")
    for sample, (name, *_) in zip(ds, photos, strict=True):
        assert sample["boxes"].tolist() == [list(inside), list(inside if name == "square.jpg" else beyond)]


@pytest.mark.parametrize("side", ["width", "height"])
def test_a_side_that_is_said_goes_with_the_other_one_of_the_photo(tmp_path: Path, side: str) -> None:
    box = [(1, 1, 70, 70)]
    for orientation in (1, 6):
        for stored in (True, False):
            folder = tmp_path / f"{orientation}{stored}"
            folder.mkdir()
            made = Made(folder, [(f"a{i}.jpg", file("jpg", 60, 40, orientation), 60, 40, box) for i in range(4)])
            size = both(60, 40) if stored else both(40, 60)
            ds, said = made.open("coco", lambda w, h, size=size: {side: size[side]})
            assert not any(UNSIZED in line for line in said)
            if stored or orientation == 6:
                assert ds[0]["boxes"].tolist() == [[1, 1, size["width"], size["height"]]]
                assert any("EXIF orientation turns them" in line for line in said) != stored
            else:  # what is said is not so
                (line,) = (line for line in said if "another size" in line)
                assert f"a0.jpg is 60 x 40, and images[0] (line 1, byte 12) says a {side} of {size[side]}" in line


def png_with_exif_at_its_end(w: int, h: int, orientation: int) -> bytes:
    data = io.BytesIO()
    pixels = np.random.default_rng(1).integers(0, 256, (h, w, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(data, "PNG")
    body = struct.pack(">4sI H HHIHH I", b"MM\0*", 8, 1, 0x0112, 3, 1, orientation, 0, 0)
    chunk = struct.pack(">I", len(body)) + b"eXIf" + body + struct.pack(">I", zlib.crc32(b"eXIf" + body))
    return data.getvalue()[:-12] + chunk + data.getvalue()[-12:]


def tiff_with_header_at_its_end(w: int, h: int) -> bytes:
    strip = bytes(w * h)
    tags = [(256, w), (257, h), (258, 8), (259, 1), (262, 1), (273, 8), (277, 1), (278, h), (279, len(strip))]
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags)
    return b"II*\0" + struct.pack("<I", 8 + len(strip)) + strip + struct.pack("<H", len(tags)) + entries + bytes(4)


def test_a_header_at_the_end_of_a_long_file_is_found(tmp_path: Path) -> None:
    w, h = 300, 260
    png, tiff = png_with_exif_at_its_end(w, h, 6), tiff_with_header_at_its_end(w, h)
    upright = png_with_exif_at_its_end(w, h, 1)
    assert min(len(png), len(tiff)) > 1 << 16
    assert Image.open(io.BytesIO(tiff)).size == (w, h) and Image.open(io.BytesIO(png)).getexif()[0x0112] == 6
    box = [(10, 10, 290, 400)]
    photos = [(name, data, w, h, box) for name, data in (("a.png", png), ("b.tif", tiff), ("c.png", upright))]
    ds, said = Made(tmp_path, photos).open("voc", nothing)
    assert [s["boxes"].tolist() for s in ds] == [[[10, 10, 290, 400]], [[10, 10, 290, 260]], [[10, 10, 290, 260]]]
    assert [line.split(" ", 1)[0] for line in said if UNSIZED in line] == ["1"]


@pytest.mark.parametrize("form", ["coco", "voc"])
def test_boxes_of_photos_that_cannot_be_read_are_counted(tmp_path: Path, form: str) -> None:
    photos = [(f"{i}.jpg", b"no photo" if i % 2 else file("jpg", 60, 40), 60, 40, [(1, 1, 70, 70)]) for i in range(4)]
    made = Made(tmp_path, photos)
    for on_bad in ("skip", "mark", "raise"):
        ds, said = made.open(form, nothing, on_bad=on_bad)
        assert [s["boxes"][0, 2] for s in ds] == [60, 70, 60, 70]
        (line,) = (line for line in said if UNSIZED in line)
        where = "annotations[1] (line 1, byte" if form == "coco" else f"{tmp_path}/voc/1.xml line 2"
        assert line.startswith("2 boxes") and "its header cannot be read" in line and where in line


def test_photos_without_boxes_are_not_opened_for_their_size(tmp_path: Path) -> None:
    photos = [(f"{i}.jpg", b"no photo", 60, 40, []) for i in range(3)] + [("9.jpg", file("jpg", 60, 40), 60, 40, [BOX])]
    assert Made(tmp_path, photos).open("coco", nothing)[1] == []


@pytest.mark.parametrize("form", ["coco", "voc"])
def test_photos_whose_boxes_reach_out_of_what_is_said_are_looked_at(tmp_path: Path, form: str) -> None:
    """300 photos, of which opening looks at 64; the others of another size are found by their boxes."""
    data = file("png", 60, 40)
    photos = [(f"{i:03d}.png", data, 60, 40, [(1, 1, 60, 40)]) for i in range(300)]
    made = Made(tmp_path, photos)
    assert made.open(form, both)[1] == []
    photos[202] = ("202.png", data, 50, 40, [(1, 1, 60, 40)])
    photos[203] = ("203.png", data, 60, 30, [(1, 1, 9, 9), (1, 31, 60, 40)])
    (line,) = (line for line in made.open(form, both)[1] if "another size" in line)
    assert line.startswith("2 of 66 photos that were looked at have another size") and "202.png is 60 x 40" in line
    with pytest.raises(leat.CorruptError):
        made.open(form, both, on_bad="raise")


def test_real_photos_have_the_sizes_that_are_said() -> None:
    root = real_data("coco128")
    path = root / "instances_train2017_present.json"
    assert notes(root / "images/train2017", path, on_bad="raise") == []
