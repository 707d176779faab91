"""Fills: what a dtype cannot hold is an error at open, and None is the operator's own default."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from photo_support import png

import leat
from leat import ops

DTYPES = ("uint8", "int8", "uint16", "int32", "int64", "uint64", "bool", "float16", "float32")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> leat.Dataset:
    """Images and lists of each dtype, a mask, and boxes with masks of their own."""
    path, image = tmp_path_factory.mktemp("fills") / "a.leat", np.full((8, 8, 3), 1)
    fields: dict[str, Any] = {dtype: leat.field(dtype, (8, 8, 3), layout="HWC") for dtype in DTYPES}
    fields |= {"image": "image", "mask": leat.mask(), "boxes": leat.boxes("xyxy"), "masks": leat.masks()}
    fields |= {f"{dtype}s": leat.field(dtype, (None,)) for dtype in DTYPES}
    with leat.Writer(path, fields) as w:
        values = {dtype: image.astype(dtype) for dtype in DTYPES}
        values |= {f"{dtype}s": np.ones(2, dtype) for dtype in DTYPES}
        one = np.ones((1, 8, 8), np.uint8)
        w.add(
            **values,
            image=png(image.astype(np.uint8)),
            mask=png(one[0]),
            boxes=np.array([[0, 0, 8, 8]], np.float32),
            masks=[one[0]],
        )
    return leat.open(path)


def filled(data: leat.Dataset, chain: list[Any], field: Any = "uint8") -> Any:
    return leat.Loader(data, 1, outputs={field: chain}, framework="numpy").batch_at(0, 0)


IMAGES = [
    lambda fill: ops.Pad(3, fill=fill),
    lambda fill: ops.RandomCrop(12, 4, fill=fill),
    lambda fill: ops.RandomZoomOut(fill=fill, p=1),
    lambda fill: ops.RandomRotation(45, fill=fill),
    lambda fill: ops.RandomAffine(45, fill=fill),
    lambda fill: ops.RandomPerspective(fill=fill),
    lambda fill: ops.ElasticTransform(fill=fill),
    lambda fill: ops.Letterbox((12, 16), fill=fill),
    lambda fill: ops.RandAugment(fill=fill),
    lambda fill: ops.AugMix(fill=fill),
    lambda fill: ops.RandomErasing(1, value=fill),
    lambda fill: ops.RandomApply([ops.Pad(3, fill=fill)]),
]


@pytest.mark.parametrize("make", IMAGES, ids=[type(make(0)).__name__ for make in IMAGES])
def test_images_are_not_filled_with_what_bytes_do_not_hold(data: leat.Dataset, make: Any) -> None:
    for fill, said in ((300, "300"), (-5, "-5"), (0.5, "0.5"), ((9, 8, 256), "256")):
        with pytest.raises(ValueError, match=rf"in output 'uint8' fills (images|boxes) with {said}, and uint8 holds"):
            leat.Loader(data, 1, outputs={"uint8": [make(fill)]})
    for fill in (0, 255, (9, 8, 7), (123.675, 116.28, 103.53)):
        leat.Loader(data, 1, outputs={"uint8": [make(fill)]}).close()


def test_the_fraction_of_a_mean_is_dropped(data: leat.Dataset) -> None:
    assert filled(data, [ops.Pad(1, (123.675, 116.28, 103.53))], "uint8")["uint8"][0, :, 0, 0].tolist() == [
        123,
        116,
        103,
    ]


def test_the_canvas_of_a_mosaic_is_of_bytes(data: leat.Dataset) -> None:
    with pytest.raises(ValueError, match="Mosaic in output 'image' fills images with 300"):
        leat.Loader(data, 1, outputs={"image": [ops.Decode(), ops.Mosaic(8, fill=300)]})


HELD = {
    "uint8": ((0, 255), (-1, 256, 0.5), "from 0 to 255"),
    "int8": ((-128, 127), (-129, 128, 0.5), "from -128 to 127"),
    "uint16": ((0, 65535), (-1, 65536, 0.5), "from 0 to 65535"),
    "int32": ((-(2**31), 2**31 - 1), (2**31, 1e300), "from -2147483648 to 2147483647"),
    "int64": ((-(2**63), 2**53), (2**64, 0.5, -1e300), "from -9223372036854775808 to 9223372036854775807"),
    "uint64": ((0, 2**63), (-1, 2**64, 1e300), "from 0 to 18446744073709551615"),
    "bool": ((0, 1), (2, -1, 0.5), "from 0 to 1"),
    "float16": ((0.1, -65504), (1e6, -1e6), "finite numbers"),
    "float32": ((0.1, -3e38), (1e39,), "finite numbers"),
}


@pytest.mark.parametrize("dtype", DTYPES)
def test_fills_are_what_the_dtype_holds(data: leat.Dataset, dtype: str) -> None:
    held, beyond, words = HELD[dtype]
    for fill in held:
        wanted = np.array(fill).astype(dtype)
        assert filled(data, [ops.Pad(1, fill)], dtype)[dtype][0, 0, 0, 0] == wanted
        assert filled(data, [ops.PadTo(3, fill)], f"{dtype}s")[f"{dtype}s"][0].tolist() == [1, 1, wanted]
    for fill in beyond:
        for field, op in ((dtype, ops.Pad(1, fill)), (f"{dtype}s", ops.PadTo(3, fill))):
            with pytest.raises(ValueError, match=rf"fills (images|rows) with .*, and {dtype} holds .*{words}"):
                leat.Loader(data, 1, outputs={field: [op]})


def test_what_the_chain_makes_of_the_dtype_counts(data: leat.Dataset) -> None:
    floats = [ops.ToDtype("float32", scale=True), ops.Pad(1, 0.5)]
    assert filled(data, floats)["uint8"][0, 0, 0, 0] == 0.5
    assert filled(data, [ops.ToDtype("float32"), ops.PadTo(3, -0.5)], "uint8s")["uint8s"][0, 2] == -0.5


def test_fills_of_masks_and_of_rows_are_what_these_hold(data: leat.Dataset) -> None:
    both, floats = ("image", "mask"), [ops.Decode(), ops.ToDtype("float32", scale=True)]
    with pytest.raises(ValueError, match="Pad in output 'mask' fills masks with 0.5, and uint8 holds"):
        leat.Loader(data, 1, outputs={both: [*floats, ops.Pad(1, 0.5)]})
    batch = filled(data, [*floats, ops.Pad(1, {"image": 0.5, "mask": 255})], both)
    assert batch["image"][0, 0, 0, 0] == 0.5 and batch["mask"][0, 0, 0] == 255
    three, decode = ("image", "boxes", "masks"), ops.Decode()
    with pytest.raises(ValueError, match="PadTo in output 'masks' fills rows with -1, and uint8 holds"):
        leat.Loader(data, 1, outputs={three: [decode, ops.PadTo(2, -1)]})
    with pytest.raises(ValueError, match="PadTo in output 'masks' fills rows with -1, and uint8 holds"):
        leat.Loader(
            data, 1, outputs={three: leat.Out(three, [decode, ops.RandomResize(9, 12), ops.PadTo(2, -1)], stack="pad")}
        )
    batch = filled(data, [decode, ops.PadTo(2, {"boxes": -1, "masks": 255})], three)
    assert batch["boxes"][0, 1].tolist() == [-1] * 4 and (batch["masks"][0, 1] == 255).all()


def test_no_fill_is_the_default_of_the_operator() -> None:
    for make in IMAGES[:8]:
        made = make(None)
        assert made == type(made)(**{k: v for k, v in made._values.items() if k != "fill"})
    assert ops.Mosaic(8, fill=None) == ops.Mosaic(8) != ops.Mosaic(8, fill=0)
    for fill in ({"image": None, "mask": 255}, {"mask": 255}):
        assert ops.Letterbox(8, fill=fill) == ops.Letterbox(8, fill={"image": 114, "mask": 255})
    assert ops.Letterbox(8, fill={"image": 0}) == ops.Letterbox(8, fill={"image": 0, "mask": None})
