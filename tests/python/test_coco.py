"""COCO annotations beside a folder of photos, in place and packed: what is in them, and what is wrong with them.

The reference reads the JSON with Python.
"""

from __future__ import annotations

import contextlib
import copy
import ctypes
import json
import os
import pickle
import pty
import re
import signal
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_support import Started, command
from cli_support import leat as run
from coco_made import DATA, Json, annotation, four_photos, no_png, no_segment, panoptic, small, small_png, write
from PIL import Image

import leat
from leat import ops


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    return four_photos(tmp_path)


def opened(photos: Path, coco: Json, **options: Any) -> leat.Dataset:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return leat.open(photos, annotations=write(photos, coco), **options)


def equal(a: Any, b: Any) -> bool:
    return bool(np.array_equal(a, b)) if isinstance(a, np.ndarray) else bool(a == b)


def test_samples_are_in_the_order_of_image_ids_and_labels_in_that_of_category_ids(photos: Path) -> None:
    ds = opened(photos, small())
    assert ds.classes == ["train é", "toothbrush"]
    assert ds.metadata == {"category_ids": [7, 90]}
    assert ds.column("image_id").tolist() == [4, 9, 12]
    assert [s["name"] for s in ds] == ["a.png", "c.png", "sub/b.png"]
    assert ds[1]["boxes"].tolist() == [[1.5, 2.25, 11.5, 7.25], [30, 20, 40, 30]]  # the second is cut off at the image
    assert ds[1]["label"].tolist() == [1, 0] and ds[1]["iscrowd"].tolist() == [0, 1]
    assert ds[1]["area"].tolist() == [12.5, 12.5]
    assert ds[2]["boxes"].shape == (0, 4) and ds[2]["label"].shape == (0,)
    assert ds[0]["image"] == (photos / "a.png").read_bytes()
    assert repr(ds.schema["boxes"]) == "boxes('xyxy')"


@pytest.mark.parametrize("layout", [{}, {"indent": 1}, {"ensure_ascii": False, "separators": (",", ":")}])
def test_the_layout_of_the_text_does_not_matter(photos: Path, layout: Json) -> None:
    a, b = opened(photos, small()), leat.open(photos, annotations=write(photos, small(), **layout))
    assert a.fingerprint == b.fingerprint
    assert all(equal(a[i][k], b[i][k]) for i in range(3) for k in a[i])


def test_the_pack_has_the_same_values_and_fingerprint(photos: Path, tmp_path: Path) -> None:
    ds = opened(photos, small())
    made = tmp_path / "made.leat"
    run("pack", "--coco", tmp_path / "instances.json", photos, made, "--photos", "fast")
    packed = leat.open(made)
    assert packed.fingerprint == ds.fingerprint
    assert packed.classes == ds.classes and packed.metadata == ds.metadata
    assert packed.schema["boxes"] == ds.schema["boxes"]
    assert all(equal(packed[i][k], v) for i in range(3) for k, v in ds[i].items())


def test_it_pickles_and_is_delivered_by_a_loader(photos: Path) -> None:
    ds = pickle.loads(pickle.dumps(opened(photos, small())))
    chain = [ops.Decode(), ops.Resize((60, 80))]
    loader = leat.Loader(ds, 3, outputs={("image", "boxes", "label"): chain, "image_id": []}, framework="numpy")
    batch = next(iter(loader))
    assert batch["image"].shape == (3, 3, 60, 80)
    assert [len(b) for b in batch["boxes"].unbind()] == [1, 2, 0]
    assert batch["boxes"].values.tolist() == [[0, 0, 6, 8], [3, 4.5, 23, 14.5], [60, 40, 80, 60]]
    assert batch["image_id"].tolist() == [4, 9, 12]


