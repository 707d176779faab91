"""Sizes that are drawn per batch: what they follow from, how often each comes, and what cannot have them."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leat

ops = leat.ops
SIZES = [(16, 16), (24, 20), (32, 40)]


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> leat.Dataset:
    path = tmp_path_factory.mktemp("per_batch") / "a.leat"
    rng = np.random.default_rng(0)
    with leat.Writer(path, {"x": leat.field("uint8", (48, 48, 3), layout="HWC"), "n": "int64"}) as w:
        for i in range(60):
            w.add(x=rng.integers(0, 256, (48, 48, 3), np.uint8), n=i)
    return leat.open(path)


def outputs(size: Any = None) -> dict[str, Any]:
    return {"x": [ops.RandomResizedCrop(size or leat.PerBatch(SIZES)), ops.Normalize([0.5] * 3, [0.25] * 3)], "n": []}


def loader_of(images: leat.Dataset, batch: int = 4, out: Any = None, **more: Any) -> leat.Loader:
    return leat.Loader(images, batch, outputs=out or outputs(), framework="numpy", shuffle=True, seed=5, **more)


def test_a_batch_equals_that_of_a_loader_with_its_size(images: leat.Dataset) -> None:
    loader, seen = loader_of(images), set()
    fixed = {size: loader_of(images, out=outputs(size)) for size in SIZES}
    for epoch in range(2):
        for step, batch in enumerate(loader):
            size = batch["x"].shape[2:]
            seen.add(size)
            want = fixed[size].batch_at(epoch, step)
            assert batch["x"].shape == (len(batch["n"]), 3, *size)
            assert batch["x"].flags.c_contiguous and np.array_equal(batch["x"], want["x"])
            again = loader.batch_at(epoch, step)
            assert np.array_equal(batch["x"], again["x"]) and np.array_equal(batch["n"], again["n"])
    assert seen == set(SIZES)


@pytest.mark.parametrize("function", [ops.Map, ops.MapBatch])
def test_other_outputs_may_have_functions(images: leat.Dataset, function: Any) -> None:
    mapped = loader_of(images, out=outputs() | {"ten": leat.Out("n", [function(lambda n: n * 10)])})
    for want, batch in zip(loader_of(images), mapped, strict=True):
        assert np.array_equal(batch["x"], want["x"]) and np.array_equal(batch["ten"], 10 * want["n"])
    mapped.set_epoch(1)
    batch = next(iter(mapped))
    again = mapped.batch_at(1, 0)
    assert np.array_equal(batch["x"], again["x"]) and np.array_equal(batch["ten"], again["ten"])


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("world", [1, 2, 3])
def test_sizes_are_equal_on_all_ranks_for_any_threads(images: leat.Dataset, threads: int, world: int) -> None:
    one = [(b["x"].shape[2:], b["n"].tolist(), b["x"]) for b in loader_of(images, 6)]
    ranks = [
        list(loader_of(images, global_batch_size=6, rank=r, world_size=world, num_threads=threads, batch=None))
        for r in range(world)
    ]
    for step, (size, numbers, rows) in enumerate(one):
        parts = [rank[step] for rank in ranks]
        assert all(p["x"].shape[2:] == size for p in parts)
        assert [n for p in parts for n in p["n"].tolist()] == numbers
        assert np.array_equal(np.concatenate([p["x"] for p in parts]), rows)


def test_a_run_resumes_with_the_same_sizes(images: leat.Dataset) -> None:
    whole = [b["x"] for b in loader_of(images)]
    for cut in (1, 7, 14):
        loader = loader_of(images)
        for _, _batch in zip(range(cut), loader, strict=False):
            pass
        again = loader_of(images)
        again.load_state_dict(loader.state_dict())
        rest = [b["x"] for b in again]
        assert len(rest) == len(whole) - cut
        assert all(np.array_equal(a, b) for a, b in zip(rest, whole[cut:], strict=True))


def chosen(images: leat.Dataset, weights: Any, epochs: int) -> list[int]:
    size = leat.PerBatch([1, 2, 3, 4], weights)
    loader = leat.Loader(images, 1, outputs={"x": [ops.CenterCrop(size)]}, framework="numpy", seed=9)
    return [batch["x"].shape[2] - 1 for _ in range(epochs) for batch in loader]


@pytest.mark.parametrize("weights", [None, [1, 2, 3, 4]])
def test_each_size_comes_as_often_as_its_weight_says(images: leat.Dataset, weights: Any) -> None:
    found = np.bincount(chosen(images, weights, 40), minlength=4)
    for told, right in ((weights or [1] * 4, True), ([4, 3, 2, 1], weights is None and False), ([1, 1, 2, 2], False)):
        expected = np.array(told) / sum(told) * found.sum()
        chi_square = ((found - expected) ** 2 / expected).sum()
        assert (chi_square < 16.3) == right  # 3 degrees of freedom: more than this once in a thousand


def test_a_weight_of_0_never_comes(images: leat.Dataset) -> None:
    assert set(chosen(images, [0, 1, 0, 2], 4)) == {1, 3}


def test_one_object_is_one_draw_and_two_are_two(images: leat.Dataset) -> None:
    same = leat.PerBatch([8, 9, 10, 11])
    for a, b in ((same, same), (leat.PerBatch([8, 9, 10, 11]), leat.PerBatch([8, 9, 10, 11]))):
        out: Any = {"a": leat.Out("x", [ops.CenterCrop(a)]), "b": leat.Out("x", [ops.RandomCrop(b)])}
        for program in (out, leat.program_from_json(leat.program_to_json(out)), pickle.loads(pickle.dumps(out))):
            pairs = [(x["a"].shape[2], x["b"].shape[2]) for x in loader_of(images, out=program)]
            assert all(p == q for p, q in pairs) == (a is b)
        shapes = [x["a"].shape for x in loader_of(images, out=out)]
        assert shapes == [
            x["a"].shape for x in loader_of(images, out=leat.program_from_json(leat.program_to_json(out)))
        ]


def test_a_name_keeps_the_draw_where_the_program_changes(images: leat.Dataset) -> None:
    def sizes(chain: list[Any]) -> list[int]:
        return [b["y"].shape[2] for b in loader_of(images, out={"y": leat.Out("x", chain)})]

    a, b = leat.PerBatch(range(8, 20), name="size"), leat.PerBatch(range(8, 20), name="size")
    assert sizes([ops.CenterCrop(a)]) == sizes([ops.RandomHorizontalFlip(), ops.RandomCrop(b)])


def test_photos_of_any_size_and_every_operator_with_a_size(photos: Path) -> None:
    for make in (ops.RandomResizedCrop, ops.Resize, ops.CenterCrop):
        size = leat.PerBatch([(20, 24), (12, 40)])
        chain = [ops.Decode(), make(size), ops.ColorJitter(0.2, 0.2), ops.ToLayout("channels_last")]
        for batch in leat.Loader(leat.open(photos), 1, outputs={"image": chain}, epochs=3):
            assert tuple(batch["image"].shape[2:]) in size.sizes
            assert np.asarray(batch["image"]).transpose(0, 2, 3, 1).flags.c_contiguous


def test_substitutes_have_the_size_of_their_batch(tmp_path: Path, jpeg: Any) -> None:
    with leat.Writer(tmp_path / "a.leat", {"image": "image"}) as w:
        for i in range(12):
            w.add(image=jpeg(50, 60, i) if i % 3 else jpeg(50, 60, i)[:200])
    chain = [ops.Decode(), ops.RandomResizedCrop(leat.PerBatch([8, 16, 24]))]
    loader = leat.Loader(leat.open(tmp_path / "a.leat"), 3, outputs={"image": chain}, on_error="substitute", seed=2)
    assert len({tuple(b["image"].shape) for _ in range(4) for b in loader}) > 1


def test_what_cannot_have_a_size_per_batch_says_so(images: leat.Dataset) -> None:
    with pytest.raises(ValueError, match="in_order=True"):
        loader_of(images, in_order=False)
    with pytest.raises(ValueError, match="PerBatch does not go with"):
        loader_of(images, out={"x": [ops.CenterCrop(leat.PerBatch([8, 9])), ops.Map(lambda x: x)]})
    with pytest.raises(leat.ProgramError, match="open size"):
        leat.Loader(images, 2, outputs={"x": [ops.RandomRotation(5, expand=True), ops.Resize(leat.PerBatch([8, 9]))]})
    with pytest.raises(leat.ProgramError, match="largest for every output"):
        shared = leat.PerBatch([(4, 40), (20, 20)])
        out = {
            "a": leat.Out("x", [ops.CenterCrop(shared)]),
            "b": leat.Out("x", [ops.CenterCrop(shared), ops.Resize(4)]),
        }
        leat.Loader(images, 2, outputs=out)
    with pytest.raises(ValueError, match="combinations"):
        leat.Loader(
            images, 2, outputs={str(i): leat.Out("x", [ops.CenterCrop(leat.PerBatch(range(1, 9)))]) for i in range(3)}
        )
    for arguments in (([],), (7,), ("ab",)):
        with pytest.raises(TypeError):
            leat.PerBatch(*arguments)
    for arguments in (([0],), ([8, 9], [1]), ([8, 9], [0, 0]), ([8, 9], [1, -1]), ([(1, 2, 3)],)):
        with pytest.raises(ValueError, match="size|weights"):
            leat.PerBatch(*arguments)


def test_a_photo_that_is_too_small_for_one_size_is_not_broken_for_another(
    tmp_path: Path, jpeg: Callable[..., bytes]
) -> None:
    for i in range(16):
        (tmp_path / f"{i:02}.jpg").write_bytes(jpeg(*((64, 64) if i % 2 else (200, 200)), i))

    def loader(ds: leat.Dataset, size: Any, **more: Any) -> leat.Loader:
        chain = [ops.Decode(), ops.RandomCrop(size)]
        more = {"shuffle": True, "seed": 1, "on_error": "skip", **more}
        return leat.Loader(ds, 4, outputs={"image": chain}, framework="numpy", **more)

    ds, rows, state = leat.open(tmp_path), [], None
    first = loader(ds, leat.PerBatch([32, 100]), epochs=4)
    for _ in range(4):
        for batch in first:
            rows.append(batch.ids.tolist())
            state = first.state_dict() if len(rows) == 6 else state
    again = loader(leat.open(tmp_path), leat.PerBatch([32, 100]))
    again.load_state_dict(state)
    resumed: list[Any] = []
    while len(resumed) < len(rows) - 6:
        resumed += [batch.ids.tolist() for batch in again]
    assert resumed == rows[6:] and any(len(ids) < 4 for ids in rows)
    assert sum(len(b.ids) for b in loader(ds, 100)) == 8
    assert sum(len(b.ids) for b in loader(ds, 32, on_error="raise")) == 16


def test_unknown_operators_and_functions_in_chains_get_a_hint(images: leat.Dataset) -> None:
    with pytest.raises(AttributeError, match=r"did you mean leat.ops.ColorJitter\?.*leat.ops.Map"):
        _ = ops.ColourJitter
    with pytest.raises(AttributeError, match=r"leat.ops.Map\(function\) runs .*There are .*Decode, "):
        _ = ops.Whirlpool
    with pytest.raises(TypeError, match=r"leat.ops.Map\(<lambda>\) runs a function"):
        leat.Loader(images, 2, outputs={"x": [lambda x: x]})
    with pytest.raises(TypeError, match=r"write Decode\(\.\.\.\)"):
        leat.Loader(images, 2, outputs={"x": [ops.Decode]})


def test_boxes_go_with_an_image_whose_size_is_drawn(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    schema = {"x": leat.field("uint8", (40, 30, 3), layout="HWC"), "boxes": leat.boxes("xyxy")}
    with leat.Writer(tmp_path / "a.leat", schema) as w:
        for i in range(24):
            boxes = rng.uniform(0, 15, (i % 4, 2, 2)).cumsum(1).reshape(-1, 4).astype(np.float32)
            w.add(x=rng.integers(0, 256, (40, 30, 3), np.uint8), boxes=boxes)

    def tied(size: Any) -> leat.Loader:
        chain = [ops.RandomResizedCrop(size), ops.RandomHorizontalFlip(), ops.SanitizeBoundingBoxes()]
        return loader_of(leat.open(tmp_path / "a.leat"), out={("x", "boxes"): chain})

    fixed = {size: tied(size) for size in SIZES}
    for step, batch in enumerate(tied(leat.PerBatch(SIZES))):
        want = fixed[batch["x"].shape[2:]].batch_at(0, step)
        assert np.array_equal(batch["x"], want["x"])
        assert np.array_equal(batch["boxes"].values, want["boxes"].values)
        assert np.array_equal(batch["boxes"].offsets, want["boxes"].offsets)
