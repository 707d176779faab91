"""Operators on colors: pixels are those of Pillow, draws those of torchvision's distributions."""

from __future__ import annotations

import io
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from distributions import assert_follows, assert_shares, drawn, normal
from test_filters import CHANGES, applied, from_pillow, images, to_pillow, turn_hue, worst

import leat

Image: Any = pytest.importorskip("PIL.Image")
ImageEnhance: Any = pytest.importorskip("PIL.ImageEnhance")
ImageOps: Any = pytest.importorskip("PIL.ImageOps")
ops = leat.ops


def gray(image: Any) -> Any:
    return image.convert("L").convert(image.mode)


CASES: list[tuple[Any, Callable[[Any], Any]]] = [
    (ops.RandomInvert(1), ImageOps.invert),
    *((ops.RandomPosterize(bits, 1), lambda im, b=bits: ImageOps.posterize(im, b)) for bits in (1, 3, 8)),
    (ops.RandomPosterize(0, 1), lambda im: im.point(lambda v: 0)),
    *((ops.RandomSolarize(t, 1), lambda im, t=t: ImageOps.solarize(im, t)) for t in (0, 100.5, 128, 255, 256)),
    (ops.RandomAutocontrast(1), ImageOps.autocontrast),
    (ops.RandomEqualize(1), ImageOps.equalize),
    *(
        (ops.RandomAdjustSharpness(f, 1), lambda im, f=f: ImageEnhance.Sharpness(im).enhance(f))
        for f in (0, 0.3, 1, 2, 9.5)
    ),
    (ops.RandomGrayscale(1), gray),
    (ops.Grayscale(3), lambda im: im.convert("L").convert("RGB")),
    (ops.Grayscale(), lambda im: im.convert("L")),
]


@pytest.mark.parametrize(("op", "pillow"), CASES, ids=[repr(op) for op, _ in CASES])
def test_pixels_are_those_of_pillow(op: Any, pillow: Callable[[Any], Any]) -> None:
    for i, image in enumerate(images(24)):
        got = applied(image, [op], layout="CHW" if i % 3 == 0 else "HWC")
        assert worst(got, from_pillow(pillow(to_pillow(image)))) == 0


def test_a_chain_of_colors_is_one_stage_and_gives_what_its_operators_give() -> None:
    rng = np.random.default_rng(5)
    jitter = ops.ColorJitter((1.3, 1.3), None, (0.4, 0.4))
    known = [*CASES[:-2], (jitter, None)]
    for i, image in enumerate(images(32)):
        chain = [known[k] for k in rng.choice(len(known), rng.integers(1, 11))]
        got = applied(image, [op for op, _ in chain], layout="CHW" if i % 3 == 0 else "HWC")
        want = image
        for op, pillow in chain:
            want = applied(want, [op]) if pillow is None else from_pillow(pillow(to_pillow(want)))
        assert worst(got, want) <= (jitter in [op for op, _ in chain])  # its two factors in either order
    dataset = leat.from_arrays({"x": leat.field("uint8", (8, 8, 3), layout="HWC")}, x=np.zeros((1, 8, 8, 3), np.uint8))
    colors = [ops.ColorJitter(0.4, 0.4), ops.RandomInvert(1), ops.RandomEqualize(1), ops.RandomGrayscale(1)]
    loader = leat.Loader(dataset, 1, outputs={"x": [*colors, ops.Normalize(0.5, 0.5)]})
    loader.batch_at(0, 0)
    steps = [o["step"] for o in loader.stats()["operators"]]
    assert steps == ["ColorJitter+RandomInvert+RandomEqualize+RandomGrayscale", "Normalize"]


