"""Data sets that other systems' own writers wrote, of every format: their values, and what loaders make of them beside
leat's own file of the same samples. What is of one format only is in its own tests."""

from __future__ import annotations

import fcntl
import gzip
import hashlib
import io
import json
import os
import pickle
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import leat

DATA = os.environ.get("LEAT_DATA")
PEERS = Path(DATA or "", "formats-peers")
#: of the names of sets, up to the first "-"
FORMATS = (
    *("webdataset", "tar", "mds", "litdata", "beton", "tfrecord", "npy", "npz", "safetensors"),
    *("hdf5", "zarr", "hf", "parquet", "lance", "array_record"),
)
NEEDED = {"hdf5": "h5py", "hf": "pyarrow", "parquet": "pyarrow"} | {n: n for n in ("zarr", "lance", "array_record")}
Set = dict[str, Any]


def sets() -> list[Set]:
    if not DATA or not (PEERS / "manifest.json").exists():
        return []
    found = json.loads((PEERS / "manifest.json").read_text())["sets"]
    return [s for s in found if s["name"].split("-")[0] in FORMATS]


def of_sets(wanted: Any) -> Any:
    none = pytest.param({}, marks=pytest.mark.skip(reason="LEAT_DATA names no folder"))
    chosen = [s for s in sets() if wanted(s)]
    return pytest.mark.parametrize("which", chosen or [none], ids=lambda s: s.get("name", "none"))


def field_of(text: str | None) -> Any:
    """The type of the manifest: "image", "int64", "float32 (3,)"."""
    kind, _, shape = (text or "").partition(" ")
    if not shape:
        return text
    return leat.field(kind, tuple(None if n == "None" else int(n) for n in shape.strip("(,)").split(", ")))


def described(field: Any) -> str:
    return field.kind if field.kind != "array" else field.dtype + (f" {field.shape}" if field.shape else "")


def options_of(which: Set) -> dict[str, Any]:
    options = dict(which.get("open", {}))
    if "refused" in which:
        options["fields"] = [f for f in which["fields"] if f != "name"]
    elif isinstance(options.get("fields"), dict):
        all_names = dict.fromkeys(which["fields"])
        options["fields"] = all_names | {name: field_of(text) for name, text in options["fields"].items()}
    return options


def format_of(which: Set) -> str:
    found: str = which["name"].split("-")[0]
    return found


def placed(which: Set, tmp: Path) -> Path:
    """A copy of its own in a folder that may be written, unpacked; returns what is opened."""
    if format_of(which) in NEEDED:
        pytest.importorskip(NEEDED[format_of(which)])
    part = Path(which["path"]).parts[0]
    root = tmp / "placed"
    if not (root / part).exists():
        shutil.copytree(PEERS / part, root / part)
        for f in [root / part, *(root / part).rglob("*")]:
            f.chmod(0o755 if f.is_dir() else 0o644)
        if which.get("unpack") == "gzip":
            for packed in (root / part).rglob("*.gz"):
                packed.with_suffix("").write_bytes(gzip.decompress(packed.read_bytes()))
    return root / which["path"]


def same(got: Any, want: Any) -> bool:
    """Whether a value is the one that the file of expectations has."""
    if not isinstance(want, dict):
        return bool(got == want)
    if "bytes" in want:
        return [len(got), hashlib.sha256(got).hexdigest()[:16]] == want["bytes"]
    if "json" in want:
        return bool(got == want["json"])
    dtype, shape, digest = want["array"]
    data = np.asarray(Image.open(io.BytesIO(got))) if isinstance(got, bytes) else np.ascontiguousarray(got)
    return [str(data.dtype), list(data.shape), hashlib.sha256(data.tobytes()).hexdigest()[:16]] == [
        dtype,
        shape,
        digest,
    ]


def expected(which: Set) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((PEERS / "expect" / f"{which['name']}.json").read_text())
    return found


@of_sets(lambda s: s["fields"])
def test_a_set_has_the_values_that_were_written(which: Set, tmp_path: Path) -> None:
    ds = leat.open(placed(which, tmp_path), **options_of(which))
    want = expected(which)
    assert len(ds) == which["n"] == len(want)
    assert {n: described(f) for n, f in ds.schema.items() if not n.endswith(".valid")} == {
        n: kind.removesuffix(" L") for n, kind in which["fields"].items()
    }
    if "classes" in which:
        assert ds.classes == which["classes"]
    for i, sample in enumerate(want):
        for name in which["fields"]:
            if name in sample:
                assert same(ds[i][name], sample[name]), (i, name)
            else:
                assert i in which["missing"][name]
                assert not ds[i][f"{name}.valid"]
    again = leat.open(placed(which, tmp_path), **options_of(which))
    assert again.fingerprint == ds.fingerprint == pickle.loads(pickle.dumps(ds)).fingerprint


@of_sets(lambda s: s["fields"])
def test_fields_choose_in_their_order_and_may_be_said_to_be_what_they_are(which: Set, tmp_path: Path) -> None:
    source, options = placed(which, tmp_path), options_of(which)
    whole = leat.open(source, **options)
    said = options.pop("fields", None)
    names = [name for name, field in whole.schema.items() if not field.derived][::-1]
    if isinstance(said, dict):
        said = {name: said[name] for name in names}
    else:
        said = names
    ds = leat.open(source, fields=said, **options)
    assert [name for name, field in ds.schema.items() if not field.derived] == names
    for i, sample in enumerate(expected(which)):
        for name in set(names) & set(sample):
            assert same(ds[i][name], sample[name]), (i, name)


