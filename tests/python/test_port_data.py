"""Whatever data, outputs and error policy: a reader of a port gets what a loader of its own gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_support import jpeg
from port_support import seen

import leat

CROP = [leat.ops.Decode(), leat.ops.RandomResizedCrop(32), leat.ops.RandomHorizontalFlip()]


def photos(path: Path, n: int, broken: tuple[int, ...] = ()) -> leat.Dataset:
    """Photos of several sizes, with boxes and a text."""
    fields = {"image": "image", "boxes": leat.boxes("xyxy"), "label": "int64", "name": "str"}
    rng = np.random.default_rng(0)
    with leat.Writer(path, fields) as writer:
        for i in range(n):
            data = jpeg(64 + 8 * (i % 3), 56, i)
            corners = rng.uniform(0, 20, (i % 4, 2))
            boxes = np.concatenate([corners, corners + 8], axis=1).astype(np.float32)
            writer.add(image=data[:200] if i in broken else data, boxes=boxes, label=i, name=f"photo {i}")
    return leat.open(path)


def what_comes(reader: Any, epochs: int = 1) -> list[Any]:
    """Batches and errors, in the order in which they come; an error is raised once and then again."""
    got: list[Any] = []
    for _ in range(epochs):
        batches = iter(reader)
        while True:
            try:
                batch = next(batches)
            except StopIteration:
                break
            except leat.BrokenSampleError as error:
                got.append((type(error).__name__, error.sample, str(error)))
                with pytest.raises(type(error)):
                    next(batches)
                break
            got.append(seen(batch))
    return got


def compare(dataset: leat.Dataset, folder: Path, sizes: list[tuple[int, int, int]], **options: Any) -> list[Any]:
    """Readers of these batch sizes, ranks and numbers of ranks; returns what the last one got."""
    options = {"shuffle": True, "seed": 3, "framework": "numpy", **options}
    got: list[Any] = []
    with leat.Loader(dataset, 8, **options) as served, leat.Port(served, "p", folder=folder):
        for batch_size, rank, world in sizes:
            with (
                leat.attach("p", batch_size, rank=rank, world_size=world, folder=folder, start="beginning") as reader,
                leat.Loader(dataset, batch_size, rank=rank, world_size=world, **options) as own,
            ):
                got = what_comes(reader)
                assert got == what_comes(own)
    return got


SIZES = [(8, 0, 1), (3, 0, 1), (20, 0, 1), (4, 1, 3), (1, 0, 1)]


def test_photos_with_targets_texts_and_numbers(tmp_path: Path) -> None:
    ds = photos(tmp_path / "a.leat", 45)
    outputs: dict[Any, Any] = {("image", "boxes"): CROP, "label": [], "name": []}
    assert len(compare(ds, tmp_path / "ports", SIZES, outputs=outputs)) == 45


def test_photos_of_open_size(tmp_path: Path) -> None:
    ds = photos(tmp_path / "a.leat", 20)
    chain = [leat.ops.Decode(), leat.ops.RandomHorizontalFlip()]
    for stack in ("list", "pad"):
        options: dict[str, Any] = {"shuffle": True, "seed": 3, "framework": "numpy"}
        options["outputs"] = {"image": leat.Out("image", chain, stack=stack)}
        folder = tmp_path / "ports"
        with leat.Loader(ds, 8, **options) as served, leat.Port(served, "p", folder=folder):
            for size in (8, 3):
                with (
                    leat.attach("p", size, folder=folder, start="beginning") as reader,
                    leat.Loader(ds, size, **options) as own,
                ):
                    for a, b in zip(reader, own, strict=True):
                        images = (a["image"], b["image"])
                        assert all(np.array_equal(x, y) for x, y in zip(*images, strict=True))
                        assert a.ids.tolist() == b.ids.tolist()


@pytest.mark.parametrize("policy", ["raise", "skip", "substitute"])
def test_broken_photos_are_treated_as_a_loader_of_ones_own_does(tmp_path: Path, policy: Any) -> None:
    ds = photos(tmp_path / "a.leat", 40, broken=(5, 6, 17, 30))
    outputs: dict[Any, Any] = {"image": CROP, "label": []}
    compare(ds, tmp_path / "ports", SIZES, outputs=outputs, on_error=policy)


def test_operators_that_see_batches_as_a_whole_see_those_of_the_reader(tmp_path: Path) -> None:
    ds = photos(tmp_path / "a.leat", 40)
    outputs: dict[Any, Any] = {
        ("image", "label"): [*CROP, leat.ops.ToDtype("float32"), leat.ops.MixUp(alpha=0.4, num_classes=40)]
    }
    compare(ds, tmp_path / "ports", [(8, 0, 1), (4, 0, 1), (16, 1, 2)], outputs=outputs)


def test_a_mixture_and_packed_rows_are_served(tmp_path: Path) -> None:
    words = [np.arange(n, dtype=np.int32) for n in (5, 9, 3, 12, 7, 8) * 5]
    with leat.Writer(tmp_path / "t.leat", {"tokens": leat.field("int32", (None,))}) as writer:
        for w in words:
            writer.add(tokens=w)
    ds = leat.open(tmp_path / "t.leat")
    compare(leat.pack_rows(ds, length=16), tmp_path / "ports", [(8, 0, 1), (3, 1, 2)])
    mix: Any = leat.Mix({"a": (ds[:10], 0.25), "b": (ds[10:], 0.75)}, exhausted="repeat")
    compare(mix, tmp_path / "ports", [(8, 0, 1), (3, 1, 2)])
    ragged, options = leat.pack_rows(ds, length=16, how="ragged"), {"batch_tokens": 32, "framework": "numpy"}
    with (
        leat.Loader(ragged, **options) as served,
        leat.Port(served, "p", folder=tmp_path / "ports"),
        leat.attach("p", folder=tmp_path / "ports", start="beginning") as reader,
        leat.Loader(ragged, **options) as own,
    ):
        assert what_comes(reader) == what_comes(own)


def test_large_copies_that_are_held_stay_as_they_are_while_memory_of_others_is_used_again(tmp_path: Path) -> None:
    """Rows of several batches of the port are copied into memory that earlier copies have left."""
    rows = np.arange(96 * 40000, dtype=np.int32).reshape(96, 40000)
    options: dict[str, Any] = {"shuffle": True, "framework": "numpy"}
    data, folder = leat.from_arrays(x=rows), tmp_path / "ports"
    with (
        leat.Loader(data, 8, **options) as served,
        leat.Port(served, "p", folder=folder),
        leat.attach("p", 6, folder=folder, start="beginning") as reader,
        leat.Loader(data, 6, **options) as own,
    ):
        held = []
        for epoch in range(3):
            for i, (batch, other) in enumerate(zip(reader, own, strict=True)):
                assert np.array_equal(batch["x"], other["x"])
                if i % 4 == epoch:  # of the four that lie in three of the port's, two are copies
                    held.append((batch["x"], other["x"].copy()))
        assert reader.stats()["copied"] == 3 * 48
        assert all(np.array_equal(x, expected) for x, expected in held)
