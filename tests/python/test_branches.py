"""Operators that hold others: what they draw, what they make of images and targets, and their forms."""

from __future__ import annotations

import itertools
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from photo_support import png

import leat

ops = leat.ops
FLIP = ops.RandomHorizontalFlip(1.0)
SIDE = 24


def written(path: Path, n: int = 400, side: int = SIDE) -> leat.Dataset:
    rng = np.random.default_rng(3)
    file = path / f"{len(list(path.iterdir()))}.leat"
    with leat.Writer(file, {"x": leat.field("uint8", (side, side, 3), layout="HWC")}) as writer:
        for _ in range(n):
            writer.add(x=rng.integers(0, 256, (side, side, 3)).astype(np.uint8))
    return leat.open(file)


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> leat.Dataset:
    return written(tmp_path_factory.mktemp("branches"))


def rows(ds: leat.Dataset, chain: list[Any], **more: Any) -> Any:
    outputs = {"x": [*chain, ops.ToLayout("NHWC")]}
    return leat.Loader(ds, len(ds), outputs=outputs, framework="numpy", **more).batch_at(0, 0)["x"]


def stored(ds: leat.Dataset) -> Any:
    return np.stack([ds[i]["x"] for i in range(len(ds))])


def darker(factor: float) -> Any:
    """An operator that draws nothing that matters."""
    return ops.ColorJitter(brightness=(factor, factor))


def test_random_apply_runs_all_of_its_operators_or_none(images: leat.Dataset) -> None:
    made, raw = rows(images, [ops.RandomApply([FLIP, darker(0.5)], p=0.3)]), stored(images)
    both = rows(images, [FLIP, darker(0.5)])
    ran = np.array([np.array_equal(a, b) for a, b in zip(made, both, strict=True)])
    left = np.array([np.array_equal(a, b) for a, b in zip(made, raw, strict=True)])
    assert (ran ^ left).all() and 0.2 < ran.mean() < 0.4
    assert np.array_equal(rows(images, [ops.RandomApply([darker(0.5)], 1.0)]), rows(images, [darker(0.5)]))
    assert np.array_equal(rows(images, [ops.RandomApply([darker(0.5)], 0.0)]), raw)
    assert np.array_equal(rows(images, [ops.RandomApply([], 1.0)]), raw)


def test_random_choice_runs_one_alternative_as_often_as_p_says(images: leat.Dataset) -> None:
    alternatives = [[FLIP], darker(0.0), [], [darker(0.5), FLIP]]
    made, raw = rows(images, [ops.RandomChoice(alternatives, p=[1, 2, 4, 1])]), stored(images)
    half = rows(images, [darker(0.5)])
    of = [raw[:, :, ::-1], np.zeros_like(raw), raw, half[:, :, ::-1]]
    which = np.array([[np.array_equal(a, b) for b in bs] for a, *bs in zip(made, *of, strict=True)])
    assert (which.sum(1) == 1).all()
    assert np.allclose(which.mean(0), [1 / 8, 1 / 4, 1 / 2, 1 / 8], atol=0.07)
    never = rows(images, [ops.RandomChoice(alternatives, p=[0, 0, 1, 0])])
    assert np.array_equal(never, raw)


def test_random_order_runs_all_in_every_order(images: leat.Dataset) -> None:
    steps = [ops.CenterCrop(SIDE - 4), ops.Resize((SIDE, SIDE)), ops.ColorJitter(brightness=(1.7, 1.7))]
    made = rows(images, [ops.RandomOrder(steps), ops.CenterCrop(SIDE)])
    orders = [rows(images, [*order, ops.CenterCrop(SIDE)]) for order in itertools.permutations(steps)]
    found = [{i for i, o in enumerate(orders) if np.array_equal(o[r], made[r])} for r in range(len(made))]
    assert all(found) and set().union(*found) == set(range(6))


def test_branches_hold_branches(images: leat.Dataset) -> None:
    inner = ops.RandomApply([darker(0.5)], p=0.5)
    chain = [
        ops.RandomOrder([inner, ops.RandomChoice([[], FLIP])]),
        ops.RandomApply([ops.RandomApply([FLIP], 1.0)], 0.5),
    ]
    made, raw = rows(images, chain), stored(images)
    half = rows(images, [darker(0.5)])
    for row, a, b in zip(made, raw, half, strict=True):
        assert any(np.array_equal(row, c) for c in (a, a[:, ::-1], b, b[:, ::-1]))