def test_masks_and_keypoints_are_fields_where_there_are_any(photos: Path) -> None:
    coco = small()
    coco["categories"][1]["keypoints"] = ["left_eye", "right_eye"]
    first, second, third = coco["annotations"]
    first["segmentation"] = [[1.5, 2.25, 11.5, 2.25, 11.5, 7.25], [20, 20, 30, 20, 30.123456789, 30]]
    second["keypoints"] = [1, 2, 2, 0, 0, 0]
    third["segmentation"] = {"size": [30, 40], "counts": [40, 10, 20, 3, 1127]}
    ds = opened(photos, coco)
    assert ds.schema["masks"] == leat.masks() and ds.schema["keypoints"] == leat.keypoints(2, pairs=[(0, 1)])
    assert ds[0]["keypoints"].tolist() == [[[1, 2, 2], [0, 0, 0]]]
    assert ds[1]["keypoints"].tolist() == [[[0, 0, 0]] * 2] * 2 and ds[2]["keypoints"].shape == (0, 2, 3)
    assert not leat.draw_masks(ds[0]["masks"], 30, 40).any() and leat.draw_masks(ds[2]["masks"], 30, 40).shape[0] == 0
    masks = leat.draw_masks(ds[1]["masks"], 30, 40)
    runs = np.repeat([0, 1, 0, 1, 0], [40, 10, 20, 3, 1127]).reshape(40, 30).T
    assert np.array_equal(masks[1], runs)
    polygons = leat.draw_masks(leat.encode_masks([first["segmentation"]]), 30, 40)
    assert np.array_equal(masks[0], polygons[0])
    third["segmentation"]["counts"] = "X1:d0IcR1"  # the same, compressed
    assert np.array_equal(leat.draw_masks(opened(photos, coco)[1]["masks"], 30, 40)[1], runs)


NAMES = ["nose", "right_eye", "Left ear", "left_eye", "Right ear", "upright_left", "upright_right", "tail_left", 5]


def test_keypoints_whose_names_differ_in_left_and_right_are_pairs_in_place_and_packed(photos: Path) -> None:
    coco = small()
    coco["categories"][0]["keypoints"] = coco["categories"][1]["keypoints"] = NAMES
    coco["annotations"][0]["keypoints"] = [1, 2, 2] * len(NAMES)
    ds = opened(photos, coco)
    assert ds.schema["keypoints"] == leat.keypoints(9, pairs=[(2, 4), (3, 1), (5, 6)])
    packed = photos.parent / "packed.leat"
    assert run("pack", "--coco", photos.parent / "instances.json", photos, packed).returncode == 0
    assert leat.open(packed).schema["keypoints"] == ds.schema["keypoints"]
    fields = json.loads(run("info", "--json", packed).stdout)["fields"]
    assert [f["pairs"] for f in fields if "pairs" in f] == [[[2, 4], [3, 1], [5, 6]]]
    coco["categories"][1]["keypoints"] = NAMES[::-1]
    assert opened(photos, coco).schema["keypoints"] == leat.keypoints(9)


def test_categories_and_instances_have_at_most_1024_keypoints(photos: Path) -> None:
    coco = small()
    coco["categories"][0]["keypoints"] = ["p"] * 1025
    with pytest.raises(leat.CorruptError, match=r"categories\[0\].*1025 keypoints"):
        opened(photos, coco, on_bad="raise")
    del coco["categories"][0]["keypoints"]
    coco["annotations"][0]["keypoints"] = [1, 2, 2] * 200_000
    with pytest.raises(leat.CorruptError, match=r"annotations\[0\].*more than 1024 keypoints"):
        opened(photos, coco, on_bad="raise")


# ---- what is wrong ----

BAD_BOXES = {
    "is not finite": [1, 2, float("nan"), 4],
    "is inverted": [10, 10, -4, 5],
    "has no area": [10, 10, 4, 0],
    "lies outside of its image": [40, 3, 4, 4],
}


@pytest.mark.parametrize("why", BAD_BOXES)
def test_a_box_that_cannot_be_is_left_out_marked_or_raised(photos: Path, why: str) -> None:
    coco = small()
    coco["annotations"].insert(1, annotation(4, 7, BAD_BOXES[why]))
    path = write(photos, coco, indent=0)
    with pytest.warns(UserWarning, match=rf"left out: 1 a.*annotations\[1\] \(line \d+, byte \d+\).*{why} \(a.png\)"):
        ds = leat.open(photos, annotations=path)
    assert ds.about["skipped"] == 1
    assert ds.fingerprint == opened(photos, small()).fingerprint
    with pytest.raises(leat.CorruptError, match=rf"annotations\[1\] \(line \d+, byte \d+\).*{why}") as raised:
        opened(photos, coco, on_bad="raise")
    assert str(raised.value).count(str(photos.parent / "instances.json"))
    marked = opened(photos, coco, on_bad="mark")
    loader = leat.Loader(marked, 3, outputs={"image": [ops.Decode(), ops.Resize((8, 8))]}, on_error="skip")
    assert [list(b.ids) for b in loader] == [[1, 2]]


