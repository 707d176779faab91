"""Jobs of bench/run.py with the augmentations of trainings, beside torchvision's v2 on uint8 tensors and Albumentations
with OpenCV where these are installed. leat reads photos in their `fast` form. --jobs names them.

jitter        random-resized crop 224, flip, ColorJitter(.4, .4, .4, .1), normalise
randaugment   random-resized crop 224, RandAugment, normalise, RandomErasing
simclr        two views: crop 224, flip, ColorJitter(.8, .8, .8, .2) at 0.8, gray at 0.2, blur (23 taps) at 0.5
detection     D-FINE's recipe at 640 with boxes, batches of 16: photometric distortion, zoom-out, IoU crop, flip, resize
masks         crop 512, flip, of a photo with its mask of class ids, batches of 16

Photos and boxes are those of LEAT_DATA (imagenet; coco128 for the last two), or are made. Masks are made.
"""

from __future__ import annotations

import importlib.util
import io
import os
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from jobs import CROP, MEAN, STD, WORK, Epoch, Items, leat_loader, once, photo_files, torch_loader

import leat

DETECTION, MASK = 640, 512
FEW = 4  # of blurs, which take torchvision a tenth of a second each, every fourth photo


@cache
def files_of(job: str) -> list[str]:
    if job in ("detection", "masks") and "LEAT_DATA" in os.environ:
        return sorted(str(f) for f in (Path(os.environ["LEAT_DATA"]) / "coco128" / "images").rglob("*.jpg"))
    return photo_files()[:: FEW if job == "simclr" else 1]


def stored(job: str) -> Path:
    """The photos in their fast form, with what goes with them."""
    fields = {"image": "image", "label": "int64"}
    if job == "detection":
        fields = {"image": "image", "boxes": leat.boxes("xyxy"), "labels": leat.field("int64", (None,))}
    if job == "masks":
        fields = {"image": "image", "mask": leat.mask()}

    def make(part: Path) -> None:
        with leat.Writer(part, fields, photos="fast") as w:
            for i, file in enumerate(files_of(job)):
                photo = Path(file).read_bytes()
                if job == "detection":
                    boxes = boxes_of(file)
                    w.add(image=photo, boxes=boxes, labels=np.arange(len(boxes)))
                elif job == "masks":
                    w.add(image=photo, mask=mask_of(file))
                else:
                    w.add(image=photo, label=i)

    return once(WORK / f"augment-{job}-{len(files_of(job))}-{leat.__version__}.leat", make)


@cache
def size_of(file: str) -> tuple[int, int]:
    from PIL import Image

    with Image.open(file) as image:
        return image.size


def boxes_of(file: str) -> Any:
    """float32 (n, 4), corners in pixels: of YOLO's text file for the photo, or eight that follow from its name."""
    w, h = size_of(file)
    labels = Path(file.replace("/images/", "/object_detection/labels/")).with_suffix(".txt")
    if labels.exists():
        found = np.loadtxt(labels, ndmin=2).reshape(-1, 5)[:, 1:]
        corners = np.concatenate([found[:, :2] - found[:, 2:] / 2, found[:, :2] + found[:, 2:] / 2], 1)
        return (corners.clip(0, 1) * [w, h, w, h]).astype(np.float32)
    rng = np.random.default_rng(sum(Path(file).name.encode()))
    at, size = rng.uniform(0, 0.6, (8, 2)), rng.uniform(0.05, 0.4, (8, 2))
    return (np.concatenate([at, at + size], 1) * [w, h, w, h]).astype(np.float32)


@cache
def mask_of(file: str) -> bytes:
    """A PNG of 21 classes in rectangles."""
    from PIL import Image

    w, h = size_of(file)
    mask = np.zeros((h, w), np.uint8)
    for i, (x0, y0, x1, y1) in enumerate(boxes_of(file).astype(int)):
        mask[y0:y1, x0:x1] = 1 + i % 20
    made = io.BytesIO()
    Image.fromarray(mask).save(made, "PNG")
    return made.getvalue()


# ---- torchvision ----