def test_what_is_delivered_is_changed_where_it_lies() -> None:
    images = np.random.default_rng(0).integers(0, 256, (1, 10, 8, 3), np.uint8)
    dataset = leat.from_arrays({"x": leat.field("uint8", (10, 8, 3), layout="HWC")}, x=images)
    for layout in ("NCHW", "NHWC"):
        chain = [ops.CenterCrop(6), ops.RandomInvert(1), ops.RandomEqualize(1), ops.ToLayout(layout)]
        loader = leat.Loader(dataset, 1, outputs={"x": chain}, framework="numpy")
        made = loader.batch_at(0, 0)["x"][0]
        want = ImageOps.equalize(ImageOps.invert(Image.fromarray(images[0, 2:8, 1:7])))
        assert ((made if layout == "NHWC" else made.transpose(1, 2, 0)) == np.asarray(want)).all()
        steps = [o["step"] for o in loader.stats()["operators"]]
        assert steps == ["CenterCrop", "RandomInvert+RandomEqualize"]
    assert (dataset[0]["x"] == images[0]).all()


def test_grayscale_changes_the_number_of_channels() -> None:
    pixel = np.array([[[200, 100, 50]]], np.uint8)
    assert drawn([ops.Grayscale()], pixel, 2).shape == (2, 1, 1, 1)
    assert drawn([ops.Grayscale(3)], pixel[:, :, :1], 2).tolist() == [[[[200] * 3]]] * 2
    chain = [ops.RandomEqualize(1), ops.Grayscale(), ops.RandomInvert(1), ops.Grayscale(3)]
    noise = images(1, channels=(3,))[0]
    want = 255 - np.asarray(ImageOps.equalize(Image.fromarray(noise)).convert("L"))
    assert (drawn(chain, noise, 1)[0] == want[:, :, None]).all()


@pytest.mark.parametrize("p", [0.5, 0.1])
def test_each_is_applied_as_often_as_p_says(p: float) -> None:
    image = np.array([[[10, 200, 90], [90, 17, 60]], [[3, 4, 5], [250, 20, 100]]] * 2, np.uint8).repeat(3, 1)
    image[1, 1] += 9  # inside, for sharpness
    for op in (
        ops.RandomGrayscale(p),
        ops.RandomInvert(p),
        ops.RandomPosterize(2, p),
        ops.RandomSolarize(128, p),
        ops.RandomAutocontrast(p),
        ops.RandomEqualize(p),
        ops.RandomAdjustSharpness(3, p),
    ):
        large = np.tile(image, (1, 30, 1)) if isinstance(op, ops.RandomEqualize) else image
        changed = (drawn([op], large) != large).any((1, 2, 3))
        shares = {True: p, False: 1 - p}
        assert_shares(changed.tolist(), shares, {True: p + 0.04, False: 0.96 - p}, {True: p - 0.04, False: 1.04 - p})


def test_operators_of_different_types_draw_apart() -> None:
    pixel = np.array([[[200, 100, 50]]], np.uint8)
    made = drawn([ops.RandomInvert(), ops.RandomPosterize(1), ops.RandomInvert()], pixel)[:, 0, 0]
    assert_shares(
        map(tuple, made.tolist()),
        {
            (200, 100, 50): 0.25,
            (55, 155, 205): 0.25,
            (128, 0, 0): 0.125,
            (127, 255, 255): 0.125,
            (0, 128, 128): 0.125,
            (255, 127, 127): 0.125,
        },
        {(200, 100, 50): 0.5, (128, 0, 0): 0.25, (127, 255, 255): 0.25},
    )


def test_channels_are_put_in_each_order_alike() -> None:
    for n in (1, 2, 3, 4):
        made = drawn([ops.RandomChannelPermutation()], np.arange(n, dtype=np.uint8)[None, None])[:, 0, 0]
        orders = list(itertools.permutations(range(n)))
        fair = {order: 1 / len(orders) for order in orders}
        lazy = {order: 0.9 / len(orders) + 0.1 * (order == orders[0]) for order in orders}
        assert_shares(map(tuple, made.tolist()), fair, *[lazy] * (n > 1))


