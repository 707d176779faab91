"""A small detector learns from photos and their boxes.

    python examples/detection.py PHOTOS ANNOTATIONS [--short] [--epochs N] [--out build/detection]
    python examples/detection.py PACKED.leat

PHOTOS and ANNOTATIONS are what `leat.open` takes: a folder of photos, and a COCO file (`instances_train2017.json`), a
folder of YOLO's text files or one of Pascal VOC's XML files. A file that `leat pack --coco`, `--yolo` or `--voc` has
made stands alone. A network that looks at every 16th pixel once is trained on mosaics and on photos in a size per step;
the last epochs have whole photos alone, without mosaic and distorted colors. Prints the loss and how many objects of
the first photos are found, and writes three contact sheets: what the network was given, with the boxes that moved
along; the first photos with their boxes; and what it finds in them. Exit code 1 if the loss does not fall to three
quarters.
"""

from __future__ import annotations

import argparse
import colorsys
import math
import os
import sys
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch: its threads leave the cores to the loader

import torch
from PIL import Image, ImageDraw
from torch import nn
from torch.nn import functional

import leat
from leat import ops

SIZES = [96, 128, 160]
STRIDE = 16
BATCH = 8
STEPS, SHORT = 1500, 300  # about as many whatever the number of photos, but no fewer than three epochs
SHOWN = 16  # photos
NAMES = ("image", "boxes", "label")
Found = list[tuple[int, float, list[float]]]  # (class, score, box of corners as shares of the image) of one image


def chain(epochs: int) -> list[ops.Operator]:
    """The training's operators; the last third of the epochs has fewer of them."""
    last = epochs * 2 // 3
    return [
        ops.Decode(),
        ops.Mosaic(160).epochs(stop=last),
        ops.CenterCrop(160).epochs(stop=last),
        ops.RandomPhotometricDistort(p=0.5).epochs(stop=last),
        ops.RandomHorizontalFlip(),
        ops.Letterbox(leat.PerBatch([(s, s) for s in SIZES])),
        ops.ClampBoundingBoxes(),
        ops.SanitizeBoundingBoxes(min_size=4),
        ops.ToDtype("float32"),
        ops.ConvertBoundingBoxFormat("cxcywh", normalized=True),
    ]


class Detector(nn.Module):
    """For each cell of 16 x 16 pixels: how likely the middle of an object of each class lies in it, and its box."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        sides = [3, 24, 48, 96, 128]
        blocks = [self.block(a, b, 2) for a, b in zip(sides, sides[1:], strict=False)]
        self.body = nn.Sequential(*blocks, self.block(128, 128, 1))
        self.score, self.box = nn.Conv2d(128, classes, 1), nn.Conv2d(128, 4, 1)
        nn.init.constant_(self.score.bias, -4.6)  # an object in one of a hundred cells

    @staticmethod
    def block(before: int, after: int, stride: int) -> nn.Module:
        return nn.Sequential(nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after), nn.SiLU())

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.body(images - 0.45)
        return self.score(x), self.box(x)


def targets(batch: leat.Batch, classes: int, side: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """What the network should say: scores, boxes, and in which cells there are boxes."""
    n, cells = batch.size, side // STRIDE
    score, box = torch.zeros(n, classes, cells, cells), torch.zeros(n, 4, cells, cells)
    there = torch.zeros(n, cells, cells, dtype=torch.bool)
    boxes, labels = batch["boxes"].unbind(), batch["label"].unbind()
    for i in range(n):
        at = (boxes[i][:, :2] * cells).long().clamp(0, cells - 1)
        score[i, labels[i], at[:, 1], at[:, 0]] = 1
        offset = boxes[i][:, :2] * cells - at
        box[i, :, at[:, 1], at[:, 0]] = torch.cat([offset, (boxes[i][:, 2:] * cells).log()], 1).T
        there[i, at[:, 1], at[:, 0]] = True
    return score, box, there


def loss_of(network: Detector, batch: leat.Batch, classes: int) -> torch.Tensor:
    """Focal loss of the scores (Lin et al., 2017), and the distance of the boxes, per object."""
    score, box, there = targets(batch, classes, batch["image"].shape[2])
    said, found = network(batch["image"])
    chance = said.sigmoid()
    right = torch.where(score > 0, chance, 1 - chance)
    focal = functional.binary_cross_entropy_with_logits(said, score, reduction="none") * (1 - right) ** 2
    focal = focal * torch.where(score > 0, 0.75, 0.25)
    distance = functional.smooth_l1_loss(found, box, reduction="none").sum(1)[there]
    return (focal.sum() + distance.sum()) / there.sum().clamp(min=1)


def overlap(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Intersection over union of each box of `one` (n, 4) with each of `other` (m, 4): (n, m)."""
    sides = torch.minimum(one[:, None, 2:], other[:, 2:]) - torch.maximum(one[:, None, :2], other[:, :2])
    inside = sides.clamp(min=0).prod(2)
    areas = [(boxes[:, 2:] - boxes[:, :2]).prod(1) for boxes in (one, other)]
    return inside / (areas[0][:, None] + areas[1] - inside).clamp(min=1e-9)


