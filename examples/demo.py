"""The demo: photos at rest to batches in a training.

    python examples/demo.py [FOLDER] [--short] [--out build/demo]

Packs FOLDER (or photos that it makes), trains a small convolutional network on augmented batches, tests it on photos
held out, measures samples per second beside torch's DataLoader on the same files and cores, and writes a contact sheet
of what the model saw. A folder without classes is used to learn which way up a photo is. Exit code 1 if the network
did not learn clearly more than chance, where enough photos are held out to tell.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

# before torch: its threads sleep while they wait, and leave the cores to the loader
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import numpy as np
import torch
from PIL import Image, ImageDraw
from torch import nn

import leat

sys.path.insert(0, str(Path(__file__).parent))
import make_photos
from progress import progress

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SIDE = 48  # pixels; small, because the training here runs on a CPU
BATCH = 32
HELD_OUT = 0.15  # of the photos
RIGHT_BY_CHANCE = 8  # photos; the built-in ones, short, have 9
DEVIATIONS = 3  # above chance, where a network has clearly learned
TURNS = ("upright", "turned left", "upside down", "turned right")


def network(classes: int) -> nn.Module:
    def block(into: int, out: int) -> nn.Module:
        return nn.Sequential(nn.Conv2d(into, out, 3, 2, 1, bias=False), nn.BatchNorm2d(out), nn.ReLU())

    return nn.Sequential(
        block(3, 32),
        block(32, 64),
        block(64, 128),
        block(128, 128),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(512, classes),
    )


def examples_of(batch: leat.Batch, turning: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs and targets: photos with their labels, or each photo in its four turns."""
    images = batch["image"]
    if not turning:
        return images, batch["label"]
    return torch.cat([torch.rot90(images, k, (2, 3)) for k in range(4)]), torch.arange(4).repeat_interleave(len(images))


def train(data: leat.Dataset, model: nn.Module, turning: bool, epochs: int) -> None:
    ops = leat.ops
    outputs: dict[str, list[Any]] = {
        "image": [
            ops.Decode(),
            ops.RandomResizedCrop(SIDE, scale=(0.35, 1.0)),
            ops.RandomHorizontalFlip(),
            ops.Normalize(MEAN, STD),
        ]
    }
    if not turning:
        outputs["label"] = []
    with leat.Loader(
        data,
        batch_size=BATCH,
        shuffle=True,
        seed=1,
        epochs=epochs,
        drop_last=len(data) >= BATCH,
        outputs=outputs,
        framework="torch",
    ) as loader:
        optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.05)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=epochs * len(loader))
        with progress(
            total=epochs * (len(data) - len(data) % BATCH if len(data) >= BATCH else len(data)),
            desc="training",
            unit=" photos",
        ) as bar:
            for epoch in range(epochs):
                for batch in loader:
                    x, y = examples_of(batch, turning)
                    loss = nn.functional.cross_entropy(model(x), y, label_smoothing=0.1)
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                    schedule.step()
                    bar.update(batch.size)
                bar.set_postfix(epoch=epoch + 1, loss=f"{loss.item():.2f}", refresh=False)


@torch.no_grad()
def test(data: leat.Dataset, model: nn.Module, turning: bool) -> tuple[int, int]:
    """How many of how many the model gets right on photos held out; each turn of a photo is asked."""
    ops = leat.ops
    outputs: dict[str, list[Any]] = {
        "image": [ops.Decode(), ops.Resize(SIDE), ops.CenterCrop(SIDE), ops.Normalize(MEAN, STD)]
    }
    if not turning:
        outputs["label"] = []
    right = seen = 0
    model.eval()
    for batch in leat.Loader(data, batch_size=BATCH, outputs=outputs, framework="torch"):
        x, y = examples_of(batch, turning)
        hits = model(x).argmax(1) == y
        right, seen = right + int(hits.sum()), seen + len(y)
    return right, seen


