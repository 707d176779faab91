"""Batches: memory that is shared, kept and given back; types; the mapping."""

from __future__ import annotations

import copy
import gc
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dtypes import DTYPES

import leat
from leat.loading.batch import _ragged

torch: Any = pytest.importorskip("torch")

IMAGES = {"image": [leat.ops.Decode(), leat.ops.Resize((64, 64)), leat.ops.Normalize(0.5, 0.5)], "label": []}


def first(path: Path, size: int = 8, **options: Any) -> leat.Batch:
    batch: leat.Batch = next(iter(leat.Loader(leat.open(path), size, **options)))
    return batch


def test_a_batch_is_a_mapping(records: Path) -> None:
    batch = first(records, framework="torch")
    assert list(batch) == list(batch.keys()) == ["x", "label"] and "x" in batch and len(batch) == 2
    assert dict(batch)["x"] is batch["x"] and batch.get("nothing") is None
    assert (batch.epoch, batch.step, batch.size) == (0, 0, 8)
    assert batch.ids.dtype == torch.int64 and batch.row_keys.dtype == torch.uint64 and batch.valid.all()


TORCH_DTYPES = [*DTYPES, "bfloat16"]


@pytest.fixture(scope="module")
def typed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("typed") / "typed.leat"
    with leat.Writer(path, {d: leat.field(d, (3,)) for d in TORCH_DTYPES}) as w:
        for i in range(4):
            w.write({d: [bool(i % 2)] * 3 if d == "bool" else [i, 1, 2] for d in TORCH_DTYPES})
    return path


@pytest.mark.parametrize("dtype", TORCH_DTYPES)
def test_every_dtype_arrives_as_itself_in_torch(typed: Path, dtype: str) -> None:
    t = first(typed, 4, framework="torch", outputs={dtype: []})[dtype]
    assert t.dtype == getattr(torch, dtype) and t.shape == (4, 3)
    want = [[i % 2] * 3 if dtype == "bool" else [i, 1, 2] for i in range(4)]
    assert t.to(torch.int64).tolist() == want


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_arrives_as_itself_in_numpy(typed: Path, dtype: str) -> None:
    array = first(typed, 4, framework="numpy", outputs={dtype: []})[dtype]
    assert array.dtype == np.dtype(dtype) and array.flags.writeable and array.shape == (4, 3)


def test_beside_bfloat16_the_other_outputs_are_there_in_numpy(typed: Path) -> None:
    made = leat.Loader(leat.open(typed), 4, framework="numpy", outputs={"bfloat16": [], "int8": []})
    for batch in made:
        assert list(batch) == ["bfloat16", "int8"] and batch["int8"].dtype == np.int8
        with pytest.raises(TypeError, match="bfloat16"):
            batch["bfloat16"]


def test_bfloat16_in_numpy_is_a_type_error(typed: Path) -> None:
    with pytest.raises(TypeError, match="bfloat16"):
        first(typed, 4, framework="numpy", outputs={"bfloat16": []})["bfloat16"]


def test_channels_last_is_what_torch_calls_so(photos: Path) -> None:
    t = first(
        photos,
        framework="torch",
        outputs={"image": [leat.ops.Decode(), leat.ops.Resize((16, 8)), leat.ops.ToLayout("channels_last")]},
    )["image"]
    assert t.shape == (8, 3, 16, 8) and t.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("framework", ["numpy", "torch"])
def test_memory_outlives_batch_loader_and_data_set(photos: Path, framework: Any) -> None:
    loader = leat.Loader(leat.open(photos), 8, framework=framework, outputs=IMAGES)
    want = [b["image"].tolist() for b in loader]
    kept = [b["image"] for b in leat.Loader(leat.open(photos), 8, framework=framework, outputs=IMAGES)]
    gc.collect()
    for _ in leat.Loader(leat.open(photos), 8, framework=framework, outputs=IMAGES):
        pass
    assert [t.tolist() for t in kept] == want


@pytest.mark.parametrize("framework", ["numpy", "torch"])
def test_a_batch_is_never_overwritten_while_it_is_held(photos: Path, framework: Any) -> None:
    loader = leat.Loader(leat.open(photos), 2, framework=framework, outputs=IMAGES)
    held = [b["image"] for b in loader]
    copies = [t.tolist() for t in held]
    for _ in range(3):
        for batch in loader:
            batch["image"][:] = 0
    assert [t.tolist() for t in held] == copies


def test_tensors_are_yours_to_write_into(records: Path) -> None:
    loader = leat.Loader(leat.open(records), 10, framework="torch")
    batch = next(iter(loader))
    batch["x"].fill_(7)
    assert batch["x"].sum() == 210 and loader.batch_at(0, 0)["x"].sum() == 3 * 45


def held_bytes(loader: leat.Loader) -> int:
    found: int = loader.stats()["memory"]["held_bytes"]
    return found


