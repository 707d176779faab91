"""leat.ops.from_torchvision: transforms become the operators of their names, or a Map, and a warning says which.

The small classes here look like torchvision's, by name, module and attributes. Where torchvision is installed, its own
are taken too.
"""

from __future__ import annotations

import importlib
import pickle
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from photo_support import png

import leat

ops = leat.ops
V2, V1 = "torchvision.transforms.v2._some", "torchvision.transforms.transforms"


def like(name: str, module: str = V2, call: Any = None, **values: Any) -> Any:
    """An object that looks like one of torchvision's."""
    body = {"__module__": module, "__call__": call or (lambda self, x: x)}
    made = type(name, (), body)()
    made.__dict__.update(values)
    return made


def converted(*transforms: Any) -> list[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return ops.from_torchvision(like("Compose", transforms=list(transforms)))


class Enum:
    def __init__(self, value: str) -> None:
        self.value = value


def test_transforms_become_operators_of_their_names_and_arguments() -> None:
    chain = converted(
        like("ToImage"),
        like("RandomResizedCrop", size=(32, 32), scale=(0.2, 1.0), ratio=(0.75, 4 / 3), interpolation=Enum("bilinear")),
        like("RandomHorizontalFlip", p=0.3),
        like("ColorJitter", brightness=(0.6, 1.4), contrast=None, saturation=None, hue=None),
        like("ToDtype", dtype=torch.float32, scale=True),
        like("Normalize", mean=[0.5] * 3, std=[0.25] * 3, inplace=False),
        like("ToPureTensor"),
    )
    assert chain == [
        ops.RandomResizedCrop(32, (0.2, 1.0)),
        ops.RandomHorizontalFlip(0.3),
        ops.ColorJitter((0.6, 1.4)),
        ops.ToDtype("float32", True),
        ops.Normalize([0.5] * 3, [0.25] * 3),
    ]


def test_transforms_of_v1_and_containers_in_containers() -> None:
    compose = like(
        "Compose",
        V1,
        transforms=[
            like("Resize", V1, size=[40], interpolation=Enum("bilinear"), max_size=None, antialias="warn"),
            [like("CenterCrop", V1, size=(32, 32))],
            like("ToTensor", V1),
        ],
    )
    assert ops.from_torchvision([compose]) == [ops.Resize(40), ops.CenterCrop(32), ops.ToDtype("float32")]
    flips = torch.nn.Sequential(torch.nn.Sequential(), torch.nn.Identity())
    assert ops.from_torchvision(flips) == []
    assert ops.from_torchvision(ops.CenterCrop(3)) == [ops.CenterCrop(3)]


def test_branches_hold_what_theirs_hold() -> None:
    flip, crop = like("RandomHorizontalFlip", p=1.0), like("CenterCrop", size=[8])
    (apply,) = converted(like("RandomApply", transforms=[flip, crop], p=0.2))
    assert apply == ops.RandomApply([ops.RandomHorizontalFlip(1.0), ops.CenterCrop(8)], 0.2)
    (choice,) = converted(
        like("RandomChoice", transforms=[like("Compose", transforms=[flip, crop]), crop], p=[0.25, 0.75])
    )
    assert choice == ops.RandomChoice(
        [[ops.RandomHorizontalFlip(1.0), ops.CenterCrop(8)], ops.CenterCrop(8)], p=[0.25, 0.75]
    )


def test_padding_of_random_crop_is_in_the_order_of_its_version() -> None:
    values = dict(size=(4, 4), pad_if_needed=False, fill=0, padding_mode="constant")
    assert converted(like("RandomCrop", padding=[1, 3, 2, 4], **values)) == [ops.RandomCrop(4, (1, 2, 3, 4))]
    assert converted(like("RandomCrop", V1, padding=(1, 2, 3, 4), **values)) == [ops.RandomCrop(4, (1, 2, 3, 4))]


@pytest.mark.parametrize(
    ("name", "more"), [("Pad", {"padding": 3}), ("RandomZoomOut", {}), ("RandomAffine", {"degrees": 3})]
)
def test_a_fill_by_kind_keeps_that_of_masks(name: str, more: dict[str, Any]) -> None:
    kinds = [type(kind, (), {}) for kind in ("Image", "Mask")]
    both = like(name, fill=dict(zip(kinds, (124, 255), strict=True)), **more)
    assert converted(both) == [getattr(ops, name)(**more, fill={"image": 124, "mask": 255})]
    others = like(name, fill={kinds[0]: (1, 2, 3), "others": 7}, **more)
    assert converted(others) == [getattr(ops, name)(**more, fill={"image": (1, 2, 3), "mask": 7})]
    colored = like(name, fill={"others": [1, 2, 3]}, **more)
    assert converted(colored) == [getattr(ops, name)(**more, fill={"image": (1, 2, 3), "mask": 0})]


def test_a_policy_takes_the_fill_of_images() -> None:
    kinds = {type("Image", (), {}): (1, 2, 3), type("Mask", (), {}): 255}
    assert converted(like("RandAugment", fill=kinds)) == [ops.RandAugment(fill=(1, 2, 3))]


def invert(x: Any) -> Any:
    return 255 - x


def test_what_leat_has_not_becomes_a_map_with_a_warning_that_says_where(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (6, 9, 12, 3)).astype(np.uint8)
    ds = leat.from_arrays({"x": leat.field("uint8", (9, 12, 3), layout="HWC")}, x=images)
    seen: list[tuple[type, tuple[int, ...]]] = []

    def twirl(self: Any, x: Any) -> Any:
        seen.append((type(x), tuple(x.shape)))
        return x.flip(0) + torch.randint(0, 2, ())

    with pytest.warns(UserWarning, match=r"\[1\]: Twirl becomes a leat.ops.Map, .*leat has no such operator"):
        chain = ops.from_torchvision([like("CenterCrop", size=(8, 8)), like("Twirl", call=twirl)])
    assert chain[0] == ops.CenterCrop(8) and isinstance(chain[1], ops.Map)
    with pytest.warns(UserWarning, match=r"\[0\]: invert becomes .* not one of torchvision's"):
        chain = ops.from_torchvision([invert, like("ToDtype", dtype=torch.float32, scale=True)])
    with leat.Loader(ds, 6, outputs={"x": chain}) as loader:
        made = loader.batch_at(0, 0)["x"]
    want = torch.from_numpy(255 - images.transpose(0, 3, 1, 2)).float() / 255
    assert torch.equal(made, want)


def test_a_map_gets_pillow_before_to_tensor_and_draws_by_the_row() -> None:
    image_module: Any = pytest.importorskip("PIL.Image")
    from leat.ops.convert import _Call

    given: list[Any] = []

    def noisy(x: Any) -> Any:
        given.append(x)
        return torch.rand(2, 3, 4) if torch.is_tensor(x) else x

    with pytest.warns(UserWarning, match="becomes a leat.ops.Map"):
        chain = ops.from_torchvision([noisy, like("ToTensor", V1), noisy])
    pixels = torch.arange(24, dtype=torch.uint8).reshape(2, 4, 3)
    first, last = chain[0].function, chain[2].function
    assert isinstance(first, _Call) and np.array_equal(first(pixels, np.random.default_rng(0)), pixels)
    assert isinstance(given[0], image_module.Image)
    draws = [last(pixels.float(), np.random.default_rng(seed)) for seed in (1, 1, 2)]
    assert given[1].shape == (3, 2, 4) and draws[0].shape == (3, 4, 2)
    assert torch.equal(draws[0], draws[1]) and not torch.equal(draws[0], draws[2])
    state = torch.random.get_rng_state()
    last(pixels.float(), np.random.default_rng(3))
    assert torch.equal(state, torch.random.get_rng_state())


def test_an_operator_on_bytes_stands_before_to_tensor() -> None:
    flip, gray = like("RandomHorizontalFlip", p=0.5), like("Grayscale", num_output_channels=1)
    blur = like("GaussianBlur", kernel_size=(3, 3), sigma=[0.1, 2.0])
    with pytest.warns(UserWarning, match=r"\[2\]: GaussianBlur, \[3\]: Grayscale: in leat they work on 8 bits"):
        chain = ops.from_torchvision([like("ToTensor", V1), flip, blur, gray, flip])
    flips = ops.RandomHorizontalFlip()
    assert chain == [flips, ops.GaussianBlur(3), ops.Grayscale(1), ops.ToDtype("float32"), flips]
    with pytest.warns(UserWarning, match="8 bits"):
        both = ops.from_torchvision(
            [like("MaybeToTensor", "timm.data.transforms"), like("RandomApply", transforms=[blur], p=1)]
        )
    assert both == [ops.RandomApply([ops.GaussianBlur(3)], 1), ops.ToDtype("float32")]


@pytest.mark.parametrize(
    "between",
    [
        [("Normalize", {"mean": [0.5], "std": [0.5]})],
        [("RandomChoice", {"transforms": [like("Normalize", mean=[m], std=[1.0]) for m in (0.0, 0.5)], "p": None})],
        [("Pad", {"padding": 3, "fill": 0.5})],
        [("RandomErasing", {"p": 1.0, "scale": (0.1, 0.2), "ratio": (1, 2), "value": [0.5]})],
        [("Twirl", {})],
    ],
    ids=["Normalize", "in a branch", "fill", "value", "function"],
)
def test_what_counts_in_floats_keeps_to_tensor_before_it(between: Any) -> None:
    blur = like("GaussianBlur", kernel_size=(3, 3), sigma=[0.1, 2.0])
    some = [like(name, **values) for name, values in between]
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        chain = ops.from_torchvision([like("ToTensor", V1), *some, blur])
    assert re.search(r"\[2\]: GaussianBlur becomes .* before ToTensor and ToDtype", str(said[-1].message))
    assert chain[0] == ops.ToDtype("float32") and isinstance(chain[2], ops.Map)
    rotation = like("RandomRotation", degrees=[-9.0, 9.0], fill=0.5)
    with pytest.warns(UserWarning, match=r"\[1\]: RandomRotation becomes"):
        assert isinstance(ops.from_torchvision([like("ToTensor", V1), rotation])[1], ops.Map)


def test_a_function_for_labels_is_the_default_and_one_for_boxes_an_error() -> None:
    sanitize = like("SanitizeBoundingBoxes", min_size=3.0, min_area=1.0, labels_getter=lambda sample: sample[1])
    with pytest.warns(UserWarning, match=r"\[1\]: labels_getter is a function .* as labels_getter='default' says"):
        chain = ops.from_torchvision([like("ToImage"), sanitize])
    assert chain == [ops.SanitizeBoundingBoxes(min_size=3)]
    boxes = type("BoundingBoxes", (), {})
    with pytest.raises(TypeError, match=r"\[0\]: Lambda is a function of BoundingBoxes"):
        ops.from_torchvision([like("Lambda", lambd=invert, types=(boxes,))])


def test_transforms_of_detectors_are_taken_by_their_names() -> None:
    def derived(name: str, base: str, **values: Any) -> Any:
        parent = type(base, (), {"__module__": V2})
        made = type(name, (parent,), {"__module__": "src.data.transforms", "__call__": lambda self, *x: x})()
        made.__dict__.update(values)
        return made

    options = {"min_scale": 0.3, "max_scale": 1.0, "min_aspect_ratio": 0.5, "max_aspect_ratio": 2.0, "trials": 40}
    inner = [
        derived("RandomIoUCrop", "RandomIoUCrop", p=0.8, options=[0.0, 0.5, 1.0], **options),
        derived("ConvertPILImage", "Transform", dtype="float32", scale=True),
        derived("ConvertBoxes", "Transform", fmt="cxcywh", normalize=True),
    ]
    chain = ops.from_torchvision(derived("Compose", "Compose", transforms=inner))
    crop = ops.RandomIoUCrop(sampler_options=[0.0, 0.5, 1.0])
    convert = ops.ConvertBoundingBoxFormat("cxcywh", normalized=True)
    assert chain == [ops.RandomApply([crop], 0.8), ops.ToDtype("float32", True), convert]
    policy = {"name": "stop_epoch", "epoch": 72, "ops": ["RandomIoUCrop"]}
    with pytest.warns(UserWarning, match="policy .*stop_epoch.* left out"):
        ops.from_torchvision(derived("Compose", "Compose", transforms=inner[1:], policy=policy))
    boxes = type("BoundingBoxes", (), {})
    with pytest.raises(TypeError, match=r"\[0\]: Jitter is a function of BoundingBoxes"):
        ops.from_torchvision([derived("Jitter", "Transform", _transformed_types=(boxes,))])
    with pytest.warns(UserWarning, match="Turn becomes"):
        (turn,) = ops.from_torchvision([derived("Turn", "RandomRotation")])
    ds = leat.from_arrays({"x": leat.field("uint8", (8, 9, 3), layout="HWC")}, x=np.zeros((4, 8, 9, 3), np.uint8))
    with pytest.raises(TypeError, match="moves pixels"):
        leat.Loader(ds, 2, outputs={"x": leat.Out("x", [turn], geometry=True)})


def test_functions_for_images_see_the_image_of_a_tuple_and_give_any_channels() -> None:
    rows = np.random.default_rng(0).integers(0, 256, (4, 10, 12, 3)).astype(np.uint8)
    ds = leat.from_arrays({"x": leat.field("uint8", (10, 12, 3), layout="HWC")}, x=rows, label=np.arange(4))
    image = type("Image", (), {})
    passed_over = like("Lambda", lambd=invert, types=(image,))  # as v2 does with plain tensors, if it is called
    with pytest.warns(UserWarning, match=r"\[0\]: Lambda becomes"):
        chain = ops.from_torchvision([passed_over, like("CenterCrop", size=(8, 8))])
    with leat.Loader(ds, 4, outputs={("x", "label"): chain}) as loader:
        made = loader.batch_at(0, 0)
    assert torch.equal(made["x"], torch.from_numpy(255 - rows[:, 1:9, 2:10].transpose(0, 3, 1, 2)))
    assert made["label"].tolist() == [0, 1, 2, 3]
    with pytest.warns(UserWarning, match="becomes"):
        chain = ops.from_torchvision([like("Grayscale", num_output_channels=1), lambda x: x.repeat(3, 1, 1)])
    with leat.Loader(ds, 4, outputs={"x": chain}) as loader:
        gray = loader.batch_at(0, 0)["x"]
    assert gray.shape == (4, 3, 10, 12) and torch.equal(gray[:, 0], gray[:, 2])


@pytest.mark.parametrize("version", [V1, V2])
def test_functions_behind_several_crops_get_them_as_a_tuple(version: str) -> None:
    image_module: Any = pytest.importorskip("PIL.Image")
    rows = np.random.default_rng(0).integers(0, 256, (4, 10, 12, 3)).astype(np.uint8)
    ds = leat.from_arrays({"x": leat.field("uint8", (10, 12, 3), layout="HWC")}, x=rows)

    def stacked(crops: Any) -> Any:
        pillow = all(isinstance(crop, image_module.Image) for crop in crops)
        assert type(crops) is tuple and len(crops) == 5 and pillow == (version == V1)
        return torch.stack([torch.from_numpy(np.array(c)).permute(2, 0, 1) if pillow else c for c in crops])

    with pytest.warns(UserWarning, match=r"\[1\]: stacked becomes"):
        chain = ops.from_torchvision([like("FiveCrop", version, size=(6, 6)), stacked])
    with leat.Loader(ds, 4, outputs={"x": chain}) as loader, leat.Loader(ds, 4, outputs={"x": chain[:1]}) as bare:
        assert torch.equal(loader.batch_at(0, 0)["x"], bare.batch_at(0, 0)["x"])


def test_a_twirl_in_a_branch_makes_a_function_of_it() -> None:
    with pytest.warns(UserWarning, match="RandomApply becomes .*of Twirl in it, leat has no such operator"):
        (op,) = ops.from_torchvision(like("RandomApply", transforms=[like("Twirl")], p=0.5))
    assert isinstance(op, ops.Map)


def test_what_is_no_transform_is_an_error_that_says_where() -> None:
    with pytest.raises(TypeError, match=r"\[1\]\[0\]: 3 is none of torchvision's transforms"):
        ops.from_torchvision([like("CenterCrop", size=(3, 3)), [3]])


# ---- torchvision itself ----------------------------------------------------------------------------------------------

CASES: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("Resize", (40,), {}),
    ("Resize", ((40, 50),), {"antialias": False}),
    ("CenterCrop", (32,), {}),
    ("RandomCrop", (32,), {"padding": 4}),
    ("RandomCrop", ((30, 32),), {"padding": (1, 2), "pad_if_needed": True, "padding_mode": "reflect"}),
    ("RandomCrop", (32,), {"padding": (1, 2, 3, 4), "fill": 7}),
    ("RandomResizedCrop", (32,), {"scale": (0.3, 0.9)}),
    ("RandomHorizontalFlip", (), {"p": 0.2}),
    ("RandomVerticalFlip", (), {"p": 0.2}),
    ("Pad", ((1, 2),), {"fill": 3}),
    ("RandomRotation", (30,), {"interpolation": "bilinear", "expand": True}),
    ("RandomAffine", (10,), {"translate": (0.1, 0.2), "scale": (0.5, 1.5), "shear": 5}),
    ("RandomPerspective", (), {"distortion_scale": 0.3}),
    ("ElasticTransform", (), {"alpha": [30.0, 20.0], "sigma": [5.0, 4.0]}),
    ("ColorJitter", (0.4, 0.3, 0.2, 0.1), {}),
    ("Grayscale", (3,), {}),
    ("RandomGrayscale", (0.2,), {}),
    ("RandomPhotometricDistort", (), {}),
    ("RandomInvert", (), {}),
    ("RandomPosterize", (3,), {}),
    ("RandomSolarize", (), {"threshold": 100}),
    ("RandomAutocontrast", (), {}),
    ("RandomEqualize", (), {}),
    ("RandomAdjustSharpness", (2.0,), {}),
    ("RandomChannelPermutation", (), {}),
    ("GaussianBlur", (5,), {"sigma": (0.3, 1.0)}),
    ("GaussianNoise", (), {}),
    ("RandomErasing", (), {}),
    ("RandomErasing", (), {"value": "random"}),
    ("JPEG", ((20, 50),), {}),
    ("RandAugment", (), {"num_ops": 3, "magnitude": 7}),
    ("TrivialAugmentWide", (), {}),
    ("AutoAugment", (), {}),
    ("AugMix", (), {"severity": 4}),
    ("RandomShortestSize", ((32, 40),), {"max_size": 60}),
    ("RandomResize", (20, 40), {}),
    ("ScaleJitter", ((32, 32),), {}),
    ("RandomZoomOut", (), {"fill": 9}),
    ("RandomIoUCrop", (), {}),
    ("SanitizeBoundingBoxes", (), {"min_size": 3}),
    ("ClampBoundingBoxes", (), {}),
    ("ClampBoundingBoxes", (), {"clamping_mode": None}),
    ("ConvertBoundingBoxFormat", ("CXCYWH",), {}),
    ("FiveCrop", (20,), {}),
    ("TenCrop", (20,), {"vertical_flip": True}),
    ("Normalize", ([0.5], [0.5]), {}),
    ("MixUp", (), {"num_classes": 3}),
    ("CutMix", (), {"num_classes": 3, "alpha": 0.5}),
]


