"""leat view: pictures where they are expected, with what is drawn on them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from cli_support import leat as command
from numpy.typing import NDArray
from photo_support import png
from PIL import Image

import leat

# The layout of a sheet (cli/view/sheet.c), and the first colours of classes (cli/draw/canvas.c).
MARGIN, GUTTER, NEAR, HEADING, CAPTION = 20, 16, 4, 66, 42
COLOURS = [(255, 59, 48), (30, 144, 255), (52, 199, 89), (255, 204, 0)]


def plain(colour: tuple[int, int, int], height: int = 128, width: int = 128) -> bytes:
    return png(np.full((height, width, 3), colour, np.uint8))


def sheet(path: Path, *options: object) -> NDArray[np.uint8]:
    out = path.parent / "sheet.png"
    said = command("view", path, "--out", out, *options).stdout
    with Image.open(out) as picture:
        assert picture.mode == "RGB" and f"({picture.width} x {picture.height})" in said
        return np.asarray(picture).copy()


def tile(pixels: NDArray[np.uint8], side: int, column: int = 0, row: int = 0, group: int = 1) -> NDArray[np.uint8]:
    """The tile of a column of tiles, `group` of which stand near each other."""
    x = MARGIN + column // group * (group * (side + NEAR) - NEAR + GUTTER) + column % group * (side + NEAR)
    y = HEADING + row * (side + CAPTION + GUTTER)
    return pixels[y : y + side, x : x + side]


def write(path: Path, fields: dict[str, object], *samples: dict[str, object], **options: object) -> Path:
    with leat.Writer(path, fields, **options) as w:  # type: ignore[arg-type]
        for sample in samples:
            w.add(**sample)
    return path


def test_photos_stand_in_their_order_each_in_the_middle_of_its_tile(tmp_path: Path) -> None:
    shades = [(10 * i, 200, 100) for i in range(6)]
    path = write(tmp_path / "a.leat", {"image": "image"}, *({"image": plain(s, 64, 128)} for s in shades))
    pixels = sheet(path, "--size", 128, "--columns", 3)
    assert pixels.shape[1] == 2 * MARGIN + 3 * 128 + 2 * GUTTER
    for i, shade in enumerate(shades):
        one = tile(pixels, 128, i % 3, i // 3)
        assert (one[32:96] == shade).all() and (one[:32] != shade).any(2).all() and (one[96:] != shade).any(2).all()


def test_a_large_photo_is_made_smaller_and_a_small_one_larger(tmp_path: Path) -> None:
    halves = np.zeros((300, 600, 3), np.uint8)
    halves[:, 300:] = 250
    path = write(tmp_path / "a.leat", {"image": "image"}, {"image": png(halves)}, {"image": png(halves[:30:10, ::100])})
    pixels = sheet(path, "--size", 100)
    large, small = tile(pixels, 100), tile(pixels, 100, 1)
    assert (large[25:75, :48] == 0).all() and (large[25:75, 52:] == 250).all() and (large[:25] > 200).all()
    # 6 x 3 pixels become 96 x 48 at the 16-fold, whole pixels as they are
    assert (small[26:74, 2:50] == 0).all() and (small[26:74, 50:98] == 250).all()


@pytest.mark.parametrize(
    ("kind", "normalized", "box"),
    [
        ("xyxy", False, (20, 40, 100, 90)),
        ("xywh", False, (20, 40, 80, 50)),
        ("cxcywh", True, (60 / 128, 65 / 128, 80 / 128, 50 / 128)),
    ],
)
def test_a_box_is_drawn_where_it_is_in_the_colour_of_its_class(
    tmp_path: Path, kind: str, normalized: bool, box: tuple[float, ...]
) -> None:
    fields = {"image": "image", "boxes": leat.boxes(kind, normalized), "label": leat.field("int64", (None,))}
    sample = {"image": plain((90, 90, 90)), "boxes": np.array([box], np.float32), "label": np.array([1])}
    one = tile(sheet(write(tmp_path / "a.leat", fields, sample), "--size", 128), 128)
    frame = np.zeros((128, 128), bool)
    frame[40:90, 20:100] = True
    frame[42:88, 22:98] = False
    frame[40:60] = False  # the tag may lie there
    assert (one[frame] == COLOURS[1]).all()
    assert (one[60:88, 22:98] == 90).all() and (one[95:] == 90).all()


def test_a_box_of_half_the_size_lies_at_half_the_place(tmp_path: Path) -> None:
    fields = {"image": "image", "boxes": leat.boxes("xyxy")}
    sample = {"image": plain((90, 90, 90), 256, 256), "boxes": np.array([[40, 80, 200, 180]], np.float32)}
    one = tile(sheet(write(tmp_path / "a.leat", fields, sample), "--size", 128), 128)
    assert (one[40:90, 20] == COLOURS[0]).all() and (one[40:90, 99] == COLOURS[0]).all()
    assert (one[40, 20:100] == COLOURS[0]).all() and (one[89, 20:100] == COLOURS[0]).all()
    assert (one[45:85, 25:95] == 90).all()


def test_the_classes_of_a_mask_are_seen_through(tmp_path: Path) -> None:
    ids = np.zeros((128, 128), np.uint8)
    ids[64:] = 2
    fields = {"image": "image", "mask": leat.mask()}
    path = write(tmp_path / "a.leat", fields, {"image": plain((100, 100, 100)), "mask": png(ids)})
    one = tile(sheet(path, "--size", 128), 128)
    assert (one[:60] == 100).all()
    assert (np.abs(one[70:].astype(int) - (np.array(COLOURS[1]) + 100) // 2) <= 1).all()


@pytest.mark.parametrize("how", ["stored", "moved"])
def test_the_mask_of_each_instance_has_the_colour_of_its_frame(tmp_path: Path, how: str) -> None:
    below, ahead = np.zeros((2, 128, 128), np.uint8)
    below[20:100, 10:60] = 1
    ahead[60:90, 40:120] = 1  # the smaller one is on top where both are
    boxes = np.array([[10, 20, 60, 100], [40, 60, 120, 90]], np.float32)
    fields = {"image": "image", "boxes": leat.boxes("xyxy"), "label": leat.field("int64", (None,))}
    sample = {"image": plain((100, 100, 100)), "boxes": boxes, "label": np.array([5, 5])}
    sample["masks"] = leat.encode_masks([below, ahead])
    path = write(tmp_path / "a.leat", {**fields, "masks": leat.masks()}, sample)
    if how == "stored":
        one = tile(sheet(path, "--size", 128), 128)
    else:
        chain = [leat.ops.Decode(), leat.ops.RandomHorizontalFlip(1.0), leat.ops.Resize((128, 128)), leat.ops.PadTo(5)]
        (tmp_path / "p.json").write_text(leat.program_to_json({("image", "boxes", "masks", "label"): chain}))
        one = tile(sheet(path, "--size", 128, "--program", tmp_path / "p.json", "--versions", 1), 128, 1, group=2)
        one = one[:, ::-1]
    tint = [(0.4 * np.array(colour) + 60).astype(int) for colour in COLOURS]
    assert (np.abs(one[25:55, 15:35].astype(int) - tint[0]) <= 1).all()
    assert (np.abs(one[65:85, 45:55].astype(int) - tint[1]) <= 1).all()
    assert (one[62:88, 118] == COLOURS[1]).all() and (one[45:95, 10] == COLOURS[0]).all()
    assert (one[105:, :] == 100).all()


def test_of_two_fields_of_masks_the_last_one_is_drawn(tmp_path: Path) -> None:
    left, right = np.zeros((2, 128, 128), np.uint8)
    left[:, :60] = 1
    right[:, 70:] = 1
    fields = {"image": "image", "boxes": leat.boxes("xyxy"), "first": leat.masks(), "last": leat.masks()}
    sample = {"image": plain((100, 100, 100)), "boxes": np.array([[0, 0, 1, 1]], np.float32)}
    sample |= {"first": leat.encode_masks([left]), "last": leat.encode_masks([right])}
    one = tile(sheet(write(tmp_path / "a.leat", fields, sample), "--size", 128), 128)
    assert (one[10:, 10:60] == 100).all()
    assert (np.abs(one[10:, 75:].astype(int) - (0.4 * np.array(COLOURS[0]) + 60)) <= 1).all()


def test_masks_that_cannot_be_drawn_are_said_below_the_picture(tmp_path: Path) -> None:
    wrong = leat.encode_masks([np.ones((30, 40), np.uint8)])  # runs of an image of another size
    fields = {"image": "image", "boxes": leat.boxes("xyxy"), "masks": leat.masks()}
    sample = {"image": plain((1, 2, 3)), "boxes": np.ones((1, 4), np.float32), "masks": wrong}
    one = tile(sheet(write(tmp_path / "a.leat", fields, sample), "--size", 128), 128)
    red = (one[:, :, 0] > 150) & (one[:, :, 1] < 100)
    assert red[80:].sum() > 100 and (one[:60, 10:] == (1, 2, 3)).all()


def test_labelled_keypoints_are_dots_and_others_are_not_drawn(tmp_path: Path) -> None:
    fields = {"image": "image", "points": leat.keypoints(2)}
    points = np.array([[[30, 40, 2], [90, 90, 0]]], np.float32)
    path = write(tmp_path / "a.leat", fields, {"image": plain((90, 90, 90)), "points": points})
    one = tile(sheet(path, "--size", 128), 128)
    assert (one[39:41, 29:31] == COLOURS[3]).all() and (one[60:] == 90).all()


def program(path: Path, normalized: bool | None = None) -> Path:
    ops = leat.ops
    chain = [ops.Decode(), ops.RandomHorizontalFlip(1.0), ops.ConvertBoundingBoxFormat("cxcywh", normalized=normalized)]
    chain += [ops.ToDtype("float32"), ops.Normalize([0.5, 0.4, 0.3], [0.2, 0.3, 0.4])]
    chain = [*chain[:1], ops.Resize((128, 128)), *chain[1:]]
    path.write_text(leat.program_to_json({("image", "boxes"): chain}))
    return path


@pytest.mark.parametrize("normalized", [None, False, True])
@pytest.mark.parametrize("stored", [False, True])
def test_versions_of_a_program_stand_beside_the_sample_with_targets_that_moved(
    tmp_path: Path, normalized: bool | None, stored: bool
) -> None:
    left = np.full((128, 128, 3), 200, np.uint8)
    left[:, :64] = (20, 120, 60)
    fields = {"image": "image", "boxes": leat.boxes("xyxy", normalized=stored)}
    boxes = np.array([[10, 40, 50, 100]], np.float32) / (128 if stored else 1)
    path = write(tmp_path / "a.leat", fields, {"image": png(left), "boxes": boxes})
    pixels = sheet(path, "--size", 128, "--program", program(tmp_path / "p.json", normalized), "--versions", 2)
    original, first, second = (tile(pixels, 128, i, group=3) for i in range(3))
    assert (original[110:, :60] == (20, 120, 60)).all() and (original[50:90, 10] == COLOURS[0]).all()
    for version in (first, second):  # Normalize is taken back, and the box is on the other side
        assert (np.abs(version[110:, 70:].astype(int) - (20, 120, 60)) <= 1).all()
        assert (version[50:90, 78] == COLOURS[0]).all() and (version[50:90, 117] == COLOURS[0]).all()


def test_the_batch_of_a_state_is_shown_row_by_row(tmp_path: Path) -> None:
    shades = [(i * 20, 255 - i * 20, 128) for i in range(12)]
    path = write(tmp_path / "a.leat", {"image": "image"}, *({"image": plain(s, 64, 64)} for s in shades))
    outputs = {"image": [leat.ops.Decode(), leat.ops.Resize((64, 64))]}
    (tmp_path / "p.json").write_text(leat.program_to_json(outputs))
    with leat.Loader(leat.open(path), 4, True, seed=5, outputs=outputs) as loader:
        running = iter(loader)
        next(running)
        (tmp_path / "state.json").write_text(json.dumps(loader.state_dict()))
        ids = [int(i) for i in next(running).ids]
    for more in ([], ["--program", tmp_path / "p.json"]):
        pixels = sheet(path, "--batch", tmp_path / "state.json", "--size", 64, *more)
        for row, i in enumerate(ids):
            assert (tile(pixels, 64, row) == shades[i]).all()


def test_a_broken_sample_has_its_error_in_the_place_of_its_picture(tmp_path: Path) -> None:
    good = plain((1, 2, 3))
    samples = ({"image": good}, {"image": good[:60]}, {"image": good})
    path = write(tmp_path / "a.leat", {"image": "image"}, *samples)
    for more in ([], ["--program", program_of_image(tmp_path / "p.json"), "--versions", 1]):
        pixels = sheet(path, "--size", 128, *more)
        group = 2 if more else 1
        for part in range(group):
            one, two, three = (tile(pixels, 128, i * group + part, group=group) for i in range(3))
            assert (one == (1, 2, 3)).all() and (three == (1, 2, 3)).all()
            red = (two[:, :, 0] > 150) & (two[:, :, 1] < 100)
            assert red.sum() > 100


def test_a_sheet_of_broken_samples_alone_says_of_each_what_is_wrong(tmp_path: Path) -> None:
    cut = plain((1, 2, 3))[:60]
    path = write(tmp_path / "a.leat", {"image": "image"}, {"image": plain((1, 2, 3))}, {"image": cut})
    for ids in ("1", "1,1"):
        pixels = sheet(
            path, "--size", 128, "--ids", ids, "--program", program_of_image(tmp_path / "p.json"), "--versions", 2
        )
        for i in range(3):
            one = tile(pixels, 128, i, group=3)
            assert ((one[:, :, 0] > 150) & (one[:, :, 1] < 100)).sum() > 100


def test_several_images_of_a_sample_stand_side_by_side(tmp_path: Path) -> None:
    quarters = np.zeros((64, 64, 3), np.uint8)
    shades = [(255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 0)]
    for i, shade in enumerate(shades):
        quarters[i // 2 * 32 : i // 2 * 32 + 32, i % 2 * 32 : i % 2 * 32 + 32] = shade
    path = write(tmp_path / "a.leat", {"image": "image"}, {"image": png(quarters)})
    (tmp_path / "p.json").write_text(leat.program_to_json({"image": [leat.ops.Decode(), leat.ops.FiveCrop(32)]}))
    pixels = sheet(path, "--size", 64, "--program", tmp_path / "p.json", "--versions", 1, "--columns", 1)
    for i, shade in enumerate(shades):
        assert (tile(pixels, 64, 1 + i, group=6) == shade).all()
    stack = np.stack([np.full((16, 16, 3), 10 * i, np.uint8) for i in range(3)])
    path = write(tmp_path / "b.leat", {"x": leat.field("uint8", (3, 16, 16, 3))}, {"x": stack})
    pixels = sheet(path, "--size", 32)
    assert [int(tile(pixels, 32, i, group=3)[16, 16, 0]) for i in range(3)] == [0, 10, 20]


@pytest.mark.parametrize("stack", ["list", "pad", None])
def test_images_of_open_size_are_shown_each_as_large_as_it_is(tmp_path: Path, stack: str | None) -> None:
    fields = {"image": "image", "boxes": leat.boxes("xyxy")}
    boxes = np.array([[4, 8, 40, 30]], np.float32)
    sizes = [(64, 32), (32, 64)]
    samples = ({"image": plain((90, 90, 90), *size), "boxes": boxes} for size in sizes)
    path = write(tmp_path / "a.leat", fields, *samples)
    names = ("image", "boxes")
    chain = [leat.ops.Decode(), leat.ops.RandomHorizontalFlip(0.0)]
    out = leat.Out(names, chain, stack=stack)  # type: ignore[arg-type]
    (tmp_path / "p.json").write_text(leat.program_to_json({names: out}))
    pixels = sheet(path, "--size", 64, "--program", tmp_path / "p.json", "--versions", 1)
    for i, (height, width) in enumerate(sizes):
        stored, made = (tile(pixels, 64, 2 * i + part, group=2) for part in range(2))
        assert (stored == made).all() and (made == 90).all(2).sum() > height * width / 2


def program_of_image(path: Path) -> Path:
    path.write_text(leat.program_to_json({"image": [leat.ops.Decode(), leat.ops.Resize((128, 128))]}))
    return path


def test_the_name_of_an_output_stands_below_it_only_where_there_are_several(tmp_path: Path) -> None:
    path = write(tmp_path / "a.leat", {"image": "image"}, {"image": plain((90, 90, 90))})
    chain = [leat.ops.Decode(), leat.ops.Resize((64, 64))]

    def shown(*names: str) -> NDArray[np.uint8]:
        (tmp_path / "p.json").write_text(leat.program_to_json({n: leat.Out("image", chain) for n in names}))
        return sheet(path, "--size", 64, "--program", tmp_path / "p.json", "--versions", 1)

    assert (shown("image") == shown("wing")).all()
    assert (shown("image", "wing") != shown("image", "ring")).any()


def test_arrays_that_look_like_images_are_pictures(tmp_path: Path) -> None:
    digit = np.zeros((28, 28), np.uint8)
    digit[:14] = 200
    path = write(tmp_path / "a.leat", {"x": leat.field("uint8", (28, 28)), "label": "int64"}, {"x": digit, "label": 3})
    one = tile(sheet(path, "--size", 56), 56)
    assert (one[:28] == 200).all() and (one[28:] == 0).all()


def test_names_of_classes_may_be_anything(tmp_path: Path) -> None:
    names = ["\x1b[2J\n\t" * 40, "\u202e\u4eba\U0001f600", "", "%s%n"]
    fields = {"image": "image", "boxes": leat.boxes("xyxy"), "label": leat.field("int64", (None,))}
    boxes = np.array([[0, 0, 60, 60], [30, 30, 90, 90], [-1e30, 0, 1e30, 9], [5, 5, 5, 5]], np.float32)
    sample = {"image": plain((90, 90, 90)), "boxes": boxes, "label": np.array([0, 1, 2, 3])}
    sheet(write(tmp_path / "a.leat", fields, sample, classes=names), "--size", 128)


def test_which_samples_are_shown_can_be_said(tmp_path: Path) -> None:
    shades = [(i, i, i) for i in range(100)]
    path = write(tmp_path / "a.leat", {"image": "image"}, *({"image": plain(s, 32, 32)} for s in shades))
    for options, ids in (
        (["--samples", 4], [0, 25, 50, 75]),
        (["--from", 97], [97, 98, 99]),
        (["--ids", "7,3,3"], [7, 3, 3]),
    ):
        pixels = sheet(path, "--size", 32, *options)
        assert [int(tile(pixels, 32, i)[0, 0, 0]) for i in range(len(ids))] == ids


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "--out is missing"),
        (["--out", "a.png", "--step", 3], "--step needs --batch."),
        (["--out", "a.png", "--ids", "3", "--samples", 2], "--ids says which"),
        (["--out", "a.png", "--ids", "3,x"], "--ids takes a whole number from 0 to 0"),
        (["--out", "a.png", "--from", 1], "has 1 samples"),
        (["--out", "a.png", "--field", "label"], 'no pictures in "label"'),
        (["--out", "no/such/a.png"], "could not be written"),
        (["--out", "a.png", "--program", "none.json"], "none.json"),
    ],
)
def test_what_cannot_be_shown_is_said(tmp_path: Path, options: list[object], said: str) -> None:
    path = write(tmp_path / "a.leat", {"image": "image", "label": "int64"}, {"image": plain((1, 2, 3)), "label": 0})
    done = command("view", path, *options, code=2, cwd=tmp_path)
    assert said in done.stderr and done.stdout == ""
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.leat"]


def test_a_data_set_without_pictures_is_told(tmp_path: Path) -> None:
    path = write(tmp_path / "a.leat", {"x": leat.field("float32", (3,))}, {"x": np.zeros(3, np.float32)})
    assert "no pictures" in command("view", path, "--out", tmp_path / "a.png", code=2).stderr