def test_a_photometric_distortion_takes_its_steps_in_one_of_two_orders() -> None:
    image = images(7, channels=(3,))[6][:9, :9]
    distort = ops.RandomPhotometricDistort((1.2, 1.2), (0.7, 0.7), (1.4, 1.4), (0.1, 0.1), p=0.5)
    brightness, contrast, saturation, hue = (
        lambda im, k=k, f=f: CHANGES[k](im, f) for k, f in enumerate((1.2, 0.7, 1.4, 0.1))
    )
    shares: dict[bytes, float] = {}
    before: dict[bytes, float] = {}  # were the contrast never last
    for given in itertools.product((True, False), repeat=4):
        for first in (True, False):
            steps = [(0, brightness), (1, contrast), (2, saturation), (3, hue)]
            if not first:
                steps.append(steps.pop(1))
            made = to_pillow(image)
            for k, step in steps:
                made = step(made) if given[k] else made
            for order in itertools.permutations(range(3)):
                key, share = np.asarray(made)[:, :, order].tobytes(), 1 / 12 + 0.5 * (order == (0, 1, 2))
                shares[key] = shares.get(key, 0) + share / 32
                before[key] = before.get(key, 0) + share / 16 * first
    assert_shares((made.tobytes() for made in drawn([distort], image, 20000)), shares, before)


def test_the_factors_of_a_photometric_distortion_are_uniform() -> None:
    still: dict[str, Any] = {"brightness": (1, 1), "contrast": (1, 1), "saturation": (1, 1), "hue": (0, 0)}

    def made(pixels: Any, **changed: Any) -> Any:
        return drawn([ops.RandomPhotometricDistort(**(still | changed), p=1)], np.array([pixels], np.uint8), 30000).max(
            3
        )

    def check(values: Any, n: int) -> None:
        """Cut to whole numbers of [least, least + n), all alike; and not drawn by their logarithms, or in less."""
        least = int(values.min())
        fair = {least + i: 1 / n for i in range(n)}
        edges = np.log(np.arange(n + 1) / n + 0.5)
        assert_shares(
            values.tolist(),
            fair,
            dict(zip(fair, np.diff(edges) / (edges[-1] - edges[0]), strict=True)),
            {k: (i < 0.97 * n) / np.ceil(0.97 * n) for i, k in enumerate(fair)},
        )

    check(made([[200, 200, 200]], brightness=(0, 1))[:, 0, 0], 200)
    check(made([[0] * 3, [100] * 3], contrast=(1, 3))[:, 0, 1], 100)  # from the mean, 50, to 150, 250
    check(made([[176, 76, 76]], saturation=(0, 1))[:, 0, 0], 70)  # from its gray value, 106
    pixel, colors = np.array([[[255, 0, 0]]], np.uint8), {}
    for shift in range(-127, 128):
        turned = np.asarray(turn_hue(Image.fromarray(pixel), (shift + 0.5 * np.sign(shift)) / 255))
        part = 2 if shift == 0 else 0.5 if abs(shift) == 127 else 1
        colors[turned.tobytes()] = colors.get(turned.tobytes(), 0) + part / 255
    got = drawn([ops.RandomPhotometricDistort(**(still | {"hue": (-0.5, 0.5)}), p=1)], pixel, 40000)
    unordered = [tuple(np.sort(g.ravel())) for g in got]
    sorted_colors: dict[Any, float] = {}
    for key, share in colors.items():
        place = tuple(np.sort(np.frombuffer(key, np.uint8)))
        sorted_colors[place] = sorted_colors.get(place, 0) + share
    assert_shares(unordered, sorted_colors, {k: 1 / len(sorted_colors) for k in sorted_colors})
    assert len(colors) > 200