def torchvision_photos(job: str, cores: int) -> Epoch:
    import torch
    from torchvision.io import ImageReadMode, decode_image, read_file
    from torchvision.transforms import v2

    start = [v2.RandomResizedCrop(CROP, antialias=True), v2.RandomHorizontalFlip()]
    end = [v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)]
    chains = {
        "jitter": [*start, v2.ColorJitter(0.4, 0.4, 0.4, 0.1), *end],
        "randaugment": [start[0], v2.RandAugment(), *end, v2.RandomErasing()],
        "simclr": [
            *start,
            v2.RandomApply([v2.ColorJitter(0.8, 0.8, 0.8, 0.2)], p=0.8),
            v2.RandomGrayscale(0.2),
            v2.RandomApply([v2.GaussianBlur(23, (0.1, 2.0))], p=0.5),
            end[0],
        ],
    }
    files, chain = files_of(job), v2.Compose(chains[job])

    def item(i: int) -> Any:
        pixels = decode_image(read_file(files[i]), ImageReadMode.RGB)
        return (chain(pixels), chain(pixels), i) if job == "simclr" else (chain(pixels), i)

    return torch_loader(Items(len(files), item), 64, cores)


def torchvision_targets(job: str, cores: int) -> Epoch:
    import torch
    from torchvision import tv_tensors
    from torchvision.io import ImageReadMode, decode_image, read_file
    from torchvision.transforms import v2

    files = files_of(job)
    if job == "detection":
        chain = v2.Compose(
            [
                v2.RandomPhotometricDistort(p=0.5),
                v2.RandomZoomOut(fill=0),
                v2.RandomApply([v2.RandomIoUCrop()], p=0.8),
                v2.SanitizeBoundingBoxes(min_size=1),
                v2.RandomHorizontalFlip(),
                v2.Resize((DETECTION, DETECTION), antialias=True),
                v2.SanitizeBoundingBoxes(min_size=1),
                v2.ToDtype(torch.float32, scale=True),
                v2.ConvertBoundingBoxFormat(tv_tensors.BoundingBoxFormat.CXCYWH),
            ]
        )
    else:
        end = [v2.ToDtype({tv_tensors.Image: torch.float32, "others": None}, scale=True), v2.Normalize(MEAN, STD)]
        chain = v2.Compose([v2.RandomCrop(MASK, pad_if_needed=True), v2.RandomHorizontalFlip(), *end])

    def item(i: int) -> Any:
        image = tv_tensors.Image(decode_image(read_file(files[i]), ImageReadMode.RGB))
        if job == "masks":
            mask = decode_image(torch.frombuffer(bytearray(mask_of(files[i])), dtype=torch.uint8))[0]
            return (*chain(image, tv_tensors.Mask(mask)), i)
        boxes = torch.from_numpy(boxes_of(files[i]))
        size: Any = image.shape[-2:]
        kept: Any = tv_tensors.BoundingBoxes(boxes, format="XYXY", canvas_size=size)
        return (*chain(image, {"boxes": kept, "labels": torch.arange(len(boxes))}), i)

    def collate(rows: list[Any]) -> Any:
        images = torch.stack([r[0] for r in rows])
        return images, [r[1] for r in rows], torch.tensor([r[2] for r in rows])

    return torch_loader(Items(len(files), item), 16, cores, collate_fn=collate if job == "detection" else None)


# ---- Albumentations ----


def albumentations(job: str, cores: int) -> Epoch:
    import albumentations as A
    import cv2
    import torch

    cv2.setNumThreads(1)

    def jitter(by: float, hue: float, p: float) -> Any:
        span = (1 - by, 1 + by)
        return A.ColorJitter(brightness=span, contrast=span, saturation=span, hue=(-hue, hue), p=p)

    start = [A.RandomResizedCrop(size=(CROP, CROP), interpolation=cv2.INTER_LINEAR), A.HorizontalFlip()]
    chains = {
        "jitter": [*start, jitter(0.4, 0.1, 1), A.Normalize(MEAN, STD)],
        "simclr": [
            *start,
            jitter(0.8, 0.2, 0.8),
            A.ToGray(p=0.2),
            A.GaussianBlur(blur_limit=(23, 23), sigma_limit=(0.1, 2.0), p=0.5),
            A.ToFloat(max_value=255),
        ],
        "masks": [
            A.RandomCrop(MASK, MASK, pad_if_needed=True),
            A.HorizontalFlip(),
            A.Normalize(MEAN, STD),
        ],
    }
    files, chain = files_of(job), A.Compose(chains[job])

    def planes(pixels: Any) -> Any:
        return torch.from_numpy(np.ascontiguousarray(pixels.transpose(2, 0, 1)))

    def item(i: int) -> Any:
        pixels = cv2.cvtColor(cv2.imdecode(np.fromfile(files[i], np.uint8), cv2.IMREAD_COLOR), cv2.COLOR_BGR2RGB)
        if job == "masks":
            mask = cv2.imdecode(np.frombuffer(mask_of(files[i]), np.uint8), cv2.IMREAD_UNCHANGED)
            both = chain(image=pixels, mask=mask)
            return planes(both["image"]), torch.from_numpy(np.ascontiguousarray(both["mask"])), i
        if job == "simclr":
            return planes(chain(image=pixels)["image"]), planes(chain(image=pixels)["image"]), i
        return planes(chain(image=pixels)["image"]), i

    return torch_loader(Items(len(files), item), 16 if job == "masks" else 64, cores)


