"""Operators that move pixels against Pillow and slow references: pixels, targets, distributions, arguments."""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from photo_support import png
from targets_made import Sample, from_xyxy
from test_filters import applied, dataset_of, from_pillow, images, to_pillow, worst

import leat

Image: Any = pytest.importorskip("PIL.Image")
ImageOps: Any = pytest.importorskip("PIL.ImageOps")
ops = leat.ops
F = np.float32
Array = Any

# ---- pixels ----------------------------------------------------------------------------------------------------------


def affine_matrix(
    angle: float, shift: tuple[float, float], scale: float, shear: tuple[float, float], center: tuple[float, float]
) -> Array:
    """Where an image's points go, from the definition: to the center, shear, scale, turn, back, move."""
    a, x, y = (math.radians(v) for v in (angle, *shear))
    turn = np.array([[math.cos(a), -math.sin(a)], [math.sin(a), math.cos(a)]])
    linear = turn @ (scale * np.array([[1, 0], [-math.tan(y), 1]]) @ np.array([[1, -math.tan(x)], [0, 1]]))
    made = np.eye(3)
    made[:2, :2] = linear
    made[:2, 2] = np.array(center) + shift - linear @ center
    return made


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
def test_a_random_affine_is_pillows_transform(mode: str) -> None:
    rng = np.random.default_rng(5)
    for i, image in enumerate(images(48)):
        h, w = image.shape[:2]
        angle, scale = float(rng.uniform(-200, 200)), float(rng.uniform(0.4, 2.5))
        shear = (0.0, 0.0) if i % 4 == 0 else tuple(map(float, rng.uniform(-50, 50, 2)))
        center = tuple(map(float, rng.uniform(-20, 100, 2))) if i % 3 else None
        fill = tuple(map(int, rng.integers(0, 256, image.shape[2])))
        middle = center or (w / 2, h / 2)
        inverse = np.linalg.inv(affine_matrix(angle, (0, 0), scale, shear, middle))
        want = to_pillow(image).transform(
            (w, h),
            Image.Transform.AFFINE,
            inverse[:2].ravel().tolist(),
            Image.Resampling[mode.upper()],
            fillcolor=fill if len(fill) > 1 else fill[0],
        )
        op = ops.RandomAffine(
            (angle, angle), None, (scale, scale), (shear[0], shear[0], shear[1], shear[1]), mode, fill, center
        )
        got = applied(image, [op], layout="CHW" if i % 3 == 0 else "HWC")
        different = np.abs(got.astype(int) - from_pillow(want)).max(-1)
        if mode == "nearest":  # the last bits of the matrix may choose a neighbour
            assert (different > 0).mean() < 0.004
        else:
            assert (different > 1).mean() < 0.004


def test_a_shift_is_by_whole_pixels_of_at_most_a_part_of_the_sides() -> None:
    image = np.arange(40 * 30, dtype=np.uint16).reshape(30, 40, 1).view(np.uint8)  # each pixel is told from all others
    seen = set()
    for seed in range(200):
        got = applied(image, [ops.RandomAffine(0, (0.1, 0.3), fill=255)], seed=seed).view(np.uint16)[..., 0]
        plain = image.view(np.uint16)[..., 0]
        y, x = np.argwhere(got == plain[15, 20])[0] - (15, 20)
        moved = np.full_like(plain, 0xFFFF)
        moved[max(y, 0) : 30 + min(y, 0), max(x, 0) : 40 + min(x, 0)] = plain[
            max(-y, 0) : 30 - max(y, 0), max(-x, 0) : 40 - max(x, 0)
        ]
        assert np.array_equal(got, moved)
        seen.add((int(x), int(y)))
    assert {x for x, _ in seen} == set(range(-4, 5)) and {y for _, y in seen} == set(range(-9, 10))


def perspective(points: Any, to: Any) -> Array:
    """The map that takes four points to others: eight equations, solved by NumPy."""
    rows, right = [], []
    for (x, y), (u, v) in zip(points, to, strict=True):
        rows += [[x, y, 1, 0, 0, 0, -u * x, -u * y], [0, 0, 0, x, y, 1, -v * x, -v * y]]
        right += [u, v]
    return np.append(np.linalg.solve(np.array(rows, float), np.array(right, float)), 1).reshape(3, 3)


