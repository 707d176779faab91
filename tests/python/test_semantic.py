"""Semantic masks: a folder of PNGs of class ids beside the photos, in place and packed."""

from __future__ import annotations

import os
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_support import leat as run
from PIL import Image

import leat
from leat import ops

DATA = Path(os.environ.get("LEAT_DATA", "/nonexistent"))
SIZES = {"a": (30, 40), "b": (33, 41), "sub/c": (50, 20), "d": (31, 42)}


def ids_of(stem: str) -> Any:
    h, w = SIZES[stem]
    return (np.arange(h * w).reshape(h, w) * 7 // 11 % 250).astype(np.uint8)


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """Photos whose red is the class, and masks of every sort that there is: gray, a palette, one and four bits."""
    images, masks = tmp_path / "images", tmp_path / "masks"
    for folder in (images, masks):
        (folder / "sub").mkdir(parents=True)
    for stem in SIZES:
        ids = ids_of(stem)
        mask = Image.fromarray(ids)
        if stem in ("b", "d"):
            ids = ids % (16 if stem == "b" else 2)
            mask = Image.fromarray(ids)
            mask = mask.copy()
            mask.putpalette([9, 200, 77] * 256)
            mask.save(masks / f"{stem}.png", bits=4 if stem == "b" else 1)
        else:
            mask.save(masks / f"{stem}.{'PNG' if stem == 'a' else 'png'}", format="PNG")
        Image.fromarray(np.stack([ids, 255 - ids, ids // 2], -1)).save(images / f"{stem}.bmp")
    return images, masks


def opened(images: Path, masks: Path, **options: Any) -> leat.Dataset:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return leat.open(images, masks=masks, **options)


def test_a_mask_follows_its_photo_in_place_and_packed(folders: tuple[Path, Path], tmp_path: Path) -> None:
    images, masks = folders
    names = [f"class {i}" for i in range(250)]
    ds = leat.open(images, masks=masks, classes=names, on_bad="raise")
    assert list(ds.schema) == ["image", "mask", "name"] and ds.schema["mask"] == leat.mask() and ds.classes == names
    assert [s["name"] for s in ds] == ["a.bmp", "b.bmp", "d.bmp", "sub/c.bmp"]
    assert ds[3]["mask"] == (masks / "sub/c.png").read_bytes() and "skipped" not in ds.about
    (tmp_path / "names.txt").write_text("\n".join(names))
    run("pack", "--masks", masks, "--classes", tmp_path / "names.txt", images, tmp_path / "out.leat")
    packed = leat.open(tmp_path / "out.leat")
    assert packed.fingerprint == ds.fingerprint and packed.classes == names and packed.schema["mask"] == leat.mask()
    assert pickle.loads(pickle.dumps(ds)).fingerprint == ds.fingerprint
    chain = [ops.Decode(), ops.RandomCrop((20, 16)), ops.RandomHorizontalFlip()]
    for source in (ds, packed):
        for batch in leat.Loader(source, 2, True, outputs={("image", "mask"): chain}, framework="numpy", seed=4):
            assert batch["mask"].shape == (2, 20, 16) and np.array_equal(batch["image"][:, 0], batch["mask"])


def test_masks_are_recognised_and_are_no_annotations_beside_others(folders: tuple[Path, Path]) -> None:
    images, masks = folders
    assert leat.open(images, annotations=masks).schema["mask"] == leat.mask()
    for options in ({"annotations": masks}, {"format": "coco"}):
        with pytest.raises(ValueError, match="give one of them"):
            leat.open(images, masks=masks, **options)


@pytest.mark.parametrize("name", ["README.txt", "notes.txt", "sub/notes.txt", "README.xml", "classes.txt"])
def test_a_text_beside_masks_makes_them_no_labels(folders: tuple[Path, Path], name: str) -> None:
    images, masks = folders
    (masks / name).write_text("7\n" if name == "classes.txt" else "The masks of 2026\n")
    assert leat.open(images, annotations=masks).schema["mask"] == leat.mask()


def test_photos_without_a_mask_and_masks_without_a_photo_are_counted_and_named(folders: tuple[Path, Path]) -> None:
    images, masks = folders
    (masks / "b.png").rename(masks / "z.png")
    (masks / "readme.jpg").write_bytes(b"")
    with pytest.warns(UserWarning) as caught:
        ds = leat.open(images, masks=masks)
    text = str(caught[0].message)
    assert "left out: 1 photos without a mask: b.bmp has no b.png in" in text
    assert "1 masks whose photo is not in the folder: z.png has no photo in" in text
    assert [s["name"] for s in ds] == ["a.bmp", "d.bmp", "sub/c.bmp"] and ds.about["skipped"] == 2
    assert ds[1]["mask"] == (masks / "d.png").read_bytes()
    with pytest.raises(FileNotFoundError, match="b.bmp has no b.png"):
        leat.open(images, masks=masks, on_bad="raise")
    marked = opened(images, masks, on_bad="mark")
    assert len(marked) == 4
    with pytest.raises(leat.BrokenSampleError, match="the photo has no mask: b.png is not in the folder of masks"):
        marked.stored(1, "mask")
    outputs = {("image", "mask"): [ops.Decode(), ops.CenterCrop(16)]}
    assert [len(b.ids) for b in leat.Loader(marked, 4, outputs=outputs, on_error="skip")] == [3]


def no_png(mask: Path) -> None:
    mask.write_bytes(b"no PNG")


def colours(mask: Path) -> None:
    Image.new("RGB", (41, 33)).save(mask)


def deep(mask: Path) -> None:
    Image.fromarray(np.zeros((33, 41), np.uint16)).save(mask)


def small(mask: Path) -> None:
    Image.new("L", (41, 32)).save(mask)


def turned(mask: Path) -> None:
    Image.new("L", (33, 41)).save(mask)


FAULTS = {
    no_png: "is no PNG",
    colours: "has colours",
    deep: "has 16 bits",
    small: "is not as large as its photo: 41 x 32, not 41 x 33",
    turned: "is not as large as its photo: 33 x 41, not 41 x 33",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_mask_that_cannot_be_is_counted_and_named(folders: tuple[Path, Path], fault: Any) -> None:
    images, masks = folders
    fault(masks / "b.png")
    with pytest.warns(UserWarning, match=rf"left out: 1 masks that cannot be: .*masks/b.png {FAULTS[fault]}"):
        ds = leat.open(images, masks=masks)
    assert len(ds) == 3 and len(opened(images, masks, on_bad="mark")) == 4
    with pytest.raises(leat.CorruptError, match=FAULTS[fault]):
        leat.open(images, masks=masks, on_bad="raise")


@pytest.mark.parametrize("kind", ["jpg", "png", "webp"])  # the last has its EXIF at its end
def test_a_mask_of_a_photo_that_exif_turns_may_have_its_sides_either_way(folders: tuple[Path, Path], kind: str) -> None:
    images, masks = folders
    (images / "b.bmp").unlink()
    turn = Image.Exif()
    turn[0x0112] = 6
    photo = np.random.default_rng(0).integers(0, 256, (300, 400, 3), np.uint8)
    Image.fromarray(photo).save(images / f"b.{kind}", exif=turn, lossless=True)
    for size in ((400, 300), (300, 400)):
        Image.new("L", size).save(masks / "b.png")
        assert len(leat.open(images, masks=masks, on_bad="raise")) == 4


@pytest.mark.parametrize("on_bad", ["skip", "mark"])
def test_masks_of_which_none_fits_are_an_error(folders: tuple[Path, Path], on_bad: Any) -> None:
    images, masks = folders
    for stem, (h, w) in SIZES.items():
        (masks / f"{stem}.PNG").unlink(missing_ok=True)
        Image.new("L", (2 * w, 2 * h)).save(masks / f"{stem}.png")
    said = r"none of the 4 masks goes with its photo: .*/a.png is not as large as its photo: 80 x 60, not 40 x 30; "
    with pytest.raises(leat.CorruptError, match=said):
        leat.open(images, masks=masks, on_bad=on_bad)
    Image.fromarray(ids_of("a")).save(masks / "a.png")
    assert len(opened(images, masks)) == 1
    (images / "zz.bmp").write_bytes((images / "a.bmp").read_bytes())  # without a mask
    Image.new("L", (1, 1)).save(masks / "a.png")
    with pytest.raises(leat.CorruptError, match="none of the 4 masks"):
        leat.open(images, masks=masks, on_bad=on_bad)


def test_a_folder_of_other_masks_is_an_error(folders: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other/x.png").write_bytes((folders[1] / "b.png").read_bytes())
    with pytest.raises(FileNotFoundError, match="no photo of .* has a PNG of its name"):
        leat.open(folders[0], masks=tmp_path / "other")


def test_a_mask_that_changed_since_is_an_error(folders: tuple[Path, Path]) -> None:
    images, masks = folders
    ds = leat.open(images, masks=masks)
    (masks / "b.png").write_bytes((masks / "d.png").read_bytes() + b"x")
    with pytest.raises(leat.ChangedError, match="b.png was changed"):
        ds.stored(1, "mask")
