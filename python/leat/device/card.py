"""A card as PyTorch has it: memory and streams; and the place of the compiler for kernels."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np

from ..stores.values import Array


class Card:
    """A card, by its number."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.name = f"cuda:{number}"
        self.place = (2, number)  #: the device as DLPack has it

    def stream(self) -> int:
        """The handle of the current stream."""
        import torch

        return int(torch.cuda.current_stream(self.number).cuda_stream)

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        import torch

        return torch.empty(shape, dtype=getattr(torch, dtype), device=self.name)

    def ids(self, ids: Array) -> Any:
        """A copy there."""
        import torch

        pinned = torch.from_numpy(np.require(ids, requirements="W")).pin_memory()  # else the copy waits for the stream
        return pinned.to(self.name, non_blocking=True)

    def move(self, tensor: Any) -> Any:
        """A copy there of a tensor of the host, which may change afterwards."""
        return tensor.to(self.name)

    def has(self, tensor: Any) -> bool:
        """Whether a tensor is in its memory."""
        return str(tensor.device) == self.name


def card_of(device: Any) -> Card | None:
    """The card that is meant; None: the processor. Without a choice it is PyTorch's current card, if there is one."""
    torch: Any = sys.modules.get("torch")
    if device is None:
        seen = torch and torch.version.cuda and torch.cuda.is_available()  # ROCm's cards have that name, too
        return Card(torch.cuda.current_device()) if seen else None
    kind, _, number = str(device).partition(":")
    if kind == "cpu":
        return None
    if kind != "cuda" or not re.fullmatch(r"\d*", number):
        raise ValueError(f"device is 'cpu', 'cuda' or 'cuda:N', not {device!r}")
    try:
        import torch
    except ImportError as e:
        raise ImportError(f"device={device!r} needs PyTorch: pip install torch, or say device='cpu'") from e

    if not torch.version.cuda:
        raise RuntimeError(
            f"PyTorch {torch.__version__} is built without CUDA: install one with it, or say device='cpu'"
        )
    if not torch.cuda.is_available():
        raise RuntimeError(
            "PyTorch sees no CUDA card (torch.cuda.is_available() is False): nvidia-smi shows whether its driver runs, "
            "CUDA_VISIBLE_DEVICES may hide it; or say device='cpu'"
        )
    return Card(int(number) if number else torch.cuda.current_device())


def nvrtc_path() -> str | None:
    """NVRTC in the packages that are installed, of pip or of conda; None: the system may have it. One of PyTorch's own
    version of CUDA is preferred: the driver then knows what it makes."""
    spec = importlib.util.find_spec("nvidia")
    torch: Any = sys.modules.get("torch")
    cuda = getattr(getattr(torch, "version", None), "cuda", None)
    found: dict[int, str] = {}
    places = [(Path(folder), "*/lib") for folder in (spec.submodule_search_locations or [])] if spec else []
    conda = Path(sys.prefix)
    for folder, inside in [*places, (conda, "lib")] if (conda / "conda-meta").is_dir() else places:
        for path in folder.glob(f"{inside}/libnvrtc.so.*"):
            if number := re.fullmatch(r"libnvrtc\.so\.(\d+)(\.\d+)*", path.name):
                found.setdefault(int(number[1]), str(path))
    wanted = int(cuda.split(".")[0]) if cuda else 0
    return found.get(wanted) or (found[min(found)] if found else None)