@torch.no_grad()
def detect(network: Detector, images: torch.Tensor, above: float = 0.4) -> list[Found]:
    """What is found in each image; of boxes that cover one another by half the one with the highest score."""
    said, boxes = network(images)
    chance = said.sigmoid()
    cells = chance.shape[2]
    highest = chance == functional.max_pool2d(chance, 3, 1, 1)
    result = []
    for i in range(len(images)):
        c, y, x = ((chance[i] > above) & highest[i]).nonzero().T
        scores = chance[i, c, y, x]
        middle, half = torch.stack([x, y]) + boxes[i, :2, y, x], boxes[i, 2:, y, x].clamp(max=5).exp() / 2
        corners = (torch.cat([middle - half, middle + half]).T / cells).clamp(0, 1)
        kept: list[int] = []
        covers = overlap(corners, corners) > 0.5
        for k in scores.argsort(descending=True).tolist():
            if not covers[k, kept].any():
                kept.append(k)
        result.append([(int(c[k]), float(scores[k]), corners[k].tolist()) for k in kept])
    return result


def corners_of(batch: leat.Batch) -> list[Found]:
    """The boxes of a batch, as `detect` gives them."""
    found = []
    for boxes, labels in zip(batch["boxes"].unbind(), batch["label"].unbind(), strict=True):
        corners = torch.cat([boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2], 1)
        found.append([(c, 1.0, box) for c, box in zip(labels.tolist(), corners.tolist(), strict=True)])
    return found


def how_many(there: list[Found], found: list[Found]) -> tuple[int, int]:
    """Of how many objects how many are found: a box of their class that covers them by half."""
    right = total = 0
    for objects, guesses in zip(there, found, strict=True):
        total += len(objects)
        for c, _, box in objects:
            boxes = torch.tensor([b for k, _, b in guesses if k == c]).reshape(-1, 4)
            right += bool((overlap(torch.tensor([box]), boxes) > 0.5).any())
    return right, total


def color_of(number: int) -> tuple[int, ...]:
    return tuple(int(255 * v) for v in colorsys.hsv_to_rgb(number * 0.618 % 1, 0.8, 1))