@pytest.mark.parametrize("framework", ["numpy", "torch"])
def test_a_label_that_is_kept_keeps_no_images(photos: Path, framework: Any) -> None:
    loader = leat.Loader(leat.open(photos), 8, framework=framework, outputs=IMAGES)
    image_bytes = 8 * 3 * 64 * 64 * 4
    it = iter(loader)
    batch = next(it)
    label, ids, _ = batch["label"], batch.ids, batch["image"]
    assert held_bytes(loader) >= image_bytes
    del batch, _
    assert 0 < held_bytes(loader) < image_bytes / 4
    assert label.shape == ids.shape
    del label
    assert held_bytes(loader) == 0


def test_a_capsule_that_nobody_takes_gives_its_memory_back(records: Path) -> None:
    loader = leat.Loader(leat.open(records), 8, framework="torch")
    batch = next(iter(loader))
    capsule = batch._core.dlpack(0)  # type: ignore[union-attr]
    del batch
    assert held_bytes(loader) > 0
    del capsule
    assert held_bytes(loader) == 0


def test_a_tensor_can_be_given_up_on_another_thread(records: Path) -> None:
    import threading

    loader = leat.Loader(leat.open(records), 8, framework="torch")
    box = [b["x"] for b in loader]
    thread = threading.Thread(target=box.clear)
    thread.start()
    thread.join()
    assert held_bytes(loader) == 0


def test_a_consumer_that_keeps_every_batch_gets_an_error_that_says_how_many(photos: Path) -> None:
    loader = leat.Loader(leat.open(photos), 1, framework="torch", outputs=IMAGES, max_held_bytes=4 * 64 * 64 * 3 * 4)
    kept = []
    with pytest.raises(leat.HeldError, match=r"\d"):
        for _ in range(3):
            for batch in loader:
                kept.append(batch["image"])
    assert 0 < len(kept) < 24


def test_with_small_batches_a_list_of_an_epochs_outputs_is_no_error(tmp_path: Path) -> None:
    with leat.Writer(tmp_path / "a.leat", {"n": "int64"}) as w:
        w.write_batch({"n": np.arange(4000)})
    kept = [batch["n"] for batch in leat.Loader(leat.open(tmp_path / "a.leat"), 4)]
    assert torch.cat(kept).tolist() == list(range(4000))


def test_clone_is_a_copy_that_does_not_count_as_held(mixed: Path) -> None:
    loader = leat.Loader(leat.open(mixed), 5, framework="torch")
    batch = next(iter(loader))
    copy = batch.clone()
    want = (
        batch["vector"].tolist(),
        batch["boxes"].to_padded().tolist(),
        batch["text"],
        batch.ids.tolist(),
        batch.valid.tolist(),
    )
    del batch
    assert held_bytes(loader) == 0
    assert (
        copy["vector"].tolist(),
        copy["boxes"].to_padded().tolist(),
        copy["text"],
        copy.ids.tolist(),
        copy.valid.tolist(),
    ) == want
    assert (copy.epoch, copy.step, copy.size, copy.errors) == (0, 0, 5, [])


def test_to_moves_every_tensor(mixed: Path) -> None:
    moved = first(mixed, 5, framework="torch").to("meta")
    assert moved["vector"].device.type == moved["boxes"].values.device.type == moved.ids.device.type == "meta"


