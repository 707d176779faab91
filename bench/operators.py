"""Each operator alone on images of 224 x 224 x 3 bytes, beside what does the same in OpenCV. One core.

    operators.py [NAME ...] [--rounds 15] [--rows 32]

Both make a batch of the same images: leat's time is that of a whole batch, with what its loader takes; OpenCV's that of
its calls, each of which writes into its row of an array. It is CPU time, the best of several rounds that both take in
turns in one process. Above 1, leat is the faster one. Without OpenCV, leat's times stand alone. Albumentations calls
OpenCV for these operators, so its times are above OpenCV's.

Where the two do not do the same, the name in brackets says what OpenCV does: when it reduces an image, its filters look
at the nearest pixels alone (as ours with antialias=False), and INTER_AREA is the one that looks at all.

Run it with a Python that has both, such as one of an environment with OpenCV, with leat's folder on its path:

    PYTHONPATH=.venv/lib/python3.11/site-packages python bench/operators.py
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import leat

try:
    import cv2
except ImportError:
    cv2 = None

SIDE = 224
ops = leat.ops


def photo() -> Any:
    """Smooth, with edges and some noise."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:SIDE, :SIDE] / SIDE
    waves = [np.sin(6 * x * a + 4 * y * b + a) for a, b in ((1, 2), (2.5, 0.5), (0.7, 3))]
    image = (
        np.stack(waves, 2) * 70 + 128 + 40 * ((x * 5).astype(int) % 2)[..., None] + rng.normal(0, 6, (SIDE, SIDE, 3))
    )
    return np.clip(image, 0, 255).astype(np.uint8)


IMAGE = photo()


# ---- what OpenCV does: the same operator on `image`, into `out` ----

Call = Callable[[Any, Any], Any]


def lut(table: Any) -> Call:
    values = np.clip(table, 0, 255).astype(np.uint8)
    return lambda image, out: cv2.LUT(image, values, out)


def gray3(image: Any, out: Any = None) -> Any:
    return cv2.cvtColor(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), cv2.COLOR_GRAY2RGB, out)


def brightness(image: Any, out: Any, factor: float) -> Any:
    return cv2.LUT(image, np.clip(np.arange(256) * factor, 0, 255).astype(np.uint8), out)


def contrast(image: Any, out: Any, factor: float) -> Any:
    mean = cv2.mean(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY))[0]
    return cv2.LUT(image, np.clip(np.arange(256) * factor + mean * (1 - factor), 0, 255).astype(np.uint8), out)


def saturation(image: Any, out: Any, factor: float) -> Any:
    return cv2.addWeighted(image, factor, gray3(image), 1 - factor, 0, out)


def hue(image: Any, out: Any, by: int) -> Any:
    hsv = cv2.cvtColor(image, cv2.COLOR_RGB2HSV)
    h, s, v = cv2.split(hsv)
    turned = cv2.LUT(h, ((np.arange(256) + by) % 180).astype(np.uint8))
    return cv2.cvtColor(cv2.merge((turned, s, v)), cv2.COLOR_HSV2RGB, out)


def jitter(image: Any, out: Any) -> Any:
    return hue(saturation(contrast(brightness(image, None, 1.2), None, 0.8), None, 1.3), out, 9)


def autocontrast(image: Any, out: Any) -> Any:
    made = []
    for channel in cv2.split(image):
        low, high, *_ = cv2.minMaxLoc(channel)
        made.append(cv2.LUT(channel, np.clip((np.arange(256) - low) * (255 / (high - low)), 0, 255).astype(np.uint8)))
    return cv2.merge(made, out)


def noise(image: Any, out: Any) -> Any:
    made = np.empty(image.shape, np.int16)
    cv2.randn(made, 0, 25.5)
    return cv2.add(image, made, out, dtype=cv2.CV_8U)


SHARPEN = np.array([[-1, -1, -1], [-1, 21, -1], [-1, -1, -1]], np.float32) / 13
CYCLE = [0, 1, 1, 2, 2, 0]


def erased(image: Any, out: Any) -> Any:
    np.copyto(out, image)
    return cv2.rectangle(out, (60, 50), (139, 129), (0, 0, 0), -1)


def jpeg(image: Any, out: Any) -> Any:
    np.copyto(out, cv2.imdecode(cv2.imencode(".jpg", image, [1, 75])[1], cv2.IMREAD_COLOR))


def turn(angle: float, scale: float = 1.0) -> Any:
    return cv2.getRotationMatrix2D((SIDE / 2, SIDE / 2), angle, scale)


def warp(angle: float, scale: float, mode: str) -> Call:
    flags = getattr(cv2, f"INTER_{mode}", 0)
    return lambda image, out: cv2.warpAffine(image, turn(angle, scale), (SIDE, SIDE), out, flags)


