"""leat.open(photos, masks="panoptic.json"): masks of class ids, made of a panoptic file's segments."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_support import leat as run
from coco_made import DATA, four_photos, no_png, no_segment, panoptic, small, small_png, write
from PIL import Image

import leat
from leat import ops


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    return four_photos(tmp_path)


def pixels(png: bytes) -> Any:
    image = Image.open(io.BytesIO(png))
    assert image.mode == "L"
    return np.asarray(image)


def wide(photos: Path, ids: Any, categories: dict[int, int]) -> Path:
    """A panoptic file of the one photo c.png, with the categories of its segments."""
    height, width = ids.shape
    Image.new("RGB", (width, height)).save(photos / "c.png")
    path = panoptic(photos, ids, list(categories))
    coco = json.loads(path.read_text())
    coco["images"] = [{"id": 9, "file_name": "c.png", "width": width, "height": height}]
    coco["categories"] = [{"id": i, "name": f"class {i}"} for i in sorted(set(categories.values()))]
    for info in coco["annotations"][0]["segments_info"]:
        info["category_id"] = categories[info["id"]]
    return write(photos, coco)


def test_a_mask_has_the_classes_of_the_segments_and_255_elsewhere(photos: Path) -> None:
    rng = np.random.default_rng(0)
    categories = {int(k): 10 * int(k % 7) + 3 for k in rng.choice(1 << 24, 40, replace=False) + 1}
    numbers = np.array([0, 5, *categories])
    runs = np.array([*range(1, 30), *rng.integers(30, 300, 60), 254, 255, 256, 257, 258, 259, 260, 261, 515, 516, 517])
    ids = np.concatenate([np.full(n, k) for n, k in zip(runs, rng.choice(numbers, len(runs)), strict=True)])
    ids = np.stack([np.roll(ids, y // 3) for y in range(50)])
    ids[17] = rng.choice(numbers, ids.shape[1])
    ids[20:22] = ids[17]
    path = wide(photos, ids, categories)
    ds = leat.open(photos, masks=path, on_bad="raise")
    assert ds.schema["mask"] == leat.mask() and ds.schema["masks"] == leat.masks()
    classes = sorted(set(categories.values()))
    want = np.full(ids.shape, 255, np.uint8)
    for number, category in categories.items():
        want[ids == number] = classes.index(category)
    assert np.array_equal(pixels(ds[0]["mask"]), want)
    assert ds.classes == [f"class {i}" for i in classes]
    assert leat.open(photos, annotations=path).schema.keys() == ds.schema.keys() - {"mask"}
    chain = [ops.Decode(), ops.CenterCrop((30, 200))]
    loader = leat.Loader(ds, 1, outputs={("image", "mask"): chain}, framework="numpy")
    top, left = round((ids.shape[0] - 30) / 2), round((ids.shape[1] - 200) / 2)
    for _ in range(2):
        assert np.array_equal(next(iter(loader))["mask"][0], want[top : top + 30, left : left + 200])
    run("pack", "--masks", path, photos, photos.parent / "packed.leat")
    packed = leat.open(photos.parent / "packed.leat")
    assert packed.fingerprint == ds.fingerprint and packed[0]["mask"] == ds[0]["mask"]
    assert packed.schema["mask"] == leat.mask()


@pytest.mark.filterwarnings("ignore:left out:UserWarning")
@pytest.mark.parametrize("size", [(1, 1), (1, 700), (700, 1), (2, 3)])
def test_masks_of_any_size(photos: Path, size: tuple[int, int]) -> None:
    ids = np.random.default_rng(1).integers(1, 251, size)
    ds = leat.open(photos, masks=wide(photos, ids, {i: i for i in range(1, 251)}))
    labels = {info: i for i, info in enumerate(range(1, 251))}
    assert np.array_equal(pixels(ds[0]["mask"]), np.vectorize(labels.get)(ids))


def test_runs_of_any_length_come_back(photos: Path) -> None:
    ids = (
        np.tril(np.ones((600, 600), int)) + 1
    )  # a row differs from the one above it behind a run as long as its number
    mask = pixels(leat.open(photos, masks=wide(photos, ids, {1: 1, 2: 2}))[0]["mask"])
    assert np.array_equal(mask, ids - 1)


@pytest.mark.parametrize("fault", [no_png, small_png, no_segment])
def test_an_image_without_its_png_is_of_no_class(photos: Path, fault: Any) -> None:
    path = fault(photos, np.full((30, 40), 3))
    with pytest.warns(UserWarning):
        ds = leat.open(photos, masks=path)
    of_image, without = pixels(ds[1]["mask"]), pixels(ds[0]["mask"])
    assert of_image.shape == without.shape == (30, 40)
    assert np.all(of_image == (0 if fault is no_segment else 255)) and np.all(without == 255)
    with pytest.raises(leat.CorruptError):
        leat.open(photos, masks=path, on_bad="raise")


def test_a_segment_without_a_box_still_has_its_class(photos: Path) -> None:
    path = panoptic(photos, np.full((30, 40), 3), [3])
    path.write_text(path.read_text().replace('"bbox": [1, 2, 10, 5], ', ""))
    with pytest.warns(UserWarning, match="annotations with a box that cannot be"):
        ds = leat.open(photos, masks=path)
    assert not len(ds[1]["boxes"]) and np.all(pixels(ds[1]["mask"]) == 0)


def test_of_two_pngs_of_an_image_the_first_is_taken(photos: Path) -> None:
    path = panoptic(photos, np.full((30, 40), 3), [3])
    coco = json.loads(path.read_text())
    others = [{**coco["annotations"][0], "image_id": i} for i in (4, 12)]
    coco["annotations"] = coco["annotations"] * 2 + others
    with pytest.warns(UserWarning, match=r"1 PNGs of images that have another one: annotations\[1\] .* of c\.png"):
        ds = leat.open(photos, masks=write(photos, coco))
    assert np.all(pixels(ds[1]["mask"]) == 0)
    with pytest.warns(UserWarning, match="marked: 1 PNGs"):
        marked = leat.open(photos, masks=path, on_bad="mark")
    chain = [ops.Decode(), ops.CenterCrop(8)]
    loader = leat.Loader(marked, len(marked), outputs={("image", "mask"): chain}, on_error="skip")
    assert 1 not in next(iter(loader)).ids and loader.stats()["broken"]["skipped"] == 1


def test_what_has_no_masks_of_class_ids_is_refused(photos: Path) -> None:
    with pytest.raises(ValueError, match="has no segments of which masks could be made"):
        leat.open(photos, masks=write(photos, small()))
    ids = np.arange(1, 257).reshape(16, 16)
    with pytest.raises(leat.UnsupportedError, match="256 categories, and masks of class ids hold 255"):
        leat.open(photos, masks=wide(photos, ids, {i: i for i in range(1, 257)}))
    path = panoptic(photos, np.full((30, 40), 3), [3])
    with pytest.raises(ValueError, match="has names for its classes"):
        leat.open(photos, masks=path, classes=["a"])
    path = path.rename(path.with_name("moved.json"))
    with pytest.raises(FileNotFoundError, match=r"PNGs in the folder .*/moved/, which is not there"):
        leat.open(photos, masks=path)


def test_real_segments_become_masks(tmp_path: Path) -> None:
    """COCO's own segments; the PNGs, which are not beside them, are painted of their boxes."""
    found = DATA / "coco128/panoptic_segmentation/annotations/panoptic_train2017.json"
    folder = DATA / "coco128/images/train2017"
    if not found.exists():
        pytest.skip("needs coco128 in LEAT_DATA")
    coco = json.loads(found.read_text())
    images = {i["id"]: i for i in coco["images"] if (folder / i["file_name"]).exists()}
    coco["images"] = list(images.values())
    coco["annotations"] = [a for a in coco["annotations"] if a["image_id"] in images]
    (tmp_path / "p").mkdir()
    (tmp_path / "p.json").write_text(json.dumps(coco))
    classes = {c["id"]: n for n, c in enumerate(sorted(coco["categories"], key=lambda c: c["id"]))}
    wanted = {}
    for a in coco["annotations"]:
        size = images[a["image_id"]]["height"], images[a["image_id"]]["width"]
        ids, labels = np.zeros(size, np.int64), np.full(size, 255, np.uint8)
        for s in sorted(a["segments_info"], key=lambda s: -s["bbox"][2] * s["bbox"][3]):
            x, y, w, h = s["bbox"]
            ids[y : y + h, x : x + w] = s["id"]
            labels[y : y + h, x : x + w] = classes[s["category_id"]]
        rgb = np.stack([ids & 255, ids >> 8 & 255, ids >> 16], -1).astype(np.uint8)
        Image.fromarray(rgb).save(tmp_path / "p" / a["file_name"], compress_level=1)
        wanted[a["image_id"]] = labels
    ds = leat.open(folder, masks=tmp_path / "p.json")
    for sample in ds:
        assert np.array_equal(pixels(sample["mask"]), wanted[int(sample["image_id"])])