def move(points: Any, matrix: Array) -> Array:
    at = np.concatenate([np.asarray(points, float), np.ones((*np.shape(points)[:-1], 1))], -1) @ matrix.T
    return at[..., :2] / at[..., 2:]


QUARTERS = ((1, 1), (3, 1), (3, 3), (1, 3))
FIELDS = ("image", "mask", "boxes", "points", "corners")


@pytest.fixture(scope="module")
def samples() -> list[Sample]:
    rng = np.random.default_rng(11)
    return [Sample(i, rng) for i in range(24)]


@pytest.fixture(scope="module")
def stored(samples: list[Sample], tmp_path_factory: pytest.TempPathFactory) -> leat.Dataset:
    """With four points inside, at a quarter and at three of the sides, which say what was drawn."""
    path = tmp_path_factory.mktemp("geometry") / "a.leat"
    kinds = {"image": "image", "mask": leat.mask(), "boxes": leat.boxes("cxcywh"), "points": leat.keypoints(3)}
    with leat.Writer(path, {**kinds, "corners": leat.keypoints(4)}) as w:
        for s in samples:
            corners = [[[x * s.w / 4 - 0.5, y * s.h / 4 - 0.5, 2] for x, y in QUARTERS]]
            boxes = from_xyxy(s.xyxy, "cxcywh")
            w.add(image=png(s.pixels), mask=png(s.ids), boxes=boxes, points=s.points, corners=np.array(corners, F))
    return leat.open(path)


def applied_to(s: Sample, ds: leat.Dataset, op: ops.Operator, seed: int, size: tuple[int, int]) -> dict[str, Any]:
    """What an operator makes of the fields of one sample; `size` is that of the result."""
    chain = [ops.Decode(), op, ops.CenterCrop((size[1], size[0])), ops.ToLayout("NHWC")]
    one = leat.Loader(ds.select([s.number]), 1, outputs={FIELDS: chain}, framework="numpy", seed=seed)
    batch = one.batch_at(0, 0)
    return {k: batch[k][0] for k in FIELDS}


def check_targets(s: Sample, got: dict[str, Any], forward: Any, size: tuple[int, int]) -> None:
    """Boxes become the smallest around their moved corners, cut off at the image; points that are left behind are
    unlabelled."""

    corners = move(s.xyxy[:, [[0, 1], [2, 1], [2, 3], [0, 3]]], forward)
    boxes = np.concatenate([corners.min(1), corners.max(1)], 1).clip(0, [*size, *size])
    np.testing.assert_allclose(got["boxes"], from_xyxy(boxes, "cxcywh"), atol=2e-3)
    points = move(s.points[..., :2] + 0.5, forward)  # from the middle of a pixel
    at_edge = (np.minimum(abs(points), abs(points - size)) < 2e-3).any(-1)
    gone = ((points < 0) | (points >= size)).any(-1) | (s.points[..., 2] == 0)
    made = np.concatenate([points - 0.5, s.points[..., 2:]], -1) * ~gone[..., None]
    np.testing.assert_allclose(got["points"][~at_edge], made[~at_edge], atol=2e-3)


def test_targets_follow_an_affine(samples: list[Sample], stored: leat.Dataset) -> None:
    rng = np.random.default_rng(2)
    for s in samples:
        angle, x, y, scale = (float(v) for v in rng.uniform([-60, -30, -30, 0.7], [60, 30, 30, 1.4]))
        op = ops.RandomAffine((angle, angle), None, (scale, scale), (x, x, y, y), "bilinear", {"image": 9, "mask": 5})
        got = applied_to(s, stored, op, 0, (s.w, s.h))
        forward = affine_matrix(angle, (0, 0), scale, (x, y), (s.w / 2, s.h / 2))
        check_targets(s, got, forward, (s.w, s.h))
        inverse = np.linalg.inv(forward)[:2].ravel().tolist()
        ids = Image.fromarray(s.ids).transform((s.w, s.h), Image.Transform.AFFINE, inverse, fillcolor=5)
        assert (got["mask"] != np.asarray(ids)).sum() <= 4 + 0.002 * s.ids.size


