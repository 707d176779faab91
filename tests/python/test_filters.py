"""Filters against Pillow and simple references: pixels, arguments, and that a chain goes through JSON."""

from __future__ import annotations

import itertools
from pathlib import Path
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
        noise = rng.integers(0, 256, (h, w, c)) if i % 4 < 2 else rng.integers(0, 256, (1, 1, c)) + rng.integers(-30, 30, (h, w, c))
        made.append(np.clip(noise, 0, 255).astype(np.uint8))
    return made


def applied(path: Path, image: Any, chain: list[Any], seed: int = 0, layout: str = "HWC") -> Any:
    """What a chain makes of an image, as HWC."""
    stored = image if layout == "HWC" else np.ascontiguousarray(image.transpose(2, 0, 1))
    file = path / f"{len(list(path.iterdir()))}.leat"
    with leat.Writer(file, {"x": leat.field("uint8", stored.shape, layout=layout)}) as writer:
        writer.add(x=stored)
    outputs = {"x": [*chain, ops.ToLayout("NHWC")]}
    return leat.Loader(leat.open(file), 1, outputs=outputs, framework="numpy", seed=seed).batch_at(0, 0)["x"][0]


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


def test_color_jitter_is_within_1_of_pillow_in_one_of_the_orders(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    for i, image in enumerate(images(60)):
        factors = [float(rng.uniform(0, 2)) if rng.random() < 0.7 else None for _ in range(3)]
        factors.append(float(rng.uniform(-0.5, 0.5)) if rng.random() < 0.7 else None)
        chain = [ops.ColorJitter(*[None if f is None else (f, f) for f in factors])]
        got = applied(tmp_path, image, chain, seed=i, layout="CHW" if i % 3 == 0 else "HWC")
        differences = []
        for order in itertools.permutations([k for k in range(4) if factors[k] is not None]):
            made = to_pillow(image)
            for k in order:
                made = CHANGES[k](made, factors[k])
            differences.append(worst(got, from_pillow(made)))
        assert min(differences) <= 1


def test_ranges_of_color_jitter_are_those_of_torchvision() -> None:
    jitter = ops.ColorJitter(1.5, (0.5, 0.75), 0, hue=0.25)
    assert (jitter.brightness, jitter.contrast, jitter.saturation, jitter.hue) == ((0.0, 2.5), (0.5, 0.75), None, (-0.25, 0.25))
    for arguments in ({"brightness": -0.1}, {"contrast": (2, 1)}, {"saturation": (-1, 1)}, {"hue": 0.6}, {"hue": (-0.6, 0)}, {"hue": [1, 2, 3]}):
        with pytest.raises(ValueError, match=next(iter(arguments))):
            ops.ColorJitter(**arguments)  # type: ignore[arg-type]


FILTERS = [ops.ColorJitter(0.4, 0.3, 0.2, 0.1), ops.ColorJitter(0.4), ops.ColorJitter()]


def test_a_filter_survives_json_and_draws_the_same(tmp_path: Path) -> None:
    (image,) = images(1, channels=(3,))
    for chain in FILTERS:
        again = leat.program_from_json(leat.program_to_json({"x": [chain]}))["x"].chain
        assert list(again) == [chain]
        assert worst(applied(tmp_path, image, [chain]), applied(tmp_path, image, list(again))) == 0
