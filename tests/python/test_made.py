"""Data sets that are not files of leat: arrays, IDX, sources of the user's, and data sets side by side."""

from __future__ import annotations

import contextlib
import gzip
import os
import pickle
import signal
import struct
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_support import jpeg
from hypothesis import given
from hypothesis import strategies as st
from process_support import PATIENCE, eventually

import leat

N = 100


def idx(array: np.ndarray[Any, Any]) -> bytes:
    types = {"u1": 8, "i1": 9, "i2": 11, "i4": 12, "f4": 13, "f8": 14}
    big = array.astype(array.dtype.newbyteorder(">"))
    return (
        struct.pack(f">BBBB{array.ndim}I", 0, 0, types[array.dtype.str[1:]], array.ndim, *array.shape) + big.tobytes()
    )


# ---- arrays
# -----------------------------------------------------------------------------------------------------------


def test_arrays_are_delivered_as_they_are_without_a_copy() -> None:
    x, y = np.arange(N * 6, dtype=np.float32).reshape(N, 2, 3), np.arange(N) % 7
    ds = leat.from_arrays(x=x, y=y)
    assert ds.schema == {"x": leat.field("float32", (2, 3)), "y": leat.field("int64")}
    assert np.array_equal(ds[41]["x"], x[41])
    assert ds[41]["y"] == y[41]
    assert np.shares_memory(ds.column("x"), x)
    seen = np.zeros(N, int)
    for batch in leat.Loader(ds, batch_size=16, shuffle=True, framework="numpy"):
        assert np.array_equal(batch["x"], x[batch.ids])
        assert np.array_equal(batch["y"], y[batch.ids])
        seen[batch.ids] += 1
    assert (seen == 1).all()


@given(st.sampled_from(["plain", "rows reversed", "every second row", "transposed", "big-endian", "read-only"]))
def test_arrays_of_any_strides_have_their_values(how: str) -> None:
    x = np.random.default_rng(0).integers(0, 1000, (N, 3, 4)).astype(np.int32)
    made = {
        "plain": x,
        "rows reversed": x[::-1],
        "every second row": np.repeat(x, 2, 0)[::2],
        "transposed": np.ascontiguousarray(x.transpose(0, 2, 1)).transpose(0, 2, 1),
        "big-endian": x.astype(">i4"),
        "read-only": np.frombuffer(x.tobytes(), np.int32).reshape(x.shape),
    }[how]
    ds = leat.from_arrays(x=made)
    assert np.array_equal(ds.column("x"), made)
    assert ds.fingerprint == leat.from_arrays(x=np.ascontiguousarray(made, np.int32)).fingerprint


def test_tensors_are_arrays_and_a_bfloat16_stays_one() -> None:
    torch = pytest.importorskip("torch")
    x = torch.arange(N * 2, dtype=torch.float32).reshape(N, 2)
    ds = leat.from_arrays(x=x, h=x.bfloat16(), y=torch.arange(N))
    batch = next(iter(leat.Loader(ds, batch_size=10)))
    assert torch.equal(batch["x"], x[:10])
    assert torch.equal(batch["h"], x[:10].bfloat16())
    assert np.shares_memory(ds.column("x"), x.numpy())


def test_the_fingerprint_of_arrays_is_that_of_the_packed_values(tmp_path: Path) -> None:
    x, y = np.arange(N * 3, dtype=np.float32).reshape(N, 3), np.arange(N)
    with leat.Writer(tmp_path / "x.leat", {"x": leat.field("float32", (3,)), "y": "int64"}) as w:
        w.write_batch({"x": x, "y": y})
    assert leat.from_arrays(x=x, y=y).fingerprint == leat.open(tmp_path / "x.leat").fingerprint
    assert leat.from_arrays(x=x, y=y).fingerprint != leat.from_arrays(x=x, y=y + 1).fingerprint


def test_arrays_are_kept_alive_and_pickle_by_value() -> None:
    ds = leat.from_arrays(x=np.arange(N, dtype=np.int16) * 2)[10:20]
    copy = pickle.loads(pickle.dumps(ds))
    assert copy.column("x").tolist() == ds.column("x").tolist() == list(range(20, 40, 2))
    assert copy.fingerprint == ds.fingerprint


def test_views_of_arrays_split_join_and_select() -> None:
    ds = leat.from_arrays(x=np.arange(N))
    a, b = ds.split([0.5, 0.5], seed=1)
    assert sorted([*a.column("x"), *b.column("x")]) == list(range(N))
    assert leat.concat([a, b]).column("x").tolist() == leat.concat(a, b).column("x").tolist()
    assert ds[[5, 3]].column("x").tolist() == [5, 3]


