"""Python functions among operators: leat.ops.Map and leat.ops.MapBatch, run in worker processes."""

from __future__ import annotations

import gc
import json
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import warnings
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from process_support import eventually, is_there

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


# ---- what a function gets and gives
# -----------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["original", "fast", "raw"])
def test_a_function_behind_decoding_gets_photos_turned_in_each_form(
    form: str, tmp_path: Path, jpeg: Callable[..., bytes]
) -> None:
    from PIL import Image

    exif = Image.Exif()
    exif[0x112] = 6  # a quarter turn: what is 64 wide and 48 high becomes 48 wide and 64 high
    with leat.Writer(tmp_path / "p.leat", {"image": "image"}, photos=form) as w:
        for seed in range(2):
            w.add(image=jpeg(64, 48, seed, exif=exif))
    chain = [ops.Decode(exif=True), ops.Map(double)]
    loader = leat.Loader(leat.open(tmp_path / "p.leat"), 2, outputs={"image": chain})
    assert [tuple(batch["image"].shape) for batch in loader] == [(2, 3, 64, 48)]


def test_a_function_sees_the_value_that_stands_in_the_chain(photos: Path) -> None:
    def report(x: Any) -> Any:
        assert x.dtype == torch.uint8 and tuple(x.shape) == (24, 20, 3)
        return x

    chain = [ops.Decode(), ops.Resize((24, 20))]
    loader = leat.Loader(
        leat.open(photos), 4, outputs={"seen": leat.Out("image", [*chain, ops.Map(report)]), "image": chain}
    )
    for batch in loader:
        assert tuple(batch["image"].shape) == (4, 3, 24, 20) and bool((batch["seen"] == batch["image"]).all())


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


def test_a_function_may_give_photos_of_any_size(photos: Path) -> None:
    data = leat.open(photos)

    def as_they_are(x: Any) -> Any:
        return 255 - x

    resize = ops.Resize((30, 20))
    twice = [ops.Map(as_they_are), ops.RandomHorizontalFlip(), ops.Map(as_they_are), resize]
    for chain in [ops.Map(as_they_are), resize], twice:
        with leat.Loader(data, 6, outputs={"image": [ops.Decode(), *chain]}, seed=1) as loader:
            for batch in loader:
                assert batch["image"].shape == (6, 3, 30, 20)
    with (
        leat.Loader(data, 6, outputs={"image": [ops.Decode(), ops.Map(as_they_are), ops.CenterCrop(9)]}) as loader,
        leat.Loader(data, 6, outputs={"image": [ops.Decode(), ops.CenterCrop(9)]}) as bare,
    ):
        for x, y in zip(loader, bare, strict=True):
            assert torch.equal(x["image"], 255 - y["image"])
    loader = leat.Loader(data, 6, outputs={"image": [ops.Decode(), ops.Map(as_they_are)]})
    with loader, pytest.raises(TypeError, match=r"came of the first sample.* Resize\(\[height, width\]\) or a crop"):
        list(loader)  # they might all be as large
    with pytest.raises(TypeError, match="batches of images of one size"):
        leat.Loader(data, 6, outputs={"image": [ops.Decode(), ops.MapBatch(as_they_are), resize]})


def test_a_result_of_one_size_that_the_first_photo_has_by_chance_is_of_one_size(photos: Path) -> None:
    data = leat.open(photos)
    with leat.Loader(data, 1, outputs={"image": [ops.Decode()]}) as loader:
        height, width = loader.batch_at(0, 0)["image"].shape[2:]

    def filled(x: Any) -> Any:
        return x.new_zeros((height, width, 3))

    with leat.Loader(data, 6, outputs={"image": [ops.Decode(), ops.Map(filled)]}) as loader:
        assert loader.batch_at(0, 0)["image"].shape == (6, 3, height, width)


@pytest.mark.parametrize("framework", ["torch", "numpy"])
def test_values_come_as_the_framework_has_them(mixed: Path, framework: Any) -> None:
    seen = {
        "vector": "Tensor",
        "boxes": "Tensor",
        "number": "Tensor",
        "raw": "bytes",
        "text": "str",
        "meta": "dict",
        "image": "bytes",
    }
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
                assert batch["number"].dtype == torch.float64 and batch["number"].tolist() == [
                    row["number"] + 1 for row in rows
                ]
                assert [row.tolist() for row in batch["tokens"].unbind()] == [
                    list(range(len(row["text"]))) for row in rows
                ]
                assert batch["upper"] == [row["text"].upper() for row in rows]
                assert [bytes(row.tolist()) for row in batch["raw"].unbind()] == [row["raw"][::-1] for row in rows]
                assert batch["parsed"] == [{"first": row["meta"]["i"][0]} for row in rows]
                assert batch["half"].dtype == torch.bfloat16 and batch["half"].tolist() == [
                    row["number"] for row in rows
                ]
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
    chain = [
        ops.MapBatch(
            lambda rows: [np.frombuffer(s.encode(), np.uint8) for s in rows], returns=leat.field("uint8", (None,))
        )
    ]
    padded = [ops.MapBatch(lambda rows: np.array([len(s) for s in rows]))]
    with leat.Loader(
        leat.open(mixed), 4, outputs={"bytes": leat.Out("text", chain), "length": leat.Out("text", padded)}
    ) as loader:
        for batch in loader:
            assert [bytes(row.tolist()).decode() for row in batch["bytes"].unbind()] == [
                "ä" * i for i in batch.ids.tolist()
            ]
            assert batch["length"].tolist() == batch.ids.tolist()


