"""Images of open size: as lists, padded to the largest of their batch, or alone."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from photo_support import png

import leat
from leat import ops

Array = np.ndarray[Any, Any]
SAMPLES = 23


def pixels_of(i: int) -> Array:
    rng = np.random.default_rng(i)
    w, h = (int(v) for v in rng.integers(3, 120, 2))
    return rng.integers(0, 256, (h, w, 3), dtype=np.uint8)


def ids_of(i: int) -> Array:
    return (pixels_of(i)[..., 0] % 19).astype(np.uint8)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("stack") / "open.leat"
    fields = {"image": "image", "mask": leat.mask(), "boxes": leat.boxes("xyxy"), "label": leat.field("int64")}
    with leat.Writer(file, fields) as w:
        for i in range(SAMPLES):
            h, w_ = pixels_of(i).shape[:2]
            boxes = np.array([[0, 0, w_, h]] * (i % 4), np.float32).reshape(-1, 4)
            w.add(image=png(pixels_of(i)), mask=png(ids_of(i)), boxes=boxes, label=i)
    return file


@pytest.fixture
def photos(path: Path) -> leat.Dataset:
    return leat.open(path)


def planes(i: int) -> Array:
    return pixels_of(i).transpose(2, 0, 1)


def flat(batch: leat.Batch) -> bytes:
    return b"".join(np.ascontiguousarray(image).tobytes() for image in batch["image"])


class TestLists:
    @pytest.mark.parametrize("framework", ["torch", "numpy"])
    def test_a_list_has_each_image_in_its_own_size(self, photos: leat.Dataset, framework: Any) -> None:
        outputs = {"image": leat.Out("image", [ops.Decode()], stack="list"), "label": []}
        seen = 0
        for batch in leat.Loader(photos, 5, outputs=outputs, framework=framework):
            assert list(batch) == ["image", "label"] and len(batch["image"]) == batch.size
            for image, i in zip(batch["image"], batch.ids.tolist(), strict=True):
                np.testing.assert_array_equal(np.asarray(image), planes(i))
                seen += 1
        assert seen == SAMPLES

    def test_they_are_views_of_one_memory_that_stays(self, photos: leat.Dataset) -> None:
        outputs = {"image": leat.Out("image", [ops.Decode()], stack="list")}
        loader = leat.Loader(photos, 4, outputs=outputs)
        kept = [image for batch in loader for image in batch["image"]]
        first = kept[:4]
        assert len({image.untyped_storage().data_ptr() for image in first}) == 1
        del loader
        for i, image in enumerate(kept):
            np.testing.assert_array_equal(image.numpy(), planes(i))

    @pytest.mark.parametrize("layout", ["NCHW", "NHWC", "channels_last"])
    def test_layouts(self, photos: leat.Dataset, layout: str) -> None:
        outputs = {"image": leat.Out("image", [ops.Decode(), ops.ToLayout(layout)], stack="list")}
        for batch in leat.Loader(photos, 6, outputs=outputs):
            for image, i in zip(batch["image"], batch.ids.tolist(), strict=True):
                want = pixels_of(i) if layout == "NHWC" else planes(i)
                np.testing.assert_array_equal(image.numpy(), want)
                if layout == "channels_last" and min(image.shape[1:]) > 1:
                    assert image.stride() == (1, 3 * image.shape[2], 3)

    def test_random_operators_and_values(self, photos: leat.Dataset) -> None:
        chain = [ops.Decode(), ops.RandomHorizontalFlip(), ops.ToDtype("float32"), ops.Normalize([0.5] * 3, [0.25] * 3)]
        flips = 0
        for batch in leat.Loader(photos, 6, outputs={"image": leat.Out("image", chain, stack="list")}):
            for image, i in zip(batch["image"], batch.ids.tolist(), strict=True):
                want = (planes(i).astype(np.float32) / 255 - 0.5) / 0.25
                flipped = not np.allclose(image.numpy(), want, atol=1e-5)
                flips += flipped
                np.testing.assert_allclose(image.numpy(), want[..., ::-1] if flipped else want, atol=1e-5)
        assert 3 < flips < SAMPLES - 3

    def test_targets_come_along(self, photos: leat.Dataset) -> None:
        chain = [ops.Decode(), ops.RandomHorizontalFlip(1.0)]
        names = ("image", "boxes", "mask")
        loader = leat.Loader(photos, 6, outputs={names: leat.Out(names, chain, stack="list")}, yields="tuple")
        n = 0
        for images, boxes, masks in loader:
            for image, box, mask in zip(images, boxes, masks, strict=True):
                np.testing.assert_array_equal(image.numpy(), planes(n)[..., ::-1])
                np.testing.assert_array_equal(mask.numpy(), ids_of(n)[:, ::-1])
                assert box.tolist() == [[0, 0, image.shape[2], image.shape[1]]] * (n % 4)
                n += 1
        assert n == SAMPLES

    def test_images_of_one_size_are_a_list_too(self, photos: leat.Dataset) -> None:
        outputs = {"image": leat.Out("image", [ops.Decode(), ops.Resize((8, 9))], stack="list")}
        plain = leat.Loader(photos, 5, outputs={"image": [ops.Decode(), ops.Resize((8, 9))]}).batch_at(0, 1)
        listed = leat.Loader(photos, 5, outputs=outputs).batch_at(0, 1)
        assert torch.equal(torch.stack(listed["image"]), plain["image"])

    def test_a_filter_may_stand_last(self, photos: leat.Dataset) -> None:
        outputs = {"image": leat.Out("image", [ops.Decode(), ops.RandomRotation(40, expand=True)], stack="list")}
        again = [flat(b) for b in leat.Loader(photos, 5, outputs=outputs)]
        assert again == [flat(b) for b in leat.Loader(photos, 5, outputs=outputs, num_threads=1)]

    def test_batches_are_copied_moved_and_pickled(self, photos: leat.Dataset) -> None:
        batch = leat.Loader(photos, 4, outputs={"image": leat.Out("image", [ops.Decode()], stack="list")}).batch_at(
            0, 0
        )
        for made in (batch.clone(), batch.to("cpu"), copy.deepcopy(batch)):
            assert [tuple(i.shape) for i in made["image"]] == [planes(k).shape for k in range(4)]
            assert all(torch.equal(a, b) for a, b in zip(made["image"], batch["image"], strict=True))
        batch.clone()["image"][0].zero_()
        assert batch["image"][0].any()


class TestPadding:
    @pytest.mark.parametrize("framework", ["torch", "numpy"])
    @pytest.mark.parametrize("layout", ["NCHW", "NHWC", "channels_last"])
    def test_images_are_padded_to_the_largest_and_the_mask_says_where(
        self, photos: leat.Dataset, framework: Any, layout: str
    ) -> None:
        chain = [ops.Decode(), ops.ToDtype("float32"), ops.Normalize([0.4] * 3, [0.2] * 3), ops.ToLayout(layout)]
        outputs = {"image": leat.Out("image", chain, stack="pad"), "label": []}
        for batch in leat.Loader(photos, 5, outputs=outputs, framework=framework):
            assert list(batch) == ["image", "image.mask", "label"]
            images, mask = np.asarray(batch["image"]), np.asarray(batch["image.mask"])
            if layout == "NHWC":
                images = images.transpose(0, 3, 1, 2)
            elif layout == "channels_last" and framework == "torch":
                assert batch["image"].is_contiguous(memory_format=torch.channels_last)
            sizes = [planes(i).shape[1:] for i in batch.ids.tolist()]
            h, w = max(s[0] for s in sizes), max(s[1] for s in sizes)
            assert images.shape == (batch.size, 3, h, w) and mask.shape == (batch.size, h, w) and mask.dtype == bool
            for k, (i, (height, width)) in enumerate(zip(batch.ids.tolist(), sizes, strict=True)):
                want = (planes(i).astype(np.float32) / 255 - 0.4) / 0.2
                np.testing.assert_allclose(images[k, :, :height, :width], want, atol=1e-5)
                assert not images[k, :, height:].any() and not images[k, :, :, width:].any()
                assert not mask[k, :height, :width].any() and mask[k, height:].all() and mask[k, :, width:].all()

    def test_masks_are_padded_with_their_image(self, photos: leat.Dataset) -> None:
        names = ("image", "mask")
        outputs = {names: leat.Out(names, [ops.Decode()], stack="pad")}
        for batch in leat.Loader(photos, 5, outputs=outputs):
            assert batch["mask"].shape == batch["image.mask"].shape == batch["image"][:, 0].shape
            for k, i in enumerate(batch.ids.tolist()):
                h, w = ids_of(i).shape
                np.testing.assert_array_equal(batch["mask"][k, :h, :w].numpy(), ids_of(i))
                assert not batch["mask"][k][batch["image.mask"][k]].any()

    def test_names_must_be_free(self, photos: leat.Dataset) -> None:
        outputs = {"image": leat.Out("image", [ops.Decode()], stack="pad"), "image.mask": leat.Out("label", [])}
        with pytest.raises(ValueError, match="image.mask"):
            leat.Loader(photos, 5, outputs=outputs)


class TestOneRow:
    @pytest.mark.parametrize("framework", ["torch", "numpy"])
    def test_batches_of_one_need_not_say_anything(self, photos: leat.Dataset, framework: Any) -> None:
        outputs = {"image": [ops.Decode()], "label": []}
        for batch in leat.Loader(photos, 1, outputs=outputs, framework=framework):
            assert list(batch) == ["image", "label"]
            np.testing.assert_array_equal(np.asarray(batch["image"]), planes(int(batch.ids[0]))[None])

    def test_nor_do_tuples(self, photos: leat.Dataset) -> None:
        chain = [ops.Decode(), ops.RandomHorizontalFlip(1.0)]
        for image, mask in leat.Loader(photos, 1, outputs={("image", "mask"): chain}, yields="tuple"):
            assert image.shape[0] == mask.shape[0] == 1 and image.shape[2:] == mask.shape[1:]

    def test_they_stay_batches_of_one(self, photos: leat.Dataset) -> None:
        loader = leat.Loader(photos, 1, outputs={"image": [ops.Decode()]})
        with pytest.raises(ValueError, match="stack="):
            loader.set_batch_size(2)
        with pytest.raises(ValueError, match="stack="):
            loader.consumer(batch_size=3)

    def test_several_rows_are_told_what_there_is(self, photos: leat.Dataset) -> None:
        with pytest.raises(TypeError, match="stack="):
            leat.Loader(photos, 2, outputs={"image": [ops.Decode()]})


class TestPromises:
    CHAIN = (ops.Decode(), ops.RandomHorizontalFlip(), ops.RandomRotation(30, expand=True))

    def outputs(self, stack: Any = "list") -> Any:
        return {("image", "label"): leat.Out(("image", "label"), list(self.CHAIN), stack=stack)}

    def epoch(self, photos: leat.Dataset, **more: Any) -> list[tuple[tuple[int, ...], bytes]]:
        loader = leat.Loader(photos, 4, True, outputs=self.outputs(), seed=3, **more)
        return [(tuple(b.ids.tolist()), flat(b)) for b in loader]

    def test_bytes_are_the_same_for_any_threads_and_budget(self, photos: leat.Dataset) -> None:
        want = self.epoch(photos, num_threads=1)
        assert sorted(i for ids, _ in want for i in ids) == list(range(SAMPLES))
        assert want == self.epoch(photos, num_threads=4)
        assert want == self.epoch(photos, num_threads=2, budget_bytes=24 << 20)

    def test_resume_is_exact(self, photos: leat.Dataset) -> None:
        want = self.epoch(photos)
        first = leat.Loader(photos, 4, True, outputs=self.outputs(), seed=3)
        it = iter(first)
        for _ in range(3):
            next(it)
        second = leat.Loader(photos, 4, True, outputs=self.outputs(), seed=3)
        second.load_state_dict(first.state_dict())
        assert [(tuple(b.ids.tolist()), flat(b)) for b in second] == want[3:]
        assert flat(second.batch_at(0, 1)) == want[1][1]

    def test_out_of_order_each_row_comes_once_and_unchanged(self, photos: leat.Dataset) -> None:
        def rows(batches: Any) -> dict[int, bytes]:
            return {
                int(i): image.numpy().tobytes() for b in batches for i, image in zip(b.ids, b["image"], strict=True)
            }

        ordered = rows(leat.Loader(photos, 4, True, outputs=self.outputs(), seed=3))
        loader = leat.Loader(photos, 4, True, outputs=self.outputs(), seed=3, in_order=False, num_threads=3)
        assert len(ordered) == SAMPLES and rows(loader) == ordered

    def test_consumers_have_the_same_rows_in_other_batches(self, photos: leat.Dataset) -> None:
        loader = leat.Loader(photos, 4, True, outputs=self.outputs("pad"), seed=3)
        other = loader.consumer(batch_size=6)
        mine = [image for b in loader for image in zip(b.ids.tolist(), b["image"], b["image.mask"], strict=True)]
        theirs = [image for b in other for image in zip(b.ids.tolist(), b["image"], b["image.mask"], strict=True)]
        assert [i for i, *_ in mine] == [i for i, *_ in theirs]
        for (_, a, am), (_, b, bm) in zip(mine, theirs, strict=True):
            assert torch.equal(a[:, ~am], b[:, ~bm])

    @pytest.mark.parametrize("policy", ["skip", "substitute"])
    @pytest.mark.parametrize("in_order", [True, False])
    def test_broken_photos(self, tmp_path: Path, policy: Any, in_order: bool) -> None:
        with leat.Writer(tmp_path / "b.leat", {"image": "image"}, check=False) as w:
            for i in range(SAMPLES):
                data = png(pixels_of(i))
                w.add(image=data[: len(data) // 2] if i % 5 == 2 else data)
        photos = leat.open(tmp_path / "b.leat")
        outputs = {"image": leat.Out("image", [ops.Decode()], stack="list")}
        seen = []
        loader = leat.Loader(photos, 4, outputs=outputs, on_error=policy, in_order=in_order)
        for batch in loader:
            assert len(batch["image"]) == batch.size
            for image, i in zip(batch["image"], batch.ids.tolist(), strict=True):
                np.testing.assert_array_equal(image.numpy(), planes(i))
                seen.append(i)
        good = [i for i in range(SAMPLES) if i % 5 != 2]
        assert set(seen) <= set(good)
        assert len(seen) == SAMPLES if policy == "substitute" else sorted(seen) == good

    def test_the_budget_holds_or_says_what_it_takes(self, photos: leat.Dataset) -> None:
        chain = [ops.Decode(), ops.RandomRotation((45, 45), expand=True), ops.ToDtype("float64")]
        outputs = {"image": leat.Out("image", chain, stack="list")}
        loader = leat.Loader(photos, 4, outputs=outputs, budget_bytes=40 << 20, num_threads=2)
        for _ in loader:
            memory = loader.stats()["memory"]
            assert memory["in_use_bytes"] <= memory["budget_bytes"]

    def test_an_image_that_never_fits_is_an_error(self, tmp_path: Path) -> None:
        with leat.Writer(tmp_path / "large.leat", {"image": "image"}) as w:
            w.add(image=png(np.zeros((900, 1000, 3), np.uint8)))
        outputs = {"image": leat.Out("image", [ops.Decode(), ops.ToDtype("float64")], stack="list")}
        loader = leat.Loader(leat.open(tmp_path / "large.leat"), 2, outputs=outputs, budget_bytes=24 << 20)
        with pytest.raises(leat.BudgetError, match="budget_bytes"):
            next(iter(loader))

    def test_ranks_have_their_parts(self, photos: leat.Dataset) -> None:
        whole = self.epoch(photos)
        parts = [
            list(leat.Loader(photos, 2, True, outputs=self.outputs(), seed=3, rank=r, world_size=2)) for r in range(2)
        ]
        for (ids, data), a, b in zip(whole, *parts, strict=True):
            assert tuple(a.ids.tolist() + b.ids.tolist())[: len(ids)] == ids
            assert (flat(a) + flat(b))[: len(data)] == data


class TestPrograms:
    def test_json(self, photos: leat.Dataset) -> None:
        outputs = {"image": leat.Out("image", [ops.Decode()], stack="pad")}
        again = leat.program_from_json(leat.program_to_json(outputs))
        assert again["image"].stack == "pad"
        a, b = (leat.Loader(photos, 4, outputs=o).batch_at(0, 0) for o in (outputs, again))
        assert torch.equal(a["image"], b["image"])

    def test_what_does_not_fit_says_why(self, photos: leat.Dataset) -> None:
        with pytest.raises(ValueError, match="'list' or 'pad'"):
            out = leat.Out("image", [ops.Decode()], stack="mosaic")  # type: ignore[arg-type]
            leat.Loader(photos, 4, outputs={"image": out})
        mixed = leat.Out(("image", "label"), [ops.Decode(), ops.CutMix(num_classes=30)], stack="list")
        with pytest.raises(TypeError, match="one size"):
            leat.Loader(photos, 4, outputs={("image", "label"): mixed})
        with pytest.raises(TypeError, match=r"put Decode\(\) before it"):
            leat.Loader(photos, 4, outputs={"image": leat.Out("image", [ops.Map(lambda x: x)], stack="list")})


def test_what_works_in_place_works_on_images_of_open_size(photos: leat.Dataset) -> None:
    chain = [ops.Decode(), ops.RandomInvert(1), ops.RandomEqualize(0), ops.RandomErasing(1, value=7)]
    outputs = {"image": leat.Out("image", chain, stack="list")}
    batch = leat.Loader(photos, SAMPLES, outputs=outputs, framework="numpy").batch_at(0, 0)
    for i, image in enumerate(batch["image"]):
        changed = (image != 255 - planes(i)).any(0)
        assert image.shape == planes(i).shape
        assert (image[:, changed] == 7).all()
    alone = leat.Loader(photos, 1, outputs={"image": chain}, framework="numpy", seed=0)
    assert (alone.batch_at(0, 0)["image"][0] == batch["image"][0]).all()


def test_operators_on_images_alone_may_stand_in_a_stack(photos: leat.Dataset) -> None:
    outputs = {"image": leat.Out("image", [ops.Decode(), ops.RandAugment()], stack="list")}
    assert [len(b["image"]) for b in leat.Loader(photos, 20, outputs=outputs)] == [20, 3]


@pytest.mark.parametrize("policy", [ops.RandAugment(), ops.TrivialAugmentWide(), ops.AutoAugment(), ops.AugMix()])
def test_policies_take_images_of_any_size(photos: leat.Dataset, policy: Any) -> None:
    chain, names = [ops.Decode(), policy], ("image", "label")
    alone = [b["image"][0] for b in leat.Loader(photos, 1, outputs={names: chain}, framework="numpy")]
    listed = leat.Loader(photos, 6, outputs={names: leat.Out(names, chain, stack="list")}, framework="numpy")
    padded = leat.Loader(photos, 6, outputs={names: leat.Out(names, chain, stack="pad")}, framework="numpy")
    changed = 0
    for i, image in enumerate(image for batch in listed for image in batch["image"]):
        np.testing.assert_array_equal(image, alone[i])
        assert image.shape == planes(i).shape
        changed += not np.array_equal(image, planes(i))
    assert changed > SAMPLES / 2
    images = [image[:, ~mask] for b in padded for image, mask in zip(b["image"], b["image.mask"], strict=True)]
    assert all(np.array_equal(a, b.reshape(3, -1)) for a, b in zip(images, alone, strict=True))
