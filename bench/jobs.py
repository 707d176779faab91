"""The jobs of bench/run.py: each contender is a function of the number of cores that returns an epoch to run.

photos    JPEG -> random-resized crop 224 -> flip -> normalise -> float32 NCHW, batches of 64
raw       uint8 256 x 256 at rest -> random crop 224 -> flip -> uint8 NHWC, batches of 256
records   13 float32, 26 int32, one int64, shuffled, batches of 4096
tokens    rows of 2048 uint16 -> int64, batches of 16
packed    the same tokens in documents of 300 to 20,000, uniform in the logarithm: leat.pack_rows against rows that are
          cut beforehand; packed-50, packed-300 ... with documents of one length
idx       an IDX file of 60,000 images of 28 x 28 -> float32 from 0 to 1, in order, batches of 256; idx-shuffled
pillow    photos with Pillow transforms in a Python data set, batches of 64: leat.DataLoader against torch's, as those
below map       photos through the same and a Python function of the pixels: leat.ops.Map between native operators,
against Pillow in torch's workers ints      a Python data set that returns an int, batches of 256, as many workers as
cores: what the loader itself costs arrays    a Python data set whose samples are new arrays of 16 MB, batches of 1 GB,
as many workers as cores

copy, gather and widen are the limits: NumPy moving the same bytes into a buffer that it keeps, with the conversion.
"""

from __future__ import annotations

import math
import os
import random
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import leat

ROOT = Path(__file__).resolve().parent.parent
WORK = Path(os.environ.get("LEAT_BENCH_DIR", tempfile.gettempdir())) / "leat-bench"
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SIDE, CROP, RAW_IMAGES = 256, 224, 2000
RECORDS = 2_000_000
ROWS, LENGTH = 32768, 2048
IMAGES = 60_000
Epoch = Callable[[], Iterator[int]]


def once(path: Path, make: Callable[[Path], None]) -> Path:
    """Makes a file of the bench's folder if it is not there yet."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name("part-" + path.name)
        make(part)
        part.rename(path)
    return path


def array(name: str, make: Callable[[], Any]) -> Any:
    """An array that is made once and then mapped."""

    def save(part: Path) -> None:
        with part.open("wb") as f:
            np.save(f, make())

    return np.load(once(WORK / f"{name}.npy", save), mmap_mode="r")


def torch_loader(
    dataset: Any, batch: int, cores: int, least_workers: int = 0, ours: bool = False, **more: Any
) -> Epoch:
    """PyTorch's DataLoader, or `ours`; on one core without workers, or with `least_workers`."""
    import torch

    torch.set_num_threads(1)
    workers = max(0 if cores == 1 else cores, least_workers)
    kind = leat.DataLoader if ours else torch.utils.data.DataLoader
    loader: Any = kind(
        dataset,
        batch_size=batch,
        shuffle=True,
        num_workers=workers,
        persistent_workers=workers > 0,
        multiprocessing_context="fork" if workers else None,
        **more,
    )
    return lambda: (len(b[-1]) if isinstance(b, (list, tuple)) else len(b) for b in loader)


def leat_loader(data: Any, batch: int, cores: int, outputs: dict[str, list[Any]], shuffle: bool = True) -> Epoch:
    """`data`: a data set, or its path."""
    import torch

    torch.set_num_threads(1)
    data = leat.open(data) if isinstance(data, Path) else data
    loader = leat.Loader(
        data, batch_size=batch, shuffle=shuffle, seed=0, num_threads=cores, framework="torch", outputs=outputs
    )
    return lambda: (b.size for b in loader)


def gather(columns: list[Any], batch: int) -> Epoch:
    """np.take of shuffled rows into kept buffers."""
    out = [np.empty((batch, *c.shape[1:]), c.dtype) for c in columns]
    n = len(columns[0])

    def epoch() -> Iterator[int]:
        order = np.random.permutation(n)
        for i in range(0, n - batch + 1, batch):
            for c, o in zip(columns, out):
                np.take(c, order[i : i + batch], axis=0, out=o)
            yield batch

    return epoch