def test_images_without_segments_are_counted_and_named(photos: Path) -> None:
    path = panoptic(photos, np.full((30, 40), 3), [3])
    with pytest.warns(UserWarning, match=r"left out: 2 images without segments .*: images\[1\] \(line 1, byte \d+\)"):
        ds = leat.open(photos, masks=path)
    assert ds.about["skipped"] == 2 and all(np.all(pixels(ds[i]["mask"]) == 255) for i in (0, 2))
    with pytest.raises(leat.CorruptError, match=r"images\[1\] .* a\.png, has no PNG of segments"):
        leat.open(photos, masks=path, on_bad="raise")
    with pytest.warns(UserWarning, match="marked: 2 images without segments"):
        marked = leat.open(photos, masks=path, on_bad="mark")
    loader = leat.Loader(marked, 3, outputs={("image", "mask"): [ops.Decode(), ops.CenterCrop(8)]}, on_error="skip")
    assert [list(b.ids) for b in loader] == [[1]]


@pytest.mark.filterwarnings("ignore:left out:UserWarning")
@pytest.mark.parametrize("said", [{}, {"width": 40}, {"height": 30}])
def test_sizes_that_are_not_said_are_those_of_the_photos(photos: Path, said: Any) -> None:
    for good in (True, False):
        path = panoptic(photos, np.full((30, 40) if good else (40, 30), 3), [3])
        coco = json.loads(path.read_text())
        coco["images"] = [{k: i[k] for k in ("id", "file_name")} | said for i in coco["images"]]
        ds = leat.open(photos, masks=write(photos, coco))
        assert all(pixels(s["mask"]).shape == (30, 40) for s in ds)
        assert np.all(pixels(ds[1]["mask"]) == (0 if good else 255))
