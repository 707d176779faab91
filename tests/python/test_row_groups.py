"""Row groups of Parquet in the cache of the process: decoded once, and the same values for every reader."""

from __future__ import annotations

import decimal
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leat
from leat.data import arrow

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

N, GROUP = 600, 50


def table() -> Any:
    rng = np.random.default_rng(0)
    return pa.table(
        {
            "i": np.arange(N),
            "pair": pa.array([[i, i + 1] for i in range(N)], pa.list_(pa.float32(), 2)),
            "list": pa.array([list(range(i % 5)) for i in range(N)], pa.list_(pa.uint16())),
            "text": [f"\u00e9{i}" for i in range(N)],
            "json": [[str(i)] * (i % 3) for i in range(N)],
            "some": pa.array([None if i % 7 == 3 else i for i in range(N)], pa.float32()),
            "noise": rng.integers(0, 99, N),
        }
    )


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, tuple[str, ...]]]:
    """The row groups that were read, with their columns."""
    found: list[tuple[int, tuple[str, ...]]] = []
    read = arrow._GroupRead.__call__

    def noted(self: Any, columns: list[str]) -> Any:
        found.append((self.group, tuple(columns)))
        return read(self, columns)

    monkeypatch.setattr(arrow._GroupRead, "__call__", noted)
    return found