class Items:
    """A Dataset of a function."""

    def __init__(self, n: int, item: Callable[[int], Any]) -> None:
        self.n, self.item = n, item

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> Any:
        return self.item(i)


class Batches(Items):
    """A Dataset that makes a whole batch at once: what an expert writes."""

    def __getitems__(self, ids: list[int]) -> Any:
        return self.item(ids)  # type: ignore[arg-type]


def same(batch: Any) -> Any:
    return batch


# --- photos
# ------------------------------------------------------------------------------------------------------------


def photo_files() -> list[str]:
    """LEAT_DATA/imagenet, or photos that are made, twice over."""
    data = os.environ.get("LEAT_DATA")
    folder = Path(data) / "imagenet" if data else WORK / "photos"
    if not data:
        sys.path.insert(0, str(ROOT / "examples"))
        import make_photos

        make_photos.make(folder, 100)
    return sorted(str(f) for f in folder.rglob("*") if f.suffix.lower() in (".jpg", ".jpeg")) * 2


def pillow_pixels(path: str) -> Any:
    import torch
    from PIL import Image

    image = Image.open(path).convert("RGB")
    w, h = image.size
    for _ in range(10):
        area, ratio = w * h * random.uniform(0.08, 1), math.exp(random.uniform(math.log(3 / 4), math.log(4 / 3)))
        cw, ch = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < cw <= w and 0 < ch <= h:
            break
    else:
        cw = ch = min(w, h)
    x, y = random.randint(0, w - cw), random.randint(0, h - ch)
    image = image.resize((CROP, CROP), Image.Resampling.BILINEAR, box=(x, y, x + cw, y + ch))
    if random.random() < 0.5:
        image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    return torch.from_numpy(np.array(image))


def normalized(pixels: Any) -> Any:
    import torch

    t = pixels.permute(2, 0, 1).float().div_(255)
    return t.sub_(torch.tensor(MEAN).view(3, 1, 1)).div_(torch.tensor(STD).view(3, 1, 1))


def photos_torch(cores: int, ours: bool = False) -> Epoch:
    files = photo_files()
    return torch_loader(Items(len(files), lambda i: (normalized(pillow_pixels(files[i])), i)), 64, cores, ours=ours)


def photos_leat(cores: int) -> Epoch:
    def make(part: Path) -> None:
        with leat.Writer(part, {"image": "image", "label": "int64"}) as w:
            for i, f in enumerate(photo_files()):
                w.add(image=Path(f).read_bytes(), label=i)

    ops = leat.ops
    return leat_loader(
        once(WORK / f"photos-{leat.__version__}.leat", make),
        64,
        cores,
        {
            "image": [ops.Decode(), ops.RandomResizedCrop(CROP), ops.RandomHorizontalFlip(), ops.Normalize(MEAN, STD)],
            "label": [],
        },
    )


def posterize(pixels: Any) -> Any:
    """A Python function of an image of bytes, array or tensor: as many grey levels as a draw says."""
    step = 1 << random.randint(0, 3)
    return pixels // step * step


def map_torch(cores: int) -> Epoch:
    files = photo_files()
    return torch_loader(Items(len(files), lambda i: (normalized(posterize(pillow_pixels(files[i]))), i)), 64, cores, 1)


def map_leat(cores: int) -> Epoch:
    ops = leat.ops
    photos_leat(1)  # makes the file
    chain = [
        ops.Decode(),
        ops.RandomResizedCrop(CROP),
        ops.RandomHorizontalFlip(),
        ops.Map(posterize),
        ops.Normalize(MEAN, STD),
    ]
    return leat_loader(WORK / f"photos-{leat.__version__}.leat", 64, cores, {"image": chain, "label": []})


# --- raw
# ---------------------------------------------------------------------------------------------------------------


def raw_array() -> Any:
    return array("raw", lambda: np.random.default_rng(0).integers(0, 256, (RAW_IMAGES, SIDE, SIDE, 3), np.uint8))


def random_crop(image: Any) -> Any:
    y, x = random.randrange(SIDE - CROP + 1), random.randrange(SIDE - CROP + 1)
    return image[y : y + CROP, x : x + CROP]