# ---- random numbers
# ---------------------------------------------------------------------------------------------------


def jitter(x: Any, rng: np.random.Generator) -> Any:
    return x + rng.random()


@settings(max_examples=6)
@given(seed=st.integers(0, 2**64 - 1), threads=st.integers(1, 4), batch=st.integers(1, 40))
def test_random_numbers_of_a_row_are_the_same_for_any_number_of_workers(
    records: Path, seed: int, threads: int, batch: int
) -> None:
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


def test_leat_rng_begins_anew_where_a_row_is_made_again() -> None:
    class Once(torch.utils.data.Dataset[Any]):
        def __len__(self) -> int:
            return 1

        def __getitem__(self, i: int) -> Any:
            return leat.rng().random()

    first, again = (next(iter(leat.DataLoader(Once(), seed=1))) for _ in range(2))
    assert torch.equal(first, again)


# ---- functions that fail
# ----------------------------------------------------------------------------------------------


class Odd(Exception):
    """Of the test's own."""


def refuse(*numbers: int) -> Callable[[Any], Any]:
    """A function that raises for samples of these labels."""

    def checked(x: Any) -> Any:
        if int(x) in numbers:
            raise Odd(f"label {int(x)} is odd")
        return x * 10

    return checked


@pytest.fixture(scope="module")
def numbers(folder: Path) -> leat.Dataset:
    """50 samples: n = i, and text."""
    path = folder / "numbers.leat"
    with leat.Writer(path, {"n": "int64", "text": "str"}) as w:
        for i in range(50):
            w.add(n=i, text="abc"[: i % 4])
    return leat.open(path)


def test_an_error_arrives_as_its_own_class_with_sample_and_traceback(numbers: leat.Dataset) -> None:
    with leat.Loader(numbers, 8, outputs={"n": [ops.Map(refuse(21, 22, 30))]}) as loader:
        batches = iter(loader)
        assert [next(batches)["n"].tolist()[0] for _ in range(2)] == [0, 80]
        state = loader.state_dict()
        for _ in range(2):  # the position does not move
            with pytest.raises(
                Odd, match=r"(?s)in output 'n' for sample 21, row 5 of batch 2 of epoch 0.*label 21 is odd"
            ) as caught:
                next(batches)
            assert "in checked" in str(caught.value) and caught.value.sample == 21  # type: ignore[attr-defined]
            assert loader.state_dict() == state


def test_a_batch_function_that_fails_fails_its_batch(numbers: leat.Dataset) -> None:
    def late(x: Any) -> Any:
        if int(x[0]) == 16:
            raise Odd("a batch")
        return x

    policies: list[Any] = ["raise", "skip"]
    for policy in policies:
        with leat.Loader(numbers, 8, outputs={"n": [ops.MapBatch(late)]}, on_error=policy) as loader:
            batches = iter(loader)
            assert [next(batches)["n"].tolist()[0] for _ in range(2)] == [0, 8]
            with pytest.raises(Odd, match="a batch"):
                next(batches)


def test_rows_that_functions_refuse_stand_in_report_and_statistics(broken: Path, tmp_path: Path) -> None:
    """Photos 3 and 11 do not decode; the function refuses 5 and 8."""
    policies: list[Any] = ["skip", "substitute", "raise"]
    for policy in policies:
        report = tmp_path / f"{policy}.jsonl"
        outputs: dict[str, Any] = {"label": [ops.Map(refuse(5, 8))]}
        data = leat.open(broken)
        if policy != "raise":
            outputs["image"] = [ops.Decode(), ops.CenterCrop(8)]
        with leat.Loader(data, 4, outputs=outputs, on_error=policy, error_report=report, epochs=1) as loader:
            if policy == "raise":
                with pytest.raises(Odd):
                    list(loader)
            else:
                list(loader)
            counted = loader.stats()["broken"]
        lines = [json.loads(line) for line in report.read_text().splitlines()]
        if policy == "raise":
            assert counted == {"skipped": 0, "substituted": 0, "raised": 1} and "label 5 is odd" in lines[0].pop(
                "reason"
            )
            assert lines == [{"epoch": 0, "step": 1, "planned": 5, "code": "LEAT_E_OPERATOR", "file": None}]
            continue
        mine = [line for line in lines if line["code"] == "LEAT_E_OPERATOR"]
        assert {line["planned"] for line in mine} == {5, 8} and {line["planned"] for line in lines} == {3, 5, 8, 11}
        assert all((line["delivered"] is None) == (policy == "skip") and "is odd" in line["reason"] for line in mine)
        assert counted == {"skipped": 0, "substituted": 0, "raised": 0} | {
            "skipped" if policy == "skip" else "substituted": len(lines)
        }


