"""A batch of tensors is pickled and copied with all that it has, also in dtypes that PyTorch itself does not pickle."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leat

torch = pytest.importorskip("torch")


def saved(batch: Any) -> Any:
    file = io.BytesIO()
    torch.save(batch, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


WAYS: dict[str, Callable[[Any], Any]] = {
    "pickle": lambda batch: pickle.loads(pickle.dumps(batch)),
    "deepcopy": copy.deepcopy,
    "torch.save": saved,
}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("batches") / "a.leat"
    fields = {f"x{n}": leat.field(f"uint{n}", (3,)) for n in (8, 16, 32, 64)}
    more = {"tokens": leat.field("uint16", (None,)), "text": leat.field("str"), "y": leat.field("float32")}
    with leat.Writer(path, {**fields, **more}) as writer:
        for i in range(8):
            wide = {f"x{n}": np.arange(i, i + 3).astype(f"uint{n}") + (1 << (n - 1)) for n in (8, 16, 32, 64)}
            writer.write({**{k: v.astype(k.replace("x", "uint")) for k, v in wide.items()},
                          "tokens": np.arange(i, dtype=np.uint16) + 60000, "text": str(i), "y": i / 2})  # fmt: skip
    return path


@pytest.mark.parametrize("way", WAYS)
def test_a_batch_comes_back_with_all_its_values(path: Path, way: str) -> None:
    batch = next(iter(leat.Loader(leat.open(path), 4, shuffle=True, framework="torch")))
    again = WAYS[way](batch)
    assert list(again) == list(batch) and (again.epoch, again.step, again.size) == (0, 0, 4)
    for name in batch:
        a, b = batch[name], again[name]
        parts = [(a.values, b.values), (a.offsets, b.offsets)] if isinstance(a, leat.Ragged) else [(a, b)]
        for one, other in parts:
            if isinstance(one, list):
                assert one == other
                continue
            assert one.dtype == other.dtype and one.shape == other.shape and one.tolist() == other.tolist()
            assert one.data_ptr() != other.data_ptr()
    for name in ("ids", "row_keys", "valid", "domains"):
        assert getattr(batch, name).tolist() == getattr(again, name).tolist()
        assert getattr(batch, name).dtype == getattr(again, name).dtype


def test_images_of_open_size_are_pickled_each_alone(tmp_path: Path) -> None:
    from PIL import Image

    for i in range(8):
        Image.new("RGB", (64 + i, 48), (i, 0, 0)).save(tmp_path / f"{i}.png")
    outputs = {"image": leat.Out("image", [leat.ops.Decode()], stack="list")}
    batch = next(iter(leat.Loader(leat.open(tmp_path), 8, outputs=outputs, framework="torch")))
    text = pickle.dumps(batch)
    assert len(text) < 2 * sum(image.nbytes for image in batch["image"])
    for one, other in zip(batch["image"], pickle.loads(text)["image"], strict=True):
        assert one.shape == other.shape and bool((one == other).all())
