"""Chains over tuples of fields: boxes, masks, keypoints and labels are moved, and filtered, with their image.

The references are plain NumPy over what a row's geometry says; the geometry itself is checked against Pillow's pixels.
"""

from __future__ import annotations

import hashlib
import io
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from drawn_support import examples
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from photo_support import png
from PIL import Image
from targets_made import Sample, from_xyxy, to_xyxy, write

import leat
from leat import ops

F = np.float32
Array = np.ndarray[Any, Any]


@pytest.fixture(scope="module")
def samples() -> list[Sample]:
    rng = np.random.default_rng(7)
    return [Sample(i, rng) for i in range(61)]


@pytest.fixture(scope="module")
def stored(samples: list[Sample], tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, bool], leat.Dataset]:
    folder = tmp_path_factory.mktemp("targets")
    found = {}
    for form in ("xyxy", "xywh", "cxcywh"):
        for normalized in (False, True):
            path = folder / f"{form}{normalized}.leat"
            write(path, samples, form, normalized)
            found[form, normalized] = leat.open(path)
    return found


TUPLE = ("image", "boxes", "label", "mask", "points", "number")


def loader(ds: leat.Dataset, chain: list[ops.Operator], batch: int = 8, **options: Any) -> leat.Loader:
    return leat.Loader(
        ds, batch, outputs={TUPLE: leat.Out(TUPLE, chain, geometry=True)}, framework="numpy", **{"seed": 3, **options}
    )


def moved_boxes(s: Sample, boxes: Array, form: str, normalized: bool, g: Array, size: int) -> tuple[Array, Array]:
    """Boxes as stored, after RandomResizedCrop(size), RandomHorizontalFlip and SanitizeBoundingBoxes; and which are
    left.
    """
    x, y, w, h, flip = (float(v) for v in g[:5])
    b = boxes * np.array([s.w, s.h] * 2, F) if normalized else boxes
    corner = to_xyxy(b, form) if form == "xyxy" else b.copy()
    corner[:, :2] -= np.array([x, y], F)
    if form == "xyxy":
        corner[:, 2:] -= np.array([x, y], F)
    inside = to_xyxy(corner, form)
    inside[:, 0::2] = np.clip(inside[:, 0::2], F(0), F(w))
    inside[:, 1::2] = np.clip(inside[:, 1::2], F(0), F(h))
    b = from_xyxy(inside, form)
    b *= np.array([size / w, size / h] * 2).astype(F)
    if flip:
        if form == "xyxy":
            b[:, [0, 2]] = F(size) - b[:, [2, 0]]
        elif form == "xywh":
            b[:, 0] = F(size) - (b[:, 0] + b[:, 2])
        else:
            b[:, 0] = F(size) - b[:, 0]
    c = to_xyxy(b, form)
    across, down = c[:, 2] - c[:, 0], c[:, 3] - c[:, 1]
    out = size * F(2**-20)  # of what was cut off at an edge and rounded
    kept = (across >= 1) & (down >= 1) & (across * down >= 1) & (c >= -out).all(1) & (c <= size + out).all(1)
    rounded = (c != c.clip(0, size)).any(1) & kept
    b[rounded] = from_xyxy(c[rounded].clip(0, size), form)
    b = b[kept]
    return (b / np.array([size] * 4, F) if normalized else b), kept


def resized(points: Array, scale: Any) -> Array:
    """Whole numbers are the middles of pixels."""
    return np.asarray(points.astype(np.float64) * scale + (scale - 1) / 2)


def moved_points(s: Sample, kept: Array, g: Array, size: int) -> Array:
    x, y, w, h, flip = (float(v) for v in g[:5])
    p = s.points.copy()
    p[..., :2] -= np.array([x, y], F)
    gone = (p[..., :2] < -0.5).any(-1) | (p[..., :2] >= np.array([w, h]) - 0.5).any(-1) | (s.points[..., 2] == 0)
    p[..., :2] = resized(p[..., :2], np.array([size / w, size / h])).astype(F)
    if flip:
        p[..., 0] = F(size) - F(1) - p[..., 0]
    p[gone] = 0
    return p[kept]


def nearest(ids: Array, g: Array, size: int) -> Array:
    x, y, w, h = (int(v) for v in g[:4])
    made = np.asarray(Image.fromarray(ids).crop((x, y, x + w, y + h)).resize((size, size), Image.Resampling.NEAREST))
    return made[:, ::-1] if g[4] else made


def chain(size: int = 24) -> list[ops.Operator]:
    return [ops.Decode(), ops.RandomResizedCrop(size), ops.RandomHorizontalFlip(), ops.SanitizeBoundingBoxes()]


@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize("form", ["xyxy", "xywh", "cxcywh"])
def test_every_target_goes_where_its_image_goes(
    samples: list[Sample], stored: dict[tuple[str, bool], leat.Dataset], form: str, normalized: bool
) -> None:
    rows = 0
    for epoch in range(2):
        for batch in loader(stored[form, normalized], chain(), shuffle=True, seed=epoch):
            for i, sample in enumerate(batch.ids):
                s, g = samples[int(sample)], batch["image.geometry"][i]
                x, y, w, h = (int(v) for v in g[:4])
                assert (g[5], g[6]) == (s.h, s.w)
                cut = Image.fromarray(s.pixels).crop((x, y, x + w, y + h)).resize((24, 24), Image.Resampling.BILINEAR)
                pixels = np.asarray(cut)[:, ::-1] if g[4] else np.asarray(cut)
                assert abs(batch["image"][i].astype(int) - pixels.transpose(2, 0, 1)).max() <= 1
                boxes = from_xyxy(s.xyxy, form)
                boxes = boxes / np.array([s.w, s.h] * 2, F) if normalized else boxes
                wanted, kept = moved_boxes(s, boxes, form, normalized, g, 24)
                np.testing.assert_array_equal(batch["boxes"][i], wanted)
                np.testing.assert_array_equal(batch["label"][i], s.label[kept])
                np.testing.assert_array_equal(batch["points"][i], moved_points(s, kept, g, 24))
                np.testing.assert_array_equal(batch["mask"][i], nearest(s.ids, g, 24))
                assert batch["number"][i] == s.number
                rows += 1
    assert rows == 2 * len(samples)