def contact_sheet(data: leat.Dataset, model: nn.Module, turning: bool, path: Path) -> None:
    """An augmented batch: each photo with what it is and, in red where wrong, what the model says of it.

    The crops are those that the model saw in its first batch, larger: a crop depends on the row's key, not on its size.
    """
    ops = leat.ops
    outputs: dict[str, list[Any]] = {
        "image": [ops.Decode(), ops.RandomResizedCrop(144, scale=(0.35, 1.0)), ops.RandomHorizontalFlip()]
    }
    if not turning:
        outputs["label"] = []
    batch = next(iter(leat.Loader(data, batch_size=BATCH, shuffle=True, seed=1, outputs=outputs, framework="torch")))
    images = batch["image"]
    if turning:
        labels = (np.asarray(batch.row_keys) % 4).tolist()  # a turn that goes with the row
        images = torch.stack([torch.rot90(x, k, (1, 2)) for x, k in zip(images, labels)])
        names: tuple[str, ...] = TURNS
    else:
        labels, names = batch["label"].tolist(), tuple(data.classes)
    with torch.no_grad():
        small = nn.functional.interpolate(images.float() / 255, (SIDE, SIDE), mode="bilinear", antialias=True)
        said = model((small - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(STD).view(3, 1, 1)).argmax(1).tolist()
    columns = 8
    sheet = Image.new("RGB", (columns * 152 + 8, math.ceil(len(labels) / columns) * 168 + 8), "white")
    draw = ImageDraw.Draw(sheet)
    for i, (image, label, guess) in enumerate(zip(images, labels, said)):
        x, y = 8 + i % columns * 152, 8 + i // columns * 168
        sheet.paste(Image.fromarray(image.permute(1, 2, 0).numpy()), (x, y))
        text = names[label] if label == guess else f"{names[label]}, said {names[guess]}"
        while draw.textlength(text) > 148:
            text = text.rstrip(".")[:-1] + "..."
        draw.text((x, y + 146), text, fill="black" if label == guess else "red")
    sheet.save(path)


class Photos(torch.utils.data.Dataset[tuple[torch.Tensor, int]]):
    """What a PyTorch user writes: Pillow and tensors."""

    def __init__(self, files: list[str]) -> None:
        self.files = files

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, i: int) -> tuple[torch.Tensor, int]:
        import random

        image = Image.open(self.files[i]).convert("RGB")
        w, h = image.size
        for _ in range(10):
            area, ratio = w * h * random.uniform(0.08, 1), math.exp(random.uniform(math.log(3 / 4), math.log(4 / 3)))
            cw, ch = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
            if 0 < cw <= w and 0 < ch <= h:
                break
        else:
            cw = ch = min(w, h)
        x, y = random.randint(0, w - cw), random.randint(0, h - ch)
        image = image.resize((224, 224), Image.Resampling.BILINEAR, box=(x, y, x + cw, y + ch))
        if random.random() < 0.5:
            image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        t = torch.from_numpy(np.array(image)).permute(2, 0, 1).float().div_(255)
        return t.sub_(torch.tensor(MEAN).view(3, 1, 1)).div_(torch.tensor(STD).view(3, 1, 1)), i


def decoded_by_pillow(file: str) -> bool:
    """Whether Pillow decodes a photo. What it raises for one that it does not is as varied as files are."""
    try:
        with Image.open(file) as image:
            image.convert("RGB")
    except Exception:
        return False
    return True


def decoded_by_both(data: leat.Dataset, files: list[str]) -> list[int]:
    """Positions of the photos that leat and Pillow both decode: each reads a few odd files that the other refuses."""
    broken: set[int] = set()
    with (
        ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool,
        progress(total=2 * len(files), desc="checking", unit=" photos") as bar,
    ):
        ops = leat.ops
        for batch in leat.Loader(
            data, batch_size=64, on_error="skip", outputs={"image": [ops.Decode(), ops.Resize((8, 8))]}
        ):
            broken.update(error.planned for error in batch.errors)
            bar.update(batch.size + len(batch.errors))
        both = []
        for i, (sample, good) in enumerate(zip(data.ids.tolist(), pool.map(decoded_by_pillow, files))):
            if good and sample not in broken:
                both.append(i)
            bar.update()
    return both


