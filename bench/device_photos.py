"""Photos as float32 in the steps of a model on a card: loaders one after the other, as JSON lines.

    python bench/device_photos.py [--seconds 4] [--batch 128] [--workers N] [--ways NAME ...] [--without-card]

JPEGs of 500 x 400 that lie in memory become a random crop of 224, flipped and normalised; then a small ResNet takes a
step of training. PyTorch's users copy what the processor decodes in a stream beside the step, one batch ahead, without
blocking, and pin their batches; so does this file. It writes a line for each way:

    photos_per_s   of all steps in the measured seconds, which follow as many that warm up
    idle           the share of the time in which the card is in no step, by its events around each
    link_gb_s      bytes that go over the link, decoded or not, a second; None: it is not known
    of_link        their share of what a plain copy of a pinned batch reaches in this run
    decoded        photos that leat's card has decoded, of all in the measured seconds: it may have begun on others

Ways whose name ends in "alone" are a loader without a model: photos in the decode-fast form by the card, and by one
core, which copies nothing; JPEGs as they came by the card; and pixels that lie in memory, which are only collected and
copied.

A way that needs what is absent is named, with the reason. --without-card: tiny, on the processor, to try this file.
"""

from __future__ import annotations

import argparse
import io
import itertools
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import leat

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))
from device_rows import link_gb_s  # noqa: E402
from gpu import Form, write_photos  # noqa: E402
from jobs import CROP, MEAN, STD, Items, normalized, pillow_pixels  # noqa: E402

Batches = Iterator[tuple[Tensor, int | None]]  # photos on the device, and the bytes that went over the link
Step = Callable[[Tensor], None]
COUNTED = {"bytes": "link_bytes", "shared_bytes": "shared_bytes", "photos": "decoded"}  # in stats()["device"]; here


class Absent(Exception):
    """A way that this machine, or this version of leat, does not have."""


def needs(module: str) -> Any:
    try:
        return __import__(module, fromlist=["*"])
    except (ImportError, OSError, RuntimeError) as e:  # the last two: it is of another PyTorch, or CUDA
        raise Absent(str(e)) from None


# --- copies and steps -------------------------------------------------------------------------------------------------
def prefetched(batches: Iterator[Tensor], device: str) -> Batches:
    """Each batch is copied while the model computes on the one before it."""
    if device == "cpu":
        yield from ((x, x.nbytes) for x in batches)
        return
    side, ahead = torch.cuda.Stream(), None
    for x in batches:
        with torch.cuda.stream(side):
            there = x.to(device, non_blocking=True)
        copied = side.record_event()
        if ahead is not None:
            yield from arrived(*ahead)
        ahead = x, there, copied


def arrived(x: Tensor, there: Tensor, copied: torch.cuda.Event) -> Batches:
    now = torch.cuda.current_stream()
    now.wait_event(copied)
    there.record_stream(now)
    yield there, x.nbytes
    copied.synchronize()  # only then may the memory of x go


class Counted(Iterator[tuple[Tensor, None]]):
    """The batches of a leat loader or reader that has a device. It counts itself what goes over the link."""

    def __init__(self, source: Any) -> None:
        self.source = source
        self.images = (batch["image"] for epoch in itertools.repeat(source) for batch in epoch)

    def __next__(self) -> tuple[Tensor, None]:
        return next(self.images), None

    def told(self) -> dict[str, int]:
        found = self.source.stats().get("device", {})  # none on the processor
        return {name: found[key] for key, name in COUNTED.items() if key in found}


class Residual(nn.Module):
    def __init__(self, before: int, c: int) -> None:
        super().__init__()
        self.around = nn.Conv2d(before, c, 1, 2, bias=False)
        self.first, self.second = nn.Conv2d(before, c, 3, 2, 1, bias=False), nn.Conv2d(c, c, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(c), nn.BatchNorm2d(c)])

    def forward(self, x: Tensor) -> Tensor:
        inner = torch.relu(self.norms[0](self.first(x)))
        return torch.relu(self.norms[1](self.second(inner)) + self.around(x))


def training(device: str, widths: tuple[int, ...] = (64, 128, 256, 512), shrunk: int = 1) -> Step:
    """A step on a batch, whose photos the network first makes `shrunk` times as small."""
    torch.manual_seed(0)
    stem = nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
    blocks = [Residual(b, c) for b, c in zip((64, *widths), widths)]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(widths[-1], 100)]
    net = nn.Sequential(nn.AvgPool2d(shrunk), *stem, *blocks, *head).to(device)
    optimiser = torch.optim.SGD(net.parameters(), 1e-3, momentum=0.9)
    labels = torch.zeros(4096, dtype=torch.int64, device=device)

    def step(x: Tensor) -> None:
        optimiser.zero_grad()
        with torch.autocast(x.device.type, torch.bfloat16, enabled=x.is_cuda):
            loss = nn.functional.cross_entropy(net(x), labels[: len(x)])
        loss.backward()
        optimiser.step()

    return step


