"""Uses of the public names as programs have them: a strict type checker takes them. It is never run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

import leat


class Rows:
    fields = {"x": leat.field("float32", (3,))}

    def __len__(self) -> int:
        return 10

    def read(self, positions: np.ndarray[Any, Any]) -> dict[str, Any]:
        return {"x": np.zeros((len(positions), 3), np.float32)}


def selections(ds: leat.Dataset) -> leat.Dataset:
    sample: dict[str, Any] = ds[np.int64(3)]
    several: list[leat.Dataset] = [ds[2:4], ds[[1, -1]], ds[range(3)], ds[np.arange(3)], ds[torch.randperm(3)]]
    print(sample["x"], several)
    return ds[:5] & ds[3:] | ds.where("id = 7")


def programs(ds: leat.Dataset) -> str:
    chain = [leat.ops.Decode(), leat.ops.RandomResizedCrop(224)]
    by_name = {"image": chain, "label": []}
    by_fields = {("image", "boxes"): chain}
    of_any: dict[str, Any] = {"image": chain, "view": leat.Out("image", chain), "label": []}
    loaders = [leat.Loader(ds, 8, outputs=outputs) for outputs in (by_name, by_fields, of_any)]
    leat.apply(by_name, {"image": [b""], "label": [1]})
    return f"{leat.program_to_json(by_name)} {loaders}"


def batches(loader: leat.Loader) -> Mapping[str, Any]:
    batch: leat.Batch
    for batch in loader:
        x: torch.Tensor = batch["x"]
        part: leat.Batch = batch.split(4)[0]
        print(x.mean(), part.ids, batch.to("cpu", non_blocking=True)["x"])
    return batch


made = leat.from_source(Rows())
text = leat.from_arrays({"text": "str"}, text=leat.Ragged(np.zeros(3, np.uint8), np.arange(4)))
of_any = leat.DataLoader(made, batch_size=2)
of_pairs: torch.utils.data.DataLoader[tuple[int, float]] = leat.DataLoader([(1, 2.0)], batch_size=2)
