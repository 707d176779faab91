"""Names of other libraries: what leat.ops says where there is no such operator can be written as it stands."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest

import leat
from leat.ops.foreign import _FOREIGN

ops = leat.ops
CALL = re.compile(r"leat\.ops\.\w+\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)")


def said(name: str) -> str:
    with pytest.raises(AttributeError) as e:
        getattr(ops, name)
    return str(e.value)


def written(text: str) -> list[Any]:
    """The operators that a message names, made as it writes them."""
    names: dict[str, Any] = {"leat": leat, "function": len, "library": "lib.so:f", "compose": []}
    return [eval(call, names) for call in CALL.findall(text)]


@pytest.mark.parametrize("name", sorted(_FOREIGN))
def test_what_a_hint_says_can_be_written(name: str) -> None:
    assert name not in vars(ops)
    text = said(name)
    assert text.startswith(f"leat.ops has no {name!r}: ") and len(text) < 300
    rest = CALL.sub("", text)
    assert "leat.ops." not in rest
    assert written(text) or any(word in rest for word in ("[]", "batch.to", "leat.boxes", "leave", "(0, 0, 0)"))


@pytest.mark.parametrize(
    ("name", "operators"),
    [
        ("LongestMaxSize", [ops.Resize(None, max_size=640)]),
        ("SmallestMaxSize", [ops.Resize(256)]),
        ("HorizontalFlip", [ops.RandomHorizontalFlip()]),
        ("VerticalFlip", [ops.RandomVerticalFlip()]),
        ("Cutout", [ops.RandomErasing(0.5, (0.02, 0.1))]),
        ("ToFloat", [ops.ToDtype("float32", scale=True)]),
        ("Rotate", [ops.RandomRotation(30, interpolation="bilinear")]),
        ("SafeRotate", [ops.RandomRotation(30, interpolation="bilinear", expand=True)]),
        ("NormalizeImage", [ops.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])]),
        ("RandomResizedCropRGBImageDecoder", [ops.Decode(), ops.RandomResizedCrop((224, 224))]),
        ("LetterBox", [ops.Letterbox((640, 640))]),
    ],
)
def test_names_of_albumentations_ffcv_and_ultralytics(name: str, operators: list[Any]) -> None:
    assert written(said(name)) == operators


def test_a_hint_says_where_pixels_or_sizes_will_be_others() -> None:
    assert "the nearest are" in said("PadIfNeeded") and "which cuts larger images" in said("PadIfNeeded")
    assert "the nearest is" in said("SafeRotate") and "image grows" in said("SafeRotate")
    assert "interpolation='bilinear'" in said("ShiftScaleRotate")
    assert written(said("AutoAugmentPolicy")) == [ops.AutoAugment("imagenet")]
    assert re.match(r"leat.ops has no 'CLAHE': leat.ops.Map\(function\) runs a function in Python, ", said("CLAHE"))


def test_names_that_are_spelled_otherwise_and_names_of_nothing() -> None:
    assert "did you mean leat.ops.MixUp?" in said("Mixup")
    assert "did you mean leat.ops.RandomIoUCrop?" in said("RandomIOUCrop")
    assert "did you mean leat.ops.RandomHorizontalFlip?" in said("RandomHorizontlFlip")
    assert re.search("There are .*Decode, ", said("Fog"))
    for word in ("from_torchvision", "PerBatch"):
        assert hasattr(ops, word)


def test_every_transform_of_torchvision_is_here_or_has_a_hint() -> None:
    v2 = pytest.importorskip("torchvision.transforms.v2")
    missing = [
        n for n, c in vars(v2).items() if inspect.isclass(c) and not n.startswith("_") and n not in vars(ops) | _FOREIGN
    ]
    assert missing == ["UniformTemporalSubsample"]