def test_arguments_are_checked() -> None:
    for make, match in (
        (lambda: ops.RandomInvert(1.5), "p is a probability"),
        (lambda: ops.RandomPosterize(9), "bits"),
        (lambda: ops.RandomSolarize("a"), "threshold"),
        (lambda: ops.RandomAdjustSharpness(-1), "sharpness_factor"),
        (lambda: ops.Grayscale(2), "num_output_channels"),
        (lambda: ops.RandomPhotometricDistort(hue=(-0.6, 0.5)), "hue"),
        (lambda: ops.RandomPhotometricDistort(contrast=(-1, 0.5)), "contrast"),
    ):
        with pytest.raises((ValueError, TypeError), match=match):
            make()
    pair = leat.from_arrays({"x": leat.field("uint8", (8, 8, 2), layout="HWC")}, x=np.zeros((1, 8, 8, 2), np.uint8))
    for op in (ops.Grayscale(), ops.RandomGrayscale(), ops.RandomPhotometricDistort()):
        with pytest.raises(
            leat.ProgramError, match=f"{type(op).__name__} in output 'x' takes an image of 1 or 3 channels"
        ):
            leat.Loader(pair, 1, outputs={"x": [op]})


def test_each_survives_json_and_draws_the_same() -> None:
    image = images(1, channels=(3,))[0]
    for op in [op for op, _ in CASES] + [
        ops.RandomPhotometricDistort(p=0.7),
        ops.RandomChannelPermutation(),
        ops.GaussianNoise(0.1, 0.2, False),
        ops.RandomErasing(0.7, (0.1, 0.2), (1, 2), "random"),
        ops.RandomErasing(value=(1, 2, 3)),
        ops.JPEG((10, 90)),
    ]:
        again = leat.program_from_json(leat.program_to_json({"x": [op]}))["x"].chain
        assert list(again) == [op]
        assert (drawn([op], image, 3) == drawn(list(again), image, 3)).all()


def test_gaussian_noise_is_normal_and_independent() -> None:
    gray = np.full((37, 150, 3), 0.25, np.float32)
    for layout in ("NHWC", "NCHW"):
        dataset = leat.from_arrays({"x": leat.field("float32", gray.shape, layout="HWC")}, x=gray[None].repeat(8, 0))
        chain = [ops.GaussianNoise(0.1, 0.3, clip=False), ops.ToLayout(layout)]
        made = leat.Loader(dataset, 8, outputs={"x": chain}, framework="numpy", seed=1).batch_at(0, 0)["x"]
        made = made if layout == "NHWC" else made.transpose(0, 2, 3, 1)
        noise = (made.astype(float) - 0.25 - 0.1) / 0.3
        rng = np.random.default_rng(0)
        uniform_sum = rng.uniform(-0.5, 0.5, (noise.size, 6)).sum(1) * np.sqrt(2)
        assert_follows(noise, normal(), noise * 1.04, noise + 0.03, uniform_sum)
        assert np.abs(noise).max() > 4
        for other in (noise[:, 1:], noise[:, :, 1:], noise[:, :, 64:], noise[..., 1:], noise[1:]):  # no two alike
            same = noise[tuple(slice(0, n) for n in other.shape)]
            assert abs(np.corrcoef(same.ravel(), other.ravel())[0, 1]) < 4 / np.sqrt(other.size)
    again = drawn([ops.GaussianNoise(0.1, 0.3, clip=False)], gray, 8, seed=1)
    assert (again == made).all()
    assert drawn([ops.GaussianNoise(0, 1)], gray, 8).min() == 0
    assert drawn([ops.GaussianNoise(0, 1)], gray, 8).max() == 1


def test_gaussian_noise_on_bytes_is_that_on_floats_cut() -> None:
    rng = np.random.default_rng(3)
    for c in (1, 2, 3, 4):
        image = rng.integers(0, 256, (9, 70, c), np.uint8)
        noise = drawn([ops.GaussianNoise(-0.02, 0.2, clip=False)], np.zeros_like(image, np.float32), 4) * 255
        want = image + np.trunc(noise).astype(int)
        near = np.abs(noise - np.rint(noise)) > 1e-3
        got = drawn([ops.GaussianNoise(-0.02, 0.2)], image, 4).astype(int)
        assert (got == want.clip(0, 255))[near].all()
        assert near.mean() > 0.99
        wrapped = drawn([ops.GaussianNoise(-0.02, 0.2, clip=False)], image, 4)
        assert (wrapped == want.astype(np.uint8))[near].all()