@pytest.mark.parametrize("shuffle", [True, leat.Blocks(GROUP)])
def test_each_row_group_is_decoded_once_in_all_epochs(
    tmp_path: Path, calls: list[tuple[int, tuple[str, ...]]], shuffle: Any
) -> None:
    pq.write_table(table(), tmp_path / "a.parquet", row_group_size=GROUP)
    ds = leat.open(tmp_path / "a.parquet")
    names = ["i", "pair", "list", "text", "some"]
    want = table().to_pydict()
    with leat.Loader(
        ds, batch_size=16, shuffle=shuffle, num_threads=2, framework="numpy", outputs={n: [] for n in names}
    ) as dl:
        for epoch in range(3):
            seen = []
            for batch in dl:
                for k, i in enumerate(batch["i"].tolist()):
                    assert batch["pair"][k].tolist() == want["pair"][i]
                    assert batch["list"][k].tolist() == want["list"][i]
                    assert batch["text"][k] == want["text"][i]
                    assert batch["some"][k] == want["some"][i] or want["some"][i] is None
                seen += batch.ids.tolist()
            assert sorted(seen) == list(range(N)), epoch
    for name in names:
        assert sorted(group for group, columns in calls if name in columns) == list(range(N // GROUP))


def test_values_made_one_by_one_are_read_beside_the_others(
    tmp_path: Path, calls: list[tuple[int, tuple[str, ...]]]
) -> None:
    pq.write_table(table(), tmp_path / "a.parquet", row_group_size=GROUP)
    ds = leat.open(tmp_path / "a.parquet")
    want = table().to_pydict()
    for i in np.random.default_rng(1).permutation(N).tolist():
        sample = ds[i]
        assert (sample["i"], sample["json"], sample["text"]) == (i, want["json"][i], want["text"][i])
    for name in ("json", "i"):
        assert sorted(group for group, columns in calls if name in columns) == list(range(N // GROUP))


def made_of_all_kinds(tmp: Path) -> tuple[Path, dict[str, Any], dict[str, list[Any]]]:
    """A table whose values are made one by one: JSON of lists and of texts, decimals, sparse rows, files."""
    (tmp / "files").mkdir()
    for i in range(60):
        (tmp / "files" / f"{i}.bin").write_bytes(bytes([i]) * i)
    want: dict[str, list[Any]] = {
        "nested": [[{"a": i}, {"a": None}] for i in range(60)],
        "parsed": [json.dumps({"n": i}) for i in range(60)],
        "price": [decimal.Decimal(i * 17).scaleb(-2) for i in range(60)],
        "x": [{"values": [1.5] * (i % 3), "columns": list(range(i % 3))} for i in range(60)],
        "path": [str(tmp / "files" / f"{i}.bin") for i in range(60)],
        "mixed": [{"bytes": bytes([i]) if i % 2 else None, "path": str(tmp / "files" / f"{i}.bin")} for i in range(60)],
    }
    lists = {"values": pa.list_(pa.float32()), "columns": pa.list_(pa.int32())}
    kinds = {"price": pa.decimal128(9, 2), "x": pa.struct(lists)}
    pq.write_table(
        pa.table({n: pa.array(v, kinds.get(n)) for n, v in want.items()}), tmp / "a.parquet", row_group_size=20
    )
    fields = {"nested": None, "parsed": "json", "price": None, "x": leat.sparse("float32", 4), "path": "image"}
    return tmp / "a.parquet", {**fields, "mixed": None}, want


def test_values_made_one_by_one_are_made_of_row_groups_that_are_decoded_once(
    tmp_path: Path, calls: list[tuple[int, tuple[str, ...]]]
) -> None:
    path, fields, want = made_of_all_kinds(tmp_path)
    ds = leat.open(path, fields=fields)
    for i in [*np.random.default_rng(1).permutation(60).tolist(), *range(60)]:
        sample = ds[i]
        assert sample["nested"] == want["nested"][i]
        assert sample["parsed"] == {"n": i}
        assert sample["price"] == format(want["price"][i], "f")
        assert sample["x"].values.tolist() == want["x"][i]["values"]
        assert sample["x"].columns.tolist() == want["x"][i]["columns"]
        assert sample["path"] == bytes([i]) * i
        assert sample["mixed"] == (bytes([i]) if i % 2 else bytes([i]) * i)
    for name in fields:
        assert sorted(group for group, columns in calls if name in columns) == [0, 1, 2]


def test_a_value_that_cannot_be_made_breaks_its_sample_only(
    tmp_path: Path, calls: list[tuple[int, tuple[str, ...]]]
) -> None:
    texts = [json.dumps([i]) for i in range(60)]
    texts[7], texts[33] = "{", "no json"
    paths = []
    for i in range(60):
        paths.append(str(tmp_path / f"{i}.bin"))
        if i != 9:
            (tmp_path / f"{i}.bin").write_bytes(bytes([i]))
    pq.write_table(
        pa.table({"j": texts, "f": paths, "some": pa.array([None if i == 11 else i for i in range(60)])}),
        tmp_path / "a.parquet",
        row_group_size=20,
    )
    ds = leat.open(tmp_path / "a.parquet", fields={"j": "json", "f": "bytes"})
    assert ds[6] == {"j": [6], "f": paths[6].encode()}
    with pytest.raises(leat.BrokenSampleError, match=r"row group 0, row 7: column 'j': JSONDecodeError"):
        ds[7]
    ds = leat.open(tmp_path / "a.parquet", fields={"f": "image", "some": None, "j": "json"})
    with pytest.raises(leat.BrokenSampleError, match=r"row group 0, row 9: column 'f' names a file"):
        ds[9]
    with pytest.raises(leat.BrokenSampleError, match=r"row group 0, row 11: column 'some' has no value"):
        ds[11]
    calls.clear()
    outputs: dict[str, Any] = {"some": [], "j": []}
    how: dict[str, Any] = {"shuffle": True, "on_error": "skip", "framework": "numpy", "outputs": outputs}
    with leat.Loader(ds, batch_size=16, num_threads=2, **how) as loader:
        for _ in range(2):
            assert sorted(i for batch in loader for i in batch.ids.tolist()) == sorted({*range(60)} - {7, 11, 33})
    assert len(calls) == len(set(calls))  # the errors are made without decoding


def test_the_cache_gives_way_and_values_stay_the_same(tmp_path: Path) -> None:
    pq.write_table(table(), tmp_path / "a.parquet", row_group_size=GROUP)
    code = f"""
import leat, numpy as np
ds = leat.open({str(tmp_path / "a.parquet")!r})
with leat.Loader(ds, batch_size=16, shuffle=True, seed=3, num_threads=2, framework="numpy",
                 outputs={{n: [] for n in ("i", "pair", "list")}}) as dl:
    n = 0
    for batch in dl:
        for k, i in enumerate(batch.ids.tolist()):
            assert batch["i"][k] == i and batch["pair"][k].tolist() == [i, i + 1]
            assert batch["list"][k].tolist() == list(range(i % 5))
        n += len(batch.ids)
    assert n == {N}
"""
    subprocess.run([sys.executable, "-c", code], check=True, env={"LEAT_CACHE_BYTES": "1000", "PATH": ""}, timeout=120)


def test_photos_give_the_batches_of_their_pack_also_once_they_are_known(tmp_path: Path, photos: Path) -> None:
    packed = leat.open(photos)
    images = [bytes(packed.stored(i, "image")) for i in range(len(packed))]
    pq.write_table(pa.table({"image": images}), tmp_path / "a.parquet", row_group_size=5)
    ds = leat.open(tmp_path / "a.parquet", fields={"image": "image"})
    chain = [leat.ops.Decode(), leat.ops.RandomResizedCrop(32), leat.ops.RandomHorizontalFlip()]

    def epochs(of: leat.Dataset) -> list[np.ndarray[Any, Any]]:
        with leat.Loader(
            of, batch_size=7, shuffle=True, seed=5, num_threads=2, framework="numpy", outputs={"image": chain}
        ) as dl:
            return [batch["image"].copy() for _ in range(3) for batch in dl]

    for own, theirs in zip(epochs(packed), epochs(ds), strict=True):
        assert np.array_equal(own, theirs)