class Clock:
    """The time in steps: by events of the card, or of this thread."""

    def __init__(self, device: str) -> None:
        self.card, self.between = device != "cpu", list[tuple[Any, Any]]()

    def now(self) -> Any:
        return torch.cuda.current_stream().record_event(torch.cuda.Event(True)) if self.card else time.perf_counter()

    def seconds(self) -> float:
        if not self.card:
            return sum(end - begin for begin, end in self.between)
        torch.cuda.synchronize()
        return sum(begin.elapsed_time(end) for begin, end in self.between) / 1e3


def spell(batches: Batches, step: Step | None, device: str, seconds: float) -> dict[str, Any]:
    """Steps on batches for these seconds; without a step they only come."""
    counted = batches if isinstance(batches, Counted) else None
    before = counted.told() if counted else {}
    clock, rows, moved, begun = Clock(device), 0, list[int | None](), time.perf_counter()
    for x, n_bytes in batches:
        if step:
            begin = clock.now()
            step(x)
            clock.between.append((begin, clock.now()))
        rows += len(x)
        moved.append(n_bytes)
        if time.perf_counter() - begun >= seconds:
            break
    busy_s = clock.seconds()
    wall_s = time.perf_counter() - begun
    found: dict[str, Any] = {"photos": rows, "seconds": wall_s, "photos_per_s": rows / wall_s}
    found["idle"] = 1 - busy_s / wall_s if step else None
    found["link_bytes"] = None if None in moved else sum(n for n in moved if n)
    if counted:
        found |= {name: n - before[name] for name, n in counted.told().items()}
    link = found["link_bytes"]
    return found | {"link_gb_s": None if link is None else link / wall_s / 1e9}


# --- ways -------------------------------------------------------------------------------------------------------------
class Photos:
    """The same JPEGs for all ways: packed in these forms, and as bytes of originals."""

    def __init__(self, folder: Path, given: argparse.Namespace, *forms: Form) -> None:
        different, self.times = (8, 4) if given.without_card else (128, 64)
        self.packs = write_photos(folder, different, self.times, *forms)
        self.jpegs = [row["image"] for row in leat.open(self.packs["original"])[:different]]
        self.batch, self.workers, self.device = given.batch, given.workers, given.device

    def bytes_of(self, i: int) -> bytes:
        return bytes(self.jpegs[i % len(self.jpegs)])

    def __len__(self) -> int:
        return len(self.jpegs) * self.times

    def orders(self) -> Iterator[list[int]]:
        """Ids of whole batches, without end."""
        while True:
            yield from torch.randperm(len(self))[: len(self) // self.batch * self.batch].view(-1, self.batch).tolist()


def by_data_loader(kind: Any, photos: Photos) -> Batches:
    needs("PIL")
    dataset = Items(len(photos), lambda i: normalized(pillow_pixels(io.BytesIO(photos.bytes_of(i)))))
    more = {"multiprocessing_context": "fork", "persistent_workers": True} if photos.workers else {}
    loader = kind(
        dataset,
        photos.batch,
        True,
        num_workers=photos.workers,
        pin_memory=photos.device != "cpu",
        drop_last=True,
        **more,
    )
    return prefetched((batch for epoch in iter(lambda: loader, None) for batch in epoch), photos.device)


def pytorch(photos: Photos) -> Batches:
    return by_data_loader(torch.utils.data.DataLoader, photos)


def leat_data_loader(photos: Photos) -> Batches:
    return by_data_loader(leat.DataLoader, photos)


def leat_options(pack: Path, batch: int, threads: int, here: bool = False) -> dict[str, Any]:
    """`here`: no card decodes. These photos have no profile that could be applied."""
    ops = leat.ops
    chain = [
        ops.Decode("RGB", icc="srgb" if here else "ignore"),
        ops.RandomResizedCrop(CROP),
        ops.RandomHorizontalFlip(),
        ops.Normalize(MEAN, STD),
    ]
    return {
        "dataset": leat.open(pack),
        "batch_size": batch,
        "shuffle": True,
        "drop_last": True,
        "outputs": {"image": chain},
        "framework": "torch",
        "num_threads": threads,
    }


def leat_on_host(photos: Photos) -> Batches:
    loader = leat.Loader(**leat_options(photos.packs["original"], photos.batch, photos.workers or 1))
    return prefetched((batch["image"] for epoch in itertools.repeat(loader) for batch in epoch), photos.device)


def leat_one_core(photos: Photos) -> Batches:
    loader = leat.Loader(**leat_options(photos.packs["fast"], photos.batch, 1))
    return ((batch["image"], 0) for epoch in itertools.repeat(loader) for batch in epoch)


def leat_on_card(form: Form, here: bool = False) -> Callable[[Photos], Batches]:
    """Photos are decoded there: fast ones, and original ones by their row index. `here`: pixels are made here."""

    def made(photos: Photos) -> Batches:
        options = leat_options(photos.packs[form], photos.batch, photos.workers or 1, here)
        return Counted(leat.Loader(**options, device=photos.device))

    return made


def leat_pixels(photos: Photos) -> Batches:
    """uint8, shuffled: the copies are the work."""
    pixels = np.random.default_rng(0).integers(0, 256, (len(photos), CROP, CROP, 3), dtype=np.uint8)
    options = {"shuffle": True, "drop_last": True, "framework": "torch", "num_threads": photos.workers or 1}
    return Counted(leat.Loader(leat.from_arrays(image=pixels), photos.batch, **options, device=photos.device))


def dali(photos: Photos) -> Batches:
    needs("nvidia.dali")
    from nvidia.dali import fn, pipeline_def, types
    from nvidia.dali.plugin.pytorch import DALIGenericIterator

    orders = photos.orders()

    @pipeline_def(batch_size=photos.batch, num_threads=max(photos.workers, 1), device_id=0)
    def pipeline() -> Any:
        read = [np.frombuffer(jpeg, np.uint8) for jpeg in map(photos.bytes_of, range(len(photos.jpegs)))]
        jpegs = fn.external_source(source=lambda: [read[i % len(read)] for i in next(orders)], dtype=types.UINT8)
        image = fn.decoders.image_random_crop(jpegs, device="mixed", output_type=types.RGB)
        image = fn.resize(image, size=(CROP, CROP))
        scaled = {"mean": [255 * m for m in MEAN], "std": [255 * s for s in STD]}
        return fn.crop_mirror_normalize(image, dtype=types.FLOAT, mirror=fn.random.coin_flip(), **scaled)

    made = pipeline()
    made.build()
    return ((found[0]["x"], None) for found in DALIGenericIterator(made, ["x"]))


def nvjpeg(photos: Photos) -> Batches:
    """As torchvision calls it."""
    needs("torchvision")
    from torchvision.io import decode_jpeg
    from torchvision.transforms import v2

    read = [torch.frombuffer(bytearray(photos.bytes_of(i)), dtype=torch.uint8) for i in range(len(photos.jpegs))]
    crop = v2.Compose([v2.RandomResizedCrop(CROP, antialias=True), v2.RandomHorizontalFlip()])
    value = v2.Compose([v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)])

    def batches() -> Batches:
        for ids in photos.orders():
            chosen = [read[i % len(read)] for i in ids]
            images = decode_jpeg(chosen, device=photos.device)
            yield value(torch.stack([crop(image) for image in images])), sum(x.nbytes for x in chosen)

    return batches()


