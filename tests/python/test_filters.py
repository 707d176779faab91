"""Filters against Pillow and simple references: pixels, arguments, and that a chain goes through JSON."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import leat

Image: Any = pytest.importorskip("PIL.Image")
ImageEnhance: Any = pytest.importorskip("PIL.ImageEnhance")
ops = leat.ops


def images(n: int, sides: int = 90, channels: tuple[int, ...] = (1, 3)) -> list[Any]:
    """Noise, and smooth images of few colours, of many sizes."""
    rng = np.random.default_rng(7)
    made = []
    for i in range(n):
        h, w, c = (*rng.integers(1, sides, 2), channels[i % len(channels)])
        noise = (
            rng.integers(0, 256, (h, w, c))
            if i % 4 < 2
            else rng.integers(0, 256, (1, 1, c)) + rng.integers(-30, 30, (h, w, c))
        )
        made.append(np.clip(noise, 0, 255).astype(np.uint8))
    return made


def dataset_of(image: Any, layout: str = "HWC") -> leat.Dataset:
    stored = image if layout == "HWC" else image.transpose(2, 0, 1)
    return leat.from_arrays({"x": leat.field(str(image.dtype), stored.shape, layout=layout)}, x=stored[None])


def applied(image: Any, chain: list[Any], seed: int = 0, layout: str = "HWC") -> Any:
    """What a chain makes of an image, as HWC."""
    outputs = {"x": [*chain, ops.ToLayout("NHWC")]}
    loader = leat.Loader(dataset_of(image, layout), 1, outputs=outputs, framework="numpy", seed=seed)
    return loader.batch_at(0, 0)["x"][0]


def worst(a: Any, b: Any) -> int:
    assert a.shape == b.shape
    return int(np.abs(a.astype(int) - b.astype(int)).max())


def to_pillow(image: Any) -> Any:
    return Image.fromarray(image[:, :, 0] if image.shape[2] == 1 else image)


def from_pillow(image: Any) -> Any:
    made = np.asarray(image)
    return made if made.ndim == 3 else made[:, :, None]


def turn_hue(image: Any, by: float) -> Any:
    if image.mode == "L":
        return image
    h, s, v = image.convert("HSV").split()
    turned = (np.asarray(h) + np.int32(by * 255).astype(np.uint8)).astype(np.uint8)
    return Image.merge("HSV", (Image.fromarray(turned), s, v)).convert("RGB")


CHANGES = [
    lambda im, f: ImageEnhance.Brightness(im).enhance(f),
    lambda im, f: ImageEnhance.Contrast(im).enhance(f),
    lambda im, f: ImageEnhance.Color(im).enhance(f),
    turn_hue,
]


def test_color_jitter_is_within_1_of_pillow_in_one_of_the_orders() -> None:
    rng = np.random.default_rng(1)
    for i, image in enumerate(images(32)):
        factors = [float(rng.uniform(0, 2)) if rng.random() < 0.7 else None for _ in range(3)]
        factors.append(float(rng.uniform(-0.5, 0.5)) if rng.random() < 0.7 else None)
        chain = [ops.ColorJitter(*[None if f is None else (f, f) for f in factors])]
        got = applied(image, chain, seed=i, layout="CHW" if i % 3 == 0 else "HWC")
        differences = []
        for order in itertools.permutations([k for k in range(4) if factors[k] is not None]):
            made = to_pillow(image)
            for k in order:
                made = CHANGES[k](made, factors[k])
            differences.append(worst(got, from_pillow(made)))
        assert min(differences) <= 1


def test_ranges_of_color_jitter_are_those_of_torchvision() -> None:
    jitter = ops.ColorJitter(1.5, (0.5, 0.75), 0, hue=0.25)
    assert (jitter.brightness, jitter.contrast, jitter.saturation, jitter.hue) == (
        (0.0, 2.5),
        (0.5, 0.75),
        None,
        (-0.25, 0.25),
    )
    for arguments in (
        {"brightness": -0.1},
        {"contrast": (2, 1)},
        {"saturation": (-1, 1)},
        {"hue": 0.6},
        {"hue": (-0.6, 0)},
        {"hue": [1, 2, 3]},
    ):
        with pytest.raises(ValueError, match=next(iter(arguments))):
            ops.ColorJitter(**arguments)  # type: ignore[arg-type]


def blurred(image: Any, width: int, height: int, sigma: float) -> Any:
    """The documented arithmetic of torchvision, in double: rounded once."""

    def weights(size: int) -> Any:
        x = np.arange(size) - size // 2
        w = np.exp(-(x**2) / (2 * sigma**2))
        return w / w.sum()

    def along(values: Any, axis: int, size: int) -> Any:
        padding = [(size // 2, size // 2) if a == axis else (0, 0) for a in range(3)]
        padded = np.pad(values, padding, mode="reflect")
        return sum(w * np.take(padded, range(k, k + values.shape[axis]), axis) for k, w in enumerate(weights(size)))

    return np.rint(along(along(image.astype(float), 1, width), 0, height)).astype(np.uint8)


def test_gaussian_blur_is_within_1_of_the_arithmetic_of_floats() -> None:
    rng = np.random.default_rng(2)
    for i, image in enumerate(images(32, channels=(3, 1, 4, 2))):
        width, height = (int(2 * rng.integers(0, 12) + 1) for _ in range(2))
        sigma = float(rng.choice([0.01, 0.1, 0.3, 0.8, 1.7, 4.0, 50.0]))
        got = applied(image, [ops.GaussianBlur((width, height), sigma)], layout="CHW" if i % 3 == 0 else "HWC")
        assert worst(got, blurred(image, width, height, sigma)) <= 1
    (image,) = images(1, channels=(3,))  # far beyond the image, and as wide as can be
    for size, sigma in ((255, 30.0), (2047, 1e6), (1975, 1e5)):
        assert worst(applied(image, [ops.GaussianBlur(size, sigma)]), blurred(image, size, size, sigma)) <= 1


def test_arguments_of_gaussian_blur_are_those_of_torchvision() -> None:
    blur = ops.GaussianBlur((3, 5), 1.5)
    assert (blur.kernel_size, blur.sigma) == ((3, 5), (1.5, 1.5))
    for size, sigma in ((4, 1), ((3, 6), 1), (0, 1), ((3, 3, 3), 1), (3, 0), (3, (2, 1)), (3, -1)):
        with pytest.raises(ValueError, match="kernel_size|size|sigma"):
            ops.GaussianBlur(size, sigma)


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
def test_rotation_is_that_of_pillow(mode: str) -> None:
    rng = np.random.default_rng(3)
    for i, image in enumerate(images(48)):
        angle = float(rng.choice([0, 90, 180, 270, -90, 45, rng.uniform(-720, 720), rng.uniform(-20, 20)]))
        expand, center = (
            bool(rng.random() < 0.3),
            tuple(map(float, rng.uniform(-20, 100, 2))) if rng.random() < 0.3 else None,
        )
        fill = tuple(map(int, rng.integers(0, 256, image.shape[2])))
        want = from_pillow(
            to_pillow(image).rotate(
                angle, Image.Resampling[mode.upper()], expand, center, fillcolor=fill if len(fill) > 1 else fill[0]
            )
        )
        turn = ops.RandomRotation((angle, angle), mode, expand, center, fill)
        chain = [turn, ops.CenterCrop(want.shape[:2])] if expand else [turn]
        got = applied(image, chain, layout="CHW" if i % 3 == 0 else "HWC")
        assert worst(got, want) <= (mode != "nearest"), turn


def test_arguments_of_rotation_are_those_of_torchvision() -> None:
    assert ops.RandomRotation(10).degrees == (-10.0, 10.0)
    for arguments in (
        {"degrees": -1},
        {"degrees": (2, 1)},
        {"degrees": 1, "interpolation": "lanczos"},
        {"degrees": 1, "center": 3},
    ):
        with pytest.raises(ValueError, match="degrees|interpolation|center"):
            ops.RandomRotation(**arguments)  # type: ignore[arg-type]
    (image,) = images(1, channels=(3,))
    with pytest.raises(
        leat.ProgramError, match=r"Resize\(\[height, width\]\), CenterCrop or another crop after RandomRotation"
    ):
        leat.Loader(dataset_of(image), 2, outputs={"x": [ops.RandomRotation(10, expand=True)]})


FILTERS = [
    ops.ColorJitter(0.4, 0.3, 0.2, 0.1),
    ops.ColorJitter(0.4),
    ops.ColorJitter(),
    ops.GaussianBlur(5),
    ops.GaussianBlur((3, 9), 1),
    ops.RandomRotation(20),
    ops.RandomRotation((0, 5), "bilinear", False, (1, 2), 7),
]


def test_a_filter_survives_json_and_draws_the_same() -> None:
    (image,) = images(1, channels=(3,))
    for chain in FILTERS:
        again = leat.program_from_json(leat.program_to_json({"x": [chain]}))["x"].chain
        assert list(again) == [chain]
        assert worst(applied(image, [chain]), applied(image, list(again))) == 0


CHAINS: list[tuple[list[Any], str, bool]] = [
    ([ops.RandomInvert(0.5)], "RandomInvert", False),
    ([ops.RandomErasing(0.5), ops.RandomPosterize(3, 0.5)], "RandomPosterize", False),
    ([ops.GaussianBlur(5)], "GaussianBlur", True),
    ([ops.RandomRotation(30), ops.RandomErasing(0.5)], "RandomRotation", True),
    ([ops.RandomPerspective(p=0.5)], "RandomPerspective", False),
    (
        [ops.RandomGrayscale(0.5), ops.GaussianBlur(3), ops.RandomApply([ops.GaussianNoise()], 0.5)],
        "GaussianBlur",
        False,
    ),
]


@pytest.mark.parametrize("chain, filter, always", CHAINS)
def test_a_filter_writes_into_the_batch_itself_where_pixels_would_only_be_copied(
    chain: list[Any], filter: str, always: bool
) -> None:
    pixels = np.random.default_rng(3).integers(0, 256, (200, 30, 40, 3), np.uint8)
    dataset = leat.from_arrays({"x": leat.field("uint8", pixels.shape[1:], layout="HWC")}, x=pixels)
    made = {}
    for layout in ("NHWC", "NCHW"):
        outputs = {"x": [*chain, ops.ToLayout(layout)]}
        loader = leat.Loader(dataset, 200, outputs=outputs, framework="numpy", shuffle=False)
        made[layout] = loader.batch_at(0, 0)["x"]
        rows = {o["step"]: o["rows"] for o in loader.stats()["operators"]}
        if layout == "NHWC" and always:
            assert rows["ToLayout"] == 0
        if layout == "NHWC" and len(chain) == 1 and not always:
            assert rows["ToLayout"] == 200 - rows[filter] > 0
    assert (made["NHWC"] == made["NCHW"].transpose(0, 2, 3, 1)).all()
