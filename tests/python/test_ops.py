"""Operators as descriptions: signatures, values, JSON."""

from __future__ import annotations

import inspect
import json
import pickle
from collections.abc import Callable
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

import leat
from leat import ops

CHAIN = [
    ops.Decode(exif=True),
    ops.Resize(64, max_size=90),
    ops.Resize((3, 4), "nearest", antialias=False),
    ops.Resize(None, max_size=90),
    ops.CenterCrop(48),
    ops.RandomCrop((30, 40), padding=(1, 2), pad_if_needed=True, fill=7, name="second"),
    ops.RandomCrop(30, padding=4, padding_mode="reflect"),
    ops.RandomResizedCrop(32, scale=(0.5, 1)),
    ops.RandomHorizontalFlip(0.25),
    ops.Normalize([0.5], [0.25]),
    ops.ToDtype("float16"),
    ops.ToLayout("channels_last"),
    ops.Native("./lib.so:f", args=[1, 2.5], returns=leat.field("float32", (2, 3, 3), layout="HWC"), name="mine"),
    ops.Native("lib.so.1:f", args={"a": None}, call="structure"),
]


@pytest.mark.parametrize("op", CHAIN, ids=lambda op: type(op).__name__)
def test_an_operator_comes_back_from_its_repr_its_json_and_its_pickle(op: ops.Operator) -> None:
    assert eval(repr(op), vars(ops) | {"field": leat.field}) == op
    assert ops.from_json(json.loads(json.dumps(op.to_json()))) == op
    again = pickle.loads(pickle.dumps(op))
    assert again == op and hash(again) == hash(op)


def test_operators_are_equal_by_value_and_told_apart_by_name() -> None:
    assert ops.RandomCrop(3) == ops.RandomCrop((3, 3)) != ops.RandomCrop(4)
    assert ops.RandomCrop(3) != ops.RandomCrop(3, name="b")
    assert ops.CenterCrop(3) != ops.Resize((3, 3))


# As torchvision's transforms.v2 has them; ToDtype's scale is None here: see its docstring.
SIGNATURES = {
    ops.Resize: "size, interpolation='bilinear', max_size=None, antialias=True",
    ops.CenterCrop: "size",
    ops.RandomCrop: "size, padding=None, pad_if_needed=False, fill=0, padding_mode='constant'",
    ops.RandomResizedCrop: f"size, scale=(0.08, 1.0), ratio=(0.75, {4 / 3}), interpolation='bilinear', antialias=True",
    ops.RandomHorizontalFlip: "p=0.5",
    ops.Normalize: "mean, std, inplace=False",
    ops.ToDtype: "dtype, scale=None",
}


@pytest.mark.parametrize("op", SIGNATURES, ids=lambda op: op.__name__)
def test_signatures_and_defaults_are_those_of_torchvision_and_a_name(op: type[ops.Operator]) -> None:
    found = inspect.signature(op)
    parameters = [p.replace(annotation=inspect.Parameter.empty) for p in found.parameters.values()]
    assert str(inspect.Signature(parameters)) == f"({SIGNATURES[op]}, *, name=None)"


def test_a_class_of_ones_own_has_attributes_and_a_constructor_of_its_own() -> None:
    class Big(ops.Resize):
        note: str = "large"

    class Wide(ops.Resize):
        def __init__(self, width: int) -> None:
            super().__init__((8, width))

    assert Big(9).note == "large" and Big(9).to_json()["size"] == ops.Resize(9).to_json()["size"]
    assert list(inspect.signature(Big).parameters) == list(inspect.signature(ops.Resize).parameters)
    assert list(inspect.signature(Wide).parameters) == ["width"] and Wide(5).size == (8, 5)


def test_torch_dtypes_and_enums_are_taken() -> None:
    torch = pytest.importorskip("torch")
    assert ops.ToDtype(torch.bfloat16) == ops.ToDtype("bfloat16")
    assert ops.Normalize(torch.tensor([0.5]), torch.tensor([0.5])) == ops.Normalize(0.5, 0.5)

    class Mode:
        value = "nearest"

    assert ops.Resize(3, Mode()) == ops.Resize(3, "nearest") == ops.Resize(3, 0)