def test_copies_to_the_host_are_there_as_to_returns(mixed: Path) -> None:
    class Seen(torch.overrides.TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if function.__name__ in ("to", "copy_"):
                waits[-1].add(not kwargs["non_blocking"])
            return function(*args, **(kwargs or {}))

    batch, waits = first(mixed, 5, framework="torch"), list[set[bool]]()
    for device in ("cpu", "meta"):
        waits.append(set())
        with Seen():
            batch.to(device, out={"vector": torch.empty_like(batch["vector"], device=device)})
    assert waits == [{True}, {False}]  # PyTorch copies from a card to the host without waiting too, if it is told so


def test_offsets_of_rows_that_are_put_together_lie_beside_their_values() -> None:
    rows = [torch.empty(n, 2, device="meta") for n in (2, 1)]
    assert _ragged(torch.cat(rows), rows).offsets.device.type == "meta"


def test_to_takes_a_device_and_no_dtype(records: Path) -> None:
    with pytest.raises(TypeError):
        first(records, 4, framework="torch").to(torch.float16)


def test_a_mapping_that_is_made_again_of_a_batch_is_a_dict(records: Path) -> None:
    batch = first(records, 4)
    again = type(batch)({name: value[:2] for name, value in batch.items()})
    assert type(again) is dict and list(again) == list(batch) and len(again["label"]) == 2


def test_trees_of_torch_have_the_tensors_of_a_batch(records: Path) -> None:
    from torch.utils import _pytree

    batch = first(records, 4)
    doubled = _pytree.tree_map(lambda t: t + t, batch)
    assert type(doubled) is dict and list(doubled) == list(batch)
    assert all(torch.equal(doubled[name], batch[name] + batch[name]) for name in batch)
    paths, _ = _pytree.tree_flatten_with_path(batch)
    assert [(_pytree.keystr(path), value is batch[path[0].key]) for path, value in paths] == [
        (f"[{name!r}]", True) for name in batch
    ]
    assert torch.vmap(lambda row: row["x"].sum())(batch).tolist() == batch["x"].sum(1).tolist()


def test_a_compiled_function_takes_a_batch_and_in_one_graph_a_dict_of_it(records: Path) -> None:
    def scaled(batch: Any) -> Any:
        return batch["x"] * 2 + 1

    anyhow, whole = (torch.compile(scaled, backend="eager", fullgraph=full) for full in (False, True))
    for batch in leat.Loader(leat.open(records), 7, shuffle=True):
        wanted = scaled(dict(batch))
        assert torch.equal(anyhow(batch), wanted) and torch.equal(whole(dict(batch)), wanted)


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda batch: pickle.loads(pickle.dumps(batch))], ids=["deepcopy", "pickle"]
)
def test_a_copy_of_a_batch_holds_the_same_and_memory_of_its_own(
    mixed: Path, copied: Callable[[leat.Batch], leat.Batch]
) -> None:
    made = leat.Loader(leat.open(mixed), 4, framework="numpy")
    batch = next(iter(made))
    again = copied(batch)
    assert (
        list(again) == list(batch)
        and again.ids.tolist() == [0, 1, 2, 3]
        and (again.epoch, again.step, again.size) == (0, 0, 4)
    )
    assert again["text"] == batch["text"] and np.array_equal(again["boxes"].values, batch["boxes"].values)
    del batch
    assert held_bytes(made) == 0 and again["vector"].shape == (4, 2, 2)


def test_to_in_numpy_is_a_type_error(records: Path) -> None:
    with pytest.raises(TypeError, match="framework"):
        first(records, framework="numpy").to("cpu")


@pytest.mark.card
def test_pinned_and_moved_batches_hold_the_same_numbers(photos: Path) -> None:
    batch = first(photos, framework="torch", outputs=IMAGES)
    pinned = batch.pin_memory()
    assert pinned["image"].is_pinned() and not batch["image"].is_pinned()
    moved = pinned.to("cuda")
    torch.cuda.synchronize()
    assert torch.equal(moved["image"].cpu(), batch["image"]) and torch.equal(moved.ids.cpu(), batch.ids)
    torch.cuda._sleep(100_000_000)  # what follows waits for it
    assert torch.equal(moved.to("cpu")["image"], batch["image"])


def test_tuple_gives_the_outputs_that_are_named(records: Path) -> None:
    batch = first(records, framework="torch")
    label, x = batch.tuple("label", "x")
    assert label is batch["label"] and x is batch["x"] and len(batch.tuple()) == 2


def test_ragged_offsets_and_values_are_tensors(mixed: Path) -> None:
    boxes = first(mixed, 10, framework="torch")["boxes"]
    assert boxes.offsets.dtype == torch.int64 and boxes.values.shape[1] == 4
    assert boxes.to_nested().size(0) == 10


def test_auto_is_torch_where_torch_is_imported(records: Path) -> None:
    assert isinstance(first(records)["x"], torch.Tensor)


def rss() -> int:
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("framework", ["numpy", "torch"])
def test_a_notebook_that_runs_its_cells_again_and_again_leaks_nothing(photos: Path, framework: Any) -> None:
    def cell() -> None:
        loader = leat.Loader(leat.open(photos), 4, True, framework=framework, outputs=IMAGES)
        for i, batch in enumerate(loader):
            assert batch["image"].shape[0] == 4
            if i == 3:
                break

    for _ in range(10):
        cell()
    gc.collect()
    before, threads, files = rss(), len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))
    for _ in range(40):
        cell()
    gc.collect()
    assert rss() - before < 8 << 20 and len(os.listdir("/proc/self/task")) <= threads
    assert len(os.listdir("/proc/self/fd")) <= files


def test_a_batch_of_tensors_as_arrays_over_the_same_memory() -> None:
    data = leat.from_arrays(x=np.arange(12, dtype=np.float32).reshape(4, 3))
    with leat.Loader(data, 4, framework="torch") as loader:
        batch = next(iter(loader))
        arrays = batch.numpy()
        assert list(arrays) == list(batch) and type(arrays["x"]) is np.ndarray
        assert arrays.ids.tolist() == [0, 1, 2, 3] and arrays.row_keys.dtype == np.uint64 and arrays.step == batch.step
        batch["x"][1, 1] = 7
        assert arrays["x"][1, 1] == 7 and torch.is_tensor(batch["x"])
        assert [part["x"].shape for part in arrays.split(3)] == [(3, 3), (1, 3)]
    with leat.Loader(data, 4, framework="numpy") as loader:
        batch = next(iter(loader))
        assert batch.numpy() is batch