@pytest.mark.parametrize("version", ["v2", ""])
@pytest.mark.parametrize(("name", "args", "more"), CASES, ids=[f"{c[0]}{i}" for i, c in enumerate(CASES)])
def test_torchvisions_own_transforms_become_operators_of_the_same_arguments(
    name: str, args: Any, more: Any, version: str
) -> None:
    pytest.importorskip("torchvision")
    module = importlib.import_module("torchvision.transforms" + (f".{version}" if version else ""))
    if not hasattr(module, name) or name not in ops._TYPES:
        pytest.skip(f"no {name}")
    if not version and "interpolation" in more:
        more = {**more, "interpolation": module.InterpolationMode(more["interpolation"])}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ops.from_torchvision(getattr(module, name)(*args, **more)) == [getattr(ops, name)(*args, **more)]


def test_a_recipe_of_torchvision_as_a_chain() -> None:
    pytest.importorskip("torchvision")
    from torchvision.transforms import v2

    recipe = v2.Compose(
        [
            v2.ToImage(),
            v2.ToDtype(torch.uint8, scale=True),
            v2.RandomResizedCrop(24, antialias=True),
            v2.RandomApply([v2.ColorJitter(0.8, 0.8, 0.8, 0.2)], p=0.8),
            v2.RandomApply(torch.nn.ModuleList([v2.GaussianBlur(5)]), p=0.5),
            v2.RandomChoice([v2.RandAugment(), v2.Identity()], p=[1, 3]),
            v2.ToDtype({torch.Tensor: torch.float32, "others": None}, scale=True),
            v2.Normalize([0.5] * 3, [0.5] * 3),
            v2.ToPureTensor(),
        ]
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        chain = ops.from_torchvision(recipe)
    assert pickle.loads(pickle.dumps(chain)) == chain
    names = [type(op).__name__ for op in chain]
    assert names == [
        "ToDtype", "RandomResizedCrop", "RandomApply", "RandomApply", "RandomChoice", "ToDtype", "Normalize",
    ]  # fmt: skip
    rows = np.random.default_rng(0).integers(0, 256, (8, 40, 50, 3)).astype(np.uint8)
    ds = leat.from_arrays({"x": leat.field("uint8", (40, 50, 3), layout="HWC")}, x=rows)
    batch = leat.Loader(ds, 8, outputs={"x": chain}).batch_at(0, 0)["x"]
    assert batch.shape == (8, 3, 24, 24) and batch.dtype == torch.float32 and batch.abs().max() <= 1


def presets() -> dict[str, tuple[Any, list[Any]]]:
    """Recipes of torchvision's references, and of its gallery: which fields they are for, and their transforms."""
    from torchvision import tv_tensors
    from torchvision.transforms import v2

    mean, floats = (123.0, 117.0, 104.0), v2.ToDtype(torch.float, scale=True)
    fill = {tv_tensors.Image: mean, "others": 0}
    boxes = [v2.ConvertBoundingBoxFormat(tv_tensors.BoundingBoxFormat.XYXY), v2.SanitizeBoundingBoxes()]
    boxes.append(v2.ToPureTensor())
    flip, shortest = v2.RandomHorizontalFlip(0.5), v2.RandomShortestSize((48, 51, 54), max_size=133)
    jitter = [v2.ScaleJitter((64, 64), antialias=True), v2.RandomCrop((64, 64), pad_if_needed=True, fill=mean)]
    distort, out, iou = v2.RandomPhotometricDistort(), v2.RandomZoomOut(fill=fill), v2.RandomIoUCrop()
    light = v2.Lambda(lambda x: x.clamp(10, 200), tv_tensors.Image)
    masks = v2.ToDtype({tv_tensors.Image: torch.float32, tv_tensors.Mask: torch.int64, "others": None}, scale=True)
    crop = v2.RandomCrop(48, pad_if_needed=True, fill={tv_tensors.Mask: 255, "others": 0})
    detection, segmentation = ("image", "boxes", "labels"), ("image", "mask")
    return {
        "hflip": (detection, [v2.ToImage(), flip, floats, *boxes]),
        "lsj": (detection, [v2.ToImage(), *jitter, flip, floats, *boxes]),
        "multiscale": (detection, [v2.ToImage(), shortest, flip, floats, *boxes]),
        "ssd": (detection, [v2.ToImage(), distort, out, iou, flip, floats, *boxes]),
        "ssdlite": (detection, [iou, flip, v2.ToImage(), floats, *boxes]),
        "a function": (detection, [v2.ToImage(), light, distort, out, iou, light, flip, light, floats, *boxes]),
        "floats first": (detection, [v2.ToImage(), floats, flip, iou, v2.Resize((40, 40)), *boxes]),
        "segmentation": (segmentation, [v2.ToImage(), v2.RandomResize(26, 104), flip, crop, masks, v2.ToPureTensor()]),
    }


RECIPES = "hflip", "lsj", "multiscale", "ssd", "ssdlite", "a function", "floats first", "segmentation"


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> leat.Dataset:
    pytest.importorskip("torchvision")
    rng = np.random.default_rng(0)

    def made(*shape: int) -> bytes:
        return png(rng.integers(0, 5, shape, dtype=np.uint8))

    path = tmp_path_factory.mktemp("recipes") / "scenes.leat"
    fields = {"image": "image", "boxes": leat.boxes(), "labels": leat.field("int64", (None,)), "mask": leat.mask()}
    with leat.Writer(path, fields) as w:
        for _ in range(8):
            sides = tuple(int(v) for v in rng.integers(50, 90, 2))
            boxes = np.array([[4, 5, 30, 40], [20, 10, 49, 30]], np.float32)
            w.add(image=made(*sides, 3), boxes=boxes, labels=np.arange(2), mask=made(*sides))
    return leat.open(path)


@pytest.mark.parametrize("name", RECIPES)
def test_recipes_of_the_references_work(scenes: leat.Dataset, name: str) -> None:
    fields, transforms = presets()[name]
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        chain = [ops.Decode(), *ops.from_torchvision(transforms)]
    assert len(said) == {"a function": 3, "floats first": 1}.get(name, 0)
    out = leat.Out(fields, chain, stack="list")
    with leat.Loader(scenes, 4, outputs={fields: out}) as loader:
        for batch in loader:
            for row in range(4):
                image = batch["image"][row]
                assert image.dtype == torch.float32 and image.shape[0] == 3 and image.max() <= 1
                if "boxes" in fields:
                    boxes = batch["boxes"][row]
                    assert len(boxes) == len(batch["labels"][row])
                    assert (boxes[:, 2:] <= torch.tensor(image.shape[:0:-1]) + 1e-3).all()
                else:
                    assert batch["mask"][row].shape == image.shape[1:]


def test_floats_first_give_the_pixels_of_torchvision_but_for_rounding() -> None:
    pytest.importorskip("torchvision")
    image_module: Any = pytest.importorskip("PIL.Image")
    from torchvision.transforms import v2

    small = np.random.default_rng(0).integers(0, 256, (4, 6, 6, 3), dtype=np.uint8)
    bicubic = image_module.Resampling.BICUBIC
    rows = np.stack([np.asarray(image_module.fromarray(s).resize((90, 70), bicubic)) for s in small])
    ds = leat.from_arrays({"x": leat.field("uint8", (70, 90, 3), layout="HWC")}, x=rows)
    first = [v2.ToImage(), v2.ToDtype(torch.float32, scale=True)]
    moved = [v2.Resize((32, 40)), v2.RandomHorizontalFlip(1.0), v2.Grayscale(3), v2.GaussianBlur(5, (1.0, 1.0))]
    recipe = v2.Compose([*first, *moved, v2.Normalize([0.5] * 3, [0.5] * 3)])
    with pytest.warns(UserWarning, match=r"\[2\]: Resize, \[4\]: Grayscale, \[5\]: GaussianBlur: in leat"):
        chain = ops.from_torchvision(recipe)
    made = leat.Loader(ds, 4, outputs={"x": chain}).batch_at(0, 0)["x"]
    want = torch.stack([recipe(image_module.fromarray(row)) for row in rows])
    assert (made - want).abs().max() * 127.5 < 2.5 and (made - want).abs().mean() * 127.5 < 0.6


def test_a_function_that_moves_pixels_stands_in_no_tuple_with_boxes(scenes: leat.Dataset) -> None:
    from torchvision.transforms import v2

    resized = [v2.ToImage(), v2.Resize((9, 9)), v2.ToDtype(torch.float32, scale=True)]
    turned = [*resized, v2.RandomRotation(10, fill=0.5)]
    with pytest.warns(UserWarning, match="RandomRotation becomes"):
        chain = [ops.Decode(), *ops.from_torchvision(turned)]
    with pytest.raises(TypeError, match=r"Map\(RandomRotation\) is in the chain of image, boxes and moves pixels"):
        leat.Loader(scenes, 4, outputs={("image", "boxes"): chain})


def test_a_lambda_of_torchvision_is_a_map_that_makes_what_it_would_make() -> None:
    pytest.importorskip("torchvision")
    from torchvision.transforms import v2

    rows = np.random.default_rng(0).integers(0, 256, (4, 10, 12, 3)).astype(np.uint8)
    ds = leat.from_arrays({"x": leat.field("uint8", (10, 12, 3), layout="HWC")}, x=rows)
    with pytest.warns(UserWarning, match=r"\[0\]: Lambda becomes .*: it is a function"):
        chain = ops.from_torchvision(v2.Compose([v2.Lambda(invert), v2.CenterCrop(8)]))
    made = leat.Loader(ds, 4, outputs={"x": chain}).batch_at(0, 0)["x"]
    assert torch.equal(made, torch.from_numpy(255 - rows[:, 1:9, 2:10].transpose(0, 3, 1, 2)))


def test_what_takes_more_than_an_image_is_refused() -> None:
    class Flip:
        def forward(self, img: Any, target: Any) -> Any:
            return img, target

        def __call__(self, *inputs: Any) -> Any:
            return self.forward(*inputs)

    def both(img: Any, target: Any) -> Any:
        return img, target

    class Named:
        def __call__(self, *inputs: Any, **data: Any) -> Any:
            raise AssertionError

    Named.__module__ = "albumentations.core.composition"
    for one, message in (
        (Flip(), r"\[0\]: Flip cannot be called with an image alone \(missing a required argument: 'target'\)"),
        (both, r"\[0\]: both cannot be called with an image alone"),
        (Named(), r"\[0\]: Named is of Albumentations, .*transform\(image=image\)\['image'\]"),
    ):
        with pytest.raises(TypeError, match=message):
            ops.from_torchvision([one])