def digest(batches: Sequence[Any]) -> list[str]:
    """A hash per row, so that rows can be compared however they are batched."""
    found = []
    for batch in batches:
        for i in range(batch.size):
            h = hashlib.sha256()
            for name in batch:
                value = batch[name]
                h.update(np.ascontiguousarray(value[i]).tobytes() + repr(np.shape(value[i])).encode())
            h.update(int(batch.ids[i]).to_bytes(8, "little"))
            found.append(h.hexdigest())
    return found


@examples(15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.integers(1, 4),
    st.integers(1, 3),
    st.integers(1, 13),
    st.integers(0, 60),
    st.booleans(),
    st.sampled_from(["none", "pad"]),
)
def test_rows_are_the_same_for_any_threads_ranks_batches_and_cut_points(
    stored: dict[tuple[str, bool], leat.Dataset], threads: int, ranks: int, size: int, cut: int, shuffle: bool, pad: str
) -> None:
    ds = stored["xywh", False]
    end: list[ops.Operator] = [] if pad == "none" else [ops.PadTo(6, fill={"label": -1})]
    wanted = digest(list(loader(ds, chain(16) + end, 61, shuffle=shuffle, num_threads=1)))
    batches = []
    for rank in range(ranks):
        whole = loader(
            ds,
            chain(16) + end,
            batch=size,
            shuffle=shuffle,
            num_threads=threads,
            rank=rank,
            world_size=ranks,
            tail="uneven",
        )
        mine: list[Any] = []
        for batch in whole:
            mine.append(batch)
            if len(mine) == cut % 7 + 1:  # and on in another loader, from its state
                state = whole.state_dict()
                again = loader(
                    ds, chain(16) + end, batch=size, shuffle=shuffle, rank=rank, world_size=ranks, tail="uneven"
                )
                again.load_state_dict(state)
                if batch.step + 1 < len(whole):
                    mine.extend(again)
                break
        batches.append(digest(mine))
    assert sorted(row for rank in batches for row in rank) == sorted(wanted)


def test_out_of_order_every_row_comes_once_and_is_the_same(stored: dict[tuple[str, bool], leat.Dataset]) -> None:
    ds = stored["xyxy", False]
    wanted = digest(list(loader(ds, chain(), 61, shuffle=True)))
    for threads in (1, 4):
        assert sorted(
            digest(list(loader(ds, chain(), 5, shuffle=True, in_order=False, num_threads=threads)))
        ) == sorted(wanted)


def test_a_crop_that_pads_a_clamp_and_a_conversion_are_followed(
    samples: list[Sample], stored: dict[tuple[str, bool], leat.Dataset]
) -> None:
    chain = [ops.Decode(), ops.Resize((40, 60)), ops.CenterCrop((80, 30)), ops.ClampBoundingBoxes()]
    for batch in loader(stored["xyxy", False], [*chain, ops.ConvertBoundingBoxFormat("cxcywh")]):
        for i, sample in enumerate(batch.ids):
            s = samples[int(sample)]
            b = s.xyxy * np.array([60 / s.w, 40 / s.h] * 2).astype(F)
            b -= np.array([15, -20] * 2, F)
            b[:, 0::2], b[:, 1::2] = np.clip(b[:, 0::2], 0, 30), np.clip(b[:, 1::2], 0, 80)
            np.testing.assert_array_equal(batch["boxes"][i], from_xyxy(b, "cxcywh"))
            np.testing.assert_allclose(batch["image.geometry"][i][:4], [s.w / 4, -s.h / 2, s.w / 2, s.h * 2], rtol=1e-6)
            assert (batch["mask"][i][:20] == 0).all() and (batch["mask"][i][60:] == 0).all()


def test_without_a_getter_of_labels_only_what_has_a_role_goes_with_the_boxes(
    samples: list[Sample], stored: dict[tuple[str, bool], leat.Dataset]
) -> None:
    moves, ds = chain()[:-1], stored["xyxy", False]
    every = loader(ds, [*moves, ops.SanitizeBoundingBoxes()], 61).batch_at(0, 0)
    none = loader(ds, [*moves, ops.SanitizeBoundingBoxes(labels_getter=None)], 61).batch_at(0, 0)
    left = [len(boxes) for boxes in every["boxes"]]
    assert [len(rows) for rows in none["boxes"]] == [len(rows) for rows in none["points"]] == left
    assert [len(rows) for rows in every["label"]] == left != [len(s.label) for s in samples]
    assert [rows.tolist() for rows in none["label"]] == [s.label.tolist() for s in samples]


def test_a_random_crop_is_followed(samples: list[Sample], stored: dict[tuple[str, bool], leat.Dataset]) -> None:
    for batch in loader(stored["xyxy", False], [ops.Decode(), ops.RandomCrop(20, padding=6)]):
        for i, sample in enumerate(batch.ids):
            s, (x, y, w, h, *_) = samples[int(sample)], batch["image.geometry"][i]
            assert (w, h) == (20, 20) and -6 <= x <= s.w - 14 and -6 <= y <= s.h - 14
            b = s.xyxy - np.array([x, y] * 2, F)
            np.testing.assert_array_equal(batch["boxes"][i], np.clip(b, F(0), F(20)))
            assert len(batch["label"][i]) == len(s.label)


def test_an_image_is_cropped_alike_with_its_boxes_and_without(stored: dict[tuple[str, bool], leat.Dataset]) -> None:
    ds = stored["xyxy", False]
    alone = leat.Loader(ds, 61, outputs={"image": chain()[:-1]}, framework="numpy").batch_at(0, 0)["image"]
    both = leat.Loader(ds, 61, outputs={("image", "boxes", "label"): chain()}, framework="numpy").batch_at(0, 0)
    assert (alone == both["image"]).all()