def bad_box_text(coco: Json) -> None:
    coco["annotations"][0]["bbox"] = "everything"


def unknown_image(coco: Json) -> None:
    coco["annotations"][0]["image_id"] = 77


def unknown_category(coco: Json) -> None:
    coco["annotations"][0]["category_id"] = 8  # between two that there are


def id_of_text(coco: Json) -> None:
    coco["annotations"][0]["image_id"] = "9"


def same_image_twice(coco: Json) -> None:
    coco["images"].append({"id": 4, "file_name": "not-listed.png", "width": 40, "height": 30})


def same_category_twice(coco: Json) -> None:
    coco["categories"].append({"id": 7, "name": "again"})


def nameless_image(coco: Json) -> None:
    coco["images"].append({"id": 5, "width": 40, "height": 30})


def huge_image(coco: Json) -> None:
    coco["images"].append({"id": 5, "file_name": "a.png", "width": 65536, "height": 32768})


def flat_image(coco: Json) -> None:
    coco["images"].append({"id": 5, "file_name": "a.png", "width": 40, "height": 0})


def short_polygon(coco: Json) -> None:
    coco["annotations"].append(annotation(4, 7, [0, 0, 3, 4], segmentation=[[0, 0, 3, 4]]))


def odd_polygon(coco: Json) -> None:
    coco["annotations"].append(annotation(4, 7, [0, 0, 3, 4], segmentation=[[0, 0, 3, 4, 1, 1, 1]]))


def far_polygon(coco: Json) -> None:
    coco["annotations"].append(annotation(4, 7, [0, 0, 3, 4], segmentation=[[0, 0, 3, 4, 1e300, 1]]))


def damaged_runs(coco: Json) -> None:
    runs = {"size": [30, 40], "counts": "PP~~~"}
    coco["annotations"].append(annotation(4, 7, [0, 0, 3, 4], segmentation=runs))


def short_runs(coco: Json) -> None:
    runs = {"size": [30, 40], "counts": [600, 10, 500]}
    coco["annotations"].append(annotation(4, 7, [0, 0, 3, 4], segmentation=runs))


def runs_of_another_size(coco: Json) -> None:
    runs = {"size": [40, 30], "counts": [600, 10, 590]}
    coco["annotations"].append(annotation(4, 7, [0, 0, 3, 4], segmentation=runs))


def half_a_keypoint(coco: Json) -> None:
    coco["annotations"].append(annotation(4, 7, [0, 0, 3, 4], keypoints=[1, 2, 2, 3]))


def too_few_keypoints(coco: Json) -> None:
    coco["categories"][0]["keypoints"] = ["left_eye", "right_eye"]
    coco["annotations"].append(annotation(4, 7, [0, 0, 3, 4], keypoints=[1, 2, 2]))


FAULTS = {
    short_polygon: r"annotations\[3\].*no polygon of three points or more \(a.png\)",
    odd_polygon: r"annotations\[3\].*odd number",
    far_polygon: r"annotations\[3\].*reaches too far",
    damaged_runs: r"annotations\[3\].*RLE.*damaged",
    short_runs: r"annotations\[3\].*do not fill",
    runs_of_another_size: r"annotations\[3\].*another size than its image: 30 x 40, not 40 x 30",
    half_a_keypoint: r"annotations\[3\].*three numbers each",
    too_few_keypoints: r"annotations\[3\].*number of keypoints",
    bad_box_text: r"annotations\[0\].*bbox",
    unknown_image: r"annotations\[0\].*image_id 77",
    unknown_category: r"annotations\[0\].*category_id 8",
    id_of_text: r"annotations\[0\].*image_id",
    same_image_twice: r"images\[3\].*id 4 of images\[1\]",
    same_category_twice: r"categories\[2\].*id 7",
    nameless_image: r"images\[3\].*file_name",
    huge_image: r"images\[3\].*2\^31",
    flat_image: r"images\[3\].*height 0",
}


def width_of_null(coco: Json) -> None:
    coco["images"].append({"id": 5, "file_name": "a.png", "width": None, "height": 30})


def width_alone(coco: Json) -> None:
    coco["images"].append({"id": 5, "file_name": "a.png", "width": -5})


def id_beyond(coco: Json) -> None:
    coco["images"].append({"id": 1 << 63, "file_name": "a.png"})


