"""Plain arrays of HDF5 and Zarr as fields, against what they hold."""

from __future__ import annotations

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