def test_padding_makes_every_ragged_output_dense(
    samples: list[Sample], stored: dict[tuple[str, bool], leat.Dataset]
) -> None:
    ragged, padded = (
        list(loader(stored["xyxy", False], chain() + end))
        for end in ([], [ops.PadTo(7, fill={"label": -1, "points": 0.5})])
    )
    for a, b in zip(ragged, padded, strict=True):
        assert (
            b["boxes"].shape == (a.size, 7, 4)
            and b["label"].shape == (a.size, 7)
            and b["points"].shape == (a.size, 7, 3, 3)
        )
        for name, fill in (("boxes", 0), ("label", -1), ("points", 0.5)):
            np.testing.assert_array_equal(b[name], a[name].to_padded(fill, 7))


def test_more_rows_than_padding_has_are_a_broken_sample_unless_they_are_to_be_cut(
    stored: dict[tuple[str, bool], leat.Dataset],
) -> None:
    ds = stored["xyxy", False]
    with pytest.raises(leat.BrokenSampleError, match=r"'boxes' has \d rows, and PadTo makes 1"):
        list(leat.Loader(ds, 8, outputs={("image", "boxes"): [ops.Decode(), ops.Resize((8, 8)), ops.PadTo(1)]}))
    for batch in leat.Loader(ds, 8, outputs={"label": [ops.PadTo(2, -1, cut=True)], "number": []}, framework="numpy"):
        plain = leat.Loader(ds, 8, outputs={"label": []}, framework="numpy").batch_at(0, batch.step)["label"]
        np.testing.assert_array_equal(batch["label"], plain.to_padded(-1, 2))


def test_a_padded_column_may_be_converted_first(
    samples: list[Sample], stored: dict[tuple[str, bool], leat.Dataset]
) -> None:
    batch = leat.Loader(
        stored["xyxy", False], 61, outputs={"label": [ops.ToDtype("float32"), ops.PadTo(6, -0.5)]}, framework="numpy"
    ).batch_at(0, 0)
    for row, s in zip(batch["label"], samples, strict=True):
        np.testing.assert_array_equal(row, np.concatenate([s.label, np.full(6 - len(s.label), -0.5)]).astype(F))


# ---- what is wrong with a sample -------------------------------------------------------------------------------------

WRONG = {
    "nan": ([[0, 0, np.nan, 5]], [1], r"box 0, \(0, 0, nan, 5\) in an image of 30 x 20, is not finite"),
    "infinite": ([[0, 0, 4, 5], [0, 0, np.inf, 5]], [1, 2], "box 1, .* is not finite"),
    "inverted": ([[9, 2, 3, 5]], [1], "box 0, .* is inverted: its format may be another one"),
    "outside": ([[31, 2, 39, 5]], [1], "box 0, .* lies outside of the image"),
    "above": ([[1, -9, 5, -1]], [1], "box 0, .* lies outside of the image"),
    "labels": ([[1, 1, 5, 5]], [1, 2], r"'label' has 2 rows and 'boxes' 1: one per box is needed"),
}


def broken(path: Path, boxes: Any, label: Any) -> leat.Dataset:
    fields = {"image": "image", "boxes": leat.boxes(), "label": leat.field("int64", (None,))}
    with leat.Writer(path, fields) as w:
        w._instances.boxes = None  # such samples are refused in Python, but not in C
        for i in range(9):
            wrong = i == 4
            w.add(
                image=png(np.full((20, 30, 3), i, np.uint8)),
                boxes=np.array(boxes, F) if wrong else np.array([[1, 2, 9, 9]], F),
                label=np.array(label) if wrong else np.array([i]),
            )
    return leat.open(path)


@pytest.mark.parametrize("kind", WRONG)
def test_boxes_that_cannot_be_are_a_broken_sample(tmp_path: Path, kind: str) -> None:
    boxes, label, words = WRONG[kind]
    ds = broken(tmp_path / "a.leat", boxes, label)
    outputs = {("image", "boxes", "label"): [ops.Decode(), ops.Resize((8, 8)), ops.SanitizeBoundingBoxes()]}
    with pytest.raises(leat.BrokenSampleError, match=words) as e:
        list(leat.Loader(ds, 3, outputs=outputs))
    assert "sample 4" in str(e.value) and "a.leat" in str(e.value)
    skipped = list(leat.Loader(ds, 3, outputs=outputs, on_error="skip", framework="numpy"))
    assert [b.size for b in skipped] == [3, 2, 3]
    assert [b["label"].values.tolist() for b in skipped] == [[0, 1, 2], [3, 5], [6, 7, 8]]
    assert [len(b["boxes"]) for b in skipped] == [3, 2, 3] and len(skipped[1].errors) == 1
    (chain,) = outputs.values()
    padded = {("image", "boxes", "label"): [*chain, ops.PadTo(2)]}
    (batch,) = (b for b in leat.Loader(ds, 3, outputs=padded, on_error="substitute", framework="numpy") if b.errors)
    assert batch.size == 3 and batch.errors[0].delivered == batch.ids[1] != 4
    assert batch["image"][1].max() == batch.ids[1] == batch["label"][1][0]


def test_a_box_that_a_rounding_moved_across_the_edge_is_an_empty_one(tmp_path: Path) -> None:
    """Boxes scaled in floats: 47.000004 in an image of 47 columns. Boxes a tenth of a pixel outside are refused."""
    across = np.nextafter(F(30), F(99))
    for box, fits in (([across, 2, across, 12], True), ([-across / 1e7, 2, 0, 12], True), ([30.1, 2, 30.1, 12], False)):
        ds = broken(tmp_path / f"{len(list(tmp_path.iterdir()))}.leat", [box, [1, 2, 9, 9]], [5, 6])
        outputs = {("image", "boxes", "label"): [ops.Decode(), ops.Resize((20, 30)), ops.SanitizeBoundingBoxes()]}
        loader = leat.Loader(ds, 9, outputs=outputs, on_error="skip", framework="numpy")
        (batch,) = loader
        assert batch["label"].values.tolist() == [0, 1, 2, 3, *([6] if fits else []), 5, 6, 7, 8]


