"""Photos of another size than their annotations say, and photos that EXIF turns."""

from __future__ import annotations

import io
import json
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_support import leat as run
from cli_support import real_data
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


def test_real_photos_have_the_sizes_that_are_said() -> None:
    root = real_data("coco128")
    path = root / "instances_train2017_present.json"
    assert notes(root / "images/train2017", path, on_bad="raise") == []
