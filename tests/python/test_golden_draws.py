"""What random operators draw never changes: a hash of what each makes under some keys, on every instruction set.

A hash that differs is a change of draws or of pixels, which users see as another training. JPEG has none, because its
pixels are those of the libjpeg-turbo that is installed.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from photo_support import png
from property_chains import run_image

import leat

ops = leat.ops
ROOT = Path(__file__).resolve().parent.parent.parent
SEVEN = {"image": (10, 20, 30), "mask": 7}


def picture(h: int = 37, w: int = 53, seed: int = 1) -> Any:
    """Smooth, with edges and some noise; the same everywhere, because it is made of whole numbers."""
    y, x, c = np.mgrid[:h, :w, :3].astype(np.int64)
    noise = (x * 7919 + y * 104729 + c * 1299709 + seed * 15485863) * 2654435761 >> 7
    return ((x * (3 + c) + y * (5 - c) + (x // 9 + y // 7) % 2 * 60 * seed + noise % 23) % 256).astype(np.uint8)


#: operator -> hash of what it makes of `picture` under 24 keys
GOLDEN: list[tuple[Any, str]] = [
    (ops.RandomHorizontalFlip(0.3), "e456433a154e4a97"),
    (ops.RandomVerticalFlip(0.7), "a7203f7bc3a893a9"),
    (ops.RandomCrop(20), "3e30bf3650cf2247"),
    (ops.RandomCrop((40, 30), 5, True, SEVEN, "constant"), "f6af58494668e0cc"),
    (ops.RandomCrop(30, (1, 2, 3, 4), padding_mode="reflect"), "9964084cb8537d4c"),
    (ops.RandomResizedCrop(24), "74279c4b59247f37"),
    (ops.RandomResizedCrop((20, 31), (0.3, 0.9), (0.5, 2.0), "bicubic"), "f013b36a06a69a3d"),
    (ops.RandomZoomOut(SEVEN, (1.0, 3.0), 0.6), "e295986904385de3"),
    (ops.RandomSizeCrop(10, 30), "e0b2f4d998ba7c5a"),
    (ops.RandomShortestSize([20, 30, 40], max_size=50), "23bbc08d5c37ecb4"),
    (ops.RandomResize(10, 40), "2aecf8bc52607aa3"),
    (ops.ScaleJitter((30, 40), (0.3, 1.5)), "c82b475052e02708"),
    (ops.RandomRotation(30), "00f923386833e4f6"),
    (ops.RandomRotation((-10, 80), "bilinear", True, fill=SEVEN), "208f6d0a789df2b5"),
    (ops.RandomRotate90(), "c10ff7314e2ed706"),
    (ops.RandomRotate90(0.6), "dc15abc443032116"),
    (ops.RandomAffine(20, (0.1, 0.2), (0.7, 1.3), (-10, 10, -5, 5), "bicubic", SEVEN), "640d2f691b2da8f6"),
    (ops.RandomAffine(10, shear=20, center=(3, 4)), "e73bbcad2dff0cfb"),
    (ops.RandomPerspective(0.4, 0.8, "nearest", 9), "11aa1fb391116c3f"),
    (ops.ElasticTransform(40.0, 3.0), "aca40c4b327ab3fd"),
    (ops.ElasticTransform((20.0, 50.0), (2.0, 5.0), "nearest", SEVEN), "1173c56b03411c7c"),
    (ops.ColorJitter(0.4, 0.4, 0.4, 0.1), "5d3cdeeb7d00d889"),
    (ops.ColorJitter((0.2, 1.9), hue=0.5), "76af387becf686ff"),
    (ops.RandomPhotometricDistort(), "9a2890b464798a32"),
    (ops.RandomGrayscale(0.4), "20d482051692b6df"),
    (ops.RandomInvert(0.4), "24503e5ef74afb93"),
    (ops.RandomPosterize(3, 0.6), "5d8f496958b12bdd"),
    (ops.RandomSolarize(100, 0.6), "f9e3a9ce4abcce2c"),
    (ops.RandomAutocontrast(0.6), "eba6d655fa3721b3"),
    (ops.RandomEqualize(0.6), "17beac317b60ef4c"),
    (ops.RandomAdjustSharpness(2.5, 0.6), "4982576222e31e03"),
    (ops.RandomChannelPermutation(), "5264019ecd8bfd24"),
    (ops.GaussianBlur(5, (0.3, 2.0)), "fb1890a52e3da4df"),
    (ops.GaussianNoise(0.1, 0.2), "851e09fe1cd2bfc6"),
    (ops.RandomErasing(0.7), "a81f985ccecb72d5"),
    (ops.RandomErasing(0.9, (0.1, 0.4), (0.5, 2.0), "random"), "35f1f1b4117e1cac"),
    (ops.RandAugment(), "e743e733c6f70e67"),
    (ops.RandAugment(3, 20, 31, "bilinear", (1, 2, 3)), "3c05bb451aa11d53"),
    (ops.TrivialAugmentWide(), "af80643e40f9411c"),
    (ops.AutoAugment(), "fab9693a2bbbfc6b"),
    (ops.AutoAugment("cifar10"), "233855de41b3efb1"),
    (ops.AutoAugment("svhn", "bilinear"), "33243ed0d45f7793"),
    (ops.AugMix(), "f5f8765b8993b0d9"),
    (ops.AugMix(5, 4, 2, 0.5, False), "1a212d4bc6e3823b"),
    (ops.RandomApply([ops.RandomInvert(0.5), ops.RandomRotation(20)], 0.4), "8ed113c8cbf097bc"),
    (
        ops.RandomChoice([ops.RandomInvert(1.0), [ops.RandomCrop(30), ops.Pad(3)], []], [0.2, 0.5, 0.3]),
        "197ddad1c3f231f3",
    ),
    (ops.RandomOrder([ops.RandomInvert(0.5), ops.RandomSolarize(90), ops.RandomHorizontalFlip()]), "36b6e935875188dd"),
]

#: chains of tuples and of batches -> hash of a batch
TUPLES: list[tuple[list[Any], str]] = [
    ([ops.RandomIoUCrop(), ops.Resize((24, 30))], "a7c2193472624da5"),
    ([ops.RandomIoUCrop(0.2, 0.8, 0.4, 2.5, [0.3, 0.9], 15), ops.Resize((24, 30))], "adc5dead2e437be5"),
    (
        [
            ops.RandomZoomOut(SEVEN),
            ops.RandomApply([ops.RandomIoUCrop()], 0.7),
            ops.SanitizeBoundingBoxes(),
            ops.Resize((24, 30)),
        ],
        "0ca11f1d8d63ccbd",
    ),
    ([ops.Mosaic(24, 0.7), ops.RandomAffine(10, (0.1, 0.1)), ops.CenterCrop(24)], "08da5faaa6f69b32"),
    (
        [ops.RandomAffine(10, (0.2, 0.2)), ops.Resize((30, 40)), ops.CopyPaste(0.7), ops.RandomHorizontalFlip()],
        "d267ec3eca8aadbf",
    ),
    ([ops.RandomAffine(10), ops.Resize((30, 40)), ops.DetectionMixUp(1.5, 0.7)], "8e85b9889348580e"),
    ([ops.Resize((20, 20)), ops.ToDtype("float32"), ops.MixUp(alpha=0.8, num_classes=12)], "8a5531f1dbf77191"),
    ([ops.Resize((20, 20)), ops.CutMix(alpha=0.8, num_classes=12)], "5cfd1abf6360a298"),
]


def digest(*arrays: Any) -> str:
    made = hashlib.sha256()
    for array in arrays:
        made.update(repr((array.shape, array.dtype.str)).encode() + np.ascontiguousarray(array).tobytes())
    return made.hexdigest()[:16]


def of_operator(op: Any) -> str:
    image = picture()
    return digest(*(run_image(image, [op], key * 0x9E3779B97F4A7C15 % 2**64, "HWC") for key in range(24)))


def of_tuple(chain: list[Any], path: Path) -> str:
    fields = {"image": "image", "boxes": leat.boxes("xyxy"), "mask": leat.mask(), "label": "int64"}
    fields["masks"] = leat.masks()
    with leat.Writer(path, fields) as writer:
        for i in range(12):
            corner = np.float32([[3, 4], [20, 10], [30, 20]])
            boxes = np.concatenate([corner, corner + 10 + i % 3], 1)
            writer.add(
                image=png(picture(seed=i)),
                boxes=boxes,
                masks=[[[float(v) for v in (x0, y0, x1, y0, x1, y1)]] for x0, y0, x1, y1 in boxes],
                mask=png(picture(seed=i)[:, :, 0] // 16),
                label=i,
            )
    mixes = isinstance(chain[-1], (ops.MixUp, ops.CutMix))
    pastes = any(isinstance(op, ops.CopyPaste) for op in chain)
    names = ("image", "label") if mixes else ("image", "boxes", "mask", *(("masks",) if pastes else ()))
    names = ("image", "boxes") if any(isinstance(op, ops.DetectionMixUp) for op in chain) else names
    with leat.Loader(leat.open(path), 12, True, outputs={names: [ops.Decode(), *chain]}, framework="numpy") as loader:
        (batch,) = loader
    return digest(*(getattr(batch[name], "values", batch[name]) for name in names))


@pytest.mark.parametrize(("op", "known"), GOLDEN, ids=[f"{type(op).__name__}{i}" for i, (op, _) in enumerate(GOLDEN)])
def test_an_operator_draws_what_it_always_drew(op: Any, known: str) -> None:
    assert of_operator(op) == known


@pytest.mark.parametrize(
    ("chain", "known"), TUPLES, ids=["-".join(type(op).__name__ for op in chain) for chain, _ in TUPLES]
)
def test_a_tuple_draws_what_it_always_drew(chain: list[Any], known: str, tmp_path: Path) -> None:
    assert of_tuple(chain, tmp_path / "a.leat") == known


def test_every_random_operator_has_a_hash() -> None:
    there = {type(op).__name__ for op, _ in GOLDEN} | {type(op).__name__ for chain, _ in TUPLES for op in chain}
    random = set()
    for source in (ROOT / "src" / "op").glob("op_*.c"):
        text = source.read_text()
        if re.search(r"\.random = true|^LEAT_POLICY\(", text, re.MULTILINE):  # policy.h has it for policies
            random.update(re.findall(r'(?:\.type = |^[A-Z_]+\(\w+, )"(\w+)"', text, re.MULTILINE))
    tokens = {"MaskTokens", "SpanCorruption", "FillInTheMiddle"}  # test_token_ops.py computes what they draw
    residues = {"RandomSlice", "ReverseComplement"}  # and test_sequence_ops.py
    assert random - tokens - residues - {"JPEG", "Native"} <= there
    assert {type(op).__name__ for op, _ in GOLDEN} <= random  # none was overlooked because of how it is written
