"""RandAugment, TrivialAugmentWide, AutoAugment and AugMix against Pillow: every change at every strength, and how often
each comes.

The references are written from the papers and torchvision's description: what a change does to a Pillow image, how
strong it is at a bin, and with which probability each outcome comes. What the library makes has to be one of these
outcomes, byte for byte, as often as its probability says.
"""

from __future__ import annotations

import functools
import itertools
import math
import pickle
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributions import assert_shares, drawn

import leat

Image: Any = pytest.importorskip("PIL.Image")
ImageEnhance: Any = pytest.importorskip("PIL.ImageEnhance")
ImageOps: Any = pytest.importorskip("PIL.ImageOps")
ops = leat.ops

SIGNED = ["ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate", "Brightness", "Color", "Contrast", "Sharpness"]
BINNED = [*SIGNED, "Posterize", "Solarize"]
PLAIN = ["AutoContrast", "Equalize"]
ALL = [*BINNED, *PLAIN, "Identity"]


def linspace(low: float, high: float, bins: int) -> Any:
    """As torch has it: a step in float, and each value rounded once."""
    a, b = np.float32(low), np.float32(high)
    step, i = float((b - a) / np.float32(bins - 1)), np.arange(bins)
    return np.where(i < bins // 2, float(a) + step * i, float(b) - step * (bins - 1 - i)).astype(np.float32)


@functools.cache
def strengths(kind: str, size: tuple[int, int], space: str, bins: int) -> Any:
    """The strengths of a change at all bins, without sign, of images of a size."""
    w, h = size
    wide, mix = space == "wide", space == "mix"
    if kind == "Posterize":
        first, fewer = 4 if mix else 8, 6 if wide else 4
        return np.round(first - np.arange(bins, dtype=np.float32) / np.float32((bins - 1) / fewer)).astype(int)
    if kind == "Solarize":
        return linspace(1.0, 0.0, bins)
    side = {"TranslateX": w, "TranslateY": h}.get(kind, 0)
    most = {
        "Rotate": 135.0 if wide else 30.0,
        "Shear": 0.99 if wide else 0.3,
        "Trans": 32.0 if wide else side / 3.0 if mix else 150.0 / 331.0 * side,
    }
    return linspace(0.0, most.get(kind if kind == "Rotate" else kind[:5], 0.99 if wide else 0.9), bins)


def changed(image: Any, kind: str, strength: float = 0.0, mode: str = "NEAREST", fill: Any = 0) -> Any:
    """What Pillow makes of an image."""
    strength, mode = float(strength), getattr(Image.Resampling, mode)
    color = fill if image.mode == "L" else (fill,) * 3 if isinstance(fill, int) else tuple(fill)

    def affine(*m: float) -> Any:
        return image.transform(image.size, Image.Transform.AFFINE, m, mode, fillcolor=color)

    enhance = {"Brightness": "Brightness", "Color": "Color", "Contrast": "Contrast", "Sharpness": "Sharpness"}
    if kind in enhance:
        return getattr(ImageEnhance, enhance[kind])(image).enhance(1.0 + strength)
    made = {
        "ShearX": lambda: affine(1, math.tan(math.atan(strength)), 0, 0, 1, 0),
        "ShearY": lambda: affine(1, 0, 0, math.tan(math.atan(strength)), 1, 0),
        "TranslateX": lambda: affine(1, 0, -int(strength), 0, 1, 0),
        "TranslateY": lambda: affine(1, 0, 0, 0, 1, -int(strength)),
        "Rotate": lambda: image.rotate(strength, mode, fillcolor=color),
        "Posterize": lambda: ImageOps.posterize(image, int(strength)) if strength else image.point(lambda v: 0),
        "Solarize": lambda: ImageOps.solarize(image, 255.0 * strength),
        "AutoContrast": lambda: ImageOps.autocontrast(image),
        "Equalize": lambda: ImageOps.equalize(image),
        "Invert": lambda: ImageOps.invert(image),
        "Identity": lambda: image,
    }
    return made[kind]()


def photo(channels: int = 3, h: int = 40, w: int = 52) -> Any:
    """Smooth, with edges and all values, so that each change shows."""
    rng = np.random.default_rng(5)
    y, x = np.mgrid[0:h, 0:w]
    base = 128 + 90 * np.sin(x[..., None] / 7 + np.arange(channels)) * np.cos(y[..., None] / 9)
    base[10:20, 15:30] += 60
    return np.clip(base + rng.integers(-20, 20, (h, w, channels)), 3, 250).astype(np.uint8)


def pillow(array: Any) -> Any:
    return Image.fromarray(array[:, :, 0] if array.shape[2] == 1 else array)


def array(image: Any) -> Any:
    made = np.asarray(image)
    return made if made.ndim == 3 else made[:, :, None]


def one_change(
    image: Any, kinds: list[str], space: str, bins: int, at: list[int], **how: Any
) -> Iterator[tuple[Any, float]]:
    """The outcomes of one change that is drawn of these, its bin of `at`: the image, and its probability."""
    for kind in kinds:
        if kind not in BINNED:
            yield changed(image, kind), 1 / len(kinds)
            continue
        scale = strengths(kind, image.size, space, bins)
        for i, sign in itertools.product(at, (1, -1) if kind in SIGNED else (1,)):
            share = 1 / len(kinds) / len(at) / (2 if kind in SIGNED else 1)
            yield changed(image, kind, sign * scale[i], **how), share


def shares_of(outcomes: Any) -> dict[bytes, float]:
    found: dict[bytes, float] = {}
    for image, share in (o for o in outcomes if o[1]):
        found[image.tobytes()] = found.get(image.tobytes(), 0.0) + share
    return found


def check(chain: list[Any], image: Any, outcomes: Any, n: int, *wrong: Any, seed: int = 0) -> None:
    """The chain makes these outcomes of the image, as often as they say. Those too rare for the test are one."""
    shares = shares_of(outcomes)
    rare, names = 0.0, {k: i for i, k in enumerate(shares)}
    for k, share in sorted(shares.items(), key=lambda item: item[1]):
        if rare * n >= 8 or share * n >= 8 > rare == 0:
            break
        rare, names[k] = rare + share, -1

    def together(shares: dict[bytes, float]) -> dict[int, float]:
        found: dict[int, float] = {}
        for k, share in shares.items():
            found[names.get(k, -2)] = found.get(names.get(k, -2), 0.0) + share
        return found

    made = [m.tobytes() for m in drawn(chain, image, n, seed)]
    assert not set(made) - set(shares), "outcomes that Pillow does not give"
    assert_shares([names[m] for m in made], together(shares), *(together(shares_of(w)) for w in wrong))


def test_trivial_augment_wide_makes_every_change_at_every_strength_as_often_as_torchvision() -> None:
    image = photo()
    wide = list(one_change(pillow(image), ALL, "wide", 31, list(range(31))))
    weak = list(one_change(pillow(image), ALL, "wide", 31, list(range(30))))
    positive = [(im, s * (1.3 if i % 2 else 0.7)) for i, (im, s) in enumerate(wide)]
    total = sum(s for _, s in positive)
    check([ops.TrivialAugmentWide()], image, wide, 24000, weak, [(im, s / total) for im, s in positive])


@pytest.mark.parametrize("bins", [5, 10])
def test_scales_of_other_bins(bins: int) -> None:
    image = photo(1, 30, 31)
    outcomes = one_change(pillow(image), ALL, "wide", bins, list(range(bins)), fill=9)
    check([ops.TrivialAugmentWide(bins, fill=9)], image, outcomes, 6000)


@pytest.mark.parametrize(("magnitude", "bins"), [(9, 31), (0, 31), (30, 31), (14, 31), (5, 10), (1, 2)])
def test_rand_augment_draws_one_change_evenly(magnitude: int, bins: int) -> None:
    image = photo()
    outcomes = list(one_change(pillow(image), ALL, "", bins, [magnitude], fill=(1, 2, 3)))
    wrong = list(one_change(pillow(image), ALL[:-1], "", bins, [magnitude], fill=(1, 2, 3)))
    seen = [wrong] if magnitude > 5 else []  # of weak changes too many are the same
    check([ops.RandAugment(1, magnitude, bins, fill=[1, 2, 3])], image, outcomes, 6000, *seen)


def test_rand_augment_applies_its_changes_one_after_the_other() -> None:
    image = photo(3, 26, 25)
    first = list(one_change(pillow(image), ALL, "", 31, [9]))
    both = [(im, s * share) for a, s in first for im, share in one_change(a, ALL, "", 31, [9])]
    check([ops.RandAugment()], image, both, 12000, first)
    made = drawn([ops.RandAugment(0)], image, 5)
    assert all(np.array_equal(m, image) for m in made)
    made = drawn([ops.RandAugment(4, 20)], image, 300)
    known = shares_of([(im, 0.0) for a, _ in both for im in (a,)])
    assert len({m.tobytes() for m in made} - set(known)) > 200


# The pairs of the paper's appendix: change, probability in tenths (a: 1), strength of 0 to 9.
CODES = dict(zip("XYTURBCNSPOAEI", [*BINNED, *PLAIN, "Invert"], strict=True))
PAIRS = {
    "imagenet": "P48R69 O65A60 E80E60 P67P66 E40O24 E40R88 O63E60 P85Ea0 R23O68 E60P46 R88C40 R49E60 E00E80 I60Ea0 "
    "C64Na8 R88Ca2 C88O87 S47I60 X65Ea0 C40E60 E40O24 O65A60 I60Ea0 C64Na8 E80E60",
    "cifar10": "I10N26 R72T39 S81S93 Y58U79 A50E90 Y27P37 C43B67 S39B79 E60E50 N67S65 C77T58 E30A40 U43S26 B96C28 "
    "O52I00 E20A60 E20E60 C99E60 A80O28 B13C70 O45A90 U99U79 A90O83 E80I10 U79A90",
    "svhn": "X94I20 Y98I70 E60O66 I90E60 E60R93 X94A80 Y98I40 Y95O26 I90A80 E60R93 X94O33 Y88I70 E90U66 I90E60 "
    "N33R84 I80U02 Y76O48 I60R84 Y37T93 X16I60 O72U67 Y84I80 X79U83 Y85A70 X72I10",
}


def pair_outcomes(image: Any, policy: str, **how: Any) -> Iterator[tuple[Any, float]]:
    words = PAIRS[policy].split()
    assert len(words) == 25
    for word in words:
        found = [(image, 1 / 25)]
        for code, tenths, strength in (word[:3], word[3:]):
            p, kind = int(tenths, 16) / 10, CODES[code]
            then = []
            for before, share in found:
                for after, part in one_change(before, [kind], "", 10, [int(strength)], **how):
                    then.append((after, share * p * part))
            found = [(im, share * (1 - p)) for im, share in found] + then
        yield from found


@pytest.mark.parametrize("policy", ["imagenet", "cifar10", "svhn"])
def test_auto_augment_draws_its_pairs_as_the_paper_has_them(policy: str) -> None:
    image = photo(3, 30, 34)
    outcomes = list(pair_outcomes(pillow(image), policy))
    other = list(pair_outcomes(pillow(image), "svhn" if policy != "svhn" else "cifar10"))
    check([ops.AutoAugment(policy)], image, outcomes, 20000, other)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_interpolated_changes_are_within_1_of_pillow(mode: str) -> None:
    image = photo(3, 22, 24)
    outcomes = list(one_change(pillow(image), ALL, "wide", 31, list(range(31)), mode=mode.upper(), fill=77))
    stack = np.stack([array(im) for im, _ in outcomes]).astype(np.int16)
    seen = set()
    for made in drawn([ops.TrivialAugmentWide(interpolation=mode, fill=77)], image, 900):
        distance = np.abs(stack - made).max((1, 2, 3))
        assert distance.min() <= 1
        seen.add(int(distance.argmin()))
    assert len(seen) > 250


MIXED = [*BINNED, *PLAIN]


def mix_changes(all_ops: bool, severity: int) -> tuple[list[str], list[int]]:
    blends = ("Brightness", "Color", "Contrast", "Sharpness")
    return [k for k in MIXED if all_ops or k not in blends], list(range(severity))


@pytest.mark.parametrize("all_ops", [True, False])
def test_aug_mix_is_the_image_and_its_chains_by_their_shares(all_ops: bool) -> None:
    image, severity = photo(3, 22, 26), 10
    kinds, at = mix_changes(all_ops, severity)
    outcomes = list(one_change(pillow(image), kinds, "mix", 10, at, mode="BILINEAR"))
    stack = np.stack([array(im) for im, _ in outcomes]).astype(np.float32)
    half = 0.5 * image.astype(np.float32) + 0.5 * stack
    chain = [ops.AugMix(severity, 1, 1, alpha=1e6, all_ops=all_ops)]  # the share is within 0.002 of a half
    found = []
    for made in drawn(chain, image, 2000):
        distance = np.abs(half - 0.5 - made).max((1, 2, 3))
        assert distance.min() < 2.2
        found.append(int(distance.argmin()))
    of = [kinds.index(k) for k in kinds for _ in range((2 if k in SIGNED else 1) * (10 if k in BINNED else 1))]
    plain = {i for i, (im, _) in enumerate(outcomes) if sum(im.tobytes() == o.tobytes() for o, _ in outcomes) == 1}
    clear = [k for k in kinds if all(i in plain for i, o in enumerate(of) if kinds[o] == k and k in PLAIN)]
    shares = {k: 1 / len(kinds) for k in clear if k in (*PLAIN,)}
    rest = 1 - sum(shares.values())
    names = [kinds[of[i]] if kinds[of[i]] in shares else "other" for i in found]
    assert_shares(names, {**shares, "other": rest}, {**{k: 2 * s for k, s in shares.items()}, "other": 2 * rest - 1})


def distance(made: Any, image: Any) -> Any:
    return np.abs(made.astype(int) - image).mean((-1, -2, -3))


def simulated(rng: np.random.Generator, image: Any, n: int, alpha: float, width: int, depth: int, fill: int) -> Any:
    """AugMix by NumPy and Pillow: how far each result is from the image."""
    kinds, at = mix_changes(True, 3)
    found = []
    for _ in range(n):
        m = rng.dirichlet([alpha] * 2).astype(np.float32)
        shares = rng.dirichlet([alpha] * width).astype(np.float32) * m[1]
        mixed = m[0] * image.astype(np.float32)
        for share in shares:
            chain = pillow(image)
            for _ in range(depth if depth > 0 else int(rng.integers(1, 4))):
                kind = kinds[rng.integers(len(kinds))]
                strength = strengths(kind, chain.size, "mix", 10)[rng.choice(at)] if kind in BINNED else 0.0
                sign = -1 if kind in SIGNED and rng.random() < 0.5 else 1
                chain = changed(chain, kind, sign * strength, "BILINEAR", fill)
            mixed += share * array(chain).astype(np.float32)
        found.append(distance(mixed.astype(np.uint8), image))
    return np.array(found)


def alike(a: Any, b: Any) -> bool:
    """Kolmogorov and Smirnov, of two samples."""
    every = np.sort(np.concatenate([a, b]))
    parts = [np.searchsorted(np.sort(x), every, side="right") / len(x) for x in (a, b)]
    return bool(np.abs(parts[0] - parts[1]).max() * math.sqrt(len(a) * len(b) / (len(a) + len(b))) < 1.95)


@pytest.mark.parametrize(
    ("alpha", "wrong", "width", "depth", "n"), [(1.0, 3.0, 3, -1, 1000), (0.3, 1.0, 2, 1, 600), (4.0, 1.0, 4, 2, 400)]
)
def test_the_shares_and_chains_of_aug_mix_are_distributed_as_torchvisions(
    alpha: float, wrong: float, width: int, depth: int, n: int
) -> None:
    image = photo(3, 12, 14)
    found = distance(drawn([ops.AugMix(3, width, depth, alpha, fill=200)], image, n), image)
    rng = np.random.default_rng(0)
    assert alike(found, simulated(rng, image, n, alpha, width, depth, 200))
    assert not alike(found, simulated(rng, image, n, wrong, width, depth, 200))


def test_policies_are_refused_where_targets_would_not_follow(tmp_path: Path) -> None:
    fields = {"x": leat.field("uint8", (8, 8, 3), layout="HWC"), "boxes": leat.boxes("xyxy"), "n": "int64"}
    with leat.Writer(tmp_path / "a.leat", fields) as writer:
        writer.add(x=np.zeros((8, 8, 3), np.uint8), boxes=np.zeros((0, 4), np.float32), n=1)
    ds = leat.open(tmp_path / "a.leat")
    for op in (ops.RandAugment(), ops.TrivialAugmentWide(), ops.AutoAugment(), ops.AugMix()):
        for chain in ([op], [ops.RandomApply([op])]):
            with pytest.raises(TypeError, match=f"{type(op).__name__} in the chain of output 'x' changes images alone"):
                leat.Loader(ds, 1, outputs={("x", "boxes"): chain})
            with pytest.raises(TypeError, match="changes images alone"):
                leat.Loader(ds, 1, outputs={"x": leat.Out("x", chain, geometry=True)})
            leat.Loader(ds, 1, outputs={("x", "n"): chain}).close()
        with pytest.warns(UserWarning, match="boxes 'boxes' stay as stored"):
            leat.Loader(ds, 1, outputs={"x": [op], "boxes": []}).close()


def test_forms_and_arguments_of_policies() -> None:
    class Mode:
        value = "bilinear"

    class Policy:
        value = "svhn"

    made = [
        ops.RandAugment(3, 5, 11, Mode(), [1, 2, 3]),
        ops.AutoAugment(Policy()),
        ops.AugMix(2),
        ops.TrivialAugmentWide(),
    ]
    for op in made:
        assert ops.from_json(op.to_json()) == op == pickle.loads(pickle.dumps(op))
    for wrong, message in [
        (lambda: ops.RandAugment(magnitude=31), "magnitude is below num_magnitude_bins, 31, not 31"),
        (lambda: ops.RandAugment(num_ops=1.5), "num_ops is an integer"),
        (lambda: ops.AutoAugment("mnist"), "policy is 'imagenet', 'cifar10' or 'svhn'"),
        (lambda: ops.AugMix(severity=11), "severity is 1 or above and below 11, not 11"),
        (lambda: ops.AugMix(alpha=0), "alpha is a number"),
        (lambda: ops.TrivialAugmentWide(interpolation="box"), "interpolation is 'nearest'"),
    ]:
        with pytest.raises((TypeError, ValueError), match=message):
            wrong()
    with pytest.raises(TypeError, match="takes an image of 1 or 3 channels"):
        drawn([ops.RandAugment()], photo(2), 1)
    with pytest.raises(TypeError, match="takes a uint8 image"):
        drawn([ops.ToDtype("float32"), ops.AugMix()], photo(), 1)
    narrow = re.escape('put ToDtype("uint8", scale=True) before it, or leave out Decode(dtype="uint16")')
    with pytest.raises(TypeError, match=narrow):
        drawn([ops.ToDtype("uint16", scale=True), ops.AugMix()], photo(), 1)
    drawn([ops.ToDtype("uint16", scale=True), ops.ToDtype("uint8", scale=True), ops.AugMix()], photo(), 1)


@pytest.mark.parametrize("layout", ["HWC", "CHW"])
def test_policies_are_the_same_for_planes_and_odd_sizes(layout: str) -> None:
    for side in ((1, 1, 3), (1, 9, 3), (7, 1, 1), (17, 13, 3)):
        image = np.random.default_rng(1).integers(0, 256, side).astype(np.uint8)
        shape = side if layout == "HWC" else (side[2], *side[:2])
        rows = np.broadcast_to(image if layout == "HWC" else image.transpose(2, 0, 1), (40, *shape))
        ds = leat.from_arrays({"x": leat.field("uint8", shape, layout=layout)}, x=rows)
        for op in (ops.RandAugment(3), ops.TrivialAugmentWide(), ops.AutoAugment(), ops.AugMix()):
            outputs = {"x": [op, ops.ToLayout("NHWC")]}
            made = leat.Loader(ds, 40, outputs=outputs, framework="numpy", seed=0).batch_at(0, 0)["x"]
            assert np.array_equal(made, drawn([op], image, 40))