def test_the_draws_of_a_branch_do_not_depend_on_what_it_holds_or_what_stands_beside_it(images: leat.Dataset) -> None:
    raw = stored(images)
    first = (rows(images, [ops.RandomApply([FLIP])]) != raw).any((1, 2, 3))
    other = (rows(images, [ops.RandomApply([darker(0.0)])]) != raw).any((1, 2, 3))
    behind = (rows(images, [ops.CenterCrop(SIDE), ops.RandomApply([FLIP])]) != raw).any((1, 2, 3))
    named = (rows(images, [ops.RandomApply([FLIP], name="a")]) != raw).any((1, 2, 3))
    assert (first == other).all() and (first == behind).all() and (first != named).any()
    jitter = ops.ColorJitter(0.5, 0.5)
    whole = rows(images, [ops.RandomApply([jitter], 1.0), ops.RandomApply([ops.ColorJitter(0.5, 0.5)], 1.0)])
    twice = rows(images, [ops.RandomApply([jitter, ops.ColorJitter(0.5, 0.5)], 1.0)])
    assert (whole != twice).any()
    instance = "x/RandomApply/0/0/ColorJitter/0"
    assert np.array_equal(
        rows(images, [ops.RandomApply([jitter], 1.0)]), rows(images, [ops.ColorJitter(0.5, 0.5, name=instance)])
    )


def test_a_branch_of_several_sizes_is_open_and_a_crop_behind_it_closes_it(images: leat.Dataset) -> None:
    sizes = ops.RandomChoice([ops.Resize((s, s + 2)) for s in (16, 20, 28)])
    with pytest.raises(TypeError, match="open size"):
        rows(images, [sizes])
    assert rows(images, [sizes, ops.CenterCrop(12)]).shape == (len(images), 12, 12, 3)
    same = ops.RandomChoice([ops.Resize((16, 16)), ops.CenterCrop(16)])
    assert rows(images, [same]).shape == (len(images), 16, 16, 3)
    with pytest.raises(TypeError, match="open size"):
        rows(images, [ops.RandomApply([ops.Resize((16, 16))])])
    assert rows(images, [ops.RandomOrder([ops.Resize((16, 16)), darker(0.5)])]).shape[1:] == (16, 16, 3)