FAULTS |= {
    width_of_null: r"images\[3\].*width or a height that is no number",
    width_alone: r"images\[3\].*width -5",
    id_beyond: r"images\[3\].*whole number of 64 bits",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_an_entry_that_is_wrong_is_counted_and_named(photos: Path, fault: Any) -> None:
    coco = copy.deepcopy(small())
    fault(coco)
    path = write(photos, coco)
    with pytest.warns(UserWarning, match="left out: 1 .*" + FAULTS[fault]):
        ds = leat.open(photos, annotations=path)
    assert ds.about["skipped"] == 1 and len(ds) == 3
    with pytest.raises(leat.CorruptError, match=FAULTS[fault]):
        leat.open(photos, annotations=path, on_bad="raise")


@pytest.mark.parametrize("fault", [f for f in FAULTS if "polygon" in f.__name__ or "runs" in f.__name__])
def test_an_instance_stays_without_its_mask_that_is_wrong(photos: Path, fault: Any) -> None:
    coco = small()
    coco["categories"][1]["keypoints"] = ["a"]
    fault(coco)
    coco["annotations"][3]["keypoints"] = [1, 2, 2]
    coco["annotations"][1]["segmentation"] = [[0, 0, 3, 0, 3, 4, 0, 4]]
    first = opened(photos, coco)[0]
    assert first["boxes"].tolist() == [[0, 0, 3, 4]] * 2 and first["keypoints"].tolist() == [[[0, 0, 0]], [[1, 2, 2]]]
    assert leat.draw_masks(first["masks"], 30, 40).sum(axis=(1, 2)).tolist() == [12, 0]


def test_masks_of_which_each_has_another_size_are_missed_by_name(photos: Path) -> None:
    coco = small()
    for one in coco["annotations"]:
        one["segmentation"] = {"size": [10, 20], "counts": [0, 200]}
    with pytest.warns(UserWarning) as caught:
        ds = leat.open(photos, annotations=write(photos, coco))
    said = str(caught[0].message)
    assert "masks that cannot be: annotations[0]" in said and "than its image: 20 x 10, not 40 x 30 (c.png)" in said
    assert "none of the masks is left, so there is no field 'masks'" in said and "masks" not in ds.schema


def test_ids_have_64_bits(photos: Path) -> None:
    big = {4: (1 << 63) - 1, 9: 1423456789012345678, 12: -(1 << 62)}
    coco = small()
    for image in coco["images"]:
        image["id"] = big[image["id"]]
    for one in coco["annotations"]:
        one["image_id"] = big[one["image_id"]]
    ds = leat.open(photos, annotations=write(photos, coco), on_bad="raise")
    assert ds.column("image_id").tolist() == [big[12], big[9], big[4]] and len(ds[1]["boxes"]) == 2


def test_a_file_of_which_every_image_is_wrong_is_an_error(photos: Path) -> None:
    coco = small()
    for image in coco["images"]:
        image["id"] = "text"
    with pytest.raises(leat.CorruptError, match=r"each of the 3 images is wrong: images\[0\] .*has no id"):
        opened(photos, coco)
    coco = {"categories": [{"name": "has no id"}], **coco}
    coco["images"] = [{**image, "id": 1, "width": -1} for image in coco["images"]]
    with pytest.raises(leat.CorruptError, match=r"each of the 3 images is wrong: images\[0\] .*has width -1"):
        opened(photos, coco)


def _text(coco: Any) -> None:
    for one in coco["annotations"]:
        one["category_id"] = str(one["category_id"])


def _others(coco: Any) -> None:
    for one in coco["annotations"]:
        one["category_id"] += 1


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (lambda coco: coco.pop("categories"), r'3 annotations and no category: its list "categories" says what'),
        (
            lambda coco: [k.pop("id") for k in coco["categories"]],
            r"no good category.*; categories\[0\] .* has no id that",
        ),
        (
            _text,
            r"no annotation is left: each of the 3 is wrong\. 3 annotations without .* has no category_id that is a wh",
        ),
        (
            _others,
            r"no annotation is left: each of the 3 is wrong\. 3 annotations whose category_id no category has: .* 91",
        ),
    ],
)
@pytest.mark.parametrize("on_bad", ["skip", "mark"])
def test_a_file_of_which_every_annotation_is_wrong_is_an_error(
    photos: Path, fault: Any, said: str, on_bad: Any
) -> None:
    coco = small()
    fault(coco)
    with pytest.raises(leat.CorruptError, match=said):
        leat.open(photos, annotations=write(photos, coco), on_bad=on_bad)