def test_gaussian_noise_takes_other_floats() -> None:
    image = np.linspace(0, 1, 5 * 7 * 3).reshape(5, 7, 3)
    exact = drawn([ops.GaussianNoise()], image.astype(np.float32), 2)
    for dtype, near in ((np.float16, 2e-3), (np.float64, 1e-6)):
        made = drawn([ops.GaussianNoise()], image.astype(dtype), 2)
        assert made.dtype == dtype
        assert np.abs(made - exact).max() < near
    whole = leat.from_arrays({"x": leat.field("int32", (5, 7, 3), layout="HWC")}, x=np.zeros((1, 5, 7, 3), np.int32))
    with pytest.raises(leat.ProgramError, match="GaussianNoise in output 'x' takes a uint8 image or one of floats"):
        leat.Loader(whole, 1, outputs={"x": [ops.GaussianNoise()]})


def boxes_of(changed: Any) -> Any:
    """(y, x, h, w) of what changed in each image, which is a box."""
    found = []
    for mask in changed.any(3):
        rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
        y, x, h, w = rows[0], columns[0], rows[-1] - rows[0] + 1, columns[-1] - columns[0] + 1
        assert mask.sum() == h * w
        found.append((y, x, h, w))
    return np.array(found)


def test_the_box_that_is_erased_follows_torchvisions_distribution() -> None:
    h, w, n = 60, 90, 6000
    image = np.full((h, w, 1), 9, np.uint8)
    made = drawn([ops.RandomErasing(0.3)], image, 4000) != image
    assert_shares(made.any((1, 2, 3)).tolist(), {True: 0.3, False: 0.7}, {True: 0.34, False: 0.66})
    boxes = boxes_of(drawn([ops.RandomErasing(1)], image, n) != image)
    rng, tries = np.random.default_rng(0), 200000

    def reference(logarithmic: bool = True) -> Any:
        """The definition, drawn by NumPy."""
        area = h * w * rng.uniform(0.02, 0.33, tries)
        ratio = np.exp(rng.uniform(np.log(0.3), np.log(3.3), tries)) if logarithmic else rng.uniform(0.3, 3.3, tries)
        sides = np.rint(np.sqrt([area * ratio, area / ratio])).astype(int)
        bh, bw = sides[:, (sides[0] < h) & (sides[1] < w)]
        return np.stack([rng.integers(0, h - bh + 1), rng.integers(0, w - bw + 1), bh, bw], 1)

    want, wrong = reference(), reference(logarithmic=False)
    for values in (
        lambda b: b[:, 2] * b[:, 3],  # area
        lambda b: np.log(b[:, 2] / b[:, 3]),  # ratio
        lambda b: b[:, 0] / (h - b[:, 2]),  # place among all that there are
        lambda b: b[:, 1] / (w - b[:, 3]),
    ):
        edges = np.unique(np.quantile(values(want), np.linspace(0, 1, 12)[1:-1]))

        def shares(found: Any, edges: Any = edges) -> dict[int, float]:
            parts = np.bincount(np.searchsorted(edges, found), minlength=len(edges) + 1) / len(found)
            return dict(enumerate(parts))

        right = shares(values(want))
        others = [shares(values(want) * 1.1), *([shares(values(wrong))] if values(want).min() < 0 else [])]
        assert_shares(np.searchsorted(edges, values(boxes)).tolist(), right, *others)
    nothing = drawn([ops.RandomErasing(1, scale=(1, 1), ratio=(9, 9))], image, 20)  # no box is smaller than the image
    assert (nothing == image).all()


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_what_is_erased_becomes_constant_or_noise_behind_any_dtype(layout: str) -> None:
    rng = np.random.default_rng(1)
    image = rng.integers(1, 255, (50, 40, 3), np.uint8)
    dataset = leat.from_arrays({"x": leat.field("uint8", image.shape, layout="HWC")}, x=image[None].repeat(80, 0))

    def made(*chain: Any) -> Any:
        outputs = {"x": [*chain, ops.ToLayout(layout)]}
        found = leat.Loader(dataset, 80, outputs=outputs, framework="numpy", seed=2).batch_at(0, 0)["x"]
        return found if layout == "NHWC" else found.transpose(0, 2, 3, 1)

    boxes = boxes_of(made(ops.RandomErasing(1)) != image)
    for before in (
        [ops.Normalize((0.4, 0.5, 0.6), (0.2, 0.2, 0.3))],
        [ops.ToDtype("float16")],
        [ops.ToDtype("int64")],
        [],
    ):
        whole = made(*before)
        for value in (7, (1, 2.5, 3)):
            want = whole.copy()
            for i, (y, x, h, w) in enumerate(boxes):
                want[i, y : y + h, x : x + w] = np.array(value).astype(whole.dtype)
            assert (made(*before, ops.RandomErasing(1, value=value)) == want).all()
            assert (
                made(*before, ops.RandomErasing(1, value=value), ops.RandomHorizontalFlip(1)) == want[:, :, ::-1]
            ).all()
    noisy, whole = made(ops.Normalize(0, 1), ops.RandomErasing(1, value="random")), made(ops.Normalize(0, 1))
    changed = noisy != whole
    assert (boxes_of(changed) == boxes).all()
    assert_follows(noisy[changed], normal(), noisy[changed] + 0.03, noisy[changed] * 1.04)
    steps = [ops.CenterCrop(30), ops.Normalize(0, 1), ops.RandomErasing(1)]
    loader = leat.Loader(dataset, 1, outputs={"x": steps})
    loader.batch_at(0, 0)
    assert [o["step"] for o in loader.stats()["operators"]] == ["CenterCrop+Normalize", "RandomErasing"]