def test_a_row_that_a_function_refuses_is_told_with_its_file_and_name(
    jpeg: Callable[..., bytes], tmp_path: Path
) -> None:
    """In place and packed."""
    for i in range(8):
        path = tmp_path / "photos" / "ab"[i % 2] / f"{i}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(jpeg(20 + i, 16, i))
    leat.pack(leat.open(tmp_path / "photos"), tmp_path / "p.leat")
    pack: Any = leat.open(tmp_path / "p.leat")
    names = [pack[i]["name"] for i in range(8)]

    def wide(x: Any) -> Any:
        if x.shape[1] > 22:
            raise Odd("too wide")
        return x

    def uneven(x: Any) -> Any:
        if int(x.long().sum()) % 3:
            raise Odd("no multiple of 3")
        return x

    chain = [ops.Decode(), ops.Map(wide), ops.CenterCrop(8)]
    places: list[tuple[Any, Any]] = [
        (leat.open(tmp_path / "photos"), lambda name: str(tmp_path / "photos" / name)),
        (pack, lambda name: str(tmp_path / "p.leat")),
    ]
    for data, file in places:
        with leat.Loader(data, 8, outputs={"image": chain}) as loader, pytest.raises(Odd) as caught:
            next(iter(loader))
        e: Any = caught.value
        assert e.file == file(names[e.sample]) and names[e.sample] in e.__notes__[0] and e.file in e.__notes__[0]
        with leat.Loader(data, 8, outputs={"image": chain}, on_error="skip") as loader:
            errors = next(iter(loader)).errors
        assert len(errors) == 5
        for error in errors:
            assert names[error.planned] in error.reason and f"file {file(names[error.planned])}" in error.reason
        cropped = [ops.Decode(), ops.CenterCrop(8), ops.Map(uneven, returns=leat.field("uint8", (8, 8, 3)))]
        with leat.Loader(data, 8, outputs={"image": cropped}, on_error="substitute") as loader:
            errors = next(iter(loader)).errors
        assert errors
        for error in errors:
            assert names[error.planned] in error.reason and f"file {file(names[error.planned])}" in error.reason


def test_skip_leaves_the_row_out_of_every_output(numbers: leat.Dataset) -> None:
    outputs = {
        "n": leat.Out("n", [ops.Map(refuse(3, 9, 10, 49))]),
        "same": leat.Out("n", []),
        "text": [],
        "sum": leat.Out("n", [ops.Map(lambda x: x + 1), ops.MapBatch(lambda x: x * 0 + x.sum())]),
        "tokens": leat.Out("text", [ops.Map(lambda s: np.arange(len(s)), returns=leat.field("int64", (None,)))]),
    }
    with leat.Loader(numbers, 8, outputs=outputs, on_error="skip") as loader:
        ids = []
        for step, batch in enumerate(loader):
            wanted = [i for i in range(8 * step, min(50, 8 * step + 8)) if i not in (3, 9, 10, 49)]
            assert batch.ids.tolist() == wanted == batch["same"].tolist() and batch["n"].tolist() == [
                10 * i for i in wanted
            ]
            assert batch["text"] == ["abc"[: i % 4] for i in wanted] and batch["tokens"].lengths.tolist() == [
                i % 4 for i in wanted
            ]
            assert batch["sum"].tolist() == [sum(wanted) + len(wanted)] * len(wanted)
            gone = [i for i in range(8 * step, min(50, 8 * step + 8)) if i not in wanted]
            assert [(e.row, e.planned, e.delivered) for e in batch.errors] == [(i - 8 * step, i, None) for i in gone]
            assert all("is odd" in e.reason for e in batch.errors) and len(batch.row_keys) == batch.size == len(wanted)
            ids += wanted
        assert len(ids) == 46 and loader.stats()["python"]["broken"] == 4


