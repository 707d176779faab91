"""Plain arrays of HDF5 and Zarr as fields, against what they hold."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leat

pytest.importorskip("h5py")
pytest.importorskip("zarr")
from cells_support import expected, names, path

REFUSED = {  # (file, array): what is said
    ("arrays-v2.zarr", "column_order"): "in Fortran's order",
    ("arrays-v3.zarr", "column_order"): "stored with transpose",
    ("arrays-v2.zarr", "big_endian"): "stored with lz4",
    ("arrays-v2.zarr", "zlib_delta"): "stored with delta",
    ("plain-newer.h5", "compact"): "compact layout",
}
CASES = [
    (name, part) for name in names() if name.startswith(("array", "plain")) for part, values in expected(name).items()
]


def format_of(name: str) -> str:
    return "zarr" if ".zarr" in name else "hdf5"


@pytest.mark.parametrize(("name", "part"), CASES)
def test_every_value_of_an_array(name: str, part: str) -> None:
    wanted = expected(name)[part]
    field = part.replace("/", "_") or "data"
    if wanted.ndim == 0:
        with pytest.raises(leat.InvalidError, match=f'has no field "{field}", which fields names'):
            leat.open(path(name), format=format_of(name), fields=[field])
        return
    if (name, part) in REFUSED:
        with pytest.raises(leat.UnsupportedError, match=REFUSED[name, part]):
            leat.open(path(name), format=format_of(name), fields=[field])
        return
    ds = leat.open(path(name), format=format_of(name), fields=[field])
    assert len(ds) == len(wanted)
    found: list[Any] = [ds[i][field] for i in range(len(ds))]
    if wanted.dtype.kind in "US":
        assert found == wanted.tolist()
    elif len(wanted):
        np.testing.assert_array_equal(np.array(found).reshape(wanted.shape), wanted)
    if len(wanted) > 1 and wanted.dtype.kind not in "US":
        with leat.Loader(ds, 3, shuffle=True, num_threads=2, framework="numpy") as loader:
            for batch in loader:
                np.testing.assert_array_equal(batch[field], wanted[batch.ids])


def test_arrays_of_several_lengths_are_named() -> None:
    with pytest.raises(leat.InvalidError, match=r"several lengths .*fields= names those"):
        leat.open(path("plain.h5"), format="hdf5")


def test_what_is_neither_numbers_nor_a_list_of_texts_is_refused_by_name(tmp_path: Path) -> None:
    import h5py

    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["fixed"] = np.array([[b"ab", b""], [b"c", b"d"]])
        file.create_dataset("free", data=[["a", "b"], ["c", "d"]], dtype=h5py.string_dtype())
        file.create_dataset("reference", (2,), dtype=h5py.ref_dtype)
        file["latin"] = np.array([b"caf\xe9", b"b"])
        file["empty"] = np.zeros((2, 0), np.float32)
        file["good"] = np.array([b"caf\xc3\xa9", b""])
    said = {"fixed": "arrays of shape (2,)", "free": "arrays of shape (2,)", "reference": "Reference"}
    for field, kind in said.items():
        with pytest.raises(leat.UnsupportedError, match=re.escape(f"a.h5, {field} holds {kind} where texts should be")):
            leat.open(tmp_path / "a.h5", fields=[field])
    with pytest.raises(leat.CorruptError, match="a.h5, latin has the text .*xe9'.*, which is not UTF-8"):
        leat.open(tmp_path / "a.h5", fields=["latin"])
    with pytest.raises(leat.InvalidError, match="a.h5, empty: a dimension is 1 or above .*fields= leaves it out"):
        leat.open(tmp_path / "a.h5", fields=["empty", "good"])
    assert [s["good"] for s in leat.open(tmp_path / "a.h5", fields=["good"])] == ["café", ""]


@pytest.mark.parametrize("order", "<>")
def test_filters_that_a_chunk_of_hdf5_lacks_are_left_out_in_either_order_of_bytes(order: str, tmp_path: Path) -> None:
    import h5py

    noise = np.random.default_rng(0).normal(size=100).astype(order + "f8")  # which LZF does not make shorter
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("noise", data=noise, chunks=(10,), compression="lzf")
        x = file.create_dataset("x", (100,), order + "i4", chunks=(10,), shuffle=True, compression="gzip", fillvalue=7)
        x[20:] = np.arange(20, 100)
        for mask, at in ((0x80000003, 20), (2, 30)):  # bits of filters that are not there say nothing
            values = np.arange(at, at + 10, dtype=x.dtype)
            split = values.view(np.uint8).reshape(-1, 4).T if mask == 2 else values
            x.id.write_direct_chunk((at,), split.tobytes(), filter_mask=mask)
        assert [x.id.get_chunk_info(i).filter_mask for i in range(3)] == [0x80000003, 2, 0]
        assert file["noise"].id.get_chunk_info(0).filter_mask == 1
        wanted = x[...]
    ds = leat.open(tmp_path / "a.h5")
    np.testing.assert_array_equal(ds.column("noise"), noise)
    np.testing.assert_array_equal(ds.column("x"), wanted)


def test_groups_of_hdf5_within_themselves_are_passed_over(tmp_path: Path) -> None:
    import h5py

    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = file["g/y"] = np.arange(3)
        file["g/self"], file["g/up"] = file["g"], h5py.SoftLink("/")
        file["also"] = h5py.SoftLink("/g")
    assert list(leat.open(tmp_path / "a.h5").schema) == ["also_y", "g_y", "x"]
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file["x"] = np.arange(3)
        for i in range(40):
            file.create_group(f"{i}")
        for i in range(39):  # by 2^39 names
            file[f"{i}/a"] = file[f"{i}/b"] = file[f"{i + 1}"]
    with pytest.raises(leat.CorruptError, match="b.h5 has more names of arrays and groups, by links, than its bytes"):
        leat.open(tmp_path / "b.h5")


def test_links_of_hdf5_to_other_files_are_refused(tmp_path: Path) -> None:
    import h5py

    with h5py.File(tmp_path / "there.h5", "w") as file:
        for i in range(300):
            file[f"g/{i}"] = np.arange(100, 103)
    for link in ("/g", "/g/7"):
        with h5py.File(tmp_path / "here.h5", "w") as file:
            file["own"] = np.arange(3)
            file["x"] = h5py.ExternalLink("there.h5", link)
        with pytest.raises(leat.UnsupportedError, match=r"here\.h5, .* lies in another file \(external link\)"):
            leat.open(tmp_path / "here.h5")
        assert leat.open(tmp_path / "here.h5", fields=["own"])[1]["own"] == 1


@pytest.mark.parametrize("kind", ["h5", "zarr"])
def test_a_layout_makes_images_of_arrays(kind: str, tmp_path: Path) -> None:
    import h5py
    import zarr

    pixels = np.random.default_rng(0).integers(0, 256, (6, 8, 9, 3), dtype=np.uint8)
    if kind == "h5":
        with h5py.File(tmp_path / "a.h5", "w") as file:
            file["x"] = pixels
    else:
        zarr.open_group(str(tmp_path / "a.zarr"), mode="w").create_array("x", data=pixels, chunks=(4, 8, 5, 3))
    image = leat.field("uint8", (8, 9, 3), layout="HWC")
    ds = leat.open(tmp_path / f"a.{kind}", fields={"x": image})
    assert ds.schema["x"] == image == pickle.loads(pickle.dumps(ds)).schema["x"]
    assert ds.fingerprint != leat.open(tmp_path / f"a.{kind}").fingerprint
    chain = [leat.ops.CenterCrop((6, 7)), leat.ops.ToDtype("float32")]
    batch = next(iter(leat.Loader(ds, 6, outputs={"x": chain}, framework="numpy")))
    np.testing.assert_array_equal(batch["x"], (pixels[:, 1:7, 1:8].transpose(0, 3, 1, 2) / 255).astype(np.float32))
    with pytest.raises(leat.InvalidError, match="fields says of 'x'"):
        leat.open(tmp_path / f"a.{kind}", fields={"x": leat.field("uint8", (3, 8, 9), layout="CHW")})


@pytest.mark.parametrize("kind", ["h5", "zarr"])
def test_arrays_whose_names_are_numbers_have_names_of_fields(kind: str, tmp_path: Path) -> None:
    """As the levels of an OME-Zarr."""
    import h5py
    import zarr

    root = h5py.File(tmp_path / "a.h5", "w") if kind == "h5" else zarr.open_group(str(tmp_path / "a.zarr"), mode="w")
    for name, values in (("0", np.arange(6)), ("1", np.arange(3)), ("in/-2", np.arange(6))):
        if kind == "h5":
            root[name] = values
        else:
            root.create_array(name, data=values, chunks=(2,))
    if kind == "h5":
        root.close()
    path = tmp_path / f"a.{kind}"
    assert [int(s["_0"]) for s in leat.open(path, fields=["_0", "in_-2"])] == list(range(6))
    with pytest.raises(leat.InvalidError, match=r'has no field "0", which fields names: .*\(_0 6, _1 3, in_-2 6\)'):
        leat.open(path, fields=["0"])


def test_a_zarr_that_says_it_has_far_more_chunks_than_files_is_an_error(tmp_path: Path) -> None:
    import json

    import zarr

    zarr.open_group(str(tmp_path / "a.zarr"), mode="w").create_array("x", data=np.arange(6), chunks=(2,))
    meta = tmp_path / "a.zarr" / "x" / "zarr.json"
    said = json.loads(meta.read_text())
    meta.write_text(json.dumps({**said, "shape": [1 << 40]}))
    with pytest.raises(
        leat.CorruptError, match="a.zarr, x says that it has 549755813888 chunks, and 4 files are there"
    ):
        leat.open(tmp_path / "a.zarr")
    meta.write_text(json.dumps({**said, "shape": [1 << 14]}))  # chunks without files are the fill value
    ds = leat.open(tmp_path / "a.zarr")
    assert len(ds) == 1 << 14 and ds[5]["x"] == 5 and ds[1000]["x"] == 0