def test_arguments_of_noise_and_erasing_are_checked() -> None:
    for make, match in (
        (lambda: ops.GaussianNoise(sigma=-1), "sigma"),
        (lambda: ops.RandomErasing(scale=(0, 2)), "scale"),
        (lambda: ops.RandomErasing(ratio=(0, 2)), "ratio"),
        (lambda: ops.RandomErasing(value="noise"), "value"),
    ):
        with pytest.raises(ValueError, match=match):
            make()
    image = leat.from_arrays({"x": leat.field("uint8", (8, 8, 3), layout="HWC")}, x=np.zeros((1, 8, 8, 3), np.uint8))
    with pytest.raises(leat.ProgramError, match="RandomErasing in output 'x' takes an image with as many channels"):
        leat.Loader(image, 1, outputs={"x": [ops.RandomErasing(value=(1, 2))]})


def through_jpeg(image: Any, quality: int) -> Any:
    data = io.BytesIO()
    to_pillow(image).save(data, "JPEG", quality=quality)
    return from_pillow(Image.open(data))


def test_jpeg_gives_what_pillow_saves_and_opens() -> None:
    for i, image in enumerate(images(25)):
        quality = (1, 30, 75, 92, 100)[i % 5]
        got = applied(image, [ops.JPEG(quality)], layout="CHW" if i % 3 == 0 else "HWC")
        assert worst(got, through_jpeg(image, quality)) <= 1
    (image,) = images(1, channels=(3,))
    smooth = ops.GaussianBlur(3, 1)
    got = applied(image, [smooth, ops.JPEG(60), ops.RandomInvert(1)])
    assert worst(255 - got, through_jpeg(applied(image, [smooth]), 60)) <= 1


def test_the_quality_of_a_jpeg_is_any_of_its_range_alike() -> None:
    image = np.random.default_rng(0).integers(0, 256, (16, 16, 3), np.uint8)
    known = {drawn([ops.JPEG(q)], image, 1)[0].tobytes(): q for q in range(20, 26)}
    assert len(known) == 6
    found = [known[made.tobytes()] for made in drawn([ops.JPEG((20, 25))], image, 2000)]
    assert_shares(found, {q: 1 / 6 for q in range(20, 26)}, {q: 1 / 5 for q in range(20, 25)})
    for quality in (0, 101, (50, 20), (1, 2, 3)):
        with pytest.raises(ValueError, match="quality"):
            ops.JPEG(quality)