def test_a_mark_of_byte_order_is_no_text(photos: Path) -> None:
    path = photos.parent / "instances.json"
    path.write_text("\ufeff" + json.dumps(small()))
    assert len(leat.open(photos, annotations=path, on_bad="raise")) == 3


def test_a_marked_photo_outside_of_the_folder_is_never_opened(photos: Path) -> None:
    coco = small()
    (photos.parent / "out.png").write_bytes(b"")
    os.utime(photos.parent / "out.png", (0, 0))
    coco["images"].append({"id": 5, "file_name": "../out.png", "width": 40, "height": 30})
    ds = opened(photos, coco, on_bad="mark")
    with pytest.raises(leat.BrokenSampleError, match=r"name the photo ../out.png"):
        ds[1]
    loader = leat.Loader(ds, 4, outputs={"image": [ops.Decode(), ops.Resize((8, 8))]}, on_error="skip")
    assert [len(b.ids) for b in loader] == [3]


def test_segments_of_a_panoptic_file_are_instances(photos: Path) -> None:
    coco = small()
    coco["annotations"] = [
        {
            "segments_info": [
                {"id": 3, "category_id": 90, "bbox": [1, 2, 10, 5], "area": 30, "iscrowd": 0},
                {"id": 8, "category_id": 7, "bbox": [0, 0, 3, 4], "area": 9, "iscrowd": 1},
            ],
            "file_name": "c.png",
            "image_id": 9,
        }
    ]
    with pytest.warns(UserWarning, match="no masks: there is no folder .*/instances/ with their PNGs"):
        ds = leat.open(photos, annotations=write(photos, coco), on_bad="raise")
    assert ds[1]["boxes"].tolist() == [[1, 2, 11, 7], [0, 0, 3, 4]] and ds[1]["label"].tolist() == [1, 0]
    assert ds[1]["area"].tolist() == [30, 9] and ds[1]["iscrowd"].tolist() == [0, 1] and not len(ds[0]["boxes"])
    assert "masks" not in ds.schema
    del coco["annotations"][0]["segments_info"][1]["category_id"]
    with pytest.raises(leat.CorruptError, match=r"a segment of annotations\[0\]"):
        leat.open(photos, annotations=write(photos, coco), on_bad="raise")


def test_segments_of_a_panoptic_file_have_the_masks_of_their_png(photos: Path) -> None:
    rng = np.random.default_rng(0)
    segments = [1, 255, 256, 70000, (1 << 24) - 1]
    ids = rng.choice([0, 9, *segments], (5, 8)).repeat(6, 0).repeat(5, 1)
    ids[rng.random(ids.shape) < 0.2] = 70000
    ids[:, 0], ids[0, 0], ids[-1, -1] = 255, 1, 256
    path = panoptic(photos, ids, segments[::-1])
    ds = leat.open(photos, annotations=path, on_bad="raise")
    assert ds.schema["masks"] == leat.masks()
    want = np.stack([ids == k for k in segments[::-1]])
    assert np.array_equal(leat.draw_masks(ds[1]["masks"], 30, 40), want)
    assert leat.draw_masks(ds[0]["masks"], 30, 40).shape == (0, 30, 40)
    run("pack", "--coco", path, photos, photos.parent / "packed.leat")
    assert leat.open(photos.parent / "packed.leat").fingerprint == ds.fingerprint


def test_of_segments_of_one_number_the_first_has_the_mask(photos: Path) -> None:
    ids = np.full((30, 40), 3)
    path = panoptic(photos, ids, [3, 3, 3, 3])
    with pytest.warns(UserWarning, match="3 segments that their PNG does not have"):
        ds = leat.open(photos, annotations=path)
    assert leat.draw_masks(ds[1]["masks"], 30, 40).any((1, 2)).tolist() == [True, False, False, False]


IN_OPEN = 0x20  # of <sys/inotify.h>