# ---- leat ----


def view() -> list[Any]:
    """A view of SimCLR; operators of its own, since the same object in two chains draws once."""
    ops = leat.ops
    return [
        ops.Decode(),
        ops.RandomResizedCrop(CROP),
        ops.RandomHorizontalFlip(),
        ops.RandomApply([ops.ColorJitter(0.8, 0.8, 0.8, 0.2)], p=0.8),
        ops.RandomGrayscale(0.2),
        ops.RandomApply([ops.GaussianBlur(23, (0.1, 2.0))], p=0.5),
        ops.ToDtype("float32", scale=True),
    ]


def ours(job: str, cores: int) -> Epoch:
    ops = leat.ops
    start, end = [ops.Decode(), ops.RandomResizedCrop(CROP)], [ops.Normalize(MEAN, STD)]
    makers: dict[str, Callable[[], dict[Any, Any]]] = {
        "jitter": lambda: {
            "image": [*start, ops.RandomHorizontalFlip(), ops.ColorJitter(0.4, 0.4, 0.4, 0.1), *end],
            "label": [],
        },
        "randaugment": lambda: {"image": [*start, ops.RandAugment(), *end, ops.RandomErasing()], "label": []},
        "simclr": lambda: {"a": leat.Out("image", view()), "b": leat.Out("image", view()), "label": []},
        "detection": lambda: {
            ("image", "boxes", "labels"): [
                ops.Decode(),
                ops.RandomPhotometricDistort(p=0.5),
                ops.RandomZoomOut(fill=0),
                ops.RandomApply([ops.RandomIoUCrop()], p=0.8),
                ops.SanitizeBoundingBoxes(min_size=1),
                ops.RandomHorizontalFlip(),
                ops.Resize((DETECTION, DETECTION)),
                ops.SanitizeBoundingBoxes(min_size=1),
                ops.ToDtype("float32", scale=True),
                ops.ConvertBoundingBoxFormat("cxcywh"),
            ]
        },
        "masks": lambda: {
            ("image", "mask"): [
                ops.Decode(),
                ops.RandomCrop(MASK, pad_if_needed=True),
                ops.RandomHorizontalFlip(),
                *end,
            ]
        },
    }
    outputs, batch = makers[job](), 16 if job in ("detection", "masks") else 64
    epoch = leat_loader(stored(job), batch, cores, outputs)

    def epochs() -> Iterator[int]:
        """Small data over and over: what a loader does once an epoch does not decide."""
        for _ in range(8 if job in ("detection", "masks") else 1):
            yield from epoch()

    return epochs


def contenders(job: str, *peers: tuple[str, Callable[[str, int], Epoch]]) -> dict[str, Callable[[int], Epoch]]:
    found = [(name, make) for name, make in peers if importlib.util.find_spec(name)]
    return {name: lambda cores, make=make: make(job, cores) for name, make in [*found, ("leat", ours)]}


PHOTOS, TARGETS = ("torchvision", torchvision_photos), ("torchvision", torchvision_targets)
OPENCV = ("albumentations", albumentations)
JOBS = {
    "jitter": contenders("jitter", PHOTOS, OPENCV),
    "randaugment": contenders("randaugment", PHOTOS),  # Albumentations has none
    "simclr": contenders("simclr", PHOTOS, OPENCV),
    "detection": contenders("detection", TARGETS),
    "masks": contenders("masks", TARGETS, OPENCV),
}
