"""A card that is not there: tests/c/device/standin.c takes the driver's part, tensors of the host that of PyTorch."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from photo_support import noise, save

import leat
from leat import ops
from leat.device import card
from leat.loading import loader, on_card
from leat.ports import attached, port

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
ROOT = Path(__file__).resolve().parents[2]


_drivers: list[Path] = []  # of this process, which loads one: none, or one


def _driver(folder: Path) -> Path:
    if _drivers:
        return _drivers[0]
    path = folder / "libcuda.so"
    compiler = shlex.split(os.environ.get("CC") or shutil.which("cc") or "gcc")
    flags = [
        "-O1",
        "-ffp-contract=off",
        "-shared",
        "-fPIC",
        "-pthread",
        "-D_GNU_SOURCE",
        f"-I{ROOT / 'include'}",
        f"-I{ROOT / 'src'}",
    ]
    subprocess.run([*compiler, *flags, ROOT / "tests/c/device/standin.c", "-o", path], check=True)
    _drivers.append(path)
    return path


@contextmanager
def standin_driver(folder: Path) -> Iterator[Path]:
    """A driver and a compiler, whose cards have the host's memory; its library. A process has one driver: where a card
    is, tests of its own use that."""
    if card.card_of(None) is not None:
        pytest.skip("a card is here")
    path = _driver(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LEAT_LIBCUDA", str(path))
        patch.setenv("LEAT_LIBNVRTC", str(path))
        yield path


class OnHost(card.Card):
    """A card whose tensors PyTorch for processors can make: the stand-in's memory is the host's."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.place = (1, 0)

    def stream(self) -> int:
        return 0

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        torch = pytest.importorskip("torch")
        return torch.full(shape, 77, dtype=getattr(torch, dtype))

    def ids(self, ids: Any) -> Any:
        return pytest.importorskip("torch").from_numpy(ids.copy())

    def move(self, tensor: Any) -> Any:
        return tensor.clone()

    def has(self, tensor: Any) -> bool:
        return hasattr(tensor, "there")


@contextmanager
def standin_card(folder: Path) -> Iterator[Path]:
    """Loaders, ports and readers of this process have such a card as "cuda"; the library of its driver."""
    with standin_driver(folder) as path, pytest.MonkeyPatch.context() as patch:
        patch.setattr(on_card, "nvrtc_path", lambda: None)
        for module in (loader, port, attached):
            patch.setattr(module, "card_of", lambda device: None if device == "cpu" else OnHost(0))
        yield path


CHAINS: dict[str, Any] = {
    "float32": [ops.Decode(), ops.RandomResizedCrop(24), ops.RandomHorizontalFlip(), ops.Normalize(MEAN, STD)],
    "float16": [ops.Decode(), ops.Resize((9, 7)), ops.ToDtype("float16", scale=True)],
    "bfloat16": [ops.Decode(), ops.RandomCrop(16), ops.ToDtype("bfloat16", scale=True)],
    "both": [ops.Decode(), ops.CenterCrop(31), ops.ToDtype("float32", scale=True), ops.Normalize(MEAN, STD)],
    "NHWC": [ops.Decode(), ops.CenterCrop(20), ops.Normalize(MEAN, STD), ops.ToLayout("NHWC")],
    "channels_last": [ops.Decode(), ops.CenterCrop(20), ops.Normalize(MEAN, STD), ops.ToLayout("channels_last")],
    "gray": [ops.Decode("GRAY"), ops.CenterCrop(20), ops.Normalize((0.4,), (0.3,))],
    "bytes": [ops.Decode(), ops.CenterCrop(20)],
    "double": [ops.Decode(), ops.CenterCrop(6), ops.ToDtype("float64", scale=True)],
    "erased": [ops.Decode(), ops.CenterCrop(20), ops.Normalize(MEAN, STD), ops.RandomErasing(p=1)],
}