def many_pngs(photos: Path, n: int, side: int, files: int = 100) -> Path:
    """A panoptic file that names PNGs of `side` pixels a side, n times: those of segments 1 to `files`, and again."""
    coco = small()
    for image in coco["images"]:
        del image["width"], image["height"]
    info = {"category_id": 7, "bbox": [1, 2, 10, 5], "area": 30, "iscrowd": 0}
    coco["annotations"] = [
        {"image_id": 9, "segments_info": [{"id": i % files + 1, **info}], "file_name": f"{i % files}.png"}
        for i in range(n)
    ]
    (photos.parent / "instances").mkdir()
    Image.new("RGB", (side, side)).save(photos / "c.png")
    for i in range(files):
        ids = np.zeros((side, side, 3), np.uint8)
        ids[i % side, : i // side + 1, 0] = i + 1
        Image.fromarray(ids).save(photos.parent / f"instances/{i}.png")
    return write(photos, coco)


def test_masks_of_many_pngs_are_in_the_order_of_the_file(photos: Path) -> None:
    path = many_pngs(photos, 1000, 20)
    ds = leat.open(photos, annotations=path, on_bad="raise")
    masks = leat.draw_masks(ds[1]["masks"], 20, 20)
    assert len(masks) == 1000
    for i, mask in enumerate(masks):
        assert mask.sum() == i % 100 // 20 + 1 and mask[i % 20, 0]
    for missing in (70, 3):
        (photos.parent / f"instances/{missing}.png").unlink()
        with pytest.raises(leat.CorruptError, match=rf"^{missing}\.png of annotations\[{missing}\] .* is not there"):
            leat.open(photos, annotations=path, on_bad="raise")
    with pytest.warns(UserWarning, match="20 PNGs of segments that cannot be"):
        leat.open(photos, annotations=path)


def test_ctrl_c_ends_the_reading_of_pngs(photos: Path) -> None:
    """20,000 PNGs of 4 million pixels would take many minutes, so this ends; it is pressed once a PNG was opened."""
    path = many_pngs(photos, 20_000, 2000, files=1)
    libc = ctypes.CDLL(None, use_errno=True)
    watching = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    assert libc.inotify_add_watch(watching, os.fsencode(photos.parent / "instances/0.png"), IN_OPEN) > 0

    def press(*_: object) -> None:
        with contextlib.suppress(BlockingIOError):  # not opened yet
            os.read(watching, 4096)
            signal.setitimer(signal.ITIMER_REAL, 0)  # once
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, press)
    signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
    try:
        with pytest.raises(KeyboardInterrupt):
            leat.open(photos, annotations=path)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        os.close(watching)


def test_the_reading_of_pngs_shows_progress_on_a_terminal(photos: Path) -> None:
    path = many_pngs(photos, 20_000, 2000, files=1)
    terminal, other = pty.openpty()
    with Started([command(), "info", "--coco", path, photos], stderr=other):
        os.close(other)
        assert re.match(rb"\rreading annotations +\d+%", os.read(terminal, 4096))
    os.close(terminal)


def damaged_png(photos: Path, ids: Any) -> Path:
    path = panoptic(photos, ids, [3])
    (photos.parent / "instances/deep/c.png").write_bytes(b"no PNG")
    return path


def png_elsewhere(photos: Path, ids: Any) -> Path:
    path = panoptic(photos, ids, [3])
    path.write_text(path.read_text().replace("deep/c.png", "deep/../../c.png"))
    return path


def no_id(photos: Path, ids: Any) -> Path:
    ids[:10] = 0  # of no segment
    path = panoptic(photos, ids, [3, 4])
    path.write_text(path.read_text().replace('"id": 4, "category_id"', '"category_id"'))
    return path


PNGS = {
    no_segment: r"1 segments that their PNG does not have: the segment 4 of annotations\[0\] .*instances/deep/c.png",
    no_id: r"1 segments that their PNG does not have: the segment without an id of .* of annotations\[0\]",
    no_png: r"1 PNGs .*: deep/c.png of annotations\[0\] .* is not there",
    damaged_png: r"1 PNGs .*: deep/c.png of annotations\[0\]",
    small_png: r"1 PNGs .*: deep/c.png of annotations\[0\] .* is not as large as its image",
    png_elsewhere: r"1 PNGs .*: deep/../../c.png of annotations\[0\] .* is not below that folder",
}