def test_skipped_photos_and_skipped_results_are_both_left_out(broken: Path) -> None:
    def picky(label: Any) -> Any:
        if int(label) in (4, 12):
            raise Odd("no")
        return label

    outputs = {
        "image": [ops.Decode(), ops.CenterCrop(8)],
        "label": [ops.Map(picky)],
        "open": leat.Out("image", [ops.Decode(), ops.Map(lambda x: x.float().mean())]),
    }
    with leat.Loader(leat.open(broken), 6, outputs=outputs, on_error="skip") as loader:
        found = [(batch["label"].tolist(), [(e.row, e.planned) for e in batch.errors]) for batch in loader]
    assert found == [
        ([0, 1, 2, 5], [(3, 3), (4, 4)]),
        ([6, 7, 8, 9, 10], [(5, 11)]),
        ([13, 14, 15, 16, 17], [(0, 12)]),
        ([18, 19], []),
    ]


def test_substitutes_are_those_of_the_engine_and_the_same_for_any_workers(broken: Path) -> None:
    """Numbers 3 and 11 do not decode; the function refuses 5 and 8, and any that stand in for them among these."""
    data = leat.open(broken)

    def make(threads: int, phase: int) -> leat.Loader:
        function = refuse(5, 8)
        chain = {0: [ops.Map(function)], 2: [ops.MapBatch(lambda x: x + 0), ops.Map(function)]}[phase]
        outputs = {"image": [ops.Decode(), ops.CenterCrop(8)], "label": [], "ten": leat.Out("label", chain)}
        outputs["sum"] = leat.Out("label", [ops.MapBatch(lambda x: x * 0 + x.sum())])
        outputs["text"] = leat.Out("label", [ops.Map(lambda x: str(int(x)))])
        return leat.Loader(data, 6, True, outputs=outputs, on_error="substitute", seed=2, num_threads=threads)

    wanted = None
    for threads, phase in ((1, 0), (3, 0), (2, 2)):
        with make(threads, phase) as loader:
            found = []
            for step, batch in enumerate(loader):
                planned = loader.plan(0, step).tolist()
                ids = batch.ids.tolist()
                assert (
                    not {3, 11, 5, 8} & set(ids)
                    and batch["label"].tolist() == ids
                    and batch["ten"].tolist() == [10 * i for i in ids]
                )
                assert batch["text"] == [str(i) for i in ids] and batch["sum"].tolist() == [sum(ids)] * len(ids)
                changed = [(row, a, b) for row, (a, b) in enumerate(zip(planned, ids)) if a != b]
                assert [(e.row, e.planned, e.delivered) for e in batch.errors] == changed
                assert {a for _, a, _ in changed} == {3, 11, 5, 8} & set(planned)
                found.append((ids, batch["image"]))
            again = loader.batch_at(0, 2)
        assert again.ids.tolist() == found[2][0] and torch.equal(again["image"], found[2][1])
        wanted = wanted or found
        assert [ids for ids, _ in found] == [ids for ids, _ in wanted]
        assert all(torch.equal(a, b) for (_, a), (_, b) in zip(found, wanted))


def test_a_function_that_fails_by_its_draw_draws_anew_for_a_substitute(numbers: leat.Dataset) -> None:
    def fails_by_draw(x: Any) -> Any:
        draw = leat.rng().random()
        if draw < 0.5:
            raise ValueError(f"drew {draw}")
        return x

    def make(threads: int) -> list[tuple[list[int], list[int]]]:
        outputs = {"n": [ops.Map(fails_by_draw, leat.field("int64"))]}
        with leat.Loader(numbers, 8, outputs=outputs, on_error="substitute", seed=0, num_threads=threads) as loader:
            return [(batch["n"].tolist(), [e.row for e in batch.errors]) for batch in loader]

    found = make(1)
    assert sum(len(rows) for _, rows in found) > 5
    assert make(3) == found


def test_the_last_exception_of_a_function_is_the_cause_where_no_substitute_is_left(numbers: leat.Dataset) -> None:
    output = {"n": [ops.Map(refuse(*range(1, 50)))]}
    with (
        leat.Loader(numbers, 8, outputs=output, on_error="substitute") as loader,
        pytest.raises(leat.BrokenSampleError, match="16 samples that could stand in") as told,
    ):
        list(loader)
    assert isinstance(told.value.__cause__, Odd) and "is odd" in str(told.value.__cause__)


def test_a_batch_with_no_row_left_raises_its_first_error(numbers: leat.Dataset) -> None:
    with leat.Loader(numbers, 2, outputs={"n": [ops.Map(refuse(2, 3))]}, on_error="skip") as loader:
        batches = iter(loader)
        assert next(batches)["n"].tolist() == [0, 10]
        for _ in range(2):
            with pytest.raises(Odd, match="label 2 is odd"):
                next(batches)