WAYS: dict[str, Callable[[Photos], Batches]] = {
    "leat, decoded on the card": leat_on_card("fast"),
    "leat, coded JPEGs": leat_on_card("original"),
    "leat, pixels of JPEGs": leat_on_card("original", here=True),
    "leat": leat_on_host,
    "torch": pytorch,
    "leat.DataLoader": leat_data_loader,
    "DALI": dali,
    "nvJPEG": nvjpeg,
    "decoded on the card, alone": leat_on_card("fast"),
    "coded JPEGs, alone": leat_on_card("original"),
    "decoded by one core, alone": leat_one_core,
    "pixels, alone": leat_pixels,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--without-card", action="store_true")
    given = parser.parse_args()
    if given.without_card:
        given.device, given.seconds, given.batch, given.workers = "cpu", 0.1, 4, min(given.workers, 2)
    elif not torch.cuda.is_available():
        parser.error("PyTorch sees no card here: --without-card tries this file")
    torch.set_num_threads(1)
    torch.backends.cudnn.benchmark = True
    plain = None if given.device == "cpu" else link_gb_s(given.device, given.batch * 3 * CROP * CROP * 4)
    if plain:
        print(json.dumps({"plain_copy_gb_s": plain, "batch": given.batch}), flush=True)
    failed, model = False, training(given.device, (16,) if given.without_card else (64, 128, 256, 512))
    with tempfile.TemporaryDirectory() as folder:
        photos = Photos(Path(folder), given, "original", "fast")
        found: dict[str, Any]
        for name in given.ways:
            try:
                batches = WAYS[name](photos)
                step = None if name.endswith("alone") else model
                spell(batches, step, given.device, given.seconds)  # warms up
                found = spell(batches, step, given.device, given.seconds)
                found["of_link"] = found["link_gb_s"] / plain if plain and found["link_gb_s"] else None
            except Absent as e:
                found = {"absent": str(e)}
            except Exception as e:  # the others are measured all the same
                found, failed = {"failed": f"{type(e).__name__}: {e}"[:300]}, True
            print(json.dumps({"way": name} | found), flush=True)
            batches = iter(())
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