def perspective(mode: str) -> Call:
    flags = getattr(cv2, f"INTER_{mode}", 0)
    to = np.array([[20, 10], [210, 30], [200, 215], [8, 200]], np.float32)
    at = np.array([[0, 0], [223, 0], [223, 223], [0, 223]], np.float32)
    return lambda image, out: cv2.warpPerspective(image, cv2.getPerspectiveTransform(to, at), (SIDE, SIDE), out, flags)


def elastic(image: Any, out: Any) -> Any:
    """Albumentations' and torchvision's way: noise, blurred, and a map of floats."""
    y, x = np.mgrid[:SIDE, :SIDE].astype(np.float32)
    noise = np.empty((SIDE, SIDE, 2), np.float32)
    cv2.randu(noise, -1, 1)
    noise = cv2.GaussianBlur(noise, (41, 41), 5) * 25
    return cv2.remap(image, x + noise[..., 0], y + noise[..., 1], cv2.INTER_LINEAR, out)


def resized(mode: str) -> Call:
    return lambda image, out: cv2.resize(image, out.shape[1::-1], out, interpolation=getattr(cv2, f"INTER_{mode}"))


def bordered(by: int, mode: str) -> Call:
    return lambda image, out: cv2.copyMakeBorder(image, by, by, by, by, getattr(cv2, f"BORDER_{mode}"), out)


def cropped(image: Any, out: Any) -> Any:
    np.copyto(out, cv2.copyMakeBorder(image, 4, 4, 4, 4, cv2.BORDER_CONSTANT)[3:-5, 3:-5])


def blurred(image: Any, out: Any, side: int, sigma: float) -> Any:
    return cv2.GaussianBlur(image, (side, side), sigma, out)


def resize(side: int, mode: str, antialias: bool = True) -> Any:
    return ops.Resize((side, side), mode, antialias=antialias)


#: name: operator, the same in OpenCV
CASES: dict[str, tuple[Any, Call | None]] = {
    "ColorJitter(brightness)": (ops.ColorJitter((1.2, 1.2)), lambda i, o: brightness(i, o, 1.2)),
    "ColorJitter(contrast)": (ops.ColorJitter(contrast=(0.8, 0.8)), lambda i, o: contrast(i, o, 0.8)),
    "ColorJitter(saturation)": (ops.ColorJitter(saturation=(1.3, 1.3)), lambda i, o: saturation(i, o, 1.3)),
    "ColorJitter(hue)": (ops.ColorJitter(hue=(0.05, 0.05)), lambda i, o: hue(i, o, 9)),
    "ColorJitter(all four)": (ops.ColorJitter(0.4, 0.4, 0.4, 0.1), jitter),
    "RandomPhotometricDistort": (
        ops.RandomPhotometricDistort(p=1),
        lambda i, o: cv2.mixChannels([jitter(i, None)], [o], CYCLE),
    ),
    "Grayscale": (ops.Grayscale(), lambda i, o: cv2.cvtColor(i, cv2.COLOR_RGB2GRAY, o)),
    "RandomGrayscale": (ops.RandomGrayscale(1), gray3),
    "RandomInvert": (ops.RandomInvert(1), lambda i, o: cv2.bitwise_not(i, o)),
    "RandomPosterize": (ops.RandomPosterize(3, 1), lut(np.arange(256) & 0xE0)),
    "RandomSolarize": (
        ops.RandomSolarize(128, 1),
        lut(np.where(np.arange(256) < 128, np.arange(256), np.arange(255, -1, -1))),
    ),
    "RandomAutocontrast": (ops.RandomAutocontrast(1), autocontrast),
    "RandomEqualize": (
        ops.RandomEqualize(1),
        lambda i, o: cv2.merge([cv2.equalizeHist(c) for c in cv2.split(i)], o),
    ),
    "RandomAdjustSharpness": (ops.RandomAdjustSharpness(2, 1), lambda i, o: cv2.filter2D(i, -1, SHARPEN, o)),
    "RandomChannelPermutation": (
        ops.RandomChannelPermutation(),
        lambda i, o: cv2.mixChannels([i], [o], CYCLE),
    ),
    "GaussianBlur(5)": (ops.GaussianBlur(5, 1.0), lambda i, o: blurred(i, o, 5, 1.0)),
    "GaussianBlur(23)": (ops.GaussianBlur(23, (0.1, 2.0)), lambda i, o: blurred(i, o, 23, 1.05)),
    "GaussianNoise": (ops.GaussianNoise(), noise),
    "JPEG": (ops.JPEG(75), jpeg),
    "RandomErasing": (ops.RandomErasing(1), erased),
    "RandomErasing(random)": (ops.RandomErasing(1, value="random"), None),
    "RandomHorizontalFlip": (ops.RandomHorizontalFlip(1), lambda i, o: cv2.flip(i, 1, o)),
    "RandomVerticalFlip": (ops.RandomVerticalFlip(1), lambda i, o: cv2.flip(i, 0, o)),
    "Pad(constant)": (ops.Pad(20), bordered(20, "CONSTANT")),
    "Pad(reflect)": (ops.Pad(20, padding_mode="reflect"), bordered(20, "REFLECT_101")),
    "Pad(edge)": (ops.Pad(20, padding_mode="edge"), bordered(20, "REPLICATE")),
    "RandomCrop(padding=4)": (ops.RandomCrop(SIDE, 4), cropped),
    "Resize(160, nearest)": (resize(160, "nearest"), resized("NEAREST")),
    "Resize(160, bilinear, antialias=False)": (resize(160, "bilinear", False), resized("LINEAR")),
    "Resize(160, bilinear) (INTER_AREA)": (resize(160, "bilinear"), resized("AREA")),
    "Resize(160, bicubic, antialias=False)": (resize(160, "bicubic", False), resized("CUBIC")),
    "Resize(160, bicubic) (no antialias)": (resize(160, "bicubic"), resized("CUBIC")),
    "Resize(160, lanczos) (no antialias)": (resize(160, "lanczos"), resized("LANCZOS4")),
    "Resize(320, nearest)": (resize(320, "nearest"), resized("NEAREST")),
    "Resize(320, bilinear)": (resize(320, "bilinear"), resized("LINEAR")),
    "Resize(320, bicubic)": (resize(320, "bicubic"), resized("CUBIC")),
    "Resize(320, lanczos)": (resize(320, "lanczos"), resized("LANCZOS4")),
    "RandomRotation(nearest)": (ops.RandomRotation((20, 20)), warp(20, 1, "NEAREST")),
    "RandomRotation(bilinear)": (ops.RandomRotation((20, 20), "bilinear"), warp(20, 1, "LINEAR")),
    "RandomAffine(nearest)": (
        ops.RandomAffine((20, 20), scale=(1.1, 1.1), shear=(5, 5)),
        warp(20, 1.1, "NEAREST"),
    ),
    "RandomAffine(bilinear)": (
        ops.RandomAffine((20, 20), None, (1.1, 1.1), (5, 5), "bilinear"),
        warp(20, 1.1, "LINEAR"),
    ),
    "RandomAffine(bicubic)": (
        ops.RandomAffine((20, 20), None, (1.1, 1.1), (5, 5), "bicubic"),
        warp(20, 1.1, "CUBIC"),
    ),
    "RandomPerspective(nearest)": (ops.RandomPerspective(0.2, 1, "nearest"), perspective("NEAREST")),
    "RandomPerspective(bilinear)": (ops.RandomPerspective(0.2, 1), perspective("LINEAR")),
    "ElasticTransform": (ops.ElasticTransform(), elastic),
}