def test_a_photo_of_open_size_that_does_not_decode_is_a_broken_sample(broken: Path) -> None:
    chain = [ops.Decode(), ops.Map(lambda x: x.float().mean())]
    with (
        leat.Loader(leat.open(broken), 4, outputs={"image": chain}) as loader,
        pytest.raises(leat.BrokenSampleError, match="sample 3"),
    ):
        list(loader)
    with leat.Loader(leat.open(broken), 20, outputs={"image": chain}, on_error="skip") as loader:
        (batch,) = loader
        assert batch.ids.tolist() == [i for i in range(20) if i not in (3, 11)]


def test_a_result_that_differs_names_what_came_and_what_was_wanted(numbers: leat.Dataset) -> None:
    def grows(x: Any) -> Any:
        return torch.zeros(2 if int(x) == 5 else 1)

    with leat.Loader(numbers, 4, outputs={"n": [ops.Map(grows)]}) as loader, pytest.raises(TypeError) as caught:
        list(loader)
    text = str(caught.value)
    for part in (
        "Map(grows)",
        "'n'",
        "sample 5",
        "float32 of shape (2,)",
        "float32 of shape (1,)",
        "returns=leat.field",
    ):
        assert part in text
    declared = r"(?s)returned float32 of shape \(1,\), where float64 of shape \(1,\) is declared by returns="
    output = {"n": [ops.Map(grows, returns=leat.field("float64", (1,)))]}
    with leat.Loader(numbers, 4, outputs=output) as loader, pytest.raises(TypeError, match=declared):
        list(loader)
    declared = r"(?s)returned float32 of shape \(2, 3\), where float32 of shape \(any,\) is declared by returns="
    output = {"n": [ops.Map(lambda x: torch.zeros(2, 3), returns=leat.field("float32", (None,)))]}
    with leat.Loader(numbers, 4, outputs=output) as loader, pytest.raises(TypeError, match=declared):
        list(loader)


def test_results_without_a_type_are_refused_when_the_loader_opens(numbers: leat.Dataset) -> None:
    for function, text in ((lambda x: None, "NoneType"), (lambda x: {"a": 1}, "dict"), (lambda x: [1, "a"], "list")):
        with pytest.raises(TypeError, match=f"(?s){text}.*first sample.*returns=leat.field"):
            leat.Loader(numbers, 4, outputs={"n": [ops.Map(function)]})


def test_arguments_are_checked(numbers: leat.Dataset) -> None:
    with pytest.raises(TypeError, match="takes a function"):
        ops.Map(3)
    with pytest.raises(TypeError, match="returns is leat.field"):
        ops.Map(double, returns=(3,))
    with pytest.raises(ValueError, match="has no JSON form"):
        leat.program_to_json({"n": [ops.Map(double)]})
    with pytest.raises(KeyError, match="no.*'m'|'m'.*does not have"):
        leat.Loader(numbers, 4, outputs={"m": [ops.Map(double)]})
    with pytest.raises(ValueError, match="both named 'a'"):
        leat.Loader(numbers, 4, outputs={"n": [ops.Map(double, name="a"), ops.Map(double, name="a")]})
    with pytest.raises(TypeError, match="Decode in output 'n' takes an encoded photo"):
        leat.Loader(numbers, 4, outputs={"n": [ops.Decode(), ops.Map(double)]})


# ---- workers that die
# --------------------------------------------------------------------------------------------------


def test_a_killed_worker_is_replaced_and_its_rows_are_made_again(numbers: leat.Dataset, tmp_path: Path) -> None:
    def dies_once(x: Any) -> Any:
        mark = tmp_path / f"died-{int(x)}"
        if int(x) in (5, 30) and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return x * 10

    with leat.Loader(
        numbers, 8, outputs={"n": [ops.Map(dies_once, returns=leat.field("int64"))]}, num_threads=2
    ) as loader:
        found = every(loader, "n")
        assert found.tolist() == [10 * i for i in range(50)]
        events = loader.stats()["python"]["replaced"]
        assert len(events) == 2 and {e["exitcode"] for e in events} == {-signal.SIGKILL}


def test_a_row_that_ends_three_workers_is_a_broken_sample(numbers: leat.Dataset) -> None:
    def deadly(x: Any) -> Any:
        if int(x) == 11:
            os.kill(os.getpid(), signal.SIGKILL)
        return x

    output = {"n": [ops.Map(deadly, returns=leat.field("int64"))]}
    with (
        leat.Loader(numbers, 8, outputs=output) as loader,
        pytest.raises(leat.BrokenSampleError, match="(?s)sample 11.*ended 3 workers"),
    ):
        list(loader)
    with leat.Loader(numbers, 8, outputs=output, on_error="skip") as loader:
        assert every(loader, "n").tolist() == [i for i in range(50) if i != 11]