def raw_copy(cores: int) -> Epoch:
    a, out = raw_array(), np.empty((256, CROP, CROP, 3), np.uint8)

    def epoch() -> Iterator[int]:
        order = np.random.permutation(len(a))
        for i in range(0, len(order) - 255, 256):
            for k, j in enumerate(order[i : i + 256]):
                out[k] = random_crop(a[j])
            yield 256

    return epoch


def raw_torch(cores: int) -> Epoch:
    import torch

    a = raw_array()

    def item(i: int) -> Any:
        t = torch.from_numpy(random_crop(a[i]).copy())
        return t.flip(1) if random.random() < 0.5 else t

    return torch_loader(Items(len(a), item), 256, cores)


def raw_leat(cores: int) -> Epoch:
    def make(part: Path) -> None:
        with leat.Writer(part, {"image": leat.field("uint8", (SIDE, SIDE, 3), layout="HWC")}) as w:
            w.write_batch({"image": np.asarray(raw_array())})

    ops = leat.ops
    return leat_loader(
        once(WORK / f"raw-{leat.__version__}.leat", make),
        256,
        cores,
        {"image": [ops.RandomCrop(CROP), ops.RandomHorizontalFlip(), ops.ToLayout("NHWC")]},
    )


# --- records
# -----------------------------------------------------------------------------------------------------------


def record_columns() -> list[Any]:
    rng = np.random.default_rng
    return [
        array("dense", lambda: rng(0).random((RECORDS, 13), np.float32)),
        array("sparse", lambda: rng(1).integers(0, 1 << 20, (RECORDS, 26), np.int32)),
        array("label", lambda: rng(2).integers(0, 2, RECORDS)),
    ]


def records_copy(cores: int) -> Epoch:
    return gather(record_columns(), 4096)


def records_torch(cores: int) -> Epoch:
    import torch

    columns = record_columns()
    return torch_loader(
        Batches(RECORDS, lambda ids: [torch.from_numpy(c[ids]) for c in columns]), 4096, cores, collate_fn=same
    )


def records_leat(cores: int) -> Epoch:
    def make(part: Path) -> None:
        with leat.Writer(
            part, {"dense": leat.field("float32", (13,)), "sparse": leat.field("int32", (26,)), "label": "int64"}
        ) as w:
            w.write_batch(dict(zip(("dense", "sparse", "label"), map(np.asarray, record_columns()))))

    return leat_loader(
        once(WORK / f"records-{leat.__version__}.leat", make), 4096, cores, {"dense": [], "sparse": [], "label": []}
    )


# --- tokens
# ------------------------------------------------------------------------------------------------------------


def token_rows() -> Any:
    return array("tokens", lambda: np.random.default_rng(0).integers(0, 50000, (ROWS, LENGTH), np.uint16))


def tokens_widen(cores: int) -> Epoch:
    rows, out = token_rows(), np.empty((16, LENGTH), np.int64)

    def epoch() -> Iterator[int]:
        order = np.random.permutation(ROWS)
        for i in range(0, ROWS - 15, 16):
            for k, j in enumerate(order[i : i + 16]):
                out[k] = rows[j]
            yield 16

    return epoch


def tokens_torch(cores: int) -> Epoch:
    import torch

    rows = token_rows()
    return torch_loader(Items(ROWS, lambda i: torch.from_numpy(rows[i].astype(np.int64))), 16, cores)


def tokens_leat(cores: int) -> Epoch:
    def make(part: Path) -> None:
        with leat.Writer(part, {"t": leat.field("uint16", (LENGTH,))}) as w:
            w.write_batch({"t": np.asarray(token_rows())})

    return leat_loader(
        once(WORK / f"tokens-{leat.__version__}.leat", make), 16, cores, {"t": [leat.ops.ToDtype("int64")]}
    )


def packed_leat(cores: int, length: int) -> Epoch:
    """Documents of `length` tokens; 0: of many lengths."""

    def make(part: Path) -> None:
        tokens, at, rng = np.asarray(token_rows()).reshape(-1), 0, np.random.default_rng(1)
        with leat.Writer(part, {"t": leat.field("uint16", (None,))}) as w:
            while at < len(tokens):
                end = at + (length or int(math.exp(rng.uniform(math.log(300), math.log(20000)))))
                w.add(t=tokens[at:end])
                at = end

    path = once(WORK / f"documents-{length}-{leat.__version__}.leat", make)
    rows = leat.pack_rows(leat.open(path), "t", length=LENGTH)
    return leat_loader(rows, 16, cores, {"t": [leat.ops.ToDtype("int64")]})