def test_integers_that_are_scaled_fill_the_range_of_their_new_type() -> None:
    ds = leat.from_arrays(x=np.arange(256, dtype=np.uint8).reshape(-1, 2))
    for chain, largest in (
        ([leat.ops.ToDtype("uint16", scale=True)], 255 << 8),
        ([leat.ops.ToDtype("uint16", scale=True), leat.ops.ToDtype("float64")], (255 << 8) / 65535),
    ):
        batch = next(iter(leat.Loader(ds, batch_size=128, outputs={"x": chain}, framework="numpy")))
        assert batch["x"].max() == largest


def test_a_schema_of_arrays_takes_what_a_field_takes() -> None:
    ds = leat.from_arrays({"x": "int64"}, x=np.arange(N))
    assert ds.schema["x"] == leat.field("int64") and pickle.loads(pickle.dumps(ds))[3]["x"] == 3
    with pytest.raises(ValueError, match="'x' holds field\\('int64'\\), which cannot be a field\\('int32'\\)"):
        leat.from_arrays({"x": "int32"}, x=np.arange(N))
    with pytest.raises(ValueError, match="dtype"):
        leat.from_arrays({"x": "number"}, x=np.arange(N))


def test_a_layout_makes_images_of_an_array() -> None:
    x = np.random.default_rng(1).integers(0, 256, (N, 28, 28), np.uint8)
    ds = leat.from_arrays({"x": leat.field("uint8", (1, 28, 28), layout="CHW")}, x=x)
    batch = next(
        iter(leat.Loader(ds, batch_size=N, outputs={"x": [leat.ops.Normalize((0.5,), (0.25,))]}, framework="numpy"))
    )
    assert np.allclose(batch["x"], (x[:, None] / 255 - 0.5) / 0.25, atol=1e-5)