@pytest.mark.parametrize("kept", [True, False], ids=["kept", "let go"])
def test_a_loader_that_was_left_alone_ends_no_further_workers(numbers: leat.Dataset, kept: bool) -> None:
    def deadly(x: Any) -> Any:
        os.kill(os.getpid(), signal.SIGKILL)

    number = leat.field("int64")
    alone = leat.Loader(numbers, 8, outputs={"n": [ops.Map(deadly, returns=number)]}, num_threads=2)
    with pytest.raises(leat.BrokenSampleError, match="ended 3 workers"):
        next(iter(alone))
    before = len(alone.stats()["python"]["replaced"])
    if not kept:
        gone = weakref.ref(alone)
        del alone
        gc.collect()
        assert gone() is None
    # has the same workers
    with leat.Loader(numbers, 8, outputs={"n": [ops.Map(double, returns=number)]}, num_threads=2) as loader:
        for _ in range(3):
            assert every(loader, "n").tolist() == [2 * i for i in range(50)]
        # 50 rows in flight would end 150
        assert len(loader.stats()["python"]["replaced"]) - before < (10 if kept else 3)
    if kept:  # it goes on where it was once it is asked
        with pytest.raises(leat.BrokenSampleError, match="(?s)sample 0.*ended 3 workers"):
            next(iter(alone))
        alone.close()


# ---- the loader around it
# -----------------------------------------------------------------------------------------------