def throughput(data: leat.Dataset, files: list[str], rounds: int, photos: int) -> tuple[float, float, list[float], int]:
    """Photos per second of leat and of torch's DataLoader, the same augmentation at 224, medians; the ratios; cores.

    They take turns, so that a busy machine hits both alike. Each turn opens its loader, runs one epoch to warm up and
    then about `photos` that count, and closes it; leat has a further epoch before it, which is dropped: so as much work
    lies ahead at the end of the time as at its start. A small folder is repeated: torch starts each epoch anew.
    """
    repeat = math.ceil(512 / len(files))
    data, files = leat.concat(*[data] * repeat), files * repeat
    epochs = max(1, round(photos / len(files)))
    cores = len(os.sched_getaffinity(0))
    workers = 0 if cores == 1 else cores
    ops = leat.ops
    torch.set_num_threads(1)
    bar = progress(total=2 * rounds * (epochs + 1) * len(files), desc="comparing", unit=" photos")

    def timed(batches: Iterable[Any], size: Callable[[Any], int]) -> float:
        for turn in range(epochs + 1):
            if turn == 1:
                start = time.perf_counter()
            for batch in batches:
                bar.update(size(batch))
        return epochs * len(files) / (time.perf_counter() - start)

    def ours() -> float:
        with leat.Loader(
            data,
            batch_size=64,
            shuffle=True,
            epochs=epochs + 2,
            framework="torch",
            outputs={
                "image": [
                    ops.Decode(),
                    ops.RandomResizedCrop(224),
                    ops.RandomHorizontalFlip(),
                    ops.Normalize(MEAN, STD),
                ]
            },
        ) as loader:
            return timed(loader, lambda batch: len(batch["image"]))

    def theirs() -> float:
        return timed(
            torch.utils.data.DataLoader(
                Photos(files), batch_size=64, shuffle=True, num_workers=workers, persistent_workers=workers > 0
            ),
            lambda batch: len(batch[0]),
        )

    pairs = [(ours(), theirs()) for _ in range(rounds)]
    bar.close()
    torch.set_num_threads(cores)
    return (
        statistics.median(p[0] for p in pairs),
        statistics.median(p[1] for p in pairs),
        sorted(p[0] / p[1] for p in pairs),
        cores,
    )