class Batches:
    """Both ways to make a batch of one operator."""

    def __init__(self, op: Any, call: Call | None, rows: int) -> None:
        self.images = np.repeat(IMAGE[None], rows, 0)
        self.rows, self.call = rows, call
        dataset = leat.from_arrays({"x": leat.field("uint8", IMAGE.shape, layout="HWC")}, x=self.images)
        outputs = {"x": [op, ops.ToLayout("NHWC")]}
        self.loader = leat.Loader(dataset, rows, outputs=outputs, framework="numpy", num_threads=1)
        made = self.loader.batch_at(0, 0)["x"]
        self.made = np.zeros(made.shape if made.shape[-1] > 1 else made.shape[:-1], made.dtype)

    def leat(self) -> None:
        self.loader.batch_at(0, 0)

    def opencv(self) -> None:
        for image, out in zip(self.images, self.made, strict=True):
            self.call(image, out)

    def spent(self, make: Callable[[], None]) -> float:
        """Microseconds per image, of one batch."""
        begin = time.process_time()
        make()
        return (time.process_time() - begin) / self.rows * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="only operators whose names contain one of these")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--rows", type=int, default=32)
    args = parser.parse_args()
    if cv2 is not None:
        cv2.setNumThreads(1)
    print(f"leat {leat.__version__}, OpenCV {cv2.__version__ if cv2 else 'not installed'}; us per image")
    print("| operator | leat | OpenCV | times as fast |\n|---|---|---|---|")
    for name, (op, call) in CASES.items():
        if args.names and not any(part.lower() in name.lower() for part in args.names):
            continue
        batches = Batches(op, call, args.rows)
        turns = []
        for _ in range(args.rounds):
            mine = batches.spent(batches.leat)
            turns.append((mine, batches.spent(batches.opencv) if cv2 and call else float("nan")))
        mine, theirs = (min(t[i] for t in turns) for i in (0, 1))
        told = (f"{theirs:.1f}", f"{theirs / mine:.2f}") if theirs == theirs else ("", "")
        print(f"| `{name}` | {mine:.1f} | {told[0]} | {told[1]} |", flush=True)


if __name__ == "__main__":
    main()