@pytest.mark.parametrize("fault", PNGS)
def test_segments_whose_png_is_wrong_stay_without_masks(photos: Path, fault: Any) -> None:
    path = fault(photos, np.full((30, 40), 3))
    with pytest.warns(UserWarning, match="left out: " + PNGS[fault]):
        ds = leat.open(photos, annotations=path)
    masks = leat.draw_masks(ds[1]["masks"], 30, 40)
    assert masks.sum(axis=(1, 2)).tolist() == {no_segment: [1200, 0], no_id: [800, 0]}.get(fault, [0])
    with pytest.raises(leat.CorruptError):
        leat.open(photos, annotations=path, on_bad="raise")


def test_an_entry_that_is_wrong_is_named_by_line_and_byte(photos: Path) -> None:
    coco = small()
    coco["annotations"][1]["image_id"] = 77
    for layout in ({}, {"indent": 1}):
        text = write(photos, coco, **layout).read_text()
        at = text.rindex("{", 0, text.index("77"))
        with pytest.raises(leat.CorruptError, match=rf"\(line {text.count(chr(10), 0, at) + 1}, byte {at}\)"):
            leat.open(photos, annotations=photos.parent / "instances.json", on_bad="raise")


def test_a_photo_that_is_missing_is_counted_and_named(photos: Path) -> None:
    (photos / "c.png").unlink()
    path = write(photos, small())
    with pytest.warns(UserWarning, match=r"left out: 1 images.*c\.png of images\[0\]"):
        ds = leat.open(photos, annotations=path)
    assert ds.column("image_id").tolist() == [4, 12] and ds.about["skipped"] == 1
    with pytest.raises(FileNotFoundError, match=r"c\.png of images\[0\]"):
        leat.open(photos, annotations=path, on_bad="raise")
    marked = opened(photos, small(), on_bad="mark")
    assert marked.column("image_id").tolist() == [4, 9, 12]
    loader = leat.Loader(marked, 3, outputs={"image": [ops.Decode(), ops.Resize((8, 8))]}, on_error="skip")
    assert [list(b.ids) for b in loader] == [[0, 2]]


def test_a_folder_with_none_of_the_photos_is_an_error(photos: Path, tmp_path: Path) -> None:
    path = write(photos, small())
    other = tmp_path / "other"
    other.mkdir()
    with pytest.raises(FileNotFoundError, match="none of the 3 photos"):
        leat.open(other, annotations=path)


@pytest.mark.parametrize(
    "text, message",
    [
        ('{"images": [', "line 1: it ends in the middle"),
        ('{"images": []}\n x', "line 2: something stands behind its end"),
        ('{"a": [1e]}', "line 1: a number that is none"),
        ('{"images": {"a": 1}}', r'"images" of .* \(line 1, byte 11\) is an object, and no list'),
        ('{"images": [\n["a"]]}', r"images\[0\] \(line 2, byte 13\) is a list, and no object"),
        ('{"images": [{"file_name": "\ud800"}]}', "UTF-8"),
        ('{"a": ' + "[" * 100 + "]" * 100 + "}", "nested too deep"),
        ('{"annotations": []}', 'no list "images"'),
        ("[]", "holds no annotations that"),
    ],
)
def test_a_file_that_is_no_coco_file_is_an_error(photos: Path, text: str, message: str) -> None:
    path = photos.parent / "instances.json"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(ValueError, match=message):
        leat.open(photos, annotations=path)


def test_annotations_belong_to_a_folder_of_photos(photos: Path) -> None:
    path = write(photos, small())
    with pytest.raises(leat.InvalidError, match="has no annotations beside it"):
        leat.open(photos, annotations=path, format="folder")
    with pytest.raises(leat.InvalidError, match="name both"):
        leat.open(photos, format="coco")
    with pytest.raises(ValueError, match="on_bad"):
        leat.open(photos, annotations=path, on_bad="ignore")


def test_photos_are_not_made_smaller_than_their_boxes(photos: Path, tmp_path: Path) -> None:
    done = run("pack", "--coco", write(photos, small()), photos, tmp_path / "x.leat", "--max-side", 20, code=2)
    assert "boxes" in done.stderr and not (tmp_path / "x.leat").exists()


def test_info_shows_what_fields_are(photos: Path, tmp_path: Path) -> None:
    made = tmp_path / "made.leat"
    run("pack", "--coco", write(photos, small()), photos, made)
    shown = run("info", made).stdout
    assert "float32[?, 4]  boxes, xyxy" in shown
    fields = json.loads(run("info", "--json", made).stdout)
    assert {f["name"]: f["role"] for f in fields["fields"] if "role" in f} == {"boxes": "boxes:xyxy"}