def test_state_in_the_middle_goes_on_exactly(numbers: leat.Dataset) -> None:
    def make() -> leat.Loader:
        return leat.Loader(
            numbers, 4, True, outputs={"n": [ops.Map(double)], "r": leat.Out("n", [ops.Map(jitter)])}, seed=9
        )

    with make() as loader:
        assert loader.state_dict()["at"]["row"] == 0
        batches = [batch for _ in range(2) for batch in loader]
        for cut in (0, 1, 7, 13, 14, 20):
            with make() as first, make() as second:
                delivered = 0
                for _ in range(2):
                    for _ in first:
                        if delivered == cut:
                            break
                        delivered += 1
                        state = first.state_dict()
                    else:
                        continue
                    break
                if cut:
                    assert json.loads(json.dumps(state)) == state
                    second.load_state_dict(state)
                found = [batch for _ in range(2 - cut // 13) for batch in second]
                assert len(found) >= 26 - cut - 1 and all(same(a, b) for a, b in zip(batches[cut:], found))


def test_batch_at_gives_the_batch_again_and_moves_nothing(numbers: leat.Dataset) -> None:
    with leat.Loader(numbers, 4, True, outputs={"n": [ops.Map(jitter)]}) as loader:
        batches = iter(loader)
        first = next(batches)
        assert same(loader.batch_at(0, 0), first)
        later = loader.batch_at(1, 3)
        rest = [first, *batches]
        assert [i for batch in rest for i in batch.ids.tolist()] == [
            i for step in range(13) for i in loader.plan(0, step).tolist()
        ]
        assert same([*loader][3], later)


def positions(loader: leat.Loader) -> list[tuple[int, int]]:
    return [(batch.epoch, batch.step) for batch in loader]


def epoch_of(number: int, steps: int = 13) -> list[tuple[int, int]]:
    return [(number, step) for step in range(steps)]


def test_workers_go_on_with_the_next_epoch_before_it_is_asked_for(numbers: leat.Dataset) -> None:
    with leat.Loader(numbers, 4, True, outputs={"n": [ops.Map(double)]}) as loader:
        assert loader.epoch == 0 and positions(loader) == epoch_of(0)
        assert loader.epoch == 1
        eventually(lambda: loader.stats()["python"]["window"]["depth"] > 0)
        batches = iter(loader)
        for step in range(13):
            assert (next(batches).step, loader.epoch) == (step, 1)
        assert loader.state_dict()["at"] in ({"epoch": 1, "row": 50}, {"epoch": 2, "row": 0})
    with leat.Loader(numbers, 4, True, outputs={"n": [ops.Map(double)]}, epochs=1) as loader:
        assert positions(loader) == epoch_of(0) and loader.stats()["python"]["window"]["depth"] == 0


@pytest.mark.parametrize("epoch", [0, 1, 5])
def test_an_epoch_may_be_set_after_the_last_batch_before_the_end_is_asked_for(
    numbers: leat.Dataset, epoch: int
) -> None:
    with leat.Loader(numbers, 5, True, outputs={"n": [ops.Map(double)]}) as loader:
        batches = iter(loader)
        assert [next(batches).step for _ in range(10)] == list(range(10))
        assert loader.state_dict()["at"] == {"epoch": 1, "row": 0}
        loader.set_epoch(epoch)
        assert loader.state_dict()["at"] == {"epoch": epoch, "row": 0}
        assert positions(loader) == epoch_of(epoch, 10)


def test_what_was_begun_ahead_is_given_up_where_another_epoch_is_wanted(numbers: leat.Dataset) -> None:
    with leat.Loader(numbers, 4, True, outputs={"n": [ops.Map(double)]}) as loader:
        for epoch in (0, 1, 5, 6, 2):  # 1 and 6 are those that were begun
            loader.set_epoch(epoch)
            assert positions(loader) == epoch_of(epoch)
        batches = iter(loader)  # epoch 3
        early = [next(batches).step for _ in range(12)]  # 4 is begun by now
        loader.set_epoch(9)
        assert loader.epoch == 3 and [*early, *(batch.step for batch in batches)] == list(range(13))
        assert positions(loader) == epoch_of(9)
        for _ in iter(loader):
            break
        assert positions(loader) == epoch_of(11)
        batches = iter(loader)
        for _ in range(12):
            next(batches)
        assert positions(loader) == epoch_of(13)


@settings(max_examples=15)
@given(
    size=st.integers(1, 60),
    moves=st.lists(
        st.one_of(st.integers(0, 60), st.tuples(st.just("set"), st.integers(0, 4)), st.just("load")), max_size=6
    ),
)
def test_any_way_through_epochs_is_that_of_a_loader_without_functions(
    numbers: leat.Dataset, size: int, moves: list[Any]
) -> None:
    """Iterating some steps, setting epochs, and going on from a state."""

    def walk(chain: list[ops.Operator]) -> list[Any]:
        found: list[Any] = []
        with leat.Loader(numbers, size, True, outputs={"n": chain}, seed=4) as loader:
            states = [loader.state_dict()]
            for move in moves:
                if move == "load":
                    loader.load_state_dict(states[len(states) // 2])
                elif isinstance(move, tuple):
                    loader.set_epoch(move[1])
                else:
                    for _, batch in zip(range(move), loader):
                        found.append((batch.epoch, batch.step, batch.ids.tolist(), loader.epoch))
                        states.append(loader.state_dict())
                found.append(loader.epoch)
                states.append(loader.state_dict())
        return found + states

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert walk([ops.Map(lambda x: x, returns=leat.field("int64"))]) == walk([])


def test_a_sampler_is_read_when_its_epoch_begins(numbers: leat.Dataset) -> None:
    class Counting(torch.utils.data.Sampler[int]):
        reads = 0

        def __iter__(self) -> Iterator[int]:
            Counting.reads += 1
            return iter(range(Counting.reads, 50))

        def __len__(self) -> int:
            return 49

    with leat.Loader(numbers, 8, sampler=Counting(), outputs={"n": [ops.Map(double)]}) as loader:
        for epoch in (1, 2, 3):
            assert every(loader, "n").tolist() == [2 * i for i in range(epoch, 50)] and Counting.reads == epoch


def test_tuples_ranks_and_padding(numbers: leat.Dataset) -> None:
    parts = []
    for rank in range(3):
        loader = leat.Loader(
            numbers, 4, outputs={"n": [ops.Map(double)], "text": []}, yields="tuple", rank=rank, world_size=3
        )
        with loader:
            parts.append([(n, valid) for n, text, valid in loader])
    rows = [
        n
        for step in zip(*parts, strict=True)
        for values, valid in step
        for n, v in zip(values.tolist(), valid.tolist())
        if v
    ]
    assert rows == [2 * i for i in range(50)]


def test_held_batches_stay_as_they_are(numbers: leat.Dataset) -> None:
    with leat.Loader(numbers, 4, outputs={"n": [ops.Map(double)], "text": []}) as loader:
        kept = [batch for _ in range(3) for batch in loader]
    del loader
    gc.collect()
    assert torch.cat([batch["n"] for batch in kept]).tolist() == [2 * i for i in range(50)] * 3
    with leat.Loader(numbers, 4, outputs={"n": [ops.Map(double)], "text": []}, framework="numpy") as other:
        batch = next(iter(other))
        again = pickle.loads(pickle.dumps(batch))
    assert again["n"].tolist() == [0, 2, 4, 6] and again["text"] == batch["text"] and again.ids.tolist() == [0, 1, 2, 3]


def test_held_results_are_bounded_and_let_go(folder: Path) -> None:
    path = folder / "wide.leat"
    if not path.exists():
        with leat.Writer(path, {"w": leat.field("uint8", (4096,))}) as w:
            w.write_batch({"w": np.zeros((64, 4096), np.uint8)})
    output = {"w": [ops.Map(lambda x: x + 1)]}
    with leat.Loader(leat.open(path), 8, outputs=output, budget_bytes=4 << 20, max_held_bytes=140 << 10) as loader:
        kept = []
        with pytest.raises(leat.HeldError, match="4 batches are held.*max_held_bytes"):
            for _ in range(2):
                for batch in loader:
                    kept.append(batch["w"])
        assert len(kept) == 4 and all(bool((rows == 1).all()) for rows in kept)
        del batch
        gc.collect()
        assert loader.stats()["python"]["memory"]["held_bytes"] == 4 * 8 * 4096
        kept.clear()
        assert sum(len(batch["w"]) for batch in loader) == 64


def test_two_loaders_share_workers_that_end_with_the_last(numbers: leat.Dataset) -> None:
    one = leat.Loader(numbers, 4, outputs={"n": [ops.Map(double)]}, num_threads=2)
    two = leat.Loader(numbers, 5, outputs={"n": [ops.Map(lambda x: x + 1)]}, num_threads=2)
    for a, b in zip(one, two):
        assert a["n"].tolist() == [2 * i for i in a.ids.tolist()] and b["n"].tolist() == [i + 1 for i in b.ids.tolist()]
    pids = one.stats()["python"]["pids"]
    assert pids == two.stats()["python"]["pids"]
    one.close()
    with pytest.raises(leat.ClosedError):
        next(iter(one))
    assert len([*two]) == 10
    two.close()
    for pid in pids:
        assert not Path(f"/proc/{pid}").exists()


def test_the_number_of_workers_is_that_of_threads(numbers: leat.Dataset) -> None:
    with leat.Loader(numbers, 4, outputs={"n": [ops.Map(lambda x: os.getpid())]}, num_threads=3) as loader:
        pids = {int(pid) for batch in loader for pid in batch["n"]}
        about = loader.stats()["python"]
        assert about["workers"] == 3 and pids <= set(about["pids"]) and os.getpid() not in pids
        assert about["rows"] == 50 and about["batches"] == 13


def test_what_ranks_compare_names_the_function(numbers: leat.Dataset) -> None:
    def agreement(function: Any) -> str:
        with leat.Loader(numbers, 4, outputs={"n": [ops.Map(function, returns=leat.field("int64"))]}) as loader:
            return str(loader.stats()["agreement"])

    assert agreement(double) == agreement(double) != agreement(torch.clone)


def test_a_loader_is_not_used_in_a_forked_child(numbers: leat.Dataset) -> None:
    with leat.Loader(numbers, 4, outputs={"n": [ops.Map(double)]}) as loader:
        batches = iter(loader)
        next(batches)
        pid = os.fork()
        if not pid:
            try:
                next(batches)
            except leat.ForkedError:
                os._exit(0)
            os._exit(1)
        assert os.waitpid(pid, 0)[1] == 0
        assert len([*batches]) == 12


PROGRAM = """
    import multiprocessing, os, sys
    import leat

    class Scale:
        def __call__(self, x):
            return x * 3

    def twice(x):
        return x * 2

    if __name__ == "__main__":
        multiprocessing.set_start_method(sys.argv[2])
        functions = {"n": twice, "m": lambda x: x + 1, "k": Scale()}
        outputs = {name: leat.Out("n", [leat.ops.Map(function)]) for name, function in functions.items()}
        loader = leat.Loader(leat.open(sys.argv[1]), 8, outputs=outputs, framework="numpy", num_threads=2)
        for batch in loader:
            assert (batch["n"] == 2 * batch.ids).all() and (batch["k"] == 3 * batch.ids).all()
            assert (batch["m"] == batch.ids + 1).all()
        print("rows", loader.stats()["python"]["rows"], *loader.stats()["python"]["pids"])
        if len(sys.argv) > 3:
            iterator = iter(loader)
            next(iterator)
"""


@pytest.mark.parametrize(
    "method, live",
    [("fork", False), ("fork", True), ("forkserver", True), ("spawn", True)],
    ids=["fork, used up", "fork, live", "forkserver, live", "spawn, live"],
)
def test_functions_of_main_travel_by_value_and_interpreters_end(
    numbers: leat.Dataset, folder: Path, tmp_path: Path, method: str, live: bool
) -> None:
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(PROGRAM))
    path = folder / "numbers.leat"
    done = subprocess.run(
        [sys.executable, script, path, method, *(["live"] if live else [])], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("rows 50 ") and not done.stderr
    for pid in map(int, done.stdout.split()[2:]):
        eventually(lambda: not is_there(pid))  # noqa: B023  a server of forks hears of the end by itself


def test_an_error_while_the_loader_opens_says_that_it_asked_for_the_first_sample(records: Path) -> None:
    with pytest.raises(ZeroDivisionError) as found:
        leat.Loader(leat.open(records), 4, outputs={"x": [leat.ops.Map(lambda x: 1 / 0)]})
    assert "output 'x' return for its first sample; where Map(..., returns=" in found.value.__notes__[0]
