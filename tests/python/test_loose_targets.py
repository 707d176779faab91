"""Warnings of targets that stay behind: what they advise is what the library takes."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from photo_support import png

import leat
from leat import ops

OF_BOXES = ("label", "category", "category_id", "gt_classes", "score", "area", "iscrowd")
#: arguments of the operators that need some
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "CenterCrop": (8,),
    "FiveCrop": (8,),
    "Letterbox": (8,),
    "Mosaic": (8,),
    "Pad": (1,),
    "RandomAffine": (9,),
    "RandomCrop": (8,),
    "RandomResize": (8, 9),
    "RandomResizedCrop": (8,),
    "RandomRotation": (9,),
    "RandomShortestSize": (8,),
    "RandomSizeCrop": (8, 9),
    "Resize": ((8, 8),),
    "ScaleJitter": ((8, 8),),
    "TenCrop": (8,),
}
MOVING = sorted(n for n, kind in vars(ops).items() if isinstance(kind, type) and getattr(kind, "_moves", False) is True)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> leat.Dataset:
    path = tmp_path_factory.mktemp("loose") / "a.leat"
    fields: dict[str, Any] = {"image": "image", "boxes": leat.boxes("xyxy")}
    fields |= dict.fromkeys(OF_BOXES, leat.field("int64", (None,)))
    with leat.Writer(path, {**fields, "class_of_all": "int64"}, check=False) as w:
        one = dict.fromkeys(OF_BOXES, np.array([1]))
        w.add(
            image=png(np.zeros((32, 32, 3), np.uint8)),
            boxes=np.array([[0, 0, 8, 8]], np.float32),
            class_of_all=1,
            **one,
        )
    return leat.open(path)


def taken(data: leat.Dataset, outputs: Any) -> bool:
    try:
        leat.Loader(data, 1, outputs=outputs).close()
    except (TypeError, ValueError):
        return False
    return True


@pytest.mark.parametrize("name", MOVING)
@pytest.mark.parametrize("wrapped", [False, True])
def test_the_advice_is_taken_by_the_library(data: leat.Dataset, name: str, wrapped: bool) -> None:
    op = getattr(ops, name)(*ARGUMENTS.get(name, ()))
    chain = [ops.Decode(), ops.Resize((32, 32)), ops.RandomApply([op]) if wrapped else op]
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        alone = taken(data, {"image": chain, "boxes": []})
    if not alone:
        assert wrapped or name in ("CopyPaste", "RandomIoUCrop")  # they need targets; some stand in no branch
        return
    (text,) = [str(w.message) for w in said]
    names = ("image", "boxes")
    assert ("geometry=True" in text) == taken(data, {"image": leat.Out("image", chain, geometry=True)})
    assert ("('image', 'boxes'): [...]" in text) == taken(data, {names: chain})
    assert ("nothing of the sample can follow it" in text) == (not taken(data, {names: chain}))


def said_of(data: leat.Dataset, outputs: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        leat.Loader(data, 1, outputs=outputs).close()
    return [str(w.message) for w in said]


@pytest.mark.parametrize("name", OF_BOXES)
def test_what_belongs_to_boxes_is_known_by_its_name(data: leat.Dataset, name: str) -> None:
    chain = [ops.Decode(), ops.Resize((32, 32)), ops.Resize((8, 8)), ops.SanitizeBoundingBoxes()]
    (said,) = said_of(data, {("image", "boxes"): chain, name: []})
    assert f"{name!r} stays as stored" in said
    three = ("image", "boxes", name)
    assert said_of(data, {three: chain}) == []
    assert said_of(data, {three: chain, "raw": leat.Out(name, [])}) == []  # it is in the tuple, too
    assert said_of(data, {("image", "boxes"): chain, "class_of_all": []}) == []