def sheet(path: Path, images: torch.Tensor, drawn: list[Found], classes: list[str], side: int = 320) -> None:
    """Images in rows of four, with their boxes in the colors of the classes; names that would cover others are left
    out."""
    rows = (len(images) + 3) // 4
    made = Image.new("RGB", (min(len(images), 4) * side, rows * side))
    for i, (image, boxes) in enumerate(zip(images, drawn, strict=True)):
        pixels = (image.clamp(0, 1) * 255).byte().permute(1, 2, 0).numpy()
        picture = Image.fromarray(pixels).resize((side, side))
        draw = ImageDraw.Draw(picture)
        for c, _, corners in boxes:
            draw.rectangle([v * (side - 1) for v in corners], outline=color_of(c), width=2)
        names: list[tuple[float, float, float, float]] = []
        for c, score, (left, top, _, _) in boxes:
            text = classes[c] + ("" if score == 1 else f" {score:.2f}")
            width, height = draw.textbbox((0, 0), text)[2:]
            x, y = max(0, min(left * side, side - width - 4)), max(0, min(top * side, side - height - 3))
            here = (x, y, x + width + 4, y + height + 3)
            if not any(here[0] < n[2] and n[0] < here[2] and here[1] < n[3] and n[1] < here[3] for n in names):
                draw.rectangle(here, fill=color_of(c))
                draw.text((x + 2, y + 1), text, fill="black")
                names.append(here)
        made.paste(picture, (i % 4 * side, i // 4 * side))
    made.save(path)


def opened(photos: Path, annotations: Path | None) -> tuple[leat.Dataset, list[str]]:
    """The data and the names of its classes; ends the program where there are no boxes to learn from."""
    if annotations is None and photos.is_dir():
        sys.exit(f"detection: {photos} is a folder of photos: give its annotations behind it, a COCO file or a folder")
    data = leat.open(photos, annotations=annotations)
    lacking = [name for name in NAMES if name not in data.schema]
    if lacking:
        sys.exit(f"detection: {annotations or photos} gives no field {' and no '.join(lacking)}: it learns from boxes")
    classes = list(data.classes or ())
    if not classes:  # labels without names
        classes = [str(c) for c in range(1 + max((int(max(s["label"], default=-1)) for s in data), default=-1))]
    if not classes:
        sys.exit(f"detection: {annotations or photos} has no boxes")
    return data, classes


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("photos", type=Path, help="a folder of photos, or a packed file")
    arguments.add_argument("annotations", type=Path, nargs="?", help="a COCO file, or a folder of YOLO or VOC files")
    arguments.add_argument("--short", action="store_true", help=f"{SHORT} steps in place of {STEPS}")
    arguments.add_argument("--epochs", type=int, help="that many, at least 3, whatever the number of steps")
    arguments.add_argument("--out", type=Path, default=Path("build/detection"))
    options = arguments.parse_args()
    if options.epochs is not None and options.epochs < 3:
        arguments.error(f"--epochs is at least 3, not {options.epochs}: the last third of them is without mosaics")
    torch.manual_seed(0)
    data, classes = opened(options.photos, options.annotations)
    options.out.mkdir(parents=True, exist_ok=True)
    epochs = options.epochs or max(3, math.ceil((SHORT if options.short else STEPS) * BATCH / len(data)))
    loader = leat.Loader(data, BATCH, True, outputs={NAMES: chain(epochs)}, epochs=epochs, seed=1, framework="torch")
    print(f"{len(data)} photos, {len(classes)} classes; {epochs} epochs of {len(loader)} steps", flush=True)
    network = Detector(len(classes))
    optimizer = torch.optim.AdamW(network.parameters(), 2e-3, weight_decay=1e-4)
    rates = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, total_steps=epochs * len(loader))
    losses = []
    for epoch in range(epochs):
        total = 0.0
        for batch in loader:
            loss = loss_of(network, batch, len(classes))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            rates.step()
            total += loss.item() / len(loader)
        losses.append(total)
        if epoch % max(1, epochs // 10) == 0 or epoch == epochs - 1:
            print(f"epoch {epoch + 1}: loss {total:.3f}, last size {batch['image'].shape[2]}", flush=True)
    given = loader.batch_at(0, 0)
    sheet(options.out / "given.png", given["image"], corners_of(given), classes)
    ends = [ops.ToDtype("float32"), ops.ConvertBoundingBoxFormat("cxcywh", normalized=True)]
    large = leat.Out("image", [ops.Decode(), ops.Letterbox(320), ops.ToDtype("float32")])
    first = leat.Loader(
        data,
        min(SHOWN, len(data)),
        outputs={NAMES: [ops.Decode(), ops.Letterbox(max(SIZES)), *ends], "large": large},
        framework="torch",
    ).batch_at(0, 0)
    network.eval()
    there, found = corners_of(first), detect(network, first["image"])
    sheet(options.out / "boxes.png", first["large"], there, classes)
    sheet(options.out / "found.png", first["large"], found, classes)
    right, objects = how_many(there, found)
    start, last = losses[0], sum(losses[-5:]) / len(losses[-5:])
    print(f"loss {start:.3f} -> {last:.3f}; of the first {len(there)} photos {right} of {objects} objects are found,")
    print(f"and {sum(map(len, found)) - right} boxes are none: {options.out}/given.png, boxes.png, found.png")
    return 0 if last < 0.75 * start else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except leat.Error as e:
        sys.exit(f"detection: {e}")
