"""Functions in Python in the chains of tuples: they see the image, targets go past, and all that operators draw around
them is what they draw without them.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from photo_support import png
from PIL import Image

import leat
from leat import ops

TUPLE = ("image", "boxes", "label", "mask", "points", "masks")
WORDS = ("image", "boxes", "label")


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> leat.Dataset:
    rng = np.random.default_rng(3)
    path = tmp_path_factory.mktemp("tuples") / "scenes.leat"
    fields = {
        "image": "image",
        "mask": leat.mask(),
        "boxes": leat.boxes("xywh"),
        "label": leat.field("int64", (None,)),
        "points": leat.keypoints(2, pairs=[(0, 1)]),
        "masks": leat.masks(),
    }
    with leat.Writer(path, fields) as w:
        for _ in range(24):
            width, height = (int(v) for v in rng.integers(40, 90, 2))
            n = int(rng.integers(1, 5))
            low = rng.uniform(0, 0.5, (n, 2)) * [width, height]
            boxes = np.concatenate([low, rng.uniform(0.2, 0.5, (n, 2)) * [width, height]], 1).astype(np.float32)
            points = rng.uniform(0, 40, (n, 2, 3)).astype(np.float32)
            drawn = np.zeros((n, height, width), bool)
            for mask, (x, y, across, down) in zip(drawn, boxes.astype(int), strict=True):
                mask[y : y + down, x : x + across] = True
            w.add(
                image=png(rng.integers(0, 256, (height, width, 3), dtype=np.uint8)),
                mask=png(rng.integers(0, 9, (height, width), dtype=np.uint8)),
                boxes=boxes,
                label=np.arange(n),
                points=points,
                masks=leat.encode_masks(list(drawn)),
            )
    return leat.open(path)


def same(x: Any) -> Any:
    return x


def inverted(x: Any) -> Any:
    return 255 - x


def plain(value: Any) -> list[Any]:
    if isinstance(value, leat.Ragged):
        return [value.values.numpy(), value.offsets.numpy()]
    if isinstance(value, list):
        return [v.numpy() for v in value]
    return [value.numpy()]


def assert_equal(a: leat.Batch, b: leat.Batch, invert: bool = False) -> None:
    assert list(a) == list(b) and a.ids.tolist() == b.ids.tolist()
    for name in a:
        for x, y in zip(plain(a[name]), plain(b[name]), strict=True):
            assert x.shape == y.shape and x.dtype == y.dtype, name
            assert np.array_equal(255 - x if invert and name == "image" else x, y), name


def loader(ds: leat.Dataset, names: Any, chain: list[Any], **more: Any) -> leat.Loader:
    out = leat.Out(names, chain, geometry=more.pop("geometry", False), stack=more.pop("stack", None))
    options = {"shuffle": True, "seed": 7, "num_threads": 2, "framework": "torch", **more}
    return leat.Loader(ds, 4, outputs={names: out}, **options)


def crops() -> list[ops.Operator]:
    return [ops.RandomCrop(32, pad_if_needed=True), ops.RandomHorizontalFlip(), ops.RandomVerticalFlip(0.3)]


MOVES = {
    "last": ([*crops(), ops.Resize((24, 24))], []),
    "middle": ([ops.Resize((48, 40))], [*crops(), ops.SanitizeBoundingBoxes()]),
    "first": ([], [ops.RandomHorizontalFlip(), ops.ScaleJitter((40, 40)), *crops()]),
    "aimed before": ([ops.RandomIoUCrop(), ops.SanitizeBoundingBoxes()], [ops.Resize((24, 24))]),
    "aimed behind": ([ops.RandomZoomOut()], [ops.RandomIoUCrop(), ops.SanitizeBoundingBoxes(), ops.Resize((24, 24))]),
    "aimed twice": (
        [ops.RandomIoUCrop()],
        [ops.RandomApply([ops.RandomIoUCrop(), ops.SanitizeBoundingBoxes()], 0.7), ops.Resize((24, 24))],
    ),
    "turned": ([ops.RandomRotation(30)], [ops.RandomAffine(10, scale=(0.8, 1.2)), ops.Resize((24, 24))]),
    "ends": ([ops.Resize((24, 24))], [ops.ConvertBoundingBoxFormat("cxcywh", normalized=True), ops.ToDtype("float32")]),
}


@pytest.mark.parametrize("before, behind", MOVES.values(), ids=MOVES)
def test_a_tuple_with_a_function_that_changes_nothing_is_the_tuple_without_it(
    scenes: leat.Dataset, before: list[Any], behind: list[Any]
) -> None:
    chain = [ops.Decode(), *before, *behind]
    mapped = [ops.Decode(), *before, ops.Map(same), *behind]
    with loader(scenes, TUPLE, chain) as a, loader(scenes, TUPLE, mapped) as b:
        for x, y in zip(a, b, strict=True):
            assert_equal(x, y)


@pytest.mark.parametrize("stack", ["list", "pad"])
@pytest.mark.parametrize(
    "before, behind",
    [
        ([ops.RandomHorizontalFlip()], []),
        ([], [ops.RandomIoUCrop(), ops.SanitizeBoundingBoxes(), ops.ToDtype("float32")]),
        ([ops.RandomShortestSize([30, 40])], [ops.RandomHorizontalFlip(), ops.ToLayout("NHWC")]),
        ([], [ops.RandomShortestSize([30, 40]), ops.ToLayout("channels_last")]),
        ([], [ops.Resize((20, 24)), ops.ToLayout("channels_last")]),
        ([ops.Resize((20, 24))], []),
    ],
    ids=["last", "aimed", "NHWC", "channels_last", "one size channels_last", "one size"],
)
def test_images_of_open_size_go_through_functions(
    scenes: leat.Dataset, before: list[Any], behind: list[Any], stack: Any
) -> None:
    chain, mapped = [ops.Decode(), *before, *behind], [ops.Decode(), *before, ops.Map(same), *behind]
    for names in (TUPLE, "image"):
        if names == "image" and any(isinstance(op, ops.RandomIoUCrop) for op in behind):
            continue
        with loader(scenes, names, chain, stack=stack) as a, loader(scenes, names, mapped, stack=stack) as b:
            for x, y in zip(a, b, strict=True):
                assert_equal(x, y)
                if stack == "list":
                    assert [i.stride() for i in x["image"]] == [i.stride() for i in y["image"]]


def contiguous(x: Any) -> Any:
    return x.contiguous()


@pytest.mark.parametrize("stack", ["list", "pad"])
@pytest.mark.parametrize("behind", [[], [ops.ToLayout("NHWC")]], ids=["last", "NHWC"])
@pytest.mark.parametrize("size", [[], [ops.Resize((20, 24))]], ids=["open", "one size"])
def test_what_a_function_gives_behind_channels_last_is_delivered_whatever_its_strides(
    scenes: leat.Dataset, size: list[Any], behind: list[Any], stack: Any
) -> None:
    before = [ops.Decode(), *size, ops.ToLayout("channels_last")]
    plainly = [ops.Decode(), *size, *(behind or [ops.ToLayout("channels_last")])]
    with (
        loader(scenes, WORDS, plainly, stack=stack) as a,
        loader(scenes, WORDS, [*before, ops.Map(contiguous), *behind], stack=stack) as b,
    ):
        for x, y in zip(a, b, strict=True):
            assert_equal(x, y)


def test_what_is_no_image_is_named(scenes: leat.Dataset) -> None:
    with pytest.raises(TypeError, match="returned bytes for an image of"):
        loader(scenes, WORDS, [ops.Decode(), ops.Map(lambda x: b"123")], stack="list")
    with pytest.raises(TypeError, match="takes batches of images of one size") as raised:
        loader(scenes, "image", [ops.Decode(), ops.MapBatch(same)], stack="list")
    assert raised.type is TypeError


def test_the_function_gets_the_image_at_its_place(scenes: leat.Dataset) -> None:
    for before, behind in ([ops.Resize((40, 40))], crops()), (crops(), []), ([], crops()):
        chain = [ops.Decode(), *before, ops.Map(inverted), *behind]
        with loader(scenes, WORDS, [ops.Decode(), *before, *behind]) as a, loader(scenes, WORDS, chain) as b:
            for x, y in zip(a, b, strict=True):
                padded = behind and not before
                if not padded:
                    assert_equal(x, y, invert=True)
    seen: list[Any] = []

    def look(x: Any, rng: np.random.Generator) -> Any:
        seen.append((tuple(x.shape), x.dtype))
        return (x.float() + float(rng.random())).mean(2, keepdim=True)

    chain = [ops.Decode(), ops.Resize((20, 30)), ops.Map(look), ops.Normalize([0.5], [0.5])]
    with loader(scenes, WORDS, chain) as made:
        batch = made.batch_at(0, 0)
        again = made.batch_at(0, 0)
    assert seen[0] == ((20, 30, 3), torch.uint8)
    assert batch["image"].shape == (4, 1, 20, 30) and batch["image"].dtype == torch.float32
    assert torch.equal(batch["image"], again["image"])


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("in_order", [True, False])
def test_the_same_for_any_workers_resumed_and_for_consumers(scenes: leat.Dataset, threads: int, in_order: bool) -> None:
    chain = [ops.Decode(), ops.RandomZoomOut(), ops.Map(noisy), ops.RandomIoUCrop(), ops.SanitizeBoundingBoxes()]
    chain += [ops.Resize((24, 24)), ops.ToDtype("float32")]
    with (
        loader(scenes, TUPLE, chain) as one,
        loader(scenes, TUPLE, chain, num_threads=threads, in_order=in_order) as made,
    ):
        want = [b for b in one]
        if in_order:
            for x, y in zip(want, made, strict=True):
                assert_equal(x, y)
            batches = iter(made)
            next(batches), next(batches)
            state = made.state_dict()
            with loader(scenes, TUPLE, chain) as again:
                again.load_state_dict(state)
                assert_equal(next(iter(again)), made.batch_at(1, 2))
        else:
            rows = {int(i): x["image"][k] for x in want for k, i in enumerate(x.ids)}
            for batch in made:
                for k, i in enumerate(batch.ids):
                    assert torch.equal(batch["image"][k], rows[int(i)])


def test_consumers_of_other_batch_sizes_get_the_same_rows(scenes: leat.Dataset) -> None:
    chain = [ops.Decode(), ops.Map(noisy), ops.RandomIoUCrop(), ops.SanitizeBoundingBoxes(), ops.Resize((24, 24))]
    with loader(scenes, WORDS, chain, num_threads=1) as made:
        other = made.consumer(8)
        one, eight = list(made), list(other)
    for k, batch in enumerate(one):
        assert torch.equal(batch["image"], eight[k // 2]["image"][k % 2 * 4 :][:4])
        for row in range(4):
            assert torch.equal(batch["boxes"][row], eight[k // 2]["boxes"][k % 2 * 4 + row])


def noisy(x: Any, rng: np.random.Generator) -> Any:
    return (x.to(torch.int16) + int(rng.integers(-9, 9))).clamp(0, 255).to(torch.uint8)


def test_a_geometry_and_operators_for_some_epochs_go_with_functions(scenes: leat.Dataset) -> None:
    weak = [ops.RandomZoomOut().epochs(stop=1), ops.RandomIoUCrop().epochs(stop=1), ops.Resize((24, 24))]
    chain, mapped = [ops.Decode(), *weak], [ops.Decode(), *weak, ops.Map(same)]
    with loader(scenes, WORDS, chain, geometry=True) as a, loader(scenes, WORDS, mapped, geometry=True) as b:
        for _ in range(2):
            for x, y in zip(a, b, strict=True):
                assert list(y) == [*WORDS, "image.geometry"]
                assert_equal(x, y)
    changing = [ops.Decode(), ops.Resize((24, 24)).epochs(stop=1), ops.Resize((20, 20)).epochs(start=1), ops.Map(same)]
    with pytest.raises(TypeError, match="images of one type in all epochs"):
        loader(scenes, WORDS, [*changing, ops.Resize((8, 8))])


def test_a_batch_function_takes_images_of_one_size(scenes: leat.Dataset) -> None:
    flat = ops.MapBatch(lambda x: x - x.float().mean().to(x.dtype))
    resized = [ops.Decode(), ops.Resize((8, 8))]
    with (
        loader(scenes, WORDS, resized) as bare,
        loader(scenes, WORDS, [*resized, flat, ops.ToDtype("float32")]) as made,
    ):
        for x, y in zip(bare, made, strict=True):
            want = x["image"] - x["image"].float().mean().to(torch.uint8)
            assert torch.equal(y["image"], want.float() / 255)
    with pytest.raises(TypeError, match="batches of images of one size"):
        loader(scenes, WORDS, [ops.Decode(), flat, ops.Resize((8, 8))])


def test_mosaics_and_pasted_objects_stand_before_a_function(scenes: leat.Dataset) -> None:
    paste = [ops.Resize((24, 24)), ops.CopyPaste()]
    mix = [ops.Resize((24, 24)), ops.DetectionMixUp()]
    for before, names in ([ops.Mosaic(32)], WORDS), (paste, (*WORDS, "masks")), (mix, ("image", "boxes")):
        function = ops.Map(same)
        without, mapped = [ops.Decode(), *before], [ops.Decode(), *before, function]
        with loader(scenes, names, without) as a, loader(scenes, names, mapped) as b:
            assert_equal(a.batch_at(0, 0), b.batch_at(0, 0))
        with pytest.raises(TypeError, match="put it behind"):
            loader(scenes, names, [ops.Decode(), function, *before])


@pytest.mark.parametrize("names", ["image", WORDS], ids=["alone", "tuple"])
def test_a_mosaic_before_a_function_is_that_of_the_row(scenes: leat.Dataset, names: Any) -> None:
    mosaic, mix = [ops.Mosaic(16)], [ops.Resize((24, 24)), ops.DetectionMixUp()]
    for more in mosaic, [*mosaic, ops.RandomHorizontalFlip(), ops.CenterCrop(20)], mix, [*mix, ops.CenterCrop(20)]:
        chain = [ops.Decode(), *more]
        with loader(scenes, names, chain) as a, loader(scenes, names, [*chain, ops.Map(same)]) as b:
            for x, y in zip(a, b, strict=True):
                assert_equal(x, y)
    with pytest.raises(TypeError, match="open size behind a Mosaic"):
        loader(scenes, "image", [ops.Decode(), ops.Mosaic(16), ops.RandomResize(9, 12), ops.Map(same)])


def test_five_crops_around_a_function_are_those_without_it(scenes: leat.Dataset) -> None:
    chain = [ops.Decode(), ops.Resize((20, 20))]
    with (
        loader(scenes, "image", [*chain, ops.FiveCrop(8)]) as bare,
        loader(scenes, "image", [*chain, ops.Map(same), ops.FiveCrop(8)]) as behind,
        loader(scenes, "image", [*chain, ops.FiveCrop(8), ops.Map(same)]) as before,
    ):
        for x, y, z in zip(bare, behind, before, strict=True):
            assert torch.equal(x["image"], y["image"])
            assert torch.equal(x["image"], z["image"].permute(0, 1, 4, 2, 3))  # as the function gave them


def small(x: Any) -> Any:
    return x[:5]


def sometimes_small(x: Any) -> Any:
    return x if x.shape[0] % 2 else x[:5]


def test_a_function_that_changes_the_size_is_an_error_that_names_the_sample(scenes: leat.Dataset) -> None:
    with pytest.raises(TypeError, match=r"Map\(small\) of output 'image' returned .*\(5, 9, 3\).* of 8 x 9 pixels"):
        loader(scenes, WORDS, [ops.Decode(), ops.Resize((8, 9)), ops.Map(small)])
    chain = [ops.Decode(), ops.Map(sometimes_small, returns="uint8"), ops.Resize((8, 8))]
    with loader(scenes, WORDS, chain, shuffle=False) as made, pytest.raises(TypeError, match="keeps height and") as e:
        list(made)
    number = next(i for i in range(24) if not Image.open(io.BytesIO(scenes[i]["image"])).height % 2)
    assert e.value.sample == number  # type: ignore[attr-defined]
    with loader(scenes, WORDS, chain, shuffle=False, on_error="skip") as made:
        kept = [int(i) for batch in made for i in batch.ids]
        errors = [e.planned for batch in made for e in batch.errors]
    assert number not in kept and number in errors
    with pytest.raises(TypeError, match="declares float32"):
        loader(scenes, WORDS, [ops.Decode(), ops.Resize((8, 9)), ops.Map(same, leat.field("float32", (8, 8, 3)))])


def refuses(x: Any) -> Any:
    if x[0, 0, 0] % 4 == 0:
        raise ValueError("refused")
    return x


def test_rows_that_functions_refuse_go_with_their_targets(scenes: leat.Dataset) -> None:
    for stack in (None, "list"):
        chain = [ops.Decode(), *([] if stack else [ops.Resize((16, 16))])]
        refusing = [*chain, ops.Map(refuses, returns="uint8")]
        more = {"stack": stack, "on_error": "skip"}
        with loader(scenes, TUPLE, chain, stack=stack) as a, loader(scenes, TUPLE, refusing, **more) as b:
            for x, y in zip(a, b, strict=True):
                kept = [k for k, i in enumerate(x.ids) if int(i) in y.ids.tolist()]
                for name in x:
                    for row, k in enumerate(kept):
                        assert torch.equal(y[name][row], x[name][k])
    padded = [ops.Decode(), ops.Resize((16, 16)), ops.PadTo(8)]
    with loader(scenes, WORDS, [*padded[:2], ops.Map(refuses), padded[2]], on_error="substitute") as made:
        for batch in made:
            assert batch["image"][:, 0, 0, 0].remainder(4).min() > 0
    with pytest.raises(ValueError, match="where a function takes it"):
        open_ = [ops.Decode(), ops.Map(same), ops.Resize((16, 16)), ops.PadTo(8)]
        loader(scenes, WORDS, open_, on_error="substitute")


@pytest.mark.parametrize("stack", [None, "list"])
def test_photos_that_do_not_decode_are_left_out_before_functions(tmp_path: Path, stack: Any) -> None:
    good = png(np.random.default_rng(0).integers(0, 256, (30, 40, 3), dtype=np.uint8))
    broken = good[: len(good) // 2]
    with leat.Writer(tmp_path / "some.leat", {"image": "image", "boxes": leat.boxes()}) as w:
        for i in range(8):
            w.add(image=broken if i % 3 == 1 else good, boxes=np.array([[1, 2, 20, 20]], np.float32))
    chain = [ops.Decode(), ops.Map(inverted, "uint8"), ops.RandomIoUCrop(), *([] if stack else [ops.Resize((9, 9))])]
    more = {"stack": stack, "on_error": "skip", "shuffle": False}
    with loader(leat.open(tmp_path / "some.leat"), ("image", "boxes"), chain, **more) as made:
        batches = list(made)
    assert [int(i) for batch in batches for i in batch.ids] == [0, 2, 3, 5, 6]
    assert all(len(batch["image"]) == len(batch.ids) for batch in batches)


def test_what_cannot_stand_with_a_function_says_so(scenes: leat.Dataset, tmp_path: Path) -> None:
    decode, resize, function = ops.Decode(), ops.Resize((8, 8)), ops.Map(same)
    for names, chain, match in (
        (("boxes", "label"), [function], "has 0 images"),
        (WORDS, [function, decode, resize], r"put Decode\(\) before it"),
        (WORDS, [decode, function], "stack='list' or 'pad'"),
        (WORDS, [decode, resize, function, ops.FiveCrop(4)], "FiveCrop makes several images"),
        (("image", "label"), [decode, resize, function, ops.MixUp(num_classes=3)], "mix in the training loop"),
    ):
        with pytest.raises(TypeError, match=match):
            loader(scenes, names, chain)
    for alone in [decode, function, ops.RandomIoUCrop(), resize], [decode, ops.RandomIoUCrop(), function, resize]:
        for stack in (None, "list"):
            with pytest.raises(TypeError, match="boxes"):
                loader(scenes, "image", alone, stack=stack)
            with pytest.raises(TypeError, match="boxes"):
                loader(scenes, ("image", "label"), alone, stack=stack)
    for op in ops.RandomIoUCrop(), ops.SanitizeBoundingBoxes():
        with pytest.raises(TypeError, match="goes by boxes"):
            loader(scenes, "image", [decode, function, ops.RandomApply([op]), resize])
    with pytest.raises(KeyError, match='no field "nothing"'):
        loader(scenes, ("image", "nothing"), [decode, resize, function])


def test_a_function_that_takes_or_gives_targets_is_told_that_it_sees_the_image(scenes: leat.Dataset) -> None:
    def moved(image: Any, boxes: Any) -> Any:
        return image, boxes

    with pytest.raises(TypeError, match="takes 'boxes' as its second argument, which is a numpy.random.Generator"):
        loader(scenes, WORDS, [ops.Decode(), ops.Map(moved), *crops()])
    loader(scenes, WORDS, [ops.Decode(), *crops(), ops.Map(lambda image, mask=None: image)]).close()
    with pytest.raises(TypeError, match="returned .* for the first sample: an array, a tensor"):
        loader(scenes, WORDS, [ops.Decode(), *crops(), ops.Map(lambda image, rng: (image, image[0]))])