def write_all_kinds(path: Path, form: Any) -> Any:
    """45 photos in this form, and a value of each other kind beside each."""
    fields = {
        "image": "image",
        "grid": leat.field("uint8", (5, 3, 3), layout="HWC"),
        "label": "int64",
        "boxes": leat.boxes(),
        "tokens": leat.field("int32", (None,)),
        "text": "str",
    }
    with leat.Writer(path, fields, photos=form) as w:
        for i in range(45):
            w.add(
                image=save(noise(40 + i, 37 + i % 9, 3), "JPEG", quality=80),
                grid=noise(5, 3, 3),
                label=i,
                boxes=np.array([[1, 2, 20, 30]] * (i % 3), np.float32).reshape(-1, 4),
                tokens=np.arange(i % 7, dtype=np.int32),
                text=f"photo {i}",
            )
    return leat.open(path)


def same(found: Any, wanted: Any) -> None:
    """Two batches, bit for bit."""
    torch = pytest.importorskip("torch")
    assert list(found) == list(wanted)
    for name in wanted:
        a, b = found[name], wanted[name]
        if isinstance(b, leat.Ragged):
            assert torch.equal(a.offsets, b.offsets)
            a, b = a.values, b.values
        if isinstance(b, torch.Tensor):
            assert a.dtype == b.dtype and a.shape == b.shape and a.stride() == b.stride(), name
            assert torch.equal(a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8)), name
        elif b and isinstance(b[0], torch.Tensor):
            assert all(torch.equal(x, y) for x, y in zip(a, b, strict=True))
        else:
            assert a == b
    for name in ("ids", "row_keys", "valid", "domains"):
        assert torch.equal(getattr(found, name), getattr(wanted, name)), name
    assert (found.epoch, found.step, found.size, found.errors) == (
        wanted.epoch,
        wanted.step,
        wanted.size,
        wanted.errors,
    )


READER = """
import numpy as np, torch, leat
reader = leat.attach(
    {name!r}, batch_size={size}, start="beginning", device="cuda:{card}", folder={folder!r}, framework="torch"
)
reader.set_epoch(0)
"""
STANDIN = """
import sys
sys.path.insert(0, {tests!r})
from card_support import OnHost
from leat.loading import on_card
from leat.ports import attached
on_card.nvrtc_path = lambda: None
attached.card_of = lambda device: OnHost({card})
"""
HELD = """
held = list(reader)
print(1, flush=True)
input()
"""
WRITTEN = """
seen = []
for batch in reader:
    seen.append((batch.ids.clone(), batch["image"].clone(), batch["label"].clone(), batch["tokens"].values.clone(),
                 batch["tokens"].offsets.clone(), list(batch["text"])))
torch.save((seen, reader.stats()["device"]), {out!r})
"""


def run_reader(
    folder: Path, out: Path | None, size: int, card: int = 0, driver: Path | None = None, name: str = "shared"
) -> subprocess.Popen[bytes]:
    """A process that attaches to a port with batches of this size, and writes what it gets; or holds it (None).
    `driver`: of the stand-in."""
    text = (STANDIN if driver else "") + READER + (WRITTEN if out else HELD)
    text = text.format(
        name=name, tests=str(Path(__file__).parent), size=size, folder=str(folder), out=str(out), card=card
    )
    environment = {"LEAT_LIBCUDA": str(driver), "LEAT_LIBNVRTC": str(driver)} if driver else {}
    pipes: dict[str, Any] = {} if out else {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    return subprocess.Popen([sys.executable, "-c", text], env=os.environ | environment, **pipes)


def check_read(out: Path, size: int, wanted: dict[int, Any]) -> Any:
    """What such a process has written are all rows of the batches that `wanted` has for ids; its statistics."""
    torch = pytest.importorskip("torch")
    seen, stats = torch.load(out, map_location="cpu", weights_only=False)
    assert [len(ids) for ids, *_ in seen] == [size] * (45 // size) + [45 % size] * (45 % size > 0)
    for ids, image, label, values, offsets, text in seen:
        for row, i in enumerate(ids.tolist()):
            batch = wanted[i]
            at = batch.ids.tolist().index(i)
            assert torch.equal(image[row].view(torch.uint8), batch["image"][at].view(torch.uint8))
            assert label[row] == i and text[row] == f"photo {i}"
            assert values[offsets[row] : offsets[row + 1]].tolist() == list(range(i % 7))
    return stats