@pytest.mark.parametrize(
    ("arrays", "why"),
    [
        ({}, "at least one array"),
        ({"x": np.zeros(3), "y": np.zeros(4)}, "'x' has 3 samples, 'y' has 4"),
        ({"x": np.float32(1)}, "'x' is a single value"),
        ({"x": np.zeros(3, "complex64")}, "'x'.*complex64"),
        ({"x": np.array(["a", "b"])}, "'x'.*pyarrow.table"),
        ({"x": [np.arange(2), np.arange(3)]}, "'x' is no array.*leat.Ragged"),
        ({"x": np.ma.array([1, 2], mask=[0, 1])}, "'x'.*masked"),
        ({"x": [np.ma.array([1, 2], mask=[0, 1])] * 2}, "'x'.*masked"),
        (
            {"x": leat.Sparse(np.ma.array([1.0, 2.0], mask=[0, 1]), np.array([0, 1]), np.array([0, 2]), 3)},
            "'x'.*masked",
        ),
        ({"1x": np.zeros(3)}, "1x"),
    ],
)
def test_arrays_that_are_no_data_set_say_why(arrays: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        leat.from_arrays(**arrays)


def test_rows_of_a_nested_tensor_are_named_as_what_they_are() -> None:
    torch = pytest.importorskip("torch")
    nested = torch.nested.nested_tensor([torch.tensor([1, 2]), torch.tensor([3])], layout=torch.jagged)
    with pytest.raises(ValueError, match=r"'x' is a nested tensor: leat.Ragged\(x.values\(\), x.offsets\(\)\)"):
        leat.from_arrays(x=nested)
    assert leat.from_arrays(x=leat.Ragged(nested.values(), nested.offsets()))[1]["x"].tolist() == [3]
    assert leat.from_arrays(x=np.ma.array([1, 2]))[1]["x"] == 2


# ---- IDX
# --------------------------------------------------------------------------------------------------------------


def test_idx_files_by_name_are_zipped_and_delivered(tmp_path: Path) -> None:
    x, y = np.random.default_rng(0).integers(0, 256, (N, 28, 28), np.uint8), (np.arange(N) % 10).astype(np.uint8)
    (tmp_path / "images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(x)))
    (tmp_path / "labels-idx1-ubyte").write_bytes(idx(y))
    ds = leat.open({"image": tmp_path / "images-idx3-ubyte.gz", "label": tmp_path / "labels-idx1-ubyte"})
    assert list(ds.schema) == ["image", "label"]
    chain = {"image": [leat.ops.RandomHorizontalFlip(0.0), leat.ops.ToDtype("float32", scale=True)], "label": []}
    for batch in leat.Loader(ds, batch_size=32, shuffle=True, outputs=chain, framework="numpy"):
        assert np.allclose(batch["image"], x[batch.ids][:, None] / np.float32(255))
        assert np.array_equal(batch["label"], y[batch.ids])
    again = pickle.loads(pickle.dumps(ds[::2]))
    assert np.array_equal(again.column("image"), x[::2, None])


def test_a_single_idx_file_has_the_field_data(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(N, 5)).astype(np.float64)
    (tmp_path / "x").write_bytes(idx(x))
    (tmp_path / "y.gz").write_bytes(gzip.compress(idx(x)))
    for name in ("x", "y.gz"):
        assert np.array_equal(leat.open(tmp_path / name).column("data"), x)
    assert (
        leat.open(tmp_path / "x").fingerprint
        == leat.open(tmp_path / "y.gz").fingerprint
        == leat.from_arrays(data=x).fingerprint
    )


@given(st.data())
def test_damaged_idx_files_are_refused_or_read_but_never_crash(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    raw = bytearray(gzip.compress(idx(np.arange(3000, dtype=np.int16).reshape(50, 60))))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("idx") / "x-idx2-ubyte.gz"
    path.write_bytes(raw[: data.draw(st.integers(0, len(raw)))])
    try:
        leat.open(path).column("data")
    except leat.Error as e:
        assert "x-idx2-ubyte" in str(e)


def test_a_gzip_file_of_something_else_is_no_format(tmp_path: Path) -> None:
    (tmp_path / "x.gz").write_bytes(gzip.compress(b"hello" * 100))
    with pytest.raises(leat.FormatError, match="what is in it is none of the formats"):
        leat.open(tmp_path / "x.gz")


def test_mnist_has_the_values_that_torchvision_reads() -> None:
    folder = Path(os.environ.get("LEAT_DATA", "/nowhere")) / "mnist-idx"
    if not folder.is_dir():
        pytest.skip("LEAT_DATA names no folder with mnist-idx")
    ds = leat.open({"image": folder / "t10k-images-idx3-ubyte.gz", "label": folder / "t10k-labels-idx1-ubyte.gz"})
    raw = gzip.decompress((folder / "t10k-images-idx3-ubyte.gz").read_bytes())
    assert np.array_equal(ds.column("image").reshape(-1), np.frombuffer(raw, np.uint8)[16:])
    assert ds.column("label")[:5].tolist() == [7, 2, 1, 0, 4]


# ---- zip
# --------------------------------------------------------------------------------------------------------------


def test_zipped_data_sets_keep_samples_together_in_every_view(records: Path, mixed: Path) -> None:
    left, right = leat.open(records)[20:30], leat.open(mixed)
    ds = leat.zip(left=left, right=right.select([*range(9, -1, -1)]))
    assert len(ds) == 10
    for i in (0, 7):
        sample = ds[i]
        assert sample["left.x"][0] == 20 + i
        for name, value in right[9 - i].items():
            assert np.array_equal(sample[f"right.{name}"], value), name
    part = ds.split([0.5, 0.5], seed=3)[0]
    assert part.column("left.x")[:, 0].tolist() == [20 + i for i in part.ids]
    assert pickle.loads(pickle.dumps(part)).fingerprint == part.fingerprint


def test_loaders_deliver_zipped_fields(records: Path) -> None:
    a = leat.open(records)
    ds = leat.zip(left=a, right=leat.concat(a[50:], a[:50]))
    for batch in leat.Loader(ds, batch_size=32, shuffle=True, framework="numpy"):
        assert np.array_equal(batch["left.x"][:, 0], batch.ids)
        assert np.array_equal(batch["right.x"][:, 0], (batch.ids + 50) % 100)


def test_a_zip_of_zips_and_their_concatenation_resolve(records: Path) -> None:
    a = leat.open(records)
    inner = leat.zip(u=a, v=a[::-1])
    both = leat.concat([leat.zip(w=inner, a=a), leat.zip(w=inner, a=a)])
    assert both[101]["w.v.label"] == a[98]["label"]
    assert both.column("w.u.x")[150, 0] == 50


def test_zips_are_joined_whatever_leat_derives_of_their_photos(tmp_path: Path, jpeg: Callable[..., bytes]) -> None:
    folder, file = tmp_path / "photos", tmp_path / "photos.leat"
    folder.mkdir()
    with leat.Writer(file, {"image": "image"}) as w:
        for i in range(3):
            (folder / f"{i}.jpg").write_bytes(jpeg(16, 12, i))
            w.add(image=jpeg(16, 12, i))
    numbers = leat.from_arrays(y=np.arange(3))
    packed, placed = (leat.zip(photo=leat.open(p), number=numbers) for p in (file, folder))
    both = leat.concat(packed, placed)
    assert list(both.schema) == ["photo.image", "number.y"]
    assert both.column("number.y").tolist() == [0, 1, 2, 0, 1, 2]
    assert both[1] == both[4] == {"photo.image": jpeg(16, 12, 1), "number.y": 1}
    nested = leat.concat(leat.zip(a=packed, b=numbers), leat.zip(a=placed, b=numbers))
    assert list(nested.schema) == ["a.photo.image", "a.number.y", "b.y"]
    with pytest.raises(ValueError, match=r'field "number.y" \(number 1\) is not the same'):
        leat.concat(packed, leat.zip(photo=leat.open(folder)))


@pytest.mark.parametrize(
    ("parts", "kind", "why"),
    [
        (lambda a: {}, ValueError, "at least one"),
        (lambda a: {"left": a, "right": a[:7]}, ValueError, "left has 100 samples, right 7"),
        (lambda a: {"left": a, "right": [1]}, TypeError, "'right' too, not list"),
        (lambda a: {"left": a, "x.y": a}, ValueError, r"x\.y"),
        (lambda a: {"l" * 60: a}, ValueError, "shorter name"),
    ],
)
def test_what_cannot_be_zipped_says_why(records: Path, parts: Any, kind: type[Exception], why: str) -> None:
    with pytest.raises(kind, match=why):
        leat.zip(**parts(leat.open(records)))


def test_a_short_timeout_is_for_calls_of_one_batch() -> None:
    most = {}
    for timeout in (None, 0.5):
        calls: list[int] = []

        class Source(Numbers):
            def read(self, positions: Any) -> dict[str, Any]:
                calls.append(len(positions))  # noqa: B023
                return super().read(positions)

        loader = leat.Loader(leat.from_source(Source(), timeout_s=timeout), 4, framework="numpy", epochs=1)
        assert sum(len(batch["y"]) for batch in loader) == N
        most[timeout] = max(calls)
    assert most[None] > 4 >= most[0.5]


def test_what_is_zipped_with_itself_is_computed_once() -> None:
    asked: list[int] = []

    class Source(Numbers):
        def read(self, positions: Any) -> dict[str, Any]:
            asked.extend(int(p) for p in positions)
            return super().read(positions)

    a = leat.from_source(Source())
    ds = leat.zip(l=a, m=a, n=a[::-1])
    asked.clear()
    outputs: dict[str, Any] = {"l.y": [], "m.y": [], "n.y": []}
    for batch in leat.Loader(ds, batch_size=20, outputs=outputs, framework="numpy", epochs=1):
        assert batch["l.y"].tolist() == batch["m.y"].tolist() == (99 * 3 - batch["n.y"]).tolist()
    assert sorted(asked) == sorted(2 * list(range(N)))


def test_fingerprints_of_zips_tell_their_parts_apart(records: Path) -> None:
    a = leat.open(records)
    zips = [leat.zip(a=a, b=a), leat.zip(a=a, c=a), leat.zip(a=a, b=a[::-1]), leat.zip(a=a[::-1], b=a)]
    assert len({z.fingerprint for z in zips}) == 4


# ---- sources
# ----------------------------------------------------------------------------------------------------------


class Numbers:
    """Values of every kind from their position."""

    fields = {
        "x": leat.field("float32", (2,)),
        "y": leat.field("int32"),
        "h": leat.field("bfloat16"),
        "text": leat.field("str"),
        "raw": leat.field("bytes"),
        "doc": leat.field("json"),
        "boxes": leat.field("float64", (None, 4)),
    }
    version = "1"

    def __len__(self) -> int:
        return N

    def read(self, p: np.ndarray[Any, Any]) -> dict[str, Any]:
        assert p.dtype == np.int64
        return {
            "x": np.stack([p, -p], 1).astype(np.float32),
            "y": [int(i) * 3 for i in p],
            "h": np.zeros(len(p), np.uint16),
            "text": [f"é{i}" for i in p],
            "raw": [bytes([i % 256]) * (i % 3) for i in p.tolist()],
            "doc": [{"i": i} for i in p.tolist()],
            "boxes": [np.full((i % 4, 4), i, np.float64) for i in p.tolist()],
            "more": None,
        }


def test_a_source_gives_values_of_every_kind() -> None:
    ds = leat.from_source(Numbers())
    sample = ds[7]
    assert sample["x"].tolist() == [7, -7]
    assert (sample["y"], sample["h"], sample["text"], sample["raw"], sample["doc"]) == (21, 0, "é7", b"\x07", {"i": 7})
    assert sample["boxes"].shape == (3, 4)
    assert ds.column("y").tolist() == [3 * i for i in range(N)]
    assert ds[::-1].column("x")[0].tolist() == [99, -99]


class Tensors(Numbers):
    fields = {"x": leat.field("float32", (2,)), "h": leat.field("bfloat16")}

    def read(self, p: np.ndarray[Any, Any]) -> dict[str, Any]:
        torch = pytest.importorskip("torch")
        return {"x": torch.ones(len(p), 2), "h": torch.ones(len(p), dtype=torch.bfloat16)}


def test_a_source_may_give_tensors() -> None:
    pytest.importorskip("torch")
    assert leat.from_source(Tensors())[3]["x"].tolist() == [1, 1]
    assert leat.from_source(Tensors()).column("h").tolist() == [1.0] * N


def test_a_source_is_pickled_as_it_pickles_and_told_apart_by_its_version() -> None:
    ds = leat.from_source(Numbers())[5:10]
    assert pickle.loads(pickle.dumps(ds)).column("y").tolist() == ds.column("y").tolist()
    other = Numbers()
    other.version = "2"
    assert leat.from_source(other).fingerprint != leat.from_source(Numbers()).fingerprint


class Bad(Numbers):
    fields = {"y": leat.field("int32"), "b": leat.field("bytes")}

    def __init__(self, y: Any = None, b: Any = None) -> None:
        self.y, self.b = y, b

    def read(self, p: np.ndarray[Any, Any]) -> Any:
        good = {"y": np.zeros(len(p), np.int32), "b": [b""] * len(p)}
        return (
            self.y
            if isinstance(self.y, str)
            else {**good, **{k: v for k, v in (("y", self.y), ("b", self.b)) if v is not None}}
        )


@pytest.mark.parametrize(
    ("y", "b", "why"),
    [
        ("none", None, "gave str, not a dict"),
        (np.zeros(1, np.int64), None, r"'y' an array of int64 with shape \(1,\): it needs int32 with \(1,\)"),
        (np.zeros((1, 2), np.int32), None, r"int32 with shape \(1, 2\)"),
        (np.zeros(3, np.int32), None, "3 values for 1 positions"),
        (7, None, "int values for 1 positions"),
        ([0.5], None, "float64"),
        (["a"], None, "'y'"),
        (None, ["text"], "'b' a value of str, which is no bytes"),
    ],
)
def test_values_that_do_not_fit_the_fields_are_errors_that_name_source_and_field(y: Any, b: Any, why: str) -> None:
    with pytest.raises(leat.InvalidError, match=why) as e:
        leat.from_source(Bad(y, b))[0]
    assert "Bad.read" in str(e.value)


def test_a_missing_field_is_named() -> None:
    class Missing(Bad):
        def read(self, p: np.ndarray[Any, Any]) -> Any:
            return {"b": [b""] * len(p)}

    with pytest.raises(leat.InvalidError, match="gave no field 'y': it gave 'b'"):
        leat.from_source(Missing())[0]


class Raises(Numbers):
    fields = {"y": leat.field("int64")}

    def read(self, p: np.ndarray[Any, Any]) -> Any:
        if (p == 42).any():
            raise KeyError("the forty-second")
        return {"y": p}


def test_an_exception_is_told_of_its_sample_and_chained() -> None:
    ds = leat.from_source(Raises())
    with pytest.raises(leat.BrokenSampleError, match=r"Raises.read raised KeyError: 'the forty-second'") as e:
        ds.column("y")
    assert e.value.sample == 42
    assert isinstance(e.value.__cause__, KeyError)
    assert e.value.__cause__.__traceback__ is not None
    assert ds[:42].column("y").tolist() == list(range(42))


def test_what_is_no_source_says_what_is_missing() -> None:
    with pytest.raises(TypeError, match="list has no fields"):
        leat.from_source([1])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="timeout_s"):
        leat.from_source(Numbers(), timeout_s=-1)

    class Empty(Numbers):
        fields = {}

    with pytest.raises(TypeError, match="fields of Empty"):
        leat.from_source(Empty())


class Hangs(Numbers):
    fields = {"y": leat.field("int64")}

    def __init__(self) -> None:
        self.go_on = threading.Event()

    def read(self, p: np.ndarray[Any, Any]) -> Any:
        self.go_on.wait()
        return {"y": p}


def test_a_source_that_hangs_ends_with_its_time_limit_and_goes_on_later() -> None:
    source = Hangs()
    ds = leat.from_source(source, timeout_s=0.3)
    for sample in (7, 8):  # the second one waits for the first, and is given up with it
        waits = "waiting for a source that hangs" if sample == 8 else "the source hangs"
        with pytest.raises(OSError, match=f"{waits}: read of sample 7 has not returned"):
            ds[sample]
    source.go_on.set()

    def goes_on() -> bool:
        with contextlib.suppress(OSError):  # until the read that hung has returned
            return bool(ds[3]["y"] == 3)
        return False

    eventually(goes_on)


class HangsOnce(Hangs):
    """Hangs at a position, with values of any size; `asked` is the call that does."""

    fields = {"y": leat.field("int64"), "t": "str", "z": leat.field("int32", (None,))}

    def __init__(self, at: int) -> None:
        super().__init__()
        self.at, self.asked, self.hangs = at, "", threading.Event()

    def read(self, p: np.ndarray[Any, Any]) -> Any:
        if self.at in p:
            many = f"{len(p)} samples, {p.min()} to {p.max()},"
            self.asked = f"read of {many if len(p) > 1 else f'sample {p[0]}'} has not returned"
            self.hangs.set()
            self.go_on.wait()
        return {"y": p, "t": ["a"] * len(p), "z": [np.zeros(3, np.int32)] * len(p)}


def test_all_that_wait_behind_a_call_that_hangs_give_up_with_it() -> None:
    source = HangsOnce(7)
    ds = leat.from_source(source, timeout_s=0.5)
    found: list[str] = []

    def ask(position: int) -> None:
        with pytest.raises(OSError) as e:
            ds[position]
        found.append(str(e.value))

    threads = [threading.Thread(target=ask, args=(position,)) for position in (7, 1, 2, 3, 4)]
    threads[0].start()
    source.hangs.wait()
    for thread in threads[1:]:
        thread.start()
    for thread in threads:
        thread.join()
    ask(5)  # nor has one that comes later a time limit of its own
    assert len(found) == 6 and all("read of sample 7 has not returned" in each for each in found), found
    source.go_on.set()


@pytest.mark.parametrize("how", ["column", "batch", "peek", "epoch", "consumer", "mixture", "zip", "skipped"])
def test_the_error_of_a_batch_names_the_call_that_hangs(how: str) -> None:
    source = HangsOnce(12)
    ds = leat.from_source(source, timeout_s=0.2)
    options: dict[str, Any] = {"framework": "numpy", "on_error": "skip" if how == "skipped" else "raise"}
    sources: dict[str, Any] = {"mixture": leat.Mix({"a": (ds, 0.5), "b": (ds, 0.5)}), "zip": leat.zip(a=ds, b=ds)}
    with pytest.raises(OSError) as e:
        if how == "column":
            ds.column("t")
        loader = leat.Loader(sources.get(how, ds), 16, **options)
        if how == "batch":
            loader.batch_at(0, 0)
        for _ in loader.consumer(4) if how == "consumer" else loader:
            if how == "peek":
                loader.peek()
    assert source.asked in str(e.value)
    source.go_on.set()


def test_a_call_that_waits_for_others_has_not_begun_its_time_limit() -> None:
    class Slow(Numbers):
        fields = {"y": leat.field("int64")}

        def read(self, p: np.ndarray[Any, Any]) -> Any:
            time.sleep(0.25)
            return {"y": p}

    ds, found = leat.from_source(Slow(), timeout_s=1.0), []  # six of them take longer than one may
    threads = [threading.Thread(target=lambda i=i: found.append(ds[i]["y"])) for i in range(6)]  # type: ignore[misc]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == list(range(6))


class Unwritable:
    def __init__(self, kind: str, value: Any) -> None:
        self.fields, self.kind, self.value = {"x": kind}, kind, value

    def __len__(self) -> int:
        return 30

    def read(self, positions: Any) -> Any:
        good = {"str": "", "json": None}[self.kind]
        return {"x": [self.value if p == 7 else good for p in positions]}


@pytest.mark.parametrize(
    ("kind", "value", "cause"),
    [("json", {1, 2}, TypeError), ("json", float("nan"), ValueError), ("str", "\udc80", UnicodeEncodeError)],
)
@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_values_that_cannot_be_written_name_their_field_and_sample(
    kind: str, value: Any, cause: type[Exception], on_error: Any
) -> None:
    loader = leat.Loader(leat.from_source(Unwritable(kind, value)), 10, on_error=on_error)
    with pytest.raises(leat.InvalidError, match="field 'x' a value that cannot be written as") as e:
        list(loader)
    assert e.value.sample == 7 and isinstance(e.value.__cause__, cause)


class FailsAt:
    fields = {"y": "int64"}

    def __init__(self, bad: int, what: str) -> None:
        self.bad, self.what, self.beyond = bad, what, threading.Event()

    def __len__(self) -> int:
        return 40

    def read(self, positions: Any) -> Any:
        if self.bad in positions:
            raise KeyError(self.what)
        if positions.min() > self.bad:
            self.beyond.set()
        return {"y": positions}


def test_an_error_keeps_its_cause_though_others_have_come_before_it_is_raised() -> None:
    ahead, other = FailsAt(7, "of one"), FailsAt(3, "of another")
    loader = leat.Loader(leat.from_source(ahead), 5, budget_bytes=16 << 20)
    batches = iter(loader)
    next(batches)
    assert ahead.beyond.wait(PATIENCE)  # the error of the second batch waits to be raised
    with pytest.raises(leat.BrokenSampleError) as e:
        leat.from_source(other)[3]
    assert isinstance(e.value.__cause__, KeyError) and e.value.__cause__.args == ("of another",)
    again = leat.from_source(other)
    for _ in range(40):  # the same error again and again, as of epochs that are read ahead
        with pytest.raises(leat.BrokenSampleError):
            again[3]
    with pytest.raises(leat.BrokenSampleError) as e:
        next(batches)
    assert isinstance(e.value.__cause__, KeyError) and e.value.__cause__.args == ("of one",)
    with pytest.raises(leat.BrokenSampleError) as e:
        leat.Loader(leat.from_source(ahead), 5).batch_at(0, 1)
    assert isinstance(e.value.__cause__, KeyError)


def run_script(script: str, **options: Any) -> subprocess.Popen[str]:
    start = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    return subprocess.Popen(
        [sys.executable, "-c", start + textwrap.dedent(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        **options,
    )


HANGS = """
import threading, time, leat
began = threading.Event()
class Hangs:
    fields = {"y": leat.field("int64")}
    def __len__(self): return 10
    def read(self, p):
        print("reading", flush=True)
        began.set()
        while True: time.sleep(1)
ds = leat.from_source(Hangs())
"""


def test_ctrl_c_ends_a_source_that_hangs() -> None:
    child = run_script(HANGS + "try: ds[0]\nexcept KeyboardInterrupt: print('interrupted')\n")
    assert child.stdout is not None
    assert child.stdout.readline() == "reading\n"
    time.sleep(0.3)
    child.send_signal(signal.SIGINT)
    out, _ = child.communicate(timeout=PATIENCE)
    assert child.returncode == 0
    assert out == "interrupted\n"


def test_a_signal_handler_asks_the_loader_that_makes_rows_in_its_thread() -> None:
    """While the loader's thread hangs in a call for the window, the thread that asks for a batch by its step makes that
    itself, and waits there for the source. It does so on one core, whatever the threads do."""
    script = """
    import os, signal, time
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    import leat

    class Slow:
        fields = {"y": leat.field("int64")}
        hangs = go = False
        def __len__(self): return 40
        def read(self, p):
            self.hangs = True
            while not self.go: time.sleep(0.01)
            return {"y": p}

    def look(*_):
        global seen
        seen += 1
        if seen < 4:  # now it waits
            return
        signal.setitimer(signal.ITIMER_REAL, 0)
        assert loader.state_dict()["at"] == {"epoch": 0, "row": 0} and loader.epoch == 0
        assert loader.stats()["tasks"]["helped"] == 1  # which is under way
        for change in loader.close, lambda: next(it), lambda: loader.load_state_dict({}), lambda: iter(loader):
            try:
                change()
            except RuntimeError as e:
                print("set a flag in the handler" in str(e))
        source.go = True

    seen = 0
    source = Slow()
    loader = leat.Loader(leat.from_source(source), 4, num_threads=1, framework="numpy", shuffle=False)
    it = iter(loader)
    while not source.hangs:
        time.sleep(0.01)
    signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
    print(loader.batch_at(0, 5)["y"].tolist())
    batches = [b["y"].tolist() for b in it]
    print(sum(batches, []) == list(range(40)), loader.state_dict()["at"])
    """
    out, _ = run_script(script).communicate(timeout=PATIENCE)
    assert out == "True\n" * 4 + "[20, 21, 22, 23]\nTrue {'epoch': 1, 'row': 0}\n"


def test_a_process_ends_while_its_source_hangs() -> None:
    reading = "threading.Thread(target=lambda: ds[0], daemon=True).start()\n"
    child = run_script(HANGS + reading + "began.wait()\nprint('end')\n")
    out, _ = child.communicate(timeout=PATIENCE)
    assert out == "reading\nend\n"


def test_a_forked_child_reads_from_a_source_with_a_thread_of_its_own() -> None:
    ds = leat.from_source(Numbers())
    assert ds[1]["y"] == 3
    pid = os.fork()
    if pid == 0:
        os._exit(0 if ds[2]["y"] == 6 else 1)
    assert os.waitpid(pid, 0)[1] == 0
    assert ds[3]["y"] == 9


def test_the_thread_of_a_source_ends_with_its_data_set() -> None:
    before = threading.active_count()
    for _ in range(5):
        ds = leat.from_source(Numbers())
        assert ds[1]["y"] == 3
        del ds
    eventually(lambda: threading.active_count() <= before)


# ---- lengths ---------------------------------------------------------------------------------------------------------


class Untouched:
    """Memory that the system gives when it is read."""

    def __init__(self, n: int) -> None:
        import mmap

        self.map = mmap.mmap(-1, n)
        self.values = np.frombuffer(self.map, np.uint8)


def touched(made: Untouched) -> int:
    """Bytes of the mapping that are in memory."""
    begin = made.values.__array_interface__["data"][0]
    with open("/proc/self/smaps") as f:
        here = False
        for line in f:
            if "-" in line.split(" ")[0] and ":" not in line.split(" ")[0]:
                first, last = (int(x, 16) for x in line.split(" ")[0].split("-"))
                here = first <= begin < last
            elif here and line.startswith("Rss:"):
                return int(line.split()[1]) * 1024
    return -1


@pytest.mark.parametrize("form", ["plain", "view", "joined", "zipped"])
def test_lengths_of_arrays_do_not_read_the_values(form: str) -> None:
    n = 1 << 26
    made = Untouched(n)
    offsets = np.array([0, 20, n // 2, n - 50, n], np.int64)
    ds = leat.data.made.of_arrays(None, {"tokens": leat.Ragged(made.values, offsets)}, "1")
    name = "tokens.length"
    if form == "view":
        ds = ds[1:]
    elif form == "joined":
        ds = leat.concat(ds, ds)
    elif form == "zipped":
        ds, name = leat.zip(a=ds), "a.tokens.length"
    lengths = np.diff(offsets)[1 if form == "view" else 0 :].tolist() * (2 if form == "joined" else 1)
    assert len(ds.where(f'"{name}" < 100')) == sum(x < 100 for x in lengths)
    field = name.removesuffix(".length")
    assert len(leat.pack_rows(ds, field, 1 << 20, eos=0)) == -(-(sum(lengths) + len(lengths)) // (1 << 20))
    mix = leat.Mix({"a": (ds, 0.5), "b": (ds, 0.5)}, unit="tokens", tokens_field=field)
    assert len(mix.names) == 2
    assert touched(made) <= 1 << 16
    assert int(made.values[: 1 << 22].sum()) == 0 and touched(made) >= 1 << 22


@pytest.mark.parametrize("lie", ["values", "offsets", "missing"])
def test_a_chunk_of_another_number_of_rows_is_an_error(lie: str) -> None:
    from leat.data.ragged import Ragged

    class Chunked:
        fields = {"x": leat.field("int64"), "v": leat.field("int64", (None,))}
        chunk_rows = [10, 10]

        def __len__(self) -> int:
            return 20

        def read(self, positions: Any) -> Any:
            raise AssertionError("chunks are read")

        def read_chunk(self, number: int, names: list[str]) -> Any:
            given = {"x": 10, "v": 10, "missing": 10} | {{"values": "x", "offsets": "v"}.get(lie, lie): 7}
            lists = Ragged(np.arange(30), np.arange(given["v"] + 1) * 3)
            columns = {"x": (np.arange(given["x"]), np.zeros(given["missing"], bool)), "v": (lists, None)}
            return {name: columns[name] for name in names}

    ds = leat.from_source(Chunked())
    with pytest.raises(leat.InvalidError, match=r"values for a chunk of 10 rows"):
        ds[15]


class Photos:
    """Photos and numbers; some photos are broken."""

    fields: Any = {"photo": "image", "k": leat.field("int64")}

    def __init__(self) -> None:
        self.photo = jpeg(32, 24)

    def __len__(self) -> int:
        return 64

    def read(self, positions: Any) -> dict[str, Any]:
        photos = [self.photo[:300] if p in (3, 20, 41) else self.photo for p in positions.tolist()]
        return {"photo": photos, "k": positions}


@pytest.mark.parametrize("in_order", [True, False])
def test_all_values_of_a_substitute_are_its_own(in_order: bool) -> None:
    outputs: Any = {"photo": [leat.ops.Decode(), leat.ops.Resize((8, 8))], "k": []}
    loader = leat.Loader(
        leat.from_source(Photos()), 8, framework="numpy", outputs=outputs, on_error="substitute", in_order=in_order
    )
    for _ in range(3):
        for batch in loader:
            assert batch["k"].tolist() == batch.ids.tolist()
            assert not {3, 20, 41} & set(batch.ids.tolist())


def test_all_values_of_a_row_that_a_function_refused_are_its_substitutes() -> None:
    def refuse(k: Any) -> Any:
        if int(k) in (3, 20, 41):
            raise leat.BrokenSampleError("not this one")
        return k

    outputs: Any = {"k": [leat.ops.Map(refuse)], "same": leat.Out("k", [])}
    loader = leat.Loader(leat.from_source(Photos()), 8, framework="numpy", outputs=outputs, on_error="substitute")
    for batch in loader:
        assert batch["k"].tolist() == batch["same"].tolist() == batch.ids.tolist()
        assert not {3, 20, 41} & set(batch.ids.tolist())
