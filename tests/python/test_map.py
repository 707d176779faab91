"""Python functions among operators: leat.ops.Map and leat.ops.MapBatch, run in worker processes."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import leat
from leat import ops

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def ended() -> Iterator[None]:
    """Workers end with the last loader that uses them."""
    yield
    gc.collect()


def double(x: Any) -> Any:
    return x * 2


def every(loader: leat.Loader, name: str) -> Any:
    return torch.cat([batch[name] for batch in loader])


def same(a: leat.Batch, b: leat.Batch) -> bool:
    return list(a) == list(b) and bool((a.ids == b.ids).all()) and all(bool((a[name] == b[name]).all()) for name in a)


# ---- what a function gets and gives -----------------------------------------------------------------------------------


def test_a_function_sees_the_value_that_stands_in_the_chain(photos: Path) -> None:
    def report(x: Any) -> Any:
        assert x.dtype == torch.uint8 and tuple(x.shape) == (24, 20, 3)
        return x

    chain = [ops.Decode(), ops.Resize((24, 20))]
    loader = leat.Loader(leat.open(photos), 4, outputs={"seen": leat.Out("image", [*chain, ops.Map(report)]), "image": chain})
    for batch in loader:
        assert tuple(batch["image"].shape) == (4, 3, 24, 20) and bool((batch["seen"] == batch["image"]).all())


def test_native_operators_follow_a_function(photos: Path) -> None:
    mean, std = (0.4, 0.5, 0.6), (0.2, 0.3, 0.1)
    begin: list[ops.Operator] = [ops.Decode(), ops.CenterCrop(32)]
    end: list[ops.Operator] = [ops.RandomHorizontalFlip(name="flip"), ops.Normalize(mean, std)]
    data = leat.open(photos)
    wanted = leat.Loader(data, 5, outputs={"image": [*begin, *end]}, seed=3)
    loader = leat.Loader(data, 5, outputs={"image": [*begin, ops.Map(lambda x: x), *end]}, seed=3)
    assert all(same(a, b) for a, b in zip(wanted, loader, strict=True))


def test_random_operators_around_a_function_draw_as_without_it(photos: Path) -> None:
    chain: list[ops.Operator] = [ops.Decode(), ops.RandomResizedCrop(24), ops.RandomHorizontalFlip()]
    data = leat.open(photos)
    wanted = leat.Loader(data, 5, outputs={"image": chain}, seed=3)
    loader = leat.Loader(data, 5, outputs={"image": [*chain[:2], ops.Map(lambda x: x), chain[2]]}, seed=3)
    assert all(same(a, b) for a, b in zip(wanted, loader, strict=True))


def test_a_function_may_take_photos_of_any_size(photos: Path) -> None:
    from PIL import Image

    data = leat.open(photos)

    def thumbnail(x: Any) -> Any:
        return np.asarray(Image.fromarray(x.numpy()).resize((20, 30)))

    loader = leat.Loader(data, 6, outputs={"image": [ops.Decode(), ops.Map(thumbnail)]})
    row = 0
    for batch in loader:
        assert tuple(batch["image"].shape) == (6, 3, 30, 20)
        for image in batch["image"]:
            import io

            with Image.open(io.BytesIO(data[row]["image"])) as photo:
                wanted = np.asarray(photo.convert("RGB").resize((20, 30)))
            assert np.abs(image.permute(1, 2, 0).numpy().astype(int) - wanted).max() <= 1
            row += 1
    assert row == 24


@pytest.mark.parametrize("framework", ["torch", "numpy"])
def test_values_come_as_the_framework_has_them(mixed: Path, framework: Any) -> None:
    seen = {"vector": "Tensor", "boxes": "Tensor", "number": "Tensor", "raw": "bytes", "text": "str", "meta": "dict", "image": "bytes"}
    if framework == "numpy":
        seen |= {"vector": "ndarray", "boxes": "ndarray", "number": "float64"}
    outputs = {name: leat.Out(name, [ops.Map(lambda x: type(x).__name__)]) for name in seen}
    with leat.Loader(leat.open(mixed), 5, outputs=outputs, framework=framework) as loader:
        for batch in loader:
            assert {name: set(batch[name]) for name in batch} == {name: {kind} for name, kind in seen.items()}


def test_results_of_every_kind_are_delivered(mixed: Path) -> None:
    data = leat.open(mixed)
    outputs = {
        "dense": leat.Out("vector", [ops.Map(lambda x: x.float())]),
        "number": [ops.Map(lambda x: float(x) + 1)],
        "tokens": leat.Out("text", [ops.Map(lambda s: np.arange(len(s)), returns=leat.field("int64", (None,)))]),
        "upper": leat.Out("text", [ops.Map(str.upper)]),
        "raw": [ops.Map(lambda b: b[::-1])],
        "parsed": leat.Out("meta", [ops.Map(lambda m: {"first": m["i"][0]}, returns="json")]),
        "half": leat.Out("number", [ops.Map(lambda x: x.to(torch.bfloat16))]),
        "large": leat.Out("boxes", [ops.Map(lambda x: x.repeat(600, 1), returns=leat.field("float32", (None, 4)))]),
    }
    with leat.Loader(data, 5, outputs=outputs) as loader:
        for epoch in range(2):
            for step, batch in enumerate(loader):
                rows = [data[i] for i in range(5 * step, 5 * step + 5)]
                assert batch.epoch == epoch and batch["dense"].dtype == torch.float32
                assert batch["dense"].tolist() == [row["vector"].tolist() for row in rows]
                assert batch["number"].dtype == torch.float64 and batch["number"].tolist() == [row["number"] + 1 for row in rows]
                assert [row.tolist() for row in batch["tokens"].unbind()] == [list(range(len(row["text"]))) for row in rows]
                assert batch["upper"] == [row["text"].upper() for row in rows]
                assert [bytes(row.tolist()) for row in batch["raw"].unbind()] == [row["raw"][::-1] for row in rows]
                assert batch["parsed"] == [{"first": row["meta"]["i"][0]} for row in rows]
                assert batch["half"].dtype == torch.bfloat16 and batch["half"].tolist() == [row["number"] for row in rows]
                for i, row in enumerate(rows):
                    assert batch["large"][i].tolist() == np.tile(row["boxes"], (600, 1)).tolist()


def test_what_a_function_gets_is_its_own_to_write_into(records: Path) -> None:
    def spoil(x: Any) -> Any:
        x += 1
        return x

    data = leat.open(records)
    outputs = {"a": leat.Out("x", [ops.Map(spoil)]), "b": leat.Out("x", [ops.Map(spoil)]), "x": []}
    with leat.Loader(data, 8, outputs=outputs) as loader:
        for batch in loader:
            assert bool((batch["a"] == batch["x"] + 1).all()) and bool((batch["b"] == batch["x"] + 1).all())


def test_outputs_that_begin_alike_are_read_once(photos: Path) -> None:
    decode, crop = ops.Decode(), ops.RandomResizedCrop(16)
    outputs = {name: leat.Out("image", [decode, crop, ops.Map(f)]) for name, f in (("a", torch.clone), ("b", double))}
    with leat.Loader(leat.open(photos), 8, outputs=outputs) as loader:
        for batch in loader:
            assert bool((batch["b"] == batch["a"] * 2).all())
        steps = [o["output"] for o in loader.stats()["operators"]]
        assert "a" in steps and "b" not in steps


def test_a_batch_function_sees_all_rows_of_its_batch(records: Path) -> None:
    chain = [ops.Map(double), ops.MapBatch(lambda x: x - x.mean(0)), ops.ToDtype("float64")]
    with leat.Loader(leat.open(records), 8, outputs={"x": chain, "label": []}) as loader:
        for step, batch in enumerate(loader):
            rows = torch.arange(8 * step, min(100, 8 * step + 8), dtype=torch.float32)
            wanted = (2 * rows - (2 * rows).mean())[:, None].expand(-1, 3)
            assert batch["x"].dtype == torch.float64 and torch.equal(batch["x"], wanted.double())


def test_a_batch_function_takes_and_gives_rows_of_any_length(mixed: Path) -> None:
    chain = [ops.MapBatch(lambda rows: [np.frombuffer(s.encode(), np.uint8) for s in rows], returns=leat.field("uint8", (None,)))]
    padded = [ops.MapBatch(lambda rows: np.array([len(s) for s in rows]))]
    with leat.Loader(leat.open(mixed), 4, outputs={"bytes": leat.Out("text", chain), "length": leat.Out("text", padded)}) as loader:
        for batch in loader:
            assert [bytes(row.tolist()).decode() for row in batch["bytes"].unbind()] == ["ä" * i for i in batch.ids.tolist()]
            assert batch["length"].tolist() == batch.ids.tolist()


def test_torchvision_transforms_of_objects_work(photos: Path) -> None:
    class Scale:
        def __init__(self, by: float) -> None:
            self.by = by

        def __call__(self, x: Any) -> Any:
            return x.float() * self.by

    chain = [ops.Decode(), ops.CenterCrop(16), ops.Map(Scale(0.5))]
    plain = [ops.Decode(), ops.CenterCrop(16)]
    with leat.Loader(leat.open(photos), 8, outputs={"half": leat.Out("image", chain), "image": plain}) as loader:
        for batch in loader:
            assert torch.equal(batch["half"], batch["image"].float() * 0.5)


# ---- random numbers ---------------------------------------------------------------------------------------------------


def jitter(x: Any, rng: np.random.Generator) -> Any:
    return x + rng.random()


@settings(max_examples=6)
@given(seed=st.integers(0, 2**64 - 1), threads=st.integers(1, 4), batch=st.integers(1, 40))
def test_random_numbers_of_a_row_are_the_same_for_any_number_of_workers(records: Path, seed: int, threads: int, batch: int) -> None:
    data = leat.open(records)
    with leat.Loader(data, 7, True, outputs={"x": [ops.Map(jitter)]}, seed=seed, num_threads=1) as one:
        wanted = [every(one, "x") for _ in range(2)]
    with leat.Loader(data, batch, True, outputs={"x": [ops.Map(jitter)]}, seed=seed, num_threads=threads) as loader:
        assert all(torch.equal(every(loader, "x"), epoch) for epoch in wanted)
    assert not torch.equal(wanted[0].sort(0)[0], wanted[1].sort(0)[0])


def test_the_same_object_in_two_chains_draws_once_and_two_objects_twice(records: Path) -> None:
    shared = ops.Map(jitter)
    outputs = {"a": leat.Out("x", [shared]), "b": leat.Out("x", [shared]), "c": leat.Out("x", [ops.Map(jitter)])}
    with leat.Loader(leat.open(records), 20, outputs=outputs) as loader:
        for batch in loader:
            assert torch.equal(batch["a"], batch["b"]) and not torch.equal(batch["a"], batch["c"])


def test_leat_rng_is_the_generator_of_the_function(records: Path) -> None:
    def implicit(x: Any) -> Any:
        return x + leat.rng().random()

    data = leat.open(records)
    for function in (jitter, implicit, lambda x, *, rng: x + rng.random()):
        with leat.Loader(data, 20, outputs={"x": [ops.Map(function)]}, seed=5) as loader:
            found = every(loader, "x")
        if function is jitter:
            wanted = found
        assert torch.equal(found, wanted)


def test_leat_rng_outside_of_a_row_says_where_it_works() -> None:
    with pytest.raises(RuntimeError, match="no row is being made here: call it in a Dataset's __getitem__"):
        leat.rng()


def test_leat_rng_goes_on_within_a_row() -> None:
    class Twice(torch.utils.data.Dataset[Any]):
        def __len__(self) -> int:
            return 20

        def __getitem__(self, i: int) -> Any:
            return leat.rng().random(), leat.rng().random()

    for workers in (0, 2):
        loader = leat.DataLoader(Twice(), batch_size=5, seed=1, num_workers=workers)
        found = torch.stack([torch.stack(batch) for batch in loader])
        assert len(found.unique()) == 40
        if not workers:
            wanted = found
        assert torch.equal(found, wanted)