@given(shared=st.booleans())
def test_the_same_object_is_listed_once_in_the_json(shared: bool) -> None:
    crop = ops.RandomCrop(8)
    text = leat.program_to_json(
        {
            "a": leat.Out("image", [ops.Decode(), crop]),
            "b": leat.Out("image", [ops.Decode(), crop if shared else ops.RandomCrop(8)]),
        }
    )
    assert len(json.loads(text)["operators"]) == (3 if shared else 4)
    again = leat.program_from_json(text)
    assert (again["a"].chain[1] is again["b"].chain[1]) == shared
    assert leat.program_to_json(again) == text


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "[]",
        '{"operators": {"a": {"type": "Explode"}}, "outputs": {}}',
        '{"operators": {}, "outputs": {"x": {"field": "x", "chain": ["a"]}}}',
        '{"operators": {"a": {"type": "Resize", "pixels": 3}}, "outputs": {}}',
    ],
)
def test_json_that_is_no_program_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError):
        leat.program_from_json(text)


def test_a_fill_of_masks_alone_keeps_the_gray_of_images() -> None:
    both = {"image": 114, "mask": 255}
    assert ops.Letterbox(9, fill={"mask": 255}) == ops.Letterbox(9, fill=both)
    assert ops.Mosaic(9, fill={"mask": 255}) == ops.Mosaic(9, fill=both) != ops.Mosaic(9, fill={"others": 255})


@pytest.mark.parametrize(
    "make",
    [
        lambda: ops.Decode("CMYK"),
        lambda: ops.Resize(0),
        lambda: ops.Resize((1, 2, 3)),
        lambda: ops.Resize((2, 3), max_size=4),
        lambda: ops.Resize(3, "cubic"),
        lambda: ops.RandomCrop(3, padding=(1, 2, 3)),
        lambda: ops.RandomCrop(3, padding_mode="wrap"),
        lambda: ops.RandomCrop(3, fill={"mask": -100}),
        lambda: ops.RandomRotation(3, fill={"others": 256}),
        lambda: ops.Letterbox(3, fill={"image": 114, "mask": 0.5}),
        lambda: ops.Resize(None),
        lambda: ops.RandomResizedCrop(3, scale=(1, 0.5)),
        lambda: ops.RandomHorizontalFlip(1.5),
        lambda: ops.Normalize([1, 2], [1]),
        lambda: ops.Normalize([1], [0]),
        lambda: ops.Normalize([float("nan")], [1]),
        lambda: ops.Normalize([0], [float("inf")]),
        lambda: ops.ToDtype("complex64"),
        lambda: ops.ToDtype(None),
        lambda: ops.ToLayout("HWC"),
    ],
)
def test_an_argument_that_makes_no_sense_is_a_value_error(make: object) -> None:
    with pytest.raises(ValueError):
        make()  # type: ignore[operator]


@pytest.mark.parametrize(
    "make",
    [
        lambda: ops.Resize("large"),
        lambda: ops.Resize((2.7, 3)),
        lambda: ops.CenterCrop(None),
        lambda: ops.RandomCrop(3, padding=1.5),
        lambda: ops.RandomHorizontalFlip(cast(Any, "often")),
        lambda: ops.Normalize("a", 1),
    ],
)
def test_a_number_is_never_cut_and_a_text_is_none(make: Callable[[], object]) -> None:
    with pytest.raises(TypeError):
        make()


def test_an_operator_cannot_be_changed() -> None:
    crop = ops.RandomCrop(3)
    with pytest.raises(AttributeError, match="make another"):
        crop.size = (4, 4)
    assert crop.size == (3, 3) and "padding" in dir(crop)


@pytest.mark.parametrize("outputs", [{}, {"x": [3]}, {"x": "Decode"}, {("a", 3): []}, []])
def test_outputs_of_another_form_are_a_type_error(outputs: object) -> None:
    with pytest.raises(TypeError):
        leat.program_to_json(outputs)  # type: ignore[arg-type]


def test_presets_are_new_lists_each_time() -> None:
    a, b = leat.presets.imagenet_train(), leat.presets.imagenet_train()
    assert a == b and a is not b
    assert leat.presets.imagenet_val(224)[1] == ops.Resize(256)
