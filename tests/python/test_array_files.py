"""Arrays in place: .npy, .npz and safetensors, beside NumPy; lying ones."""

from __future__ import annotations

import io
import json
import os
import struct
import subprocess
import sys
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from http_support import Server
from test_files_of_others import described, rows_of

import leat

ROWS = np.arange(7 * 3 * 2, dtype="f4").reshape(7, 3, 2)
LABELS = np.arange(7) * 11


def npy(array: Any, **options: Any) -> bytes:
    out = io.BytesIO()
    np.save(out, array, **options)
    return out.getvalue()


def npy_of(shape: Any, descr: str = "<f4", data: bytes = b"", order: str = "False") -> bytes:
    """A .npy whose header says what it likes."""
    text = f"{{'descr': {descr!r}, 'fortran_order': {order}, 'shape': {shape}, }}".encode() + b"\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text + data


def npz(members: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return out.getvalue()


def tensors(header: Any, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def tensor(dtype: str, shape: list[int], begin: int, end: int) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


# ---- values --------------------------------------------------------------------------------------


@pytest.mark.parametrize("descr", ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8"])
def test_an_array_of_any_type_and_order_is_the_same_data_set(descr: str, tmp_path: Path) -> None:
    array = (np.arange(120).reshape(5, 4, 3, 2) % 7).astype(descr)
    orders = {"c": array, "fortran": np.asfortranarray(array), "big": array.astype(array.dtype.newbyteorder(">")),
              "both": np.asfortranarray(array.astype(array.dtype.newbyteorder(">")))}  # fmt: skip
    prints = set()
    for name, one in orders.items():
        ds = leat.open(write(tmp_path / f"{name}.npy", npy(one)))
        assert np.array_equal(np.stack([s["data"] for s in ds]), array)
        assert np.array_equal(ds.column("data"), array)
        packed = leat.open(write(tmp_path / f"{name}.npz", npz({"data.npy": npy(one)}, zipfile.ZIP_DEFLATED)))
        assert np.array_equal(np.stack([s["data"] for s in packed]), array)
        prints |= {ds.fingerprint, packed.fingerprint}
    with leat.Writer(tmp_path / "own.leat", ds.schema) as writer:
        for value in array:
            writer.add(data=value)
    assert prints == {leat.open(tmp_path / "own.leat").fingerprint}


def test_rows_longer_than_what_is_read_at_a_time_are_hashed_as_they_are_packed(tmp_path: Path) -> None:
    array = np.random.default_rng(0).integers(0, 255, (3, 5 << 20), "u1")
    ds = leat.open(write(tmp_path / "a.npy", npy(array)))
    with leat.Writer(tmp_path / "own.leat", ds.schema) as writer:
        for value in array:
            writer.add(data=value)
    assert leat.open(tmp_path / "own.leat").fingerprint == ds.fingerprint
    turned = leat.open(write(tmp_path / "b.npy", npy(np.asfortranarray(array))))
    assert turned.fingerprint == ds.fingerprint
    packed = leat.open(write(tmp_path / "b.npz", npz({"data.npy": npy(array)}, zipfile.ZIP_DEFLATED)))
    assert packed.fingerprint == ds.fingerprint and np.array_equal(packed[1]["data"], array[1])


def test_deflated_arrays_are_read_from_anywhere(tmp_path: Path) -> None:
    array = np.random.default_rng(0).integers(0, 9, (20_000, 64), "i4")
    np.savez_compressed(tmp_path / "a.npz", x=array, y=np.arange(20_000))
    np.savez(tmp_path / "b.npz", x=array, y=np.arange(20_000))
    ds, plain = leat.open(tmp_path / "a.npz"), leat.open(tmp_path / "b.npz")
    assert ds.fingerprint == plain.fingerprint
    for i in (19_999, 3, 12_345, 0):
        assert np.array_equal(ds[i]["x"], array[i]) and ds[i]["y"] == i
    batches = [leat.Loader(d, 512, shuffle=True, epochs=1, framework="numpy") for d in (ds, plain)]
    assert rows_of(batches[0]) == rows_of(batches[1])


def test_fields_choose_arrays_and_say_what_they_are(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=ROWS, y=LABELS, few=LABELS[:3], one=np.float64(2), **{"a/b c": ROWS})
    path = tmp_path / "a.npz"
    with pytest.raises(ValueError, match=r'"few" 3.*fields=\["few"\]'):
        leat.open(path)
    ds = leat.open(path, fields=["y", "x", "a_b_c"])
    assert list(ds.schema) == ["y", "x", "a_b_c"] and described(ds.schema["x"]) == "float32 (3, 2)"
    assert np.array_equal(ds[4]["x"], ROWS[4]) and ds[4]["y"] == 44
    assert len(leat.open(path, fields={"few": None})) == 3
    said = leat.open(path, fields={"x": leat.field("float32", (3, 2)), "y": "int64"})
    assert said[6]["y"] == 66 and said.fingerprint != ds.fingerprint
    with pytest.raises(ValueError, match=r'"x" that it is float32 \(2, 3\), and in .*it is float32 \(3, 2\)'):
        leat.open(path, fields={"x": leat.field("float32", (2, 3))})
    with pytest.raises(ValueError, match='no array "z".*it has x, y, few, one'):
        leat.open(path, fields=["z"])
    with pytest.raises(ValueError, match=r'"one".*single number.*fields='):
        leat.open(path, fields=["one"])


def test_members_that_are_no_arrays_are_left_out_with_a_notice(tmp_path: Path) -> None:
    data = npz({"readme.txt": b"x", "x.npy": npy(ROWS), "folder/": b""})
    with pytest.warns(UserWarning, match=r"2 members .* no \.npy"):
        assert list(leat.open(write(tmp_path / "a.npz", data)).schema) == ["x"]


@pytest.mark.parametrize(
    ("dtype", "kind"),
    [("c8", "complex numbers"), ("S2", "texts"), ("U2", "texts"), ("M8[s]", "times"), ("f4,i2", "records")],
)
def test_dtypes_that_leat_has_not_are_named(dtype: str, kind: str, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros(3, dtype))
    np.savez(tmp_path / "a.npz", a=np.zeros(3, dtype), b=np.arange(3))
    with pytest.raises(leat.FormatError, match=f"none of leat's: {kind}$"):
        leat.open(tmp_path / "a.npy")  # which has no other array to choose
    with pytest.raises(leat.FormatError, match=f"none of leat's: {kind}: name the fields to take without it"):
        leat.open(tmp_path / "a.npz")


def test_a_file_of_a_list_that_cannot_be_joined_is_named(tmp_path: Path) -> None:
    for name, dtype in (("a", "f4"), ("b", "f4"), ("c", "f8")):
        np.save(tmp_path / f"{name}.npy", np.zeros(3, dtype))
    with pytest.raises(leat.InvalidError, match=r"data set 2 cannot be joined .* in dtype.*c\.npy"):
        leat.open(tmp_path / "*.npy")


def test_files_are_known_by_their_bytes_too(tmp_path: Path) -> None:
    for name, data in (("a", npy(ROWS)), ("b", npz({"data.npy": npy(ROWS)})),
                       ("c", tensors({"data": tensor("F32", [7, 3, 2], 0, 168)}, ROWS.tobytes()))):  # fmt: skip
        assert np.array_equal(leat.open(write(tmp_path / name, data))[6]["data"], ROWS[6])
    assert leat.open([tmp_path / "a", tmp_path / "b", tmp_path / "c"]).column("data").shape == (21, 3, 2)


def test_tensors_of_all_types(tmp_path: Path) -> None:
    types = {"BOOL": "?", "U8": "u1", "I8": "i1", "I16": "i2", "U16": "u2", "F16": "f2", "I32": "i4", "U32": "u4",
             "F32": "f4", "F64": "f8", "I64": "i8", "U64": "u8"}  # fmt: skip
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    data = b""
    for name, descr in types.items():
        part = (np.arange(6) % 2).astype(descr).tobytes()
        header[name] = tensor(name, [3, 2], len(data), len(data) + len(part))
        data += part
    header["half"] = tensor("BF16", [3], len(data), len(data) + 6)
    header["small"] = tensor("F8_E4M3", [3, 2], len(data) + 6, len(data) + 12)
    data += np.array([1.0, -2.0, 3.5], "f4").view("u2")[1::2].tobytes() + bytes(range(6))
    path = write(tmp_path / "a.safetensors", tensors(header, data))
    with pytest.raises(leat.Error, match=r'"small".*F8_E4M3.*uint8.*fields='):
        leat.open(path)
    ds = leat.open(path, fields={n: None for n in types} | {"half": None, "small": leat.field("uint8", (2,))})
    for name, descr in types.items():
        assert np.array_equal(ds[1][name], np.array([0, 1], descr)), name
        assert ds[1][name].dtype == np.dtype(descr)
    assert ds.schema["half"].dtype == "bfloat16"
    assert [float(s["half"]) for s in ds] == [1.0, -2.0, 3.5]
    assert ds[2]["small"].tolist() == [4, 5]


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_pickles_are_refused_by_name(method: int, tmp_path: Path) -> None:
    odd = npy(np.array([{}] * 7), allow_pickle=True)
    nested = npy(np.zeros(7, [("a", "f4"), ("b", [("c", "O")])]), allow_pickle=True)
    for data in (odd, nested):
        path = write(tmp_path / "a.npz", npz({"odd.npy": data, "y.npy": npy(LABELS)}, method))
        with pytest.raises(leat.Error, match=r'"odd".*a\.npz.*pickles.*\|O.*fields='):
            leat.open(path)
        assert leat.open(path, fields=["y"])[1]["y"] == 11
        with pytest.raises(leat.Error, match="pickles"):
            leat.open(write(tmp_path / "a.npy", data))


def test_a_file_that_changes_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path / "a.npy", npy(ROWS))
    ds = leat.open(path)
    write(path, npy(ROWS + 1))
    os.utime(path, ns=(0, 10**18))
    with pytest.raises(leat.Error, match="changed"):
        list(leat.Loader(ds, 2, epochs=1, framework="numpy"))


# ---- what is kept --------------------------------------------------------------------------------


def three(array: Any) -> dict[str, bytes]:
    """The same values in a file of each format."""
    data = tensors({"data": tensor("I64", list(array.shape), 0, array.nbytes)}, array.tobytes())
    turned = np.asfortranarray(array)
    return {"a.npy": npy(array), "turned.npy": npy(turned), "a.npz": npz({"data.npy": npy(array)}),
            "turned.npz": npz({"data.npy": npy(turned)}), "a.safetensors": data}  # fmt: skip


@pytest.mark.parametrize("name", three(np.zeros((1, 1), "i8")))
def test_a_second_opening_reads_no_values(name: str, tmp_path: Path) -> None:
    data = three(np.arange(2_100_000).reshape(-1, 3))[name]
    with Server({name: data}) as server:
        first = leat.open(server.url(name), index_dir=tmp_path / "kept")
        assert len(list((tmp_path / "kept").iterdir())) == 1
        before = len(server.ranges)
        again = leat.open(server.url(name), index_dir=tmp_path / "kept")
        read = sum(end - begin + 1 for begin, end in server.ranges[before:])
    assert again.fingerprint == first.fingerprint and 0 < read < 4 << 20  # pieces, which tell whether it is as it was
    path = write(tmp_path / name, data)
    assert leat.open(path).fingerprint == first.fingerprint
    when, middle = path.stat().st_mtime_ns, len(data) // 2 + (100 << 10)  # where no piece is
    write(path, changed(data, middle, b"\x77"))
    os.utime(path, ns=(when, when))
    assert leat.open(path).fingerprint == first.fingerprint
    os.utime(path, ns=(when, when + 10**9))
    if name.endswith(".npz"):
        with pytest.raises(leat.Error, match=f'{name}.*CRC-32 of "data"'):
            leat.open(path)
    else:
        assert leat.open(path).fingerprint != first.fingerprint


def test_sums_of_few_values_lie_beside_nothing_but_where_it_is_asked(tmp_path: Path) -> None:
    path = write(tmp_path / "a.npy", npy(np.arange(2 << 20)[:-1]))
    leat.open(path)
    assert os.listdir(tmp_path) == ["a.npy"]
    leat.open(path, index_dir=tmp_path / "kept")
    assert [p.name.split("-")[0] for p in (tmp_path / "kept").iterdir()] == ["a.npy"]
    leat.open(write(tmp_path / "b.npy", npy(np.arange(2 << 20))))
    assert sorted(os.listdir(tmp_path)) == ["a.npy", "b.npy", "b.npy.leat-index", "kept"]


def test_each_choice_of_fields_has_sums_of_its_own(tmp_path: Path) -> None:
    arrays = {"x": ROWS, "y": LABELS, "z": np.asfortranarray(ROWS), "w": ROWS * 2}
    np.savez(tmp_path / "a.npz", **arrays)
    choices = [["x"], ["y"], ["x", "y"], ["y", "x"], ["z"], ["w"], ["x", "w", "z"]]
    want = [leat.open(tmp_path / "a.npz", fields=c).fingerprint for c in choices]
    for _ in range(2):
        got = [leat.open(tmp_path / "a.npz", fields=c, index_dir=tmp_path / "kept").fingerprint for c in choices]
        assert got == want and len(set(got)) == len(choices)
    kept = next((tmp_path / "kept").iterdir())
    for _ in range(12):  # more choices than are kept
        names = np.random.default_rng(_).permutation(list(arrays))
        for n in range(1, 5):
            for k in range(5 - n):
                leat.open(tmp_path / "a.npz", fields=list(names[k : k + n]), index_dir=tmp_path / "kept")
    assert kept.stat().st_size < 64 * 24 + 1024
    got = [leat.open(tmp_path / "a.npz", fields=c, index_dir=tmp_path / "kept").fingerprint for c in choices]
    assert got == want


def test_kept_sums_that_are_damaged_or_of_another_file_are_found_anew(tmp_path: Path) -> None:
    path, kept = write(tmp_path / "a.npy", npy(ROWS)), tmp_path / "kept"
    want = leat.open(path, index_dir=kept).fingerprint
    index = next(kept.iterdir())
    first = index.read_bytes()
    for at in (0, 100, 384, 407):  # of its header, of the sums
        index.write_bytes(changed(first, at, bytes([first[at] ^ 1])))
        assert leat.open(path, index_dir=kept).fingerprint == want and index.read_bytes() == first
    index.write_bytes(first[:-1])
    assert leat.open(path, index_dir=kept).fingerprint == want and index.read_bytes() == first
    write(path, npy(ROWS + 1))
    os.utime(path, ns=(0, 10**18))
    assert leat.open(path, index_dir=kept).fingerprint == leat.open(path).fingerprint != want
    assert index.read_bytes() != first


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_sums_are_those_of_an_archive_whose_members_have_the_same_checksums(method: int, tmp_path: Path) -> None:
    """A long directory is no piece that tells whether a file is as it was."""
    noise = np.random.default_rng(3).integers(0, 256, (700, 1000), "u1")
    files = {"pad.bin": noise[:200].tobytes(), "x.npy": npy(noise)} | {f"{i:060}": b"" for i in range(3000)}
    path, kept = write(tmp_path / "a.npz", npz(files, method)), tmp_path / "kept"
    when, size = path.stat().st_mtime_ns, path.stat().st_size
    with pytest.warns(UserWarning, match="left out"):
        want = leat.open(path, index_dir=kept).fingerprint
        for row in range(300, 500, 20):  # pieces are some 60 rows apart, and have 4
            noise[row] ^= 1
            files["x.npy"] = npy(noise)
            write(path, npz(files, method))
            os.utime(path, ns=(when, when))
            assert path.stat().st_size == size
            now = leat.open(path, index_dir=kept)
            assert now.fingerprint == leat.open(path).fingerprint != want and np.array_equal(now[row]["x"], noise[row])
            want = now.fingerprint


def blocks_decoded() -> int:
    """By this process so far."""
    return int(leat.Loader(leat.from_arrays(x=LABELS), 1, framework="numpy").stats()["cache"]["blocks"])


def deflated(path: Path) -> dict[str, Any]:
    """Writes arrays of several blocks: some that do not compress, some that are zeros, and one in Fortran's order."""
    noise = np.random.default_rng(3).integers(0, 256, (6000, 1000), "u1")
    arrays = {"x": noise, "z": np.zeros((6000, 700), "i4"), "t": np.asfortranarray(noise[:, :9].astype("f4"))}
    np.savez_compressed(path, **arrays)
    return arrays


def assert_has(ds: Any, arrays: dict[str, Any]) -> None:
    ids = [0, 5999, 17, 3000, 2999, 4321]
    for i in ids:
        assert all(np.array_equal(ds[i][name], array[i]) for name, array in arrays.items())
    for batch in leat.Loader(ds, 500, shuffle=True, epochs=1, framework="numpy"):
        assert all(np.array_equal(batch[name], array[batch.ids]) for name, array in arrays.items())


@pytest.mark.parametrize("kept", ["beside", "in index_dir"])
def test_deflated_arrays_are_decoded_by_the_first_opening_alone(kept: str, tmp_path: Path) -> None:
    arrays = deflated(tmp_path / "a.npz")
    where = tmp_path if kept == "beside" else tmp_path / "kept"
    options: dict[str, Any] = {} if kept == "beside" else {"index_dir": where}
    first = leat.open(tmp_path / "a.npz", **options)
    (index,) = where.glob("*.leat-index")
    before, written = blocks_decoded(), index.stat().st_ino
    again = leat.open(tmp_path / "a.npz", **options)
    assert blocks_decoded() == before and index.stat().st_ino == written
    assert again.fingerprint == first.fingerprint and again.schema == first.schema
    assert again[17]["x"].tolist() == arrays["x"][17].tolist()
    assert blocks_decoded() == before + 3  # one of each array
    assert_has(first, arrays)
    assert_has(again, arrays)


def test_of_deflated_arrays_on_another_machine_no_values_are_read_again(tmp_path: Path) -> None:
    noise = np.random.default_rng(3).integers(0, 256, (20_000, 1000), "u1")
    data = npz({"x.npy": npy(noise), "y.npy": npy(np.arange(20_000))}, zipfile.ZIP_DEFLATED)
    with Server({"a.npz": data}) as server:
        first = leat.open(server.url("a.npz"), index_dir=tmp_path)
        before = len(server.ranges)
        again = leat.open(server.url("a.npz"), index_dir=tmp_path)
        read = sum(end - begin + 1 for begin, end in server.ranges[before:])
        assert again.fingerprint == first.fingerprint and 0 < read < 6 << 20 < len(data) // 3
        assert all(np.array_equal(again[i]["x"], noise[i]) and again[i]["y"] == i for i in (19_999, 0, 7777))


def test_what_is_kept_of_deflated_arrays_serves_every_choice_of_fields(tmp_path: Path) -> None:
    arrays, kept = deflated(tmp_path / "a.npz"), tmp_path / "kept"
    choices = [["x"], ["z"], ["t", "x"], ["x", "z", "t"]]
    want = [leat.open(tmp_path / "a.npz", fields=c, index_dir=tmp_path / "-".join(c)).fingerprint for c in choices]
    assert [leat.open(tmp_path / "a.npz", fields=c, index_dir=kept).fingerprint for c in choices] == want
    before = blocks_decoded()
    again = [leat.open(tmp_path / "a.npz", fields=c, index_dir=kept) for c in choices]
    assert [ds.fingerprint for ds in again] == want and blocks_decoded() == before
    assert_has(again[-1], arrays)


def test_an_index_of_deflated_arrays_that_is_damaged_or_of_another_file_is_made_anew(tmp_path: Path) -> None:
    arrays, path = deflated(tmp_path / "a.npz"), tmp_path / "a.npz"
    index = tmp_path / "a.npz.leat-index"
    want = leat.open(path).fingerprint
    first = index.read_bytes()
    for at in (0, 120, 400, 448, 476, 560, 650, 700, 50_000, len(first) - 1):  # header, sums, members, points, windows
        index.write_bytes(changed(first, at, bytes([first[at] ^ 1])))
        ds = leat.open(path)
        assert ds.fingerprint == want and index.read_bytes() == first
    index.write_bytes(first[:-1])
    assert_has(leat.open(path), arrays)
    assert index.read_bytes() == first
    np.savez_compressed(tmp_path / "b.npz", **{name: array[::-1] for name, array in arrays.items()})
    leat.open(tmp_path / "b.npz")
    index.write_bytes((tmp_path / "b.npz.leat-index").read_bytes())
    assert leat.open(path).fingerprint == want and index.read_bytes() == first


def test_deflated_bytes_that_are_no_longer_those_of_the_index_are_an_error_once_by_it(tmp_path: Path) -> None:
    arrays, path = deflated(tmp_path / "a.npz"), tmp_path / "a.npz"
    index, cli = tmp_path / "a.npz.leat-index", os.environ["LEAT_CLI"]
    leat.open(path)
    good, when = path.read_bytes(), path.stat().st_mtime_ns
    middle = 3_000_000 + (100 << 10)  # of "x", where no piece is that tells whether the file is as it was
    write(path, changed(good, middle, b"\x77\x88"))
    os.utime(path, ns=(when, when))
    ds = leat.open(path)
    assert subprocess.run([cli, "verify", str(path)], capture_output=True, check=False).returncode != 0
    assert index.exists()
    read = {i: ds[i]["x"] for i in (0, 5999)}  # other blocks are as they were
    assert all(np.array_equal(values, arrays["x"][i]) for i, values in read.items())
    tmp_path.chmod(0o555)
    try:
        with pytest.raises(leat.ChangedError, match=r"a\.npz.*remove the index .*a\.npz\.leat-index, .* index_dir"):
            for i in range(0, 6000, 100):
                assert np.array_equal(ds[i]["x"], arrays["x"][i])
    finally:
        tmp_path.chmod(0o755)
    assert index.exists()
    with pytest.raises(leat.ChangedError, match=r"a\.npz.*open it again"):
        for i in range(0, 6000, 100):
            assert np.array_equal(ds[i]["x"], arrays["x"][i])
    assert not index.exists()
    with pytest.raises(leat.CorruptError, match=r"a\.npz"):
        leat.open(path)
    write(path, good)
    assert_has(leat.open(path), arrays)


def test_a_folder_that_may_not_be_written_is_opened_all_the_same(tmp_path: Path) -> None:
    folder = tmp_path / "theirs"
    folder.mkdir()
    path = write(folder / "a.npy", npy(np.arange(2 << 20)))
    folder.chmod(0o555)
    try:
        assert leat.open(path).fingerprint == leat.open(path).fingerprint and os.listdir(folder) == ["a.npy"]
    finally:
        folder.chmod(0o755)


def test_the_shell_shows_and_verifies_them(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "a.npz", x=ROWS, y=LABELS)
    write(tmp_path / "a.safetensors", tensors({"x": tensor("F32", [7, 3, 2], 0, 168)}, ROWS.tobytes()))
    write(tmp_path / "a.npy", npy(LABELS))

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [os.environ["LEAT_CLI"], *words], capture_output=True, text=True, check=False, cwd=tmp_path
        )

    for name in ("a.npz", "a.safetensors", "a.npy"):
        shown = run("info", name)
        assert shown.returncode == 0 and name.split(".")[1] in shown.stdout and "7" in shown.stdout
    assert run("verify", "a.npz").returncode == 0
    np.savez(tmp_path / "objects.npz", x=np.array([{}, []], object))
    assert ": whole; " in run("verify", "objects.npz").stdout  # of pickles, too
    np.savez(tmp_path / "photos.npz", x=np.zeros((3, 8, 8, 3), "u1"))
    seen = run("view", "photos.npz", "--out", "seen.png")
    assert seen.returncode == 0 and (tmp_path / "seen.png").exists(), seen.stderr


# ---- files that lie ------------------------------------------------------------------------------


def changed(data: bytes, at: int, to: bytes) -> bytes:
    return data[:at] + to + data[at + len(to) :]


PLAIN = npz({"x.npy": npy(ROWS), "y.npy": npy(LABELS)})
DEFLATED = npz({"x.npy": npy(ROWS), "y.npy": npy(LABELS)}, zipfile.ZIP_DEFLATED)
CENTRAL = PLAIN.index(b"PK\1\2")
SECOND = PLAIN.index(b"PK\1\2", CENTRAL + 4)
BOMB = npz({"x.npy": npy_of((1 << 40,), "|u1")}, zipfile.ZIP_DEFLATED)
NPY = npy(ROWS)
LIES_NPY = {
    "a file that is cut": NPY[:-1],
    "a header that is cut": NPY[:60],
    "bytes behind the values": NPY + b"\0",
    "a shape of 2^62": npy_of((1 << 62, 4), data=bytes(64)),
    "a shape that overflows": npy_of((1 << 33, 1 << 33), data=bytes(64)),
    "no samples of 2^62": npy_of((0, 1 << 62, 1 << 62), data=b""),
    "a negative shape": npy_of((-1, 4), data=bytes(64)),
    "rows without elements": npy_of((4, 0)),
    "a call in its header": npy_of("__import__('os').getpid()"),
    "a version of tomorrow": changed(NPY, 6, b"\7"),
    "a header of 4 GiB": b"\x93NUMPY\2\0\xff\xff\xff\xff" + bytes(64),
    "nesting": npy_of("(" * 1000 + ")" * 1000),
    "complex numbers": npy(np.zeros(3, "c8")),
    "texts": npy(np.array(["a", "b"])),
    "records": npy(np.zeros(3, [("a", "f4")])),
    "nine dimensions in a row": npy(np.zeros((1,) * 10)),
}
LIES_NPZ = {
    "an archive that is cut": PLAIN[:-1],
    "half an archive": PLAIN[: len(PLAIN) // 2],
    "another byte in a value": changed(PLAIN, 200, bytes([PLAIN[200] ^ 1])),
    "another byte in a deflated value": changed(DEFLATED, 160, bytes([DEFLATED[160] ^ 1])),
    "members that overlap": changed(PLAIN, SECOND + 42, PLAIN[CENTRAL + 42 : CENTRAL + 46]),
    "a member that begins in another": changed(PLAIN, SECOND + 42, struct.pack("<I", 100)),
    "a member beyond the file": changed(PLAIN, SECOND + 42, struct.pack("<I", 1 << 30)),
    "a size beyond the file": changed(PLAIN, CENTRAL + 20, struct.pack("<II", 1 << 30, 1 << 30)),
    "a size that is not that of the bytes": changed(PLAIN, CENTRAL + 24, struct.pack("<I", 17)),
    "a deflated size of a bomb": changed(DEFLATED, DEFLATED.index(b"PK\1\2") + 24, struct.pack("<I", 0xFFFFFF00)),
    "a deflated size that is too small": changed(DEFLATED, DEFLATED.index(b"PK\1\2") + 24, struct.pack("<I", 17)),
    "a member of another name here": changed(PLAIN, 30, b"z"),
    "a name twice": changed(changed(PLAIN, SECOND + 46, b"x"), PLAIN.index(b"PK\3\4", 4) + 30, b"x"),
    "encryption": changed(PLAIN, CENTRAL + 8, b"\1"),
    "a method of tomorrow": changed(PLAIN, CENTRAL + 10, b"\x5d"),
    "more entries than there are": changed(PLAIN, len(PLAIN) - 14, struct.pack("<HH", 9, 9)),
    "fewer entries than there are": changed(PLAIN, len(PLAIN) - 14, struct.pack("<HH", 1, 1)),
    "a directory that is elsewhere": changed(PLAIN, len(PLAIN) - 6, struct.pack("<I", 7)),
    "a zip64 end that is none": changed(PLAIN, len(PLAIN) - 6, b"\xff\xff\xff\xff"),
    "one of several archives": changed(PLAIN, len(PLAIN) - 18, b"\1"),
    "a shape of 2^40 in a few bytes": BOMB,
    "an archive in an archive": npz({"x.npz": PLAIN}),
    "no member": npz({}),
    "one of bzip2": npz({"x.npy": npy(ROWS)}, zipfile.ZIP_BZIP2),
}
GOOD = {"x": tensor("F32", [7, 3, 2], 0, 168)}
LIES_SAFETENSORS = {
    "a file that is cut": tensors(GOOD, ROWS.tobytes()[:-1]),
    "bytes behind the tensors": tensors(GOOD, ROWS.tobytes() + b"\0"),
    "a header beyond the file": struct.pack("<Q", 99_000_000) + b'{"x":',
    "a header of 2^63": struct.pack("<Q", 1 << 63) + b'{"x":',
    "a tensor beyond the file": tensors({"x": tensor("F32", [1 << 40], 0, 1 << 42)}, bytes(64)),
    "a shape that overflows": tensors({"x": tensor("F32", [1 << 62, 4], 0, 64)}, bytes(64)),
    "offsets that go back": tensors({"x": tensor("F32", [2], 8, 0)}, bytes(8)),
    "a negative offset": tensors({"x": tensor("F32", [2], -8, 0)}, bytes(8)),
    "a fraction": tensors(b'{"x": {"dtype": "F32", "shape": [2.5], "data_offsets": [0, 10]}}', bytes(10)),
    "tensors that overlap": tensors(GOOD | {"y": tensor("U8", [7], 161, 168)}, ROWS.tobytes()),
    "a hole": tensors(GOOD | {"y": tensor("U8", [7], 169, 176)}, ROWS.tobytes() + bytes(8)),
    "a name twice": tensors(b'{"x": %s, "x": %s}' % (json.dumps(tensor("U8", [2], 0, 2)).encode(),
                            json.dumps(tensor("U8", [2], 2, 4)).encode()), bytes(4)),
    "a key twice": tensors(b'{"x": {"dtype": "U8", "dtype": "U8", "shape": [2], "data_offsets": [0, 2]}}', bytes(2)),
    "a size that is not that of the shape": tensors({"x": tensor("F32", [7, 3], 0, 168)}, ROWS.tobytes()),
    "nesting": tensors(b'{"x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    "no JSON": tensors(b"{x: 1}"),
    "text behind the JSON": tensors(json.dumps(GOOD).encode() + b" x", ROWS.tobytes()),
    "a list": tensors(b'{"x": []}'),
    "metadata that is none": tensors({"__metadata__": {"a": 1}} | GOOD, ROWS.tobytes()),
    "no tensor": tensors({}),
    "a type of tomorrow": tensors({"x": tensor("F4", [7, 2], 0, 7)}, bytes(7)),
}  # fmt: skip
LIES = [(e, w, d) for e, all_ in ((".npy", LIES_NPY), (".npz", LIES_NPZ), (".safetensors", LIES_SAFETENSORS))
        for w, d in all_.items()]  # fmt: skip


@pytest.mark.parametrize(("end", "what", "data"), LIES, ids=[f"{e[1:]}: {w}" for e, w, _ in LIES])
def test_a_file_that_lies_is_an_error_of_its_file(end: str, what: str, data: bytes, tmp_path: Path) -> None:
    with pytest.raises(leat.Error, match=rf"lies\{end}"):
        leat.open(write(tmp_path / f"lies{end}", data), format=end[1:])


@pytest.mark.filterwarnings("ignore:left out")
@pytest.mark.parametrize("end", ["npz", "deflated.npz", "safetensors", "npy"])
def test_no_byte_that_is_changed_gives_another_value_where_there_are_checks(end: str, tmp_path: Path) -> None:
    good = {"npz": PLAIN, "deflated.npz": DEFLATED, "npy": NPY, "safetensors": tensors(GOOD, ROWS.tobytes())}[end]
    path = tmp_path / f"a.{end}"
    want = leat.open(write(path, good))
    names, values = list(want.schema), [want[i] for i in range(7)]
    for at in range(0, len(good), 1 if len(good) < 1000 else 3):
        try:
            ds = leat.open(write(path, changed(good, at, bytes([good[at] ^ 0x11]))), format=end.split(".")[-1])
        except (leat.Error, ValueError) as e:
            assert "a." in str(e)  # noqa: PT017
            continue
        if "npz" in end and list(ds.schema) == names:
            assert all(np.array_equal(ds[i][n], values[i][n]) for i in range(7) for n in names), at


def test_a_bomb_ends_in_bounded_memory(tmp_path: Path) -> None:
    squeeze = zlib.compressobj(9, zlib.DEFLATED, -15)
    head = npy_of((1, 1 << 30), "|u1")
    body = squeeze.compress(head)
    for _ in range(64):
        body += squeeze.compress(bytes(1 << 24))
    body += squeeze.flush()
    crc = zlib.crc32(head)
    for _ in range(64):
        crc = zlib.crc32(bytes(1 << 24), crc)
    size = len(head) + (1 << 30)
    fields = struct.pack("<HHHHIIIHH", 0, 8, 0, 0, crc, len(body), size, 5, 0)
    local = b"PK\3\4" + b"\x14\0" + fields + b"x.npy" + body
    entry = b"PK\1\2" + b"\x14\0\x14\0" + fields + struct.pack("<HHHII", 0, 0, 0, 0, 0) + b"x.npy"
    end = b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, 1, 1, len(entry), len(local), 0)
    code = (
        "import resource, sys, leat\n"
        "resource.setrlimit(resource.RLIMIT_DATA, (900 << 20, 900 << 20))\n"
        "try:\n    leat.open(sys.argv[1])\nexcept leat.Error as e:\n    print(e)\n"
    )
    path = write(tmp_path / "bomb.npz", local + entry + end)
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False)
    assert "256 MiB" in done.stdout, done.stderr