def test_a_random_perspective_is_pillows_transform_and_targets_follow_it(
    samples: list[Sample], stored: leat.Dataset
) -> None:
    for s in samples:
        for mode in ("nearest", "bilinear", "bicubic"):
            op = ops.RandomPerspective(0.6, 1.0, mode, {"image": (1, 20, 255), "mask": 77})
            got = applied_to(s, stored, op, s.number, (s.w, s.h))
            corners = [(0, 0), (s.w - 1, 0), (s.w - 1, s.h - 1), (0, s.h - 1)]
            inside = [(x * s.w / 4, y * s.h / 4) for x, y in QUARTERS]
            to = move(corners, perspective(inside, got["corners"][0, :, :2] + 0.5))
            np.testing.assert_allclose(to, np.rint(to), atol=2e-2)  # corners go to pixels
            inverse = perspective(np.rint(to), corners)
            check_targets(s, got, np.linalg.inv(inverse), (s.w, s.h))
            kind, numbers = Image.Transform.PERSPECTIVE, inverse.ravel()[:8].tolist()
            want = Image.fromarray(s.pixels).transform(
                (s.w, s.h), kind, numbers, Image.Resampling[mode.upper()], fillcolor=(1, 20, 255)
            )
            different = abs(got["image"].astype(int) - np.asarray(want)).max(-1) > (mode != "nearest")
            assert (
                different.sum() <= 4 + 0.002 * different.size
            )  # where the last bit of a place decides between two pixels, or the fill
            ids = Image.fromarray(s.ids).transform((s.w, s.h), kind, numbers, fillcolor=77)
            assert (got["mask"] != np.asarray(ids)).sum() <= 4 + 0.002 * s.ids.size


def test_a_random_perspective_leaves_alone_what_it_does_not_draw(samples: list[Sample], stored: leat.Dataset) -> None:
    s, moved = next(s for s in samples if (s.points[..., 2] > 0).any()), 0
    for seed in range(60):
        got = applied_to(s, stored, ops.RandomPerspective(0.5, 0.25), seed, (s.w, s.h))
        same = np.array_equal(got["image"], s.pixels)
        assert same == np.array_equal(got["mask"], s.ids) == np.allclose(got["points"], s.points)
        moved += not same
    assert 5 <= moved <= 27  # of 60 at 1 in 4: within four deviations


def test_targets_follow_a_vertical_flip(samples: list[Sample], stored: leat.Dataset) -> None:
    for s in samples:
        got = applied_to(s, stored, ops.RandomVerticalFlip(1.0), 0, (s.w, s.h))
        np.testing.assert_array_equal(got["image"], s.pixels[::-1])
        np.testing.assert_array_equal(got["mask"], s.ids[::-1])
        boxes = s.xyxy.copy()
        boxes[:, [1, 3]] = F(s.h) - boxes[:, [3, 1]]
        np.testing.assert_allclose(got["boxes"], from_xyxy(boxes, "cxcywh"), atol=1e-4)
        points = s.points.copy()
        points[..., 1] = (F(s.h - 1) - points[..., 1]) * (points[..., 2] > 0)
        np.testing.assert_allclose(got["points"], points, atol=1e-4)


@pytest.mark.parametrize("sides", [(3,), (5, 9), (1, 2, 30, 4), (-3, 5, 8, -7)])
def test_targets_follow_a_padding(samples: list[Sample], stored: leat.Dataset, sides: tuple[int, ...]) -> None:
    left, top, right, bottom = sides if len(sides) == 4 else (*(sides * 2)[:2], *(sides * 2)[:2])
    for s in samples:
        size = (s.w + left + right, s.h + top + bottom)
        got = applied_to(s, stored, ops.Pad(sides, {"image": (3, 2, 1), "mask": 200}), 0, size)
        np.testing.assert_array_equal(got["image"], padded(s.pixels, (left, top, right, bottom), (3, 2, 1)))
        np.testing.assert_array_equal(got["mask"], padded(s.ids, (left, top, right, bottom), 200))
        check_targets(s, got, np.array([[1, 0, left], [0, 1, top], [0, 0, 1]]), size)


def off_by(moved: Any, at: Any, points: Any) -> Any:
    """How far what is seen at each place lies from its point: `moved` says by how much each pixel is displaced."""
    left = np.floor(at).astype(int).clip(0, np.array(moved.shape[1::-1]) - 2)
    part = at - left
    rows = [
        moved[left[:, 1] + k, left[:, 0]] * (1 - part[:, :1]) + moved[left[:, 1] + k, left[:, 0] + 1] * part[:, :1]
        for k in (0, 1)
    ]
    return abs(at + rows[0] * (1 - part[:, 1:]) + rows[1] * part[:, 1:] - points).max(-1)