@of_sets(lambda s: s.get("refused"))
def test_pickles_are_refused_by_name(which: Set, tmp_path: Path) -> None:
    with pytest.raises(leat.Error) as raised:
        leat.open(placed(which, tmp_path))
    assert which["refused"][0] in str(raised.value)
    assert ("fields=" in str(raised.value)) == (not which["path"].endswith(".npy"))  # which has no other array
    assert "pickle" in str(raised.value)


def outputs_of(ds: leat.Dataset) -> dict[str, Any]:
    photo = [leat.ops.Decode(), leat.ops.RandomResizedCrop(16)]
    return {n: photo if f.kind == "image" else [] for n, f in ds.schema.items() if f.kind != "json" and not f.derived}


def plain(value: Any) -> Any:
    value = value.values if isinstance(value, leat.Ragged) else value
    if isinstance(value, np.ndarray):
        return value.tobytes()
    return [np.asarray(v).tobytes() if isinstance(v, np.ndarray) else v for v in value]


def rows_of(batches: Any) -> list[Any]:
    return [(batch.ids.tolist(), {name: plain(batch[name]) for name in batch}) for batch in batches]


def loader(ds: leat.Dataset, batch_size: int = 4, **options: Any) -> leat.Loader:
    options = {"shuffle": True, "seed": 3, "framework": "numpy", "epochs": 1} | options
    return leat.Loader(ds, batch_size, **options)


@of_sets(lambda s: s["fields"])
def test_a_set_is_loaded_as_its_conversion_is_for_threads_ranks_and_any_cut(which: Set, tmp_path: Path) -> None:
    source = placed(which, tmp_path)
    ds = leat.open(source, **options_of(which))
    own = leat.open(converted(which, source, tmp_path / "converted.leat"))
    assert own.fingerprint == ds.fingerprint
    outputs = {n: chain for n, chain in outputs_of(ds).items() if n not in which.get("missing", {})}
    want = rows_of(loader(own, outputs=outputs))
    for one, threads in ((ds, 1), (ds, 3), (leat.open(source, **options_of(which)), 2)):
        assert rows_of(loader(one, num_threads=threads, outputs=outputs)) == want
    for before, after in ((ds, ds), (ds, own), (own, ds)):
        for cut in range(len(want)):
            first = loader(before, outputs=outputs)
            batches = iter(first)
            head = rows_of(next(batches) for _ in range(cut))
            rest = loader(after, outputs=outputs)
            rest.load_state_dict(json.loads(json.dumps(first.state_dict())))
            assert head + rows_of(rest) == want
    for rank in range(2):
        ranks = [rows_of(loader(one, 2, rank=rank, world_size=2, tail="uneven", outputs=outputs)) for one in (ds, own)]
        assert ranks[0] == ranks[1]


def converted(which: Set, source: Path, to: Path) -> Path:
    """Its conversion to leat's own file by the shell."""
    command = [os.environ["LEAT_CLI"], "convert", str(source), str(to), *(x for o in said(which) for x in o)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "HOME": str(to.parent)}
    )
    assert done.returncode == 0, done.stderr
    return to


def said(which: Set) -> list[list[str]]:
    """The options of opening as options of the shell."""
    options = options_of(which)
    fields = options.get("fields", [])
    found = [["--block", str(options["block"])]] if "block" in options else []
    for name in fields:
        kind = fields[name] if isinstance(fields, dict) else None
        if isinstance(kind, leat.Field):
            kind = kind.dtype + ":" + ",".join("*" if n is None else str(n) for n in kind.shape)
        found.append(["--field", name if kind is None else f"{name}={kind}"])
    return found


@pytest.mark.parametrize(
    "end", ["tar", "npz", "safetensors", "jsonl", "leat", "fa", "parquet", "h5ad", "zarr", "arrow"]
)
def test_a_pointer_of_git_lfs_is_named(end: str, tmp_path: Path) -> None:
    (tmp_path / f"a.{end}").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n")
    with pytest.raises(leat.FormatError, match=rf"a\.{end} is a pointer of Git LFS.*git lfs pull"):
        leat.open(tmp_path / f"a.{end}")


@pytest.mark.parametrize("end", ["h5", "h5ad", "zarr", "parquet", "arrow", "lance", "array_record", "npz", "tar"])
def test_a_file_that_is_not_there_is_the_same_error_of_each_format(end: str, tmp_path: Path) -> None:
    with pytest.raises(leat.MissingFileError, match=rf"cannot open .*/none\.{end}: No such file"):
        leat.open(tmp_path / f"none.{end}")


def test_a_file_of_hdf5_that_is_locked_is_not_said_to_be_damaged(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = np.arange(3)
    with (tmp_path / "a.h5").open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(leat.BusyError, match=r"a\.h5 is locked, as by a process that writes.*FILE_LOCKING=FALSE"):
            leat.open(tmp_path / "a.h5")
    assert len(leat.open(tmp_path / "a.h5")) == 3
