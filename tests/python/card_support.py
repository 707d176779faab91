"""A card that is not there: tests/c/device/standin.c takes the driver's part, tensors of the host that of PyTorch."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from leat.device import card

ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def standin_driver(folder: Path) -> Iterator[Path]:
    """A driver and a compiler, whose cards have the host's memory; its library. A process has one driver: where a card
    is, tests of its own use that."""
    if card.card_of(None) is not None:
        pytest.skip("a card is here")
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