def test_targets_follow_an_elastic_transform(tmp_path: Path) -> None:
    """What a ramp becomes says where each pixel comes from; points go the other way, and so do the corners of boxes."""
    y, x = np.mgrid[:80, :90].astype(F)
    ramp = np.stack([2 * x, 2 * y, 0 * x], -1).astype(np.uint8)
    points = np.stack([x, y, np.full_like(x, 2)], -1)[12:-12:5, 12:-12:5].reshape(1, -1, 3)
    boxes = np.array([[20.5, 15.2, 60.1, 50.9], [30, 20, 45, 70]], F)
    kinds = {
        "image": "image",
        "mask": leat.mask(),
        "boxes": leat.boxes("xyxy"),
        "points": leat.keypoints(points.shape[1]),
    }
    with leat.Writer(tmp_path / "a.leat", kinds) as w:
        w.add(image=png(ramp), mask=png((x // 30).astype(np.uint8)), boxes=boxes, points=points)
    found = []
    for seed in range(30):
        chain = [ops.Decode(), ops.ElasticTransform((90.0, 60.0), 4.0, fill=0), ops.ToLayout("NHWC")]
        loader = leat.Loader(
            leat.open(tmp_path / "a.leat"), 1, outputs={tuple(kinds): chain}, framework="numpy", seed=seed
        )
        batch = loader.batch_at(0, 0)
        moved = batch["image"][0, ..., :2] / 2 - np.stack([x, y], -1)  # by how much, to a quarter of a pixel
        off = off_by(moved, batch["points"][0][0, :, :2], points[0, :, :2])
        assert off.mean() < 0.3 and (off > 0.5).mean() < 0.06  # this one folds the image in places
        inside = np.ceil(boxes[:, [[0, 1], [2, 1], [2, 3], [0, 3]]]).astype(int)
        corners = inside - moved[inside[..., 1], inside[..., 0]]
        np.testing.assert_allclose(batch["boxes"][0], np.concatenate([corners.min(1), corners.max(1)], 1), atol=0.26)
        from_x = x + moved[..., 0]
        clear = np.abs(from_x + 0.5 - np.rint((from_x + 0.5) / 30) * 30) > 0.3
        same = batch["mask"][0] == np.clip(np.floor((from_x + 0.5) / 30), 0, 2)
        assert same[12:-12, 12:-12][clear[12:-12, 12:-12]].all()
        found.append(moved[20:-20:9, 20:-20:9])
    # the deviation of blurred uniform noise: a third, times the sum of squared weights
    weights = np.exp(-0.5 * (np.arange(-16, 17) / 4.0) ** 2)
    one = math.sqrt(((weights / weights.sum()) ** 2).sum() ** 2 / 3)
    assert np.std(np.stack(found), (0, 1, 2)) == pytest.approx([45 * one, 30 * one], rel=0.06)


def padded(image: Array, sides: tuple[int, ...], fill: Any) -> Array:
    """Of constants, by what Pillow's crop takes from outside."""
    left, top, right, bottom = sides
    canvas = Image.new(
        "RGB" if image.ndim == 3 else "L", (image.shape[1] + left + right, image.shape[0] + top + bottom), fill
    )
    canvas.paste(Image.fromarray(image), (left, top))
    return np.asarray(canvas)


# ---- resizing --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic", "lanczos", "hamming", "box"])
def test_resizing_is_that_of_pillow_across_then_down(mode: str) -> None:
    """Pillow 13 goes down first where that is less work, so that one axis is resized at a time here."""
    rng, filter = np.random.default_rng(6), Image.Resampling[mode.upper()]
    for i, image in enumerate(images(36, 120, (3, 1, 4))):
        h, w = (int(v) for v in rng.integers(1, 160, 2))
        got = applied(image, [ops.Resize((h, w), mode)], layout="CHW" if i % 3 == 0 else "HWC")
        for c in range(image.shape[2]):
            plane = Image.fromarray(np.ascontiguousarray(image[..., c]))
            across = plane.resize((w, plane.height), filter)
            assert worst(got[..., c], np.asarray(across.resize((w, h), filter))) == 0


@pytest.mark.parametrize("mode", ["bilinear", "bicubic", "lanczos"])
@pytest.mark.parametrize("factor", [2, 3, 5])
def test_a_crop_of_what_was_mirrored_and_enlarged_begins_at_any_row(mode: str, factor: int) -> None:
    """Where pixels of the result lie on those of the source, most weights are 0, and rows need fewer than their
    neighbours."""
    image = np.random.default_rng(2).integers(0, 256, (24, 24, 3), np.uint8)
    size = (24 * factor, 24 * factor)
    for crop in range(7, 15):
        behind = [ops.Resize(size, mode), ops.CenterCrop((crop, crop))]
        for flip, mirrored in (
            (ops.RandomVerticalFlip(1.0), image[::-1]),
            (ops.RandomHorizontalFlip(1.0), image[:, ::-1]),
        ):
            got = applied(image, [flip, *behind])
            assert worst(got, applied(np.ascontiguousarray(mirrored), behind)) == 0, crop


def test_bicubic_without_antialias_is_that_of_torch() -> None:
    torch = pytest.importorskip("torch")
    y, x = np.mgrid[:50, :70]
    image = (128 + 60 * np.sin(x / 5) + 50 * np.cos(y / 4))[..., None].astype(np.uint8)
    for h, w in ((20, 31), (80, 90), (50, 33), (7, 70)):
        got = applied(image, [ops.Resize((h, w), "bicubic", antialias=False)])
        planes = torch.from_numpy(image.transpose(2, 0, 1)[None].astype(np.float32))
        want = torch.nn.functional.interpolate(planes, (h, w), mode="bicubic").clamp(0, 255).round()
        assert worst(got, want[0].numpy().transpose(1, 2, 0)) <= 1


def test_interpolation_is_taken_as_torchvision_and_pillow_say_it() -> None:
    for number, name in enumerate(["nearest", "lanczos", "bilinear", "bicubic", "box", "hamming"]):
        assert ops.Resize(3, number).interpolation == ops.RandomResizedCrop(3, interpolation=name).interpolation == name
    with pytest.raises(ValueError, match="interpolation is 'bilinear', .* or 'box', not 'area'"):
        ops.Resize(3, "area")


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
def test_rows_that_are_resized_alike_or_not_do_not_disturb_each_other(mode: str) -> None:
    """Weights of a resize serve the next row that wants the same."""
    image = np.random.default_rng(1).integers(0, 256, (40, 50, 3), np.uint8)
    dataset = leat.from_arrays({"x": leat.field("uint8", image.shape, layout="HWC")}, x=np.repeat(image[None], 60, 0))
    chain = [
        ops.RandomHorizontalFlip(),
        ops.RandomVerticalFlip(),
        ops.RandomChoice([ops.CenterCrop((20, 30)), ops.CenterCrop((20, 50)), ops.CenterCrop((40, 50))]),
        ops.Resize((33, 44), mode),
        ops.ToLayout("NHWC"),
    ]
    loader = leat.Loader(dataset, 60, outputs={"x": chain}, framework="numpy", num_threads=1)
    wanted = []
    for flipped in (image, image[:, ::-1], image[::-1], image[::-1, ::-1]):
        for crop in (flipped[10:30, 10:40], flipped[10:30], flipped):
            resized = to_pillow(np.ascontiguousarray(crop)).resize((44, 33), Image.Resampling[mode.upper()])
            wanted.append(from_pillow(resized))
    found = [[bool((row == w).all()) for w in wanted] for row in loader.batch_at(0, 0)["x"]]
    assert all(sum(row) == 1 for row in found)
    assert all(map(any, zip(*found, strict=True)))


# ---- padding and mirrors ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "symmetric"])
def test_padding_is_that_of_pillow_and_numpy(mode: str) -> None:
    rng = np.random.default_rng(9)
    for i, image in enumerate(images(60)):
        left, top, right, bottom = (int(v) for v in rng.integers(0, 40, 4))
        fill = tuple(map(int, rng.integers(0, 256, image.shape[2])))
        got = applied(image, [ops.Pad((left, top, right, bottom), fill, mode)], layout="CHW" if i % 3 == 0 else "HWC")
        if mode == "constant":
            want = from_pillow(
                ImageOps.expand(to_pillow(image), (left, top, right, bottom), fill if len(fill) > 1 else fill[0])
            )
        else:
            want = np.pad(image, ((top, bottom), (left, right), (0, 0)), mode)  # type: ignore[call-overload]
        assert worst(got, want) == 0


@pytest.mark.parametrize("dtype", ["uint8", "float32", "int16"])
def test_flips_pads_and_crops_are_one_pass_in_any_order(dtype: str) -> None:
    rng = np.random.default_rng(4)
    flips = {"h": ops.RandomHorizontalFlip(1), "v": ops.RandomVerticalFlip(1)}
    for i in range(60):
        h, w = (int(v) for v in rng.integers(1, 30, 2))
        image = rng.integers(0, 200, (h, w, 3)).astype(dtype)
        chain: list[ops.Operator] = []
        want = image
        for step in rng.permutation(list("hvpcvp")):
            if step in flips:
                chain.append(flips[step])
                want = want[:, ::-1] if step == "h" else want[::-1]
            elif step == "p":
                mode = str(rng.choice(["constant", "reflect", "edge"]))
                sides = [int(v) for v in rng.integers(0, 9, 4)]
                chain.append(ops.Pad(sides, 0, mode))
                around = (sides[1], sides[3]), (sides[0], sides[2]), (0, 0)
                want = np.pad(want, around, mode)  # type: ignore[call-overload]
            else:
                size = (max(1, want.shape[0] - 3), max(1, want.shape[1] - 4))
                chain.append(ops.CenterCrop(size))
                top, left = (round((a - b) / 2) for a, b in zip(want.shape, size, strict=False))
                want = want[top : top + size[0], left : left + size[1]]
        np.testing.assert_array_equal(applied(image, chain, seed=i), want)


def test_a_photo_is_mirrored_after_its_crop_is_resized(tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    pixels = rng.integers(0, 256, (70, 90, 3), dtype=np.uint8)
    with leat.Writer(tmp_path / "a.leat", {"image": "image"}) as w:
        w.add(image=png(pixels))
    ds = leat.open(tmp_path / "a.leat")

    def made(*chain: ops.Operator) -> Any:
        out = leat.Out("image", [ops.Decode(), *chain], geometry=True)
        return leat.Loader(ds, 1, outputs={"image": out}, framework="numpy").batch_at(0, 0)

    plain = made(ops.RandomResizedCrop(32))
    vertical = made(ops.RandomVerticalFlip(1.0), ops.Pad((3, 4)), ops.Resize((33, 40)))["image"][0]
    canvas = padded(pixels[::-1], (3, 4, 3, 4), 0)
    want = np.asarray(Image.fromarray(canvas).resize((40, 33), Image.Resampling.BILINEAR)).transpose(2, 0, 1)
    assert worst(vertical, want) <= 1
    for flips, mirrored in (("v", 2), ("hv", 3), ("vhv", 1), ("vv", 0)):
        chain = [{"h": ops.RandomHorizontalFlip, "v": ops.RandomVerticalFlip}[f](1.0) for f in flips]
        got = made(ops.RandomResizedCrop(32), *chain)
        want = plain["image"][:, :, :: -1 if mirrored & 2 else 1, :: -1 if mirrored & 1 else 1]
        np.testing.assert_array_equal(got["image"], want)
        assert got["image.geometry"][0, 4] == mirrored
        np.testing.assert_array_equal(got["image.geometry"][0, :4], plain["image.geometry"][0, :4])


def test_a_crop_behind_a_vertical_flip_is_counted_from_below(tmp_path: Path) -> None:
    pixels = np.arange(20 * 10, dtype=np.uint8).reshape(20, 10, 1).repeat(3, 2)
    with leat.Writer(tmp_path / "a.leat", {"image": "image"}) as w:
        w.add(image=png(pixels))
    out = leat.Out("image", [ops.Decode(), ops.RandomVerticalFlip(1.0), ops.RandomCrop(6)], geometry=True)
    batch = leat.Loader(leat.open(tmp_path / "a.leat"), 1, outputs={"image": out}, framework="numpy").batch_at(0, 0)
    x, y, w_, h_ = (int(v) for v in batch["image.geometry"][0, :4])
    np.testing.assert_array_equal(batch["image"][0, 0], pixels[y : y + h_, x : x + w_, 0][::-1])


# ---- arguments -------------------------------------------------------------------------------------------------------


def test_arguments_are_those_of_torchvision() -> None:
    affine = ops.RandomAffine(10, (0.1, 0.2), (0.5, 2), 15, fill={"image": [1, 2, 3], "mask": 4})
    assert (affine.degrees, affine.shear) == ((-10.0, 10.0), (-15.0, 15.0))
    assert affine.fill == {"image": (1.0, 2.0, 3.0), "mask": 4.0}
    assert ops.from_json(affine.to_json()) == affine
    for make, arguments in (
        (ops.RandomAffine, {"degrees": -1}),
        (ops.RandomAffine, {"degrees": 1, "translate": (0.1, 1.2)}),
        (ops.RandomAffine, {"degrees": 1, "scale": (0, 1)}),
        (ops.RandomAffine, {"degrees": 1, "shear": (1, 2, 3)}),
        (ops.RandomAffine, {"degrees": 1, "interpolation": "lanczos"}),
        (ops.RandomAffine, {"degrees": 1, "center": 3}),
        (ops.RandomPerspective, {"distortion_scale": 1.2}),
        (ops.ElasticTransform, {"alpha": (1, 2, 3)}),
        (ops.ElasticTransform, {"sigma": (0, 2)}),
        (ops.ElasticTransform, {"interpolation": "bicubic"}),
        (ops.RandomPerspective, {"p": 1.2}),
        (ops.RandomVerticalFlip, {"p": -0.1}),
        (ops.Pad, {"padding": (1, 2, 3)}),
        (ops.Pad, {"padding": 1, "padding_mode": "wrap"}),
        (ops.Pad, {"padding": 1, "fill": {"image": 1, "mask": (1, 2)}}),
        (ops.Pad, {"padding": 1, "fill": {"pixels": 1}}),
    ):
        with pytest.raises(ValueError, match=list(arguments)[-1]):
            make(**arguments)  # type: ignore[operator]
    (image,) = images(1, channels=(3,))
    with pytest.raises(leat.InvalidError, match="RandomAffine: shear must be"):
        leat.Loader(dataset_of(image), 1, outputs={"x": [ops.RandomAffine(3, shear=(10, 90))]})
    for op, words in (
        (ops.RandomAffine(3, fill=(1, 2)), "one fill, or one per channel"),
        (ops.Pad(-40), "sides stay between 1 and 65535"),
    ):
        with pytest.raises(leat.ProgramError, match=words):
            leat.Loader(dataset_of(image[:40, :40]), 1, outputs={"x": [op]})


SIGNATURES = {
    "Pad": "padding, fill=0, padding_mode='constant'",
    "RandomVerticalFlip": "p=0.5",
    "RandomAffine": "degrees, translate=None, scale=None, shear=None, interpolation='nearest', fill=0, center=None",
    "ElasticTransform": "alpha=50.0, sigma=5.0, interpolation='bilinear', fill=0",
    "RandomPerspective": "distortion_scale=0.5, p=0.5, interpolation='bilinear', fill=0",
}


@pytest.mark.parametrize("name", SIGNATURES)
def test_signatures_are_those_of_torchvision_and_a_name(name: str) -> None:
    import inspect

    found = inspect.signature(getattr(ops, name)).parameters.values()
    text = ", ".join(str(p.replace(annotation=inspect.Parameter.empty)) for p in found if p.name != "name")
    assert text == SIGNATURES[name]


def test_what_geometry_makes_of_a_photo_is_the_same_in_a_file_and_in_memory(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    pixels = rng.integers(0, 256, (50, 60, 3), dtype=np.uint8)
    with leat.Writer(tmp_path / "a.leat", {"image": "image"}) as w:
        w.add(image=png(pixels))
    chain = [ops.RandomAffine(30, (0.1, 0.1), (0.8, 1.2), 5, "bilinear"), ops.RandomPerspective(p=1), ops.Pad(3)]
    outputs = {"x": leat.Out("image", [ops.Decode(), *chain, ops.CenterCrop(56), ops.ToLayout("NHWC")])}
    got = leat.Loader(leat.open(tmp_path / "a.leat"), 1, outputs=outputs, framework="numpy").batch_at(0, 0)["x"][0]
    want = applied(np.asarray(Image.open(io.BytesIO(png(pixels)))), [*chain, ops.CenterCrop(56)])
    assert worst(got, want) == 0