def main() -> int:
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("folder", nargs="?", type=Path, help="your photos: a sub-folder per class, or flat")
    a.add_argument("--short", action="store_true", help="fewer photos and epochs")
    a.add_argument("--out", type=Path, default=Path("build/demo"))
    o = a.parse_args()
    warnings.filterwarnings("ignore", module="PIL")  # its remarks on odd photos, which would come between the bars
    o.out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)

    folder = o.folder
    if folder is None:
        folder = o.out / ("photos-short" if o.short else "photos")
        make_photos.make(folder, 60 if o.short else make_photos.PER_CLASS)
    folder = folder.expanduser()
    if not folder.is_dir():
        print(
            f"demo: {folder} is {'no folder' if folder.exists() else 'not there'}; give a folder of photos: make demo "
            "DATA=folder",
            file=sys.stderr,
        )
        return 2
    packed = o.out / "photos.leat"
    command = Path(sys.executable).with_name("leat")
    # Broken photos are listed and left out: what follows shall train and compare on the same ones.
    if subprocess.run([command, "pack", folder, packed, "--overwrite", "--on-error", "skip"]).returncode:
        return 2

    data = leat.open(packed)
    if len(data) < 8:
        print(
            f"demo: {len(data)} usable photos in {folder} are too few to learn from and to hold some out",
            file=sys.stderr,
        )
        return 2
    labels = data.column("label") if data.classes else np.zeros(0, int)
    photos_of = np.bincount(labels[labels >= 0], minlength=2)
    turning = np.count_nonzero(photos_of) < 2  # empty folders are no classes that could be told apart
    names = TURNS if turning else data.classes
    training, held_out = data.split([1 - HELD_OUT, HELD_OUT], seed=0)
    print(
        f"\n{len(training)} photos to learn from, {len(held_out)} held out; the network learns "
        + ("which way up a photo is" if turning else f"{len(names)} classes")
    )
    # About as many pictures seen whatever the size of the folder: enough to learn, a minute or two on two cores.
    seen = (24_000 if turning else 12_000) // (2 if o.short and not turning else 1)
    epochs = max(2, min(60, round(seen / (len(training) * (2 if turning else 1)))))
    model = network(len(names))
    train(training, model, turning, epochs)
    right, asked = test(held_out, model, turning)

    sheet = o.out / "contact-sheet.png"
    contact_sheet(training, model, turning, sheet)
    files = files_of(data, folder.resolve())
    both = decoded_by_both(data, files)
    if len(both) < len(files):
        print(
            f"demo: {len(files) - len(both)} of {len(files)} photos stay out of the comparison, on both sides: leat "
            "or Pillow does not decode them"
        )
    if both:
        ours, theirs, ratios, cores = throughput(
            data.select(both), [files[i] for i in both], 1 if o.short else 3, 500 if o.short else 1000
        )
        spread = f"median of {len(ratios)} turns side by side, {ratios[0]:.2f} to {ratios[-1]:.2f}"
        compared = f"""\
leat.Loader         {ours:6.0f} photos/s on {cores} cores, random-resized crop 224, float32
torch DataLoader    {theirs:6.0f} photos/s, the same with Pillow
ratio               {statistics.median(ratios):6.2f}   ({spread if len(ratios) > 1 else "one turn"})"""
    else:
        compared = "no comparison       no photo is decoded by both leat and Pillow"

    chance = 1 / len(names) if turning else photos_of.max() / len(data)  # the most frequent one, always
    # Standard deviations above chance; turns of one photo count as one observation.
    photos = asked // 4 if turning else asked
    needed = chance + DEVIATIONS * math.sqrt(chance * (1 - chance) / max(photos, 1))
    # A network that fails is blamed only where chance alone would get some photos right: below that the deviations
    # above tell little, and the photos left to learn from are few, too.
    learned, enough = right / max(asked, 1) > needed, photos >= to_tell(chance)
    clearly = f", clearly better from {needed:.1%}" if needed < 1 else ""
    print(f"""
held-out accuracy   {right / max(asked, 1):6.1%}   (chance {chance:.1%}{clearly})
{compared}
what the model saw  {sheet}
                    (photos as it is trained on them, cropped and altered; in red what it took for another class)
""")
    if learned:
        print("demo: the network learned, everything worked")
    elif enough:
        print(
            "demo: everything ran, but the network did not learn clearly more than chance: these photos are too few, "
            "or too hard, for it"
        )
    else:
        print(
            f"demo: everything ran; {photos} photos held out of {len(data)} are too few to tell whether the network "
            "can learn them: "
            f"some {math.ceil(to_tell(chance) / HELD_OUT)} would do"
        )
    return 1 if enough and not learned else 0


def to_tell(chance: float) -> int:
    """How many photos held out tell whether a network has learned: chance gets enough of them right, and not all."""
    return max(math.ceil(RIGHT_BY_CHANCE / chance), math.floor(DEVIATIONS**2 * chance / (1 - chance)) + 1)


def files_of(data: leat.Dataset, root: Path) -> list[str]:
    """The files that were packed, by the name that each sample keeps."""
    return [str(root / data[i]["name"]) for i in range(len(data))]


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("\ndemo: interrupted; what was made is kept, and the next run goes on from there", file=sys.stderr)
        sys.exit(130)
    except leat.Error as e:
        print(f"demo: {e}", file=sys.stderr)
        sys.exit(2)