# ---- real data ----


def real(json_name: str, folder: str) -> tuple[Path, Path]:
    path, photos = DATA / json_name, DATA / folder
    if not path.exists() or not photos.exists():
        pytest.skip(f"needs {json_name} and {folder} in LEAT_DATA")
    return path, photos


REAL = [
    ("coco128/instances_train2017_present.json", "coco128/images/train2017", 0),
    ("coco-dali/instances.json", "coco-dali/images", 39),
    ("coco-dali-dummy/instances.json", "coco-dali-dummy/images", 32),
]


def test_real_segments_are_read_as_python_reads_them() -> None:
    path = DATA / "coco128/panoptic_segmentation/annotations/panoptic_train2017.json"
    photos = DATA / "coco128/images/train2017"
    if not path.exists():
        pytest.skip("needs coco128 in LEAT_DATA")
    coco = json.loads(path.read_text())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ds = leat.open(photos, annotations=path)
    segments = {a["image_id"]: a["segments_info"] for a in coco["annotations"]}
    categories = sorted(c["id"] for c in coco["categories"])
    assert len(ds) and len(ds.classes) == 133
    for sample in ds:
        infos = segments[sample["image_id"]]
        boxes = np.array([s["bbox"] for s in infos], np.float32)
        boxes[:, 2:] += boxes[:, :2]
        assert np.array_equal(sample["boxes"], boxes)
        assert sample["label"].tolist() == [categories.index(s["category_id"]) for s in infos]
        assert sample["iscrowd"].tolist() == [s["iscrowd"] for s in infos]


@pytest.mark.parametrize("json_name, folder, missing", REAL)
def test_real_annotations_are_read_as_python_reads_them(json_name: str, folder: str, missing: int) -> None:
    path, photos = real(json_name, folder)
    coco = json.loads(path.read_text())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ds = leat.open(photos, annotations=path)
    images = sorted((i for i in coco["images"] if (photos / i["file_name"]).exists()), key=lambda i: i["id"])
    assert len(coco["images"]) - len(images) == missing
    assert ds.column("image_id").tolist() == [i["id"] for i in images]
    categories = sorted(c["id"] for c in coco["categories"])
    for sample, image in zip(ds, images, strict=True):
        of_image = [a for a in coco["annotations"] if a["image_id"] == image["id"]]
        boxes = np.array([a["bbox"] for a in of_image], np.float32).reshape(-1, 4)
        boxes[:, 2:] += boxes[:, :2]
        boxes = np.clip(boxes, 0, [image["width"], image["height"]] * 2).astype(np.float32)
        keep = (boxes[:, 2:] > boxes[:, :2]).all(1)
        assert np.array_equal(sample["boxes"], boxes[keep])
        labels = np.array([categories.index(a["category_id"]) for a in of_image], np.int64)
        assert np.array_equal(sample["label"], labels[keep])
        assert np.array_equal(sample["area"], np.array([a["area"] for a in of_image], np.float32)[keep])
        assert sample["name"] == image["file_name"]


@pytest.mark.parametrize("text", ['[{"image_id": 1, "bbox": [0, 0, 1, 1], "score": 1}]', "names: [cat]\n"])
def test_a_file_that_is_no_annotations_says_what_to_name(photos: Path, tmp_path: Path, text: str) -> None:
    (tmp_path / "other").write_text(text)
    with pytest.raises(leat.FormatError, match="of COCO name the .json file with images, annotations and categories"):
        leat.open(photos, annotations=tmp_path / "other")


def test_a_photo_of_a_format_that_is_not_read_is_not_said_to_be_absent(photos: Path) -> None:
    (photos / "d.heic").write_bytes(b"....ftypheic")
    coco = small()
    coco["images"] += [{"id": n, "file_name": name} for n, name in ((20, "d.heic"), (21, "../instances.json"))]
    with pytest.warns(
        UserWarning, match=r"d\.heic of images\[3\] .* but leat takes only names with \.jpg.*: convert it"
    ):
        leat.open(photos, annotations=write(photos, coco), on_bad="skip")
    coco["images"].pop(3)
    with pytest.warns(UserWarning, match=r"\.\./instances\.json of images\[3\] .* is not in "):
        leat.open(photos, annotations=write(photos, coco), on_bad="skip")
