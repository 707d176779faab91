"""batch.split(n): sub-batches with stable borders, as views."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

import leat

torch: Any = pytest.importorskip("torch")

ROWS = 100


@pytest.fixture(scope="module")
def varied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Samples with a dense field, one of varying length, text, and JSON."""
    path = tmp_path_factory.mktemp("split") / "varied.leat"
    fields = {"x": leat.field("float32", (3,)), "tokens": leat.field("int32", (None,)), "text": leat.field("str")}
    with leat.Writer(path, fields) as w:
        for i in range(ROWS):
            w.write({"x": [i, 1, 2], "tokens": list(range(i % 7)), "text": f"sample {i}"})
    return path


def batch_of(path: Path, size: int, **options: Any) -> leat.Batch:
    found: leat.Batch = next(iter(leat.Loader(leat.open(path), size, shuffle=True, seed=3, **options)))
    return found


@pytest.mark.parametrize("framework", ["torch", "numpy"])
@pytest.mark.parametrize("n", [1, 7, 32, 80, 1000])
def test_the_parts_of_a_batch_are_its_rows_in_order(varied: Path, framework: Any, n: int) -> None:
    batch = batch_of(varied, 80, framework=framework)
    parts = batch.split(n)
    assert [p.size for p in parts] == [min(n, 80 - begin) for begin in range(0, 80, n)]
    for name in ("ids", "row_keys", "valid", "domains"):
        whole = getattr(batch, name)
        assert [v for p in parts for v in getattr(p, name).tolist()] == whole.tolist()
        assert all(type(getattr(p, name)) is type(whole) and getattr(p, name).dtype == whole.dtype for p in parts)
    assert [row.tolist() for p in parts for row in p["x"]] == [row.tolist() for row in batch["x"]]
    assert [row.tolist() for p in parts for row in p["tokens"]] == [row.tolist() for row in batch["tokens"]]
    assert all(int(p["tokens"].offsets[0]) == 0 and len(p["tokens"]) == p.size for p in parts)
    assert [text for p in parts for text in p["text"]] == batch["text"]
    assert all(list(p) == list(batch) and (p.epoch, p.step) == (batch.epoch, batch.step) for p in parts)


def test_parts_are_views_of_the_batch_and_writing_to_one_writes_to_the_batch(varied: Path) -> None:
    batch = batch_of(varied, 80)
    parts = batch.split(32)
    parts[1]["x"][0] = -5.0
    assert batch["x"][32].tolist() == [-5.0] * 3
    assert parts[2]["x"].data_ptr() == batch["x"][64].data_ptr()
    assert parts[1]["tokens"].values.untyped_storage().data_ptr() == batch["tokens"].values.untyped_storage().data_ptr()


def test_a_view_that_is_kept_keeps_the_memory_of_its_own_output_only(varied: Path) -> None:
    with leat.Loader(leat.open(varied), 50) as loader:
        batch = next(iter(loader))
        kept = batch.split(10)[3]["x"]
        both = loader.stats()["memory"]["held_bytes"]
        del batch
        alone = loader.stats()["memory"]["held_bytes"]
        assert 0 < alone < both and kept.shape == (10, 3)
        del kept
        assert loader.stats()["memory"]["held_bytes"] == 0


@pytest.mark.parametrize("threads", [1, 2])
def test_borders_are_the_same_for_any_threads_and_budget(varied: Path, threads: int) -> None:
    def borders(**options: Any) -> list[list[list[int]]]:
        loader = leat.Loader(leat.open(varied), 24, shuffle=True, seed=9, **options)
        return [[p.ids.tolist() for p in batch.split(10)] for batch in loader]

    found = borders(num_threads=threads, budget_bytes=1 << 22)
    assert found == borders()
    assert [[len(p) for p in parts] for parts in found] == [[10, 10, 4]] * 4 + [[4]]


def pickled(batch: leat.Batch) -> Any:
    return pickle.loads(pickle.dumps(batch))


@pytest.mark.parametrize("copied", [leat.Batch.clone, lambda b: b.to("cpu"), pickled])
def test_batches_that_were_copied_or_moved_are_split_alike(varied: Path, copied: Any) -> None:
    batch = batch_of(varied, 30)
    for mine, theirs in zip(copied(batch).split(8), batch.split(8), strict=True):
        assert torch.equal(mine["x"], theirs["x"]) and mine["text"] == theirs["text"]
        assert torch.equal(mine["tokens"].values, theirs["tokens"].values)
        assert torch.equal(mine["tokens"].offsets, theirs["tokens"].offsets)


def test_a_part_is_a_batch_that_is_copied_pickled_and_split_in_turn(varied: Path) -> None:
    batch = batch_of(varied, 30)
    part = batch.split(20)[1]
    assert [p.ids.tolist() for p in part.split(4)] == [batch.ids[i : i + 4].tolist() for i in (20, 24, 28)]
    again = pickle.loads(pickle.dumps(part))
    assert again.size == 10 and torch.equal(again["x"], batch["x"][20:]) and again["text"] == batch["text"][20:]
    twin = part.clone()
    twin["x"].zero_()
    assert batch["x"][20:].count_nonzero() and twin.ids.tolist() == part.ids.tolist()


def test_padding_is_in_the_part_that_it_pads(varied: Path) -> None:
    loader = leat.Loader(leat.open(varied).select(range(9)), 8, rank=1, world_size=2, tail="pad")
    *_, last = loader
    assert [v for p in last.split(3) for v in p.valid.tolist()] == last.valid.tolist() and not last.valid.all()


@pytest.mark.parametrize("how", ["skip", "substitute"])
def test_an_error_is_told_by_the_part_that_has_its_row(broken: Path, how: Any) -> None:
    outputs = {"image": [leat.ops.Decode(), leat.ops.Resize((8, 8))], "label": []}
    batch = next(iter(leat.Loader(leat.open(broken), 20, outputs=outputs, on_error=how)))
    places = {3: 3, 11: 10 if how == "skip" else 11}  # of skipped rows: 11 would be the eleventh that is left
    for n in (1, 2, 3, 5, 11):
        parts = batch.split(n)
        assert {e.row: i for i, p in enumerate(parts) for e in p.errors} == {r: at // n for r, at in places.items()}
        assert sum(len(p.errors) for p in parts) == 2
        assert sum(p.size for p in parts) == batch.size == (18 if how == "skip" else 20)
        assert [label for p in parts for label in p["label"].tolist()] == batch["label"].tolist()


@pytest.mark.parametrize(("n", "error"), [(0, ValueError), (-4, ValueError), (2.0, TypeError), (True, TypeError)])
def test_a_part_has_a_whole_number_of_rows_of_at_least_one(varied: Path, n: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="n "):
        batch_of(varied, 8).split(n)


def test_what_is_not_one_value_per_row_is_refused_by_its_name(tmp_path: Path) -> None:
    with leat.Writer(tmp_path / "t.leat", {"tokens": leat.field("int32", (None,))}) as w:
        for i in range(20):
            w.write({"tokens": list(range(1 + i % 5))})
    rows = leat.pack_rows(leat.open(tmp_path / "t.leat"), how="ragged")
    part = next(iter(leat.Loader(rows, batch_tokens=16))).split(1)[0]
    assert part["tokens"].shape[0] == 1
    with pytest.raises(leat.UnsupportedError, match="max_seqlen"):
        part["max_seqlen"]


def test_a_name_that_is_no_output_is_a_key_error_of_a_part_too(varied: Path) -> None:
    with pytest.raises(KeyError, match="no output 'y'"):
        batch_of(varied, 8).split(3)[0]["y"]