def keypoint(path: Path, point: Any, *chain: Any) -> Any:
    with leat.Writer(path, {"image": "image", "points": leat.keypoints(1)}, overwrite=True) as w:
        w.add(image=png(np.zeros((32, 32, 3), np.uint8)), points=np.array([[point]], F))
    outputs = {("image", "points"): [ops.Decode(), *chain, ops.PadTo(1)]}
    return leat.Loader(leat.open(path), 1, outputs=outputs, framework="numpy").batch_at(0, 0)["points"][0, 0, 0]


def test_only_what_crops_leaves_keypoints_behind(tmp_path: Path) -> None:
    path, flip, resize = tmp_path / "a.leat", ops.RandomHorizontalFlip(1.0), ops.Resize((64, 64))
    mirrored = F(32) - 1 - F(31.6)
    made = keypoint(path, [31.6, 5, 2], flip, resize)
    np.testing.assert_array_equal(made, [F(mirrored * 2 + 0.5), 10.5, 2])
    np.testing.assert_allclose(keypoint(path, [31.6, 5, 2], resize, flip), made, atol=1e-5)
    np.testing.assert_array_equal(keypoint(path, [31.6, 5, 2], flip, ops.CenterCrop(32)), [0, 0, 0])
    np.testing.assert_array_equal(keypoint(path, [15.5, 5, 1], ops.CenterCrop(20)), [0, 0, 0])


def test_mirrors_exchange_left_and_right_and_turns_do_not(tmp_path: Path) -> None:
    path, across, down = tmp_path / "a.leat", ops.RandomHorizontalFlip(1.0), ops.RandomVerticalFlip(1.0)
    points = np.array([[[1, 2, 2], [3, 4, 1], [5, 6, 2], [0, 0, 0], [9, 10, 2]], [[7, 8, 1]] * 5], F)
    with leat.Writer(path, {"image": "image", "points": leat.keypoints(5, pairs=[(0, 1), (4, 3)])}) as w:
        for _ in range(8):
            w.add(image=png(np.zeros((20, 32, 3), np.uint8)), points=points)

    def moved(*chain: Any) -> Any:
        outputs = {("image", "points"): [ops.Decode(), *chain, ops.Resize((20, 32))]}
        (batch,) = leat.Loader(leat.open(path), 8, outputs=outputs, framework="numpy")
        return np.stack([batch["points"][r] for r in range(8)])

    def mirrored(axis: int) -> Any:
        made, seen = points.copy(), points[..., 2] > 0
        made[..., axis] = np.where(seen, (31, 19)[axis] - points[..., axis], points[..., axis])
        return made[:, [1, 0, 2, 4, 3]]

    np.testing.assert_array_equal(moved(), [points] * 8)
    np.testing.assert_array_equal(moved(across), [mirrored(0)] * 8)
    np.testing.assert_array_equal(moved(down), [mirrored(1)] * 8)
    both = points.copy()
    both[..., :2] = np.where(points[..., 2:] > 0, [31, 19] - points[..., :2], points[..., :2])
    np.testing.assert_array_equal(moved(across, down), [both] * 8)
    turned = moved(ops.RandomRotation((180, 180)))
    labelled = turned[0][..., 2] > 0
    assert np.abs(turned[0] - both)[labelled].max() <= 1e-5
    some = moved(ops.RandomApply([across]))
    assert {tuple(p[0, 0]) for p in some} == {tuple(points[0, 0]), tuple(mirrored(0)[0, 0])}


def test_keypoints_that_are_not_finite_are_broken_unless_they_have_no_visibility(tmp_path: Path) -> None:
    path, resize = tmp_path / "a.leat", ops.Resize((64, 64))
    np.testing.assert_array_equal(keypoint(path, [np.nan, np.inf, 0], resize), [0, 0, 0])
    np.testing.assert_array_equal(keypoint(path, [3, 4, 0], resize), [3, 4, 0])
    for point in ([np.nan, 4, 2], [3, np.inf, 1], [3, 4, np.nan]):
        with pytest.raises(leat.BrokenSampleError, match="instance 0 is not finite: give it visibility 0"):
            keypoint(path, point, resize)


def test_a_box_that_reaches_beyond_the_image_is_cut_off_or_left_out_as_is_said(tmp_path: Path) -> None:
    ds = broken(tmp_path / "a.leat", [[-3, 4, 12, 40]], [7])
    cut, none = [[0, 4, 12, 20]], ops.ClampBoundingBoxes(None)
    for clamp, wanted in (
        ([ops.ClampBoundingBoxes()], cut),
        ([ops.ClampBoundingBoxes("hard")], cut),
        ([none], []),
        ([], []),
    ):
        chain = [ops.Decode(), ops.Resize((20, 30)), *clamp, ops.SanitizeBoundingBoxes()]
        batch = leat.Loader(ds, 9, outputs={("image", "boxes", "label"): chain}, framework="numpy").batch_at(0, 0)
        assert batch["boxes"][4].tolist() == wanted and batch["label"][4].tolist() == [7] * len(wanted)


def test_a_mask_of_another_size_is_a_broken_sample(tmp_path: Path) -> None:
    with leat.Writer(tmp_path / "a.leat", {"image": "image", "mask": leat.mask()}) as w:
        w.add(image=png(np.zeros((20, 30, 3), np.uint8)), mask=png(np.zeros((30, 20), np.uint8)))
    run = leat.Loader(
        leat.open(tmp_path / "a.leat"), 1, outputs={("image", "mask"): [ops.Decode(), ops.Resize((8, 8))]}
    )
    with pytest.raises(leat.BrokenSampleError, match="'image' has 30 x 20 pixels and 'mask' 20 x 30: .* has one size"):
        next(iter(run))