# --- idx --------------------------------------------------------------------------------------------------------------


def idx_file() -> Path:
    def make(part: Path) -> None:
        images = np.random.default_rng(0).integers(0, 256, (IMAGES, 28, 28), np.uint8)
        part.write_bytes(np.array([0x803, IMAGES, 28, 28], ">u4").tobytes() + images.tobytes())

    return once(WORK / "images-idx3-ubyte", make)


def idx_images() -> Any:
    return np.memmap(idx_file(), np.uint8, "r", 16, (IMAGES, 28, 28))


def idx_numpy(cores: int, shuffle: bool) -> Epoch:
    a, out = idx_images(), np.empty((256, 28, 28), np.float32)
    gathered = np.empty(out.shape, np.uint8)

    def epoch() -> Iterator[int]:
        order = np.random.permutation(len(a)) if shuffle else None
        for i in range(0, len(a) - 255, 256):
            np.copyto(out, a[i : i + 256] if order is None else np.take(a, order[i : i + 256], axis=0, out=gathered))
            yield 256

    return epoch


def idx_torch(cores: int, collates: bool = False) -> Epoch:
    """Each image is converted, as is usual, or `collates`: the whole batch."""
    import torch

    a = np.array(idx_images())

    def convert(images: Any) -> Any:
        return images.float().div_(255)

    if collates:
        more = {"collate_fn": lambda items: convert(torch.utils.data.default_collate(items))}
        return torch_loader(Items(len(a), lambda i: torch.from_numpy(a[i])), 256, cores, **more)
    return torch_loader(Items(len(a), lambda i: convert(torch.from_numpy(a[i]))), 256, cores)


def idx_leat(cores: int, shuffle: bool) -> Epoch:
    return leat_loader(idx_file(), 256, cores, {"data": [leat.ops.ToDtype("float32")]}, shuffle)


# --- Python data sets
# ---------------------------------------------------------------------------------------------------


def ints(cores: int, ours: bool) -> Epoch:
    return torch_loader(Items(100_000, lambda i: i), 256, cores, 1, ours)


def arrays(cores: int, ours: bool) -> Epoch:
    def item(i: int) -> Any:
        made = np.empty(4 << 20, np.float32)
        made.fill(i)
        return made

    return torch_loader(Items(256, item), 64, cores, 1, ours)


JOBS: dict[str, dict[str, Callable[[int], Epoch]]] = {
    "photos": {"torch": photos_torch, "leat": photos_leat},
    "raw": {"copy": raw_copy, "torch": raw_torch, "leat": raw_leat},
    "records": {"copy": records_copy, "torch": records_torch, "leat": records_leat},
    "packed": {"widen": tokens_widen, "torch": tokens_torch, "leat": partial(packed_leat, length=0)},
    **{
        f"packed-{n}": {"widen": tokens_widen, "leat": partial(packed_leat, length=n)}
        for n in (50, 300, 1000, 5000, 20000)
    },
    "idx": {"copy": partial(idx_numpy, shuffle=False), "torch": idx_torch, "leat": partial(idx_leat, shuffle=False)},
    "idx-shuffled": {
        "gather": partial(idx_numpy, shuffle=True),
        "torch": idx_torch,
        "collate": partial(idx_torch, collates=True),
        "leat": partial(idx_leat, shuffle=True),
    },
    "tokens": {"widen": tokens_widen, "torch": tokens_torch, "leat": tokens_leat},
    "pillow": {"torch": photos_torch, "leat": partial(photos_torch, ours=True)},
    "map": {"torch": map_torch, "leat": map_leat},
    "ints": {"torch": partial(ints, ours=False), "leat": partial(ints, ours=True)},
    "arrays": {"torch": partial(arrays, ours=False), "leat": partial(arrays, ours=True)},
}