def test_a_decoded_photo_goes_through_branches(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    file = tmp_path / "p.leat"
    rng = np.random.default_rng(0)
    with leat.Writer(file, {"x": "image"}) as writer:
        for i in range(12):
            path = tmp_path / f"{i}.png"
            image.fromarray(rng.integers(0, 256, (30 + i, 40, 3)).astype(np.uint8)).save(path)
            writer.add(x=path.read_bytes())
    ds = leat.open(file)
    sizes = [ops.Decode(), ops.RandomChoice([ops.Resize((32, 32)), [ops.RandomResizedCrop(32), FLIP]])]
    made = rows(ds, sizes)
    plain = rows(ds, [ops.Decode(), ops.Resize((32, 32))])
    crop = ops.RandomResizedCrop(32, name="x/RandomChoice/0/1/RandomResizedCrop/0")
    cropped = rows(ds, [ops.Decode(), crop, FLIP])
    which = [(np.array_equal(m, a), np.array_equal(m, b)) for m, a, b in zip(made, plain, cropped, strict=True)]
    assert all(a != b for a, b in which) and len({a for a, _ in which}) == 2


def test_targets_follow_what_was_drawn(tmp_path: Path) -> None:
    file = tmp_path / "t.leat"
    fields = {"x": "image", "mask": leat.mask(), "boxes": leat.boxes("xyxy")}
    rng = np.random.default_rng(0)

    with leat.Writer(file, fields) as writer:
        for _ in range(60):
            ids, pixels = np.zeros((20, 30), np.uint8), rng.integers(0, 100, (20, 30, 3)).astype(np.uint8)
            ids[4:12, 3:10], pixels[4:12, 3:10] = 7, 255
            writer.add(x=png(pixels), mask=png(ids), boxes=np.array([[3, 4, 10, 12]], np.float32))
    cut = [ops.ColorJitter(0.3), ops.RandomCrop((16, 24)), ops.Resize((20, 30))]
    branch = ops.RandomApply([ops.RandomChoice([FLIP, cut, ops.GaussianBlur(3)])], 0.7)
    chain = [ops.Decode(), branch, ops.CenterCrop((20, 30)), ops.ToLayout("NHWC")]
    batch = leat.Loader(leat.open(file), 60, outputs={("x", "mask", "boxes"): chain}, framework="numpy").batch_at(0, 0)
    seen = set()
    for pixels, ids, boxes in zip(batch["x"], batch["mask"], batch["boxes"].unbind(), strict=True):
        x0, y0, x1, y1 = boxes[0]
        seen.add(tuple(np.round(boxes[0], 3)))
        inside = np.argwhere(ids == 7)
        assert abs(inside[:, 1].min() - x0) <= 1.5 and abs(inside[:, 1].max() + 1 - x1) <= 1.5
        assert abs(inside[:, 0].min() - y0) <= 1.5 and abs(inside[:, 0].max() + 1 - y1) <= 1.5
        assert (pixels[int(y0) + 2 : int(y1) - 2, int(x0) + 2 : int(x1) - 2] > 120).all()
    assert len(seen) > 5


def test_sizes_per_batch_stand_in_branches(images: leat.Dataset) -> None:
    size = leat.PerBatch([(8, 8), (16, 12)])
    chain = [ops.RandomChoice([ops.Resize(size), ops.RandomResizedCrop(size)])]
    loader = leat.Loader(images, 20, outputs={"x": chain}, framework="numpy")
    shapes = [loader.batch_at(0, i)["x"].shape[2:] for i in range(12)]
    assert set(shapes) == {(8, 8), (16, 12)}
    for form in (
        pickle.loads(pickle.dumps(chain)),
        leat.program_from_json(leat.program_to_json({"x": chain}))["x"].chain,
    ):
        again = leat.Loader(images, 20, outputs={"x": form}, framework="numpy")
        for i in range(4):
            assert np.array_equal(again.batch_at(0, i)["x"], loader.batch_at(0, i)["x"])


def test_forms_of_branches(images: leat.Dataset) -> None:
    made = ops.RandomChoice(
        [ops.RandomApply([ops.GaussianBlur(3)], 0.8, name="a"), [FLIP, ops.CenterCrop(9)]], p=[1, 3]
    )
    assert repr(made).startswith("RandomChoice(transforms=[RandomApply(transforms=[GaussianBlur(")
    assert made.p == (0.25, 0.75)
    for again in (pickle.loads(pickle.dumps(made)), ops.from_json(made.to_json())):
        assert again == made and hash(again) == hash(made) and repr(again) == repr(made)
    assert made != ops.RandomChoice([FLIP, FLIP]) and not made._values["transforms"][0]._moves
    text = leat.program_to_json({"x": [made]})
    assert leat.program_from_json(text)["x"].chain == [made]
    assert ops.RandomApply([[FLIP, [darker(0.5)]]]) == ops.RandomApply([FLIP, darker(0.5)])


def test_wrong_branches_are_refused_with_the_place(images: leat.Dataset) -> None:
    with pytest.raises(TypeError, match=r"transforms\[1\] is a Map, which runs a function"):
        ops.RandomApply([FLIP, ops.Map(lambda x: x)])
    with pytest.raises(TypeError, match=r"transforms\[0\]\[1\] is <built-in function len>"):
        ops.RandomChoice([[FLIP, len]])
    with pytest.raises(TypeError, match="RandomApply takes a list"):
        ops.RandomApply(FLIP)
    with pytest.raises(ValueError, match="p is a probability"):
        ops.RandomApply([FLIP], p=1.5)
    with pytest.raises(ValueError, match="for each of the 2 transforms"):
        ops.RandomChoice([FLIP, FLIP], p=[1])
    with pytest.raises(ValueError, match="1 to 256 operators"):
        ops.RandomOrder([])
    with pytest.raises(
        ValueError, match="RandomApply holds operators that make images of images or change boxes, and Decode"
    ):
        rows(images, [ops.RandomApply([ops.Decode()])])
    with pytest.raises(TypeError, match="RandomApply in output 'x' changes the type of some rows"):
        rows(images, [ops.RandomApply([ops.ToDtype("float32")])])
    with pytest.raises(TypeError, match="RandomChoice in output 'x' has alternatives that make values of two types"):
        rows(images, [ops.RandomChoice([ops.ToDtype("float32"), FLIP])])
    with pytest.raises(TypeError, match="GaussianBlur in RandomApply in output 'x' takes a uint8 image"):
        rows(images, [ops.ToDtype("float32"), ops.RandomApply([ops.GaussianBlur(3)])])
    with pytest.raises(ValueError, match='both named "a"'):
        rows(images, [ops.RandomApply([ops.RandomCrop(4, name="a"), ops.RandomCrop(4, name="a")])])


def test_a_branch_and_its_operators_are_part_of_the_hash(images: leat.Dataset) -> None:
    def plan_hash(chain: list[Any]) -> Any:
        return leat.Loader(images, 4, outputs={"x": chain}).stats()["plan_hash"]

    chains = [
        [ops.RandomApply([darker(0.5)])],
        [ops.RandomApply([darker(0.5)], 0.4)],
        [ops.RandomApply([darker(0.6)])],
        [ops.RandomChoice([darker(0.5), darker(0.6)])],
        [ops.RandomChoice([[darker(0.5), darker(0.6)]])],
        [ops.RandomOrder([darker(0.5), darker(0.6)])],
    ]
    assert len({plan_hash(c) for c in chains}) == len(chains)


def test_steps_of_branches_are_measured(images: leat.Dataset) -> None:
    loader = leat.Loader(images, 50, outputs={"x": [ops.RandomApply([ops.GaussianBlur(3), FLIP])]}, framework="numpy")
    for _ in loader:
        pass
    steps = [step["step"] for step in loader.stats()["operators"]]
    assert "RandomApply(GaussianBlur+RandomHorizontalFlip)" in steps


def test_operators_in_any_order_have_an_open_size_if_one_draws_it(tmp_path: Path) -> None:
    with leat.Writer(tmp_path / "a.leat", {"x": "image"}) as w:
        w.add(x=png(np.zeros((60, 50, 3), np.uint8)))
    either = ops.RandomOrder([ops.Resize((4, 4)), ops.RandomShortestSize([200])])
    with pytest.raises(TypeError, match="open size"):
        leat.Loader(leat.open(tmp_path / "a.leat"), 2, outputs={"x": [ops.Decode(), either]})


@pytest.mark.parametrize("before", [[], [ops.RandomRotation(0)]])
def test_a_mask_follows_only_the_moves_of_a_branch(tmp_path: Path, before: list[ops.Operator]) -> None:
    with leat.Writer(tmp_path / "a.leat", {"image": "image", "mask": leat.mask()}) as w:
        w.add(image=png(np.full((20, 20, 3), 50, np.uint8)), mask=png(np.full((20, 20), 9, np.uint8)))
    branch = ops.RandomApply([ops.ColorJitter(0.4), ops.RandomHorizontalFlip(1)], 1)
    chain = [ops.Decode(), *before, branch, ops.CenterCrop((8, 8))]
    outputs = {("image", "mask"): chain}
    batch = leat.Loader(leat.open(tmp_path / "a.leat"), 1, outputs=outputs, framework="numpy").batch_at(0, 0)
    assert (batch["mask"] == 9).all()


@pytest.mark.parametrize("mode", ["bilinear", "bicubic", "lanczos", "hamming", "box"])
def test_a_crop_of_a_resized_image_is_that_part_of_it(mode: str) -> None:
    for seed in range(60):
        rng = np.random.default_rng(seed)
        h, w, to_h, to_w = (int(v) for v in rng.integers(3, 60, 4))
        field = leat.field("uint8", (h, w, 3), layout="HWC")
        data = leat.from_arrays({"x": field}, x=rng.integers(0, 256, (1, h, w, 3)).astype(np.uint8))
        top, left = int(rng.integers(0, to_h)), int(rng.integers(0, to_w))
        rows, columns = int(rng.integers(1, to_h - top + 1)), int(rng.integers(1, to_w - left + 1))
        cut = ops.Pad((-left, -top, left + columns - to_w, top + rows - to_h))
        found = []
        for chain in ([ops.Resize((to_h, to_w), mode)], [ops.Resize((to_h, to_w), mode), cut]):
            found.append(leat.Loader(data, 1, outputs={"x": chain}, framework="numpy").batch_at(0, 0)["x"][0])
        assert (found[0][:, top : top + rows, left : left + columns] == found[1]).all(), (seed, h, w, to_h, to_w)


def test_a_stored_image_is_resized_to_a_drawn_size_before_a_crop(images: leat.Dataset) -> None:
    chain = [ops.RandomShortestSize([30, 40]), ops.CenterCrop((8, 8))]
    batch = next(iter(leat.Loader(images, 4, outputs={"x": chain}, framework="numpy")))
    assert batch["x"].shape == (4, 3, 8, 8)
    assert batch["x"].any()


@pytest.fixture(scope="module")
def boxed(tmp_path_factory: pytest.TempPathFactory) -> leat.Dataset:
    rng, file = np.random.default_rng(8), tmp_path_factory.mktemp("boxed") / "a.leat"
    fields = {"x": "image", "boxes": leat.boxes("xyxy"), "label": leat.field("int64", (None,))}
    with leat.Writer(file, fields) as writer:
        for _ in range(80):
            corners = rng.uniform(-8, 40, (5, 2)).astype(np.float32)
            boxes = np.concatenate([corners, corners + rng.uniform(1, 30, (5, 2)).astype(np.float32)], 1)
            writer.add(
                x=png(np.zeros((40, 40, 3), np.uint8)),
                boxes=np.maximum(boxes, np.array([-9, -9, 0, 0], np.float32)),
                label=np.arange(5),
            )
    return leat.open(file)


def targets(ds: leat.Dataset, chain: list[Any]) -> list[tuple[Any, Any]]:
    outputs = {("x", "boxes", "label"): [ops.Decode(), ops.Resize((40, 40)), *chain]}
    batch = leat.Loader(ds, len(ds), outputs=outputs, framework="numpy").batch_at(0, 0)
    return list(zip(batch["boxes"].unbind(), batch["label"].unbind(), strict=True))


def alike(a: tuple[Any, Any], b: tuple[Any, Any]) -> bool:
    return all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


def test_operators_on_boxes_stand_in_branches(boxed: leat.Dataset) -> None:
    small, clamp = ops.SanitizeBoundingBoxes(min_size=12), ops.ClampBoundingBoxes()
    raw, left = targets(boxed, []), targets(boxed, [small])
    clamped, both = targets(boxed, [clamp]), targets(boxed, [clamp, small])
    assert not any(alike(a, b) for a, b in zip(raw, left, strict=True))
    maybe = targets(boxed, [ops.RandomApply([small], 0.4)])
    ran = [alike(m, b) for m, b in zip(maybe, left, strict=True)]
    assert 0.2 < np.mean(ran) < 0.6 and all(alike(m, a) or r for m, a, r in zip(maybe, raw, ran, strict=True))
    for m, *of in zip(targets(boxed, [ops.RandomChoice([[clamp], [], [small]])]), raw, left, clamped, strict=True):
        assert any(alike(m, one) for one in of)
    orders = targets(boxed, [ops.RandomOrder([clamp, small, ops.ColorJitter(0.5)])])
    other = targets(boxed, [small, clamp])
    first = [alike(m, one) for m, one in zip(orders, both, strict=True)]
    assert 0 < sum(first) < len(boxed)
    assert all(f or alike(m, one) for m, f, one in zip(orders, first, other, strict=True))


def test_boxes_have_one_format_in_a_batch(boxed: leat.Dataset) -> None:
    convert = ops.ConvertBoundingBoxFormat("cxcywh")
    want = targets(boxed, [ops.ClampBoundingBoxes(), convert])
    made = targets(boxed, [ops.RandomOrder([convert, ops.ClampBoundingBoxes()])])
    assert all(np.allclose(a, b, atol=1e-4) for (a, _), (b, _) in zip(made, want, strict=True))
    for branch in (ops.RandomApply([convert]), ops.RandomChoice([[], [ops.RandomOrder([convert])]])):
        with pytest.raises(ValueError, match="ConvertBoundingBoxFormat in Random.* boxes of two formats"):
            targets(boxed, [branch])


def test_what_a_branch_lacks_is_named(boxed: leat.Dataset) -> None:
    maybe = ops.RandomApply([ops.SanitizeBoundingBoxes()])
    with pytest.raises(TypeError, match="SanitizeBoundingBoxes in the chain of output 'x' finds no boxes"):
        leat.Loader(boxed, 4, outputs={("x", "label"): [ops.Decode(), ops.Resize((8, 8)), maybe]})
    with pytest.raises(TypeError, match="SanitizeBoundingBoxes in output 'x' goes by boxes: give its chain to a tuple"):
        leat.Loader(boxed, 4, outputs={"x": [ops.Decode(), ops.Resize((8, 8)), maybe]})
    wrong = ops.RandomApply([ops.SanitizeBoundingBoxes(labels_getter="x")])
    with pytest.raises(TypeError, match="names a field in labels_getter"):
        targets(boxed, [wrong])