def one_mask(path: Path, data: bytes, w: int = 30, h: int = 20) -> Array:
    with leat.Writer(path, {"image": "image", "mask": leat.mask()}) as writer:
        writer.add(image=png(np.zeros((h, w, 3), np.uint8)), mask=data)
    outputs = {("image", "mask"): [ops.Decode(), ops.CenterCrop((h, w))]}
    made: Array = leat.Loader(leat.open(path), 1, outputs=outputs, framework="numpy").batch_at(0, 0)["mask"][0]
    return made


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
@pytest.mark.parametrize("interlaced", [False, True])
def test_a_mask_with_a_palette_gives_its_indices(tmp_path: Path, bits: int, interlaced: bool) -> None:
    ids = np.random.default_rng(bits).integers(0, 2**bits, (20, 30), dtype=np.uint8)
    image, out = Image.fromarray(ids, "P"), io.BytesIO()
    image.putpalette([255 - i // 3 for i in range(3 * 256)])
    image.save(out, "PNG", bits=bits, interlace=interlaced)
    np.testing.assert_array_equal(one_mask(tmp_path / "a.leat", out.getvalue()), ids)


@pytest.mark.parametrize("kind", ["RGB", "JPEG", "16 bits"])
def test_a_mask_that_has_no_class_ids_says_so(tmp_path: Path, kind: str) -> None:
    out, shape = io.BytesIO(), (20, 30, 3) if kind == "RGB" else (20, 30)
    pixels = np.zeros(shape, np.uint16 if kind == "16 bits" else np.uint8)
    Image.fromarray(pixels).save(out, "JPEG" if kind == "JPEG" else "PNG")
    with pytest.raises(leat.BrokenSampleError, match="class ids.* store the mask"):
        one_mask(tmp_path / "a.leat", out.getvalue())


def test_an_image_that_does_not_decode_is_broken_in_a_tuple_too(tmp_path: Path) -> None:
    good = png(np.zeros((20, 30, 3), np.uint8))
    with leat.Writer(tmp_path / "a.leat", {"image": "image", "boxes": leat.boxes()}, check=False) as w:
        for data in (good, good[:-30], good):
            w.add(image=data, boxes=np.array([[1, 2, 9, 9]], F))
    ds = leat.open(tmp_path / "a.leat")
    outputs = {("image", "boxes"): [ops.Decode(), ops.CenterCrop(8)]}
    with pytest.raises(leat.BrokenSampleError, match="sample 1"):
        list(leat.Loader(ds, 3, outputs=outputs))
    (batch,) = leat.Loader(ds, 3, outputs=outputs, on_error="skip", framework="numpy")
    assert batch.ids.tolist() == [0, 2] and len(batch["boxes"]) == 2


# ---- rotation --------------------------------------------------------------------------------------------------------


def turned(points: Array, angle: float, s: Sample, size: tuple[int, int], center: tuple[float, float] | None) -> Array:
    """Where torchvision.transforms.v2 brings points of an image that it rotates to `size`."""
    c, v = np.cos(np.radians(angle)), np.sin(np.radians(angle))
    x, y = np.moveaxis(points.astype(np.float64) - (center or (s.w / 2, s.h / 2)), -1, 0)
    middle = np.array(center or (s.w / 2, s.h / 2)) + (np.array(size) - (s.w, s.h)) / 2
    return np.stack([c * x + v * y, c * y - v * x], -1) + middle


@pytest.mark.parametrize("expand", [False, True])
@pytest.mark.parametrize(("angle", "center"), [(0, None), (37, None), (90, None), (-152.5, None), (20, (11, 30))])
@pytest.mark.parametrize(("form", "normalized"), [("xyxy", False), ("cxcywh", True)])
def test_a_rotation_turns_boxes_masks_and_keypoints(
    samples: list[Sample],
    stored: dict[tuple[str, bool], leat.Dataset],
    angle: float,
    center: tuple[float, float] | None,
    expand: bool,
    form: str,
    normalized: bool,
) -> None:
    turn = ops.RandomRotation((angle, angle), "bilinear", expand=expand, center=center, fill=7)
    outputs = {TUPLE: [ops.Decode(), turn, ops.Resize((32, 32))]}
    for batch in leat.Loader(stored[form, normalized], 16, outputs=outputs, framework="numpy"):
        for i, sample in enumerate(batch.ids):
            s = samples[int(sample)]
            ids = Image.fromarray(s.ids).rotate(angle, Image.Resampling.NEAREST, expand, center, fillcolor=7)
            resized = np.asarray(ids.resize((32, 32), Image.Resampling.NEAREST))
            np.testing.assert_array_equal(batch["mask"][i], resized)
            scale = 32 / np.array(ids.size)
            corners = turned(s.xyxy[:, [[0, 1], [2, 1], [2, 3], [0, 3]]], angle, s, ids.size, center)
            boxes = np.concatenate([corners.min(1), corners.max(1)], 1).clip(0, [*ids.size, *ids.size])
            wanted = from_xyxy(boxes * [*scale, *scale], form) / (32 if normalized else 1)
            np.testing.assert_allclose(batch["boxes"][i], wanted, atol=1e-3)
            points = turned(s.points[..., :2] + 0.5, angle, s, ids.size, center)  # from the middle of a pixel
            at_edge = (np.minimum(abs(points), abs(points - ids.size)) < 1e-3).any(-1)
            gone = ((points < 0) | (points >= ids.size)).any(-1) | (s.points[..., 2] == 0)
            made = np.concatenate([points * scale - 0.5, s.points[..., 2:]], -1) * ~gone[..., None]
            np.testing.assert_allclose(batch["points"][i][~at_edge], made[~at_edge], atol=1e-3)


def test_one_angle_is_drawn_for_all_fields_of_a_tuple(tmp_path: Path) -> None:
    ids = np.zeros((60, 80), np.uint8)
    ids[20:35, 30:65] = 9
    with leat.Writer(tmp_path / "a.leat", {"image": "image", "mask": leat.mask(), "boxes": leat.boxes("xyxy")}) as w:
        for _ in range(40):
            w.add(image=png(np.stack([ids] * 3, 2)), mask=png(ids), boxes=np.array([[30, 20, 65, 35]], F))
    chain = [ops.Decode(), ops.RandomHorizontalFlip(), ops.RandomRotation(180), ops.CenterCrop((60, 80))]
    outputs = {("image", "boxes", "mask"): chain}
    areas = set()
    for batch in leat.Loader(leat.open(tmp_path / "a.leat"), 8, outputs=outputs, framework="numpy", seed=5):
        for image, mask, boxes in zip(batch["image"], batch["mask"], batch["boxes"], strict=True):
            np.testing.assert_array_equal(image, np.stack([mask] * 3))
            y, x = np.nonzero(mask)
            np.testing.assert_allclose(boxes[0], [x.min(), y.min(), x.max() + 1, y.max() + 1], atol=1.5)
            areas.add(int((x.max() - x.min()) * (y.max() - y.min())))
    assert len(areas) > 20


# ---- what does not fit -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "chain", "words"),
    [
        (("boxes", "label"), [ops.SanitizeBoundingBoxes()], "no image whose size they go by"),
        (("image", "label"), [ops.Decode(), ops.Resize((8, 8)), ops.SanitizeBoundingBoxes()], "finds no boxes"),
        (("image", "boxes"), [ops.Resize((8, 8))], r"put Decode\(\) before it"),
        (("image", "boxes"), [], "encoded photo among a tuple"),
        (("image", "boxes"), [ops.Decode()], "open size"),
        (("image", "boxes"), [ops.Decode(), ops.PadTo(3), ops.Resize((8, 8))], "stands behind PadTo"),
        (
            ("image", "boxes"),
            [ops.Decode(), ops.RandomCrop(8, pad_if_needed=True, padding_mode="reflect")],
            'padding_mode="constant"',
        ),
        (
            ("image", "boxes", "label"),
            [ops.Decode(), ops.CenterCrop(8), ops.SanitizeBoundingBoxes(labels_getter="number")],
            "names a field in labels_getter",
        ),
        (("image", "boxes"), [ops.Decode(), ops.CenterCrop(8), ops.Native("a.so:b")], "has no entry|cannot be|no such"),
        (("image", "number"), [ops.Decode(), ops.Resize((8, 8)), ops.MixUp(num_classes=9)], "mixes images as floats"),
    ],
)
def test_a_chain_that_does_not_fit_its_tuple_says_why(
    stored: dict[tuple[str, bool], leat.Dataset], fields: tuple[str, ...], chain: list[ops.Operator], words: str
) -> None:
    if any(isinstance(op, ops.Native) for op in chain):
        pytest.skip("loading a library comes before the chain is looked at")
    with pytest.raises(leat.ProgramError, match=words):
        leat.Loader(stored["xyxy", False], 2, outputs={fields: chain})


def test_a_geometry_does_not_say_how_an_image_was_rotated(stored: dict[tuple[str, bool], leat.Dataset]) -> None:
    out = leat.Out("image", [ops.Decode(), ops.CenterCrop(8), ops.RandomRotation(9)], geometry=True)
    with pytest.raises(leat.ProgramError, match="turns images, which a geometry cannot say"):
        leat.Loader(stored["xyxy", False], 2, outputs={"image": out})


def test_operators_of_tuples_say_so_elsewhere(stored: dict[tuple[str, bool], leat.Dataset]) -> None:
    with pytest.raises(leat.ProgramError, match="works on several fields at once"):
        leat.Loader(stored["xyxy", False], 2, outputs={"boxes": [ops.ClampBoundingBoxes()]})
    with pytest.raises(TypeError, match="a tuple of as many names"):
        leat.Loader(stored["xyxy", False], 2, outputs={"image": leat.Out(("image", "boxes"), [])})
    with pytest.raises(ValueError, match="two outputs are named 'image'"):
        leat.Loader(stored["xyxy", False], 2, outputs={"image": [], ("image", "boxes"): []})


# ---- draws that are shared -------------------------------------------------------------------------------------------


def test_operators_of_one_name_share_their_draw_over_different_fields(
    samples: list[Sample], stored: dict[tuple[str, bool], leat.Dataset]
) -> None:
    def crop(name: str, interpolation: str, scale: tuple[float, float] = (0.3, 0.9)) -> list[ops.Operator]:
        return [
            ops.RandomResizedCrop(24, scale=scale, interpolation=interpolation, name="crop"),
            ops.RandomHorizontalFlip(name=name),
        ]

    ds = stored["xyxy", False]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a mask that is tied by names is no loose one
        run = leat.Loader(
            ds,
            61,
            outputs={
                "image": leat.Out("image", [ops.Decode(), *crop("flip", "bilinear")], geometry=True),
                "mask": [ops.Decode("GRAY"), *crop("flip", "nearest")],
            },
            framework="numpy",
        )
    batch = run.batch_at(0, 0)
    for i, s in enumerate(samples):
        np.testing.assert_array_equal(batch["mask"][i, 0], nearest(s.ids, batch["image.geometry"][i], 24))
    with pytest.raises(ValueError, match='both named "crop"'), warnings.catch_warnings():
        other = [ops.Decode("GRAY"), *crop("other", "nearest", (0.2, 0.9))]
        warnings.simplefilter("ignore")
        leat.Loader(ds, 4, outputs={"image": [ops.Decode(), *crop("flip", "bilinear")], "mask": other})
    with pytest.raises(ValueError, match='both named "crop"'):
        leat.Loader(ds, 4, outputs={"image": [ops.Decode(), *crop("a", "bilinear"), *crop("b", "bilinear")]})


def test_loaders_end_while_rows_with_filtered_boxes_are_made(tmp_path: Path) -> None:
    """Lengths of rows that are not made, as their batch was cancelled, are not to be used."""
    rng = np.random.default_rng(0)
    schema = {"image": leat.field("uint8", (64, 64, 3), layout="HWC"), "boxes": leat.boxes("xyxy")}
    with leat.Writer(tmp_path / "many.leat", schema) as w:
        for _ in range(80):
            corner = rng.random((int(rng.integers(1, 200)), 2)) * 30
            image = rng.integers(0, 255, (64, 64, 3)).astype(np.uint8)
            w.add(image=image, boxes=np.concatenate([corner, corner + 20], 1).astype(np.float32))
    ds = leat.open(tmp_path / "many.leat")
    crop = [ops.RandomResizedCrop(32), ops.GaussianBlur(5), ops.SanitizeBoundingBoxes(min_size=8)]
    for seed in range(60):
        with leat.Loader(ds, 8, True, seed=seed, num_threads=4, outputs={("image", "boxes"): crop}) as running:
            assert len(next(iter(running))["image"]) == 8


# ---- warnings --------------------------------------------------------------------------------------------------------


def test_targets_that_a_moved_image_leaves_behind_are_a_warning(stored: dict[tuple[str, bool], leat.Dataset]) -> None:
    ds, crop = stored["xyxy", False], [ops.Decode(), ops.RandomResizedCrop(16)]
    with pytest.warns(
        UserWarning, match=r"boxes 'boxes' stay as stored, while RandomResizedCrop moves 'image'"
    ) as seen:
        leat.Loader(ds, 4, outputs={"image": crop, "boxes": []})
    assert "('image', 'boxes'): [...]" in str(seen[0].message) and seen[0].filename == __file__
    with pytest.warns(UserWarning, match="keypoints 'points' stay as stored"):
        leat.Loader(ds, 4, outputs={"image": crop, "points": []})
    for loose in ([], [ops.Decode("GRAY"), ops.RandomResizedCrop(16)]):
        with pytest.warns(UserWarning, match="mask 'mask' stays as stored"):
            leat.Loader(ds, 4, outputs={"image": crop, "mask": loose})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        leat.Loader(ds, 4, outputs={"image": [], "boxes": []})
        leat.Loader(ds, 4, outputs={("image", "boxes"): crop, "label": []})
        leat.Loader(ds, 4, outputs={("image", "boxes", "label"): [*crop, ops.SanitizeBoundingBoxes()]})
        leat.Loader(ds, 4, outputs={"image": leat.Out("image", crop, geometry=True), "boxes": []})
        leat.Loader(ds, 4, outputs={"image": crop, "label": []})


def test_a_mask_whose_ids_become_colors_is_a_warning(tmp_path: Path) -> None:
    palette = Image.fromarray(np.full((20, 20), 3, np.uint8))
    palette.putpalette([9, 200, 77] * 256)
    out = io.BytesIO()
    palette.save(out, "PNG")
    with leat.Writer(tmp_path / "a.leat", {"mask": leat.mask()}) as w:
        w.add(mask=out.getvalue())
    ds, resize = leat.open(tmp_path / "a.leat"), ops.Resize((8, 8))
    colors, blended = [ops.Decode(), ops.CenterCrop(8)], [ops.Decode("GRAY"), ops.RandomApply([resize]), resize]
    for chain in (colors, blended):
        with pytest.warns(UserWarning, match=r"mask 'mask' goes through a chain for photos.*\('mask',\): ") as seen:
            leat.Loader(ds, 1, outputs={"mask": chain})
        assert seen[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        leat.Loader(ds, 1, outputs={"mask": []})
        leat.Loader(ds, 1, outputs={"mask": [ops.Decode("GRAY"), ops.Resize((8, 8), "nearest")]})
        batch = leat.Loader(ds, 1, outputs={("mask",): [ops.Decode(), resize]}, framework="numpy").batch_at(0, 0)
    assert batch["mask"].shape == (1, 8, 8) and (batch["mask"] == 3).all()


def test_labels_that_removed_boxes_leave_behind_are_a_warning(stored: dict[tuple[str, bool], leat.Dataset]) -> None:
    ds, crop = stored["xyxy", False], [ops.Decode(), ops.RandomResizedCrop(16)]
    for last in (ops.SanitizeBoundingBoxes(), ops.RandomApply([ops.SanitizeBoundingBoxes()])):
        with pytest.warns(UserWarning, match=r"takes boxes out of 'boxes' or adds some, while 'label'") as seen:
            leat.Loader(ds, 4, outputs={("image", "boxes"): [*crop, last], "label": []})
        assert seen[0].filename == __file__


def test_a_fill_for_a_field_that_the_chain_does_not_have_is_an_error(
    stored: dict[tuple[str, bool], leat.Dataset],
) -> None:
    ds, chain = stored["xyxy", False], [ops.Decode(), ops.Resize((8, 8)), ops.PadTo(9, fill={"lable": -1})]
    with pytest.raises(ValueError, match="fills 'lable', and the fields of its chain are image, boxes, label"):
        leat.Loader(ds, 4, outputs={("image", "boxes", "label"): chain})


# ---- schema, text ----------------------------------------------------------------------------------------------------


def test_the_roles_of_fields_are_in_the_file(samples: list[Sample], tmp_path: Path) -> None:
    path = tmp_path / "a.leat"
    write(path, samples[:9], "cxcywh", True, shard_bytes=20000)
    schema = leat.open(path).schema
    assert schema["boxes"] == leat.boxes("cxcywh", normalized=True) and schema["mask"] == leat.mask()
    assert schema["points"] == leat.keypoints(3) and schema["label"].role is None
    assert eval(repr(schema["boxes"]), vars(leat)) == schema["boxes"]
    plain = tmp_path / "b.leat"
    with leat.Writer(plain, {"boxes": leat.field("float32", (None, 4))}) as w:
        w.add(boxes=np.zeros((2, 4), F))
    assert leat.open(plain).schema["boxes"].role is None


def test_pairs_of_keypoints_are_in_the_file(tmp_path: Path) -> None:
    kind = leat.keypoints(4, pairs=[(1, 2), (3, 0)])
    assert eval(repr(kind), vars(leat)) == kind != leat.keypoints(4)
    for name, field in {"a": kind, "b": leat.keypoints(4)}.items():
        with leat.Writer(tmp_path / f"{name}.leat", {"points": field}) as w:
            w.add(points=np.zeros((2, 4, 3), F))
    a, b = leat.open(tmp_path / "a.leat"), leat.open(tmp_path / "b.leat")
    assert a.schema["points"] == kind and b.schema["points"] == leat.keypoints(4)
    assert leat.zip(left=a, right=b).schema["left.points"] == kind
    with pytest.raises(
        ValueError, match=r'field "points" \(number 0\) is not the same in both, in pairs of keypoints;'
    ):
        leat.concat(a, b)


def test_what_is_left_and_right_is_in_the_hash_of_the_plan(tmp_path: Path) -> None:
    hashes = set()
    for i, pairs in enumerate(([], [(0, 1)], [(0, 2)], [(0, 1), (2, 3)])):
        with leat.Writer(tmp_path / f"{i}.leat", {"image": "image", "points": leat.keypoints(4, pairs)}) as w:
            w.add(image=png(np.zeros((8, 8, 3), np.uint8)), points=np.zeros((2, 4, 3), F))
        chain = {("image", "points"): [ops.Decode(), ops.RandomHorizontalFlip(), ops.CenterCrop(8)]}
        hashes.add(leat.Loader(leat.open(tmp_path / f"{i}.leat"), 1, outputs=chain).stats()["plan_hash"])
    assert len(hashes) == 4


@pytest.mark.parametrize("pairs", [[(1, 1)], [(0, 1), (1, 2)], [(0, 4)], [(-1, 0)], [(0,)], ["ab"], [0]])
def test_pairs_are_of_two_keypoints_each_in_one_pair_at_most(pairs: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        leat.keypoints(4, pairs=pairs)


def test_pairs_that_are_none_say_what_to_write() -> None:
    for pairs in (None, 3, "01", {0: 1}):
        with pytest.raises(
            TypeError, match=r"pairs is a list of pairs of keypoints, such as \[\(1, 2\), \(3, 4\)\], not"
        ):
            leat.keypoints(4, pairs=pairs)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"not 0: of a list that .* it becomes, pairs=\[\(1, 2\)\]"):
        leat.keypoints(4, pairs=[0, 2, 1, 3])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="is one keypoint: leave out those that stay themselves"):
        leat.keypoints(4, pairs=[(0, 0)])
    with pytest.raises(ValueError, match="beyond number 65535, the last one of a pair"):
        leat.keypoints(70000, pairs=[(0, 69999)])
    assert leat.keypoints(4, pairs=np.array([[0, 1], [3, 2]])) == leat.keypoints(4, pairs=[(0, 1), (3, 2)])


@pytest.mark.parametrize(("options", "what"), [({"stack": "list"}, "stack"), ({"geometry": True}, "geometry")])
def test_a_stack_or_a_geometry_of_no_image_says_so(tmp_path: Path, options: Any, what: str) -> None:
    with leat.Writer(tmp_path / "a.leat", {"label": "int64"}) as w:
        w.add(label=1)
    with pytest.raises(TypeError, match=f"Output 'label' has a {what}, and no image that it is of: leave it out"):
        leat.Loader(leat.open(tmp_path / "a.leat"), 1, outputs={"label": leat.Out("label", [], **options)})


def test_masks_of_open_are_a_path(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="masks is a folder of PNGs or a panoptic file, by its path, not True"):
        leat.open(tmp_path, masks=True)  # type: ignore[call-overload]


def test_masks_stay_as_they_came_whatever_becomes_of_photos(samples: list[Sample], tmp_path: Path) -> None:
    write(tmp_path / "a.leat", samples[:5], photos="raw")
    ds = leat.open(tmp_path / "a.leat")
    assert all(ds[i]["mask"] == png(samples[i].ids) for i in range(5))
    assert (ds[0]["image"] == samples[0].pixels).all()
    chain = [ops.Decode(), ops.CenterCrop(8)]
    batch = leat.Loader(ds, 5, outputs={("image", "mask"): chain}, framework="numpy").batch_at(0, 0)
    assert batch["mask"].shape == (5, 8, 8) and batch["image"].shape == (5, 3, 8, 8)


def test_data_sets_whose_boxes_mean_something_else_are_not_joined(stored: dict[tuple[str, bool], leat.Dataset]) -> None:
    with pytest.raises(ValueError, match="boxes"):
        leat.concat(stored["xyxy", False], stored["xywh", False])


def test_a_program_with_tuples_comes_back_from_its_text(stored: dict[tuple[str, bool], leat.Dataset]) -> None:
    outputs = {
        TUPLE: leat.Out(TUPLE, chain() + [ops.PadTo(6, fill={"label": -1}, cut=True)], geometry=True),
        "small": leat.Out("image", [ops.Decode(), ops.RandomResizedCrop(8)], geometry=True),
    }
    again = leat.program_from_json(leat.program_to_json(outputs))
    assert again == outputs
    a, b = (leat.Loader(stored["xyxy", False], 8, outputs=o, framework="numpy") for o in (outputs, again))
    assert digest(list(a)) == digest(list(b)) and list(a.batch_at(0, 0)) == [
        *TUPLE,
        "image.geometry",
        "small",
        "small.geometry",
    ]


def test_a_tuple_stands_beside_functions_in_python(stored: dict[tuple[str, bool], leat.Dataset]) -> None:
    outputs: Any = {("image", "boxes", "label"): chain(), "n": leat.Out("number", [ops.Map(double)])}
    with leat.Loader(stored["xyxy", False], 8, outputs=outputs, framework="numpy") as run:
        batches = list(run)
    plain = list(
        leat.Loader(stored["xyxy", False], 8, outputs={("image", "boxes", "label"): chain()}, framework="numpy")
    )
    for a, b in zip(batches, plain, strict=True):
        assert (a["image"] == b["image"]).all() and (a["boxes"].values == b["boxes"].values).all()
        assert (a["boxes"].offsets == b["boxes"].offsets).all() and (a["n"] == 2 * a.ids).all()


def double(x: Any) -> Any:
    return 2 * x


@pytest.mark.parametrize(
    ("elsewhere", "here"),
    [("yolo", "'cxcywh' with normalized=True"), ("coco", "'xywh'"), ("pascal_voc", "'xyxy'")],
)
def test_formats_of_boxes_of_other_libraries_are_named_in_the_error(elsewhere: str, here: str) -> None:
    for make in (leat.boxes, ops.ConvertBoundingBoxFormat):
        with pytest.raises(ValueError, match=f"not '{elsewhere}': that is {here}$"):
            make(elsewhere)  # type: ignore[arg-type, operator]
        with pytest.raises(ValueError, match="not 'corners'$"):
            make("corners")  # type: ignore[arg-type, operator]
    assert leat.boxes("XYXY") == leat.boxes("xyxy")  # type: ignore[arg-type]
