"""One process reads for its tensor-parallel peers on the same host: its batches go to them by torch.distributed.

A batch is a header and its tensors. The header is JSON in a tensor of bytes, so nothing is unpickled; a reader whose
batch failed says so in it, so that no peer waits.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from .. import ranks
from ..data.ragged import Ragged
from ..data.sparse import Sparse
from ..device.table import Rows
from ..errors import Error
from .batch import Batch, Form, RowError, makers_of
from .context import Slices
from .mesh import Mesh

SMALL = ("ids", "domains", "row_keys", "valid")


class PeerError(Error):
    """The process that reads for its peers has failed. `moved`: its position is behind the batch of which it did."""

    def __init__(self, text: str, moved: bool) -> None:
        super().__init__(text)
        self.moved = moved


class Peers:
    """The tensor-parallel peers of this process on its host; the first one reads."""

    def __init__(self, group: Any, gathered: dict[str, tuple[Rows, str]]) -> None:
        dist = ranks.distributed()
        if dist is None or group is None:
            raise ValueError(
                "tp_read='first' sends batches by torch.distributed: initialise it, and give a mesh that has the group "
                "of the tensor-parallel ranks, such as a DeviceMesh"
            )
        self.dist, self.group = dist, group
        self.gathered = gathered  #: rows that each process gathers itself, by the numbers that it is sent
        self.device = "cuda" if "nccl" in str(dist.get_backend(group)) else "cpu"
        everyone, there = dist.get_process_group_ranks(group), ranks.on_this_host()
        here = [rank for rank in everyone if there is None or rank in there]
        self.source, *self.others = here
        self.whole = len(here) == len(everyone)
        self.reads = dist.get_rank() == self.source

    def _send(self, tensor: Any) -> None:
        """As bytes, because backends do not take every dtype."""
        import torch

        flat = tensor.contiguous().reshape(-1).view(torch.uint8).to(self.device)
        if self.whole:
            self.dist.broadcast(flat, self.source, group=self.group)
            return
        for rank in self.others:
            self.dist.send(flat, rank, group=self.group)

    def _receive(self, shape: list[int], dtype: str) -> Any:
        import torch

        kind = getattr(torch, dtype)
        flat = torch.empty(math.prod(shape) * kind.itemsize, dtype=torch.uint8, device=self.device)
        if self.whole:
            self.dist.broadcast(flat, self.source, group=self.group)
        else:
            self.dist.recv(flat, self.source, group=self.group)
        return flat.cpu().view(kind).reshape(shape)

    def _tell(self, header: dict[str, Any]) -> None:
        import torch

        text = torch.from_numpy(np.frombuffer(json.dumps(header).encode(), np.uint8).copy())
        self._send(torch.tensor([len(text)], dtype=torch.int64))
        self._send(text)

    def fail(self, error: BaseException, moved: bool) -> None:
        self._tell({"error": f"{type(error).__name__}: {error}", "moved": moved})

    def send(self, batch: Batch | None) -> None:
        """A batch to all peers; None: the epoch is over."""
        if batch is None:
            self._tell({})
            return
        outputs: list[Any] = []
        tensors: list[Any] = []
        for name in batch:
            if name in self.gathered:
                continue
            value = batch[name]
            if isinstance(value, Sparse):
                parts = [value.values, value.columns, value.offsets]
                outputs.append([name, "sparse", [_about(part) for part in parts], value.n])
                tensors += parts
                continue
            if isinstance(value, Ragged):
                parts = [value.values, value.offsets]
            elif hasattr(value, "dtype"):
                parts = [value]
            else:
                outputs.append([name, "json", value])
                continue
            outputs.append([name, "ragged" if len(parts) > 1 else "tensor", [_about(part) for part in parts]])
            tensors += parts
        small = [getattr(batch, name) for name in SMALL]
        header = {
            "outputs": outputs,
            "small": [_about(tensor) for tensor in small],
            "errors": [list(error) for error in batch.errors],
            "epoch": batch.epoch,
            "step": batch.step,
            "size": batch.size,
        }
        try:
            self._tell(header)
        except TypeError as e:
            self.fail(e, True)
            raise TypeError(f"tp_read='first' sends tensors, texts and JSON only: {e}") from None
        for tensor in [*tensors, *small]:
            self._send(tensor)

    def receive(self) -> Batch | None:
        """The next batch, or None at the end of the epoch.

        Raises:
            PeerError: the peer that reads has failed.
        """
        length = int(self._receive([1], "int64"))
        header = json.loads(bytes(self._receive([length], "uint8").numpy()))
        if "error" in header:
            text = f"the process that reads for its tensor-parallel peers failed: {header['error']}"
            raise PeerError(text, header["moved"])
        if not header:
            return None
        values: dict[str, Any] = {}
        for name, kind, about, *columns in header["outputs"]:
            parts = [] if kind == "json" else [self._receive(*one) for one in about]
            if kind == "sparse":
                values[name] = Sparse(*parts, *columns)
                continue
            values[name] = about if kind == "json" else parts[0] if kind == "tensor" else Ragged(*parts)
        names = list(values)
        for name, about in zip(SMALL, header["small"]):
            values["." + name] = self._receive(*about)
        values[".errors"] = [RowError(*error) for error in header["errors"]]
        for name in ("epoch", "step", "size"):
            values["." + name] = header[name]
        form = Form("torch")
        form.makers = dict.fromkeys(names, lambda core: None)  # never called: these values are there
        form.makers |= makers_of(self.gathered, {of: partial(lambda of, core: values[of], of) for of in names})
        return Batch(None, form, values)


def joined(
    mesh: Mesh | None, form: Form, cp: str, cp_outputs: Sequence[str] | None, first: bool, in_order: bool
) -> Peers | None:
    """The peers that this process shares batches with; `form` says what it makes of them, by its place in the mesh."""
    if mesh is None:
        return None
    if not in_order and mesh.processes > mesh.dp.size:
        raise ValueError(
            "in_order=False does not go with a mesh in which several processes have the same rows: each of them would "
            "have these in an order of its own"
        )
    peers = None
    if first and mesh.tp.size > 1 and mesh.reads:
        if form.framework != "torch":
            raise ValueError("tp_read='first' sends tensors: open the Loader with framework='torch'")
        peers = Peers(mesh.tp_group, form.gathered)
    form.hidden = not mesh.reads or not (peers is None or peers.reads)
    if mesh.cp.size > 1 and not form.hidden:
        form.slices = Slices(mesh.cp, cp, cp_outputs)
    return peers


def _about(tensor: Any) -> tuple[list[int], str]:
    return list(tensor.shape), str(tensor.dtype).removeprefix("torch.")
