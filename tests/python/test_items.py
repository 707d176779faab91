"""Folders of items, beside values that MosaicML Streaming's and LitData's writers wrote, and beside their packs."""

from __future__ import annotations

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
from test_files_of_others import PEERS, described, same

import leat

SETS: list[dict[str, Any]] = (
    [s for s in json.loads((PEERS / "manifest.json").read_text())["sets"] if s["name"].startswith(("mds", "litdata"))]
    if (PEERS / "manifest.json").exists() and os.environ.get("LEAT_DATA")
    else []
)
of_a_writer = pytest.mark.parametrize(
    "which", SETS or [pytest.param({}, marks=pytest.mark.skip(reason="LEAT_DATA names no folder"))],
    ids=lambda s: s.get("name", "none"),
)  # fmt: skip


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))


def opened(which: dict[str, Any], tmp_path: Path, **more: Any) -> leat.Dataset:
    options = dict(which.get("open", {}))
    if "fields" in options or "refused" in which:
        options["fields"] = dict.fromkeys(which["fields"]) | options.get("fields", {})
    return leat.open(PEERS / which["path"], index_dir=tmp_path / "index", **options, **more)


@of_a_writer
def test_shards_of_the_writer_have_their_values(which: dict[str, Any], tmp_path: Path) -> None:
    ds = opened(which, tmp_path)
    want = json.loads((PEERS / "expect" / f"{which['name']}.json").read_text())
    assert len(ds) == which["n"] == len(want)
    assert {n: described(f) for n, f in ds.schema.items()} == {n: k.split(" L")[0] for n, k in which["fields"].items()}
    for i, sample in enumerate(want):
        for name, value in sample.items():
            got = ds[i][name]
            if ds.schema[name].kind == "image" and "array" in value:
                got = np.asarray(Image.open(io.BytesIO(got)))
            assert same(got, value), (i, name)
    again = opened(which, tmp_path)
    assert again.fingerprint == ds.fingerprint == pickle.loads(pickle.dumps(ds)).fingerprint


@of_a_writer
def test_shards_equal_their_pack(which: dict[str, Any], tmp_path: Path) -> None:
    ds = opened(which, tmp_path)
    folder = shutil.copytree(PEERS / which["path"], tmp_path / "copy")
    chosen = [
        part for f in ds.schema if "refused" in which or "fields" in which.get("open", {}) for part in ("--field", f)
    ]
    chosen += ["--block", "16"] if "block" in which.get("open", {}) else []
    packed = pack(folder, tmp_path / "packed.leat", chosen)
    assert packed.fingerprint == ds.fingerprint
    outputs: dict[str, Any] = {}
    for f, field in ds.schema.items():
        for i in range(len(ds)):
            assert np.array_equal(ds[i][f], packed[i][f]) if field.kind == "array" else ds[i][f] == packed[i][f]
        if field.kind in ("array", "image"):
            outputs[f] = [leat.ops.Decode(), leat.ops.RandomResizedCrop(16)] if field.kind == "image" else []
    rows = [
        [
            (batch.ids.tolist(), {f: part(batch[f]) for f in outputs})
            for batch in leat.Loader(
                one, 4, shuffle=True, seed=3, num_threads=threads, outputs=outputs, framework="numpy", epochs=1
            )
        ]
        for one, threads in ((ds, 1), (ds, 3), (packed, 2))
    ]
    assert rows[0] == rows[1] == rows[2]
    loader = leat.Loader(ds, 4, shuffle=True, seed=3, outputs=outputs, framework="numpy", epochs=1)
    first = next(iter(loader))
    rest = leat.Loader(ds, 4, shuffle=True, seed=3, outputs=outputs, framework="numpy", epochs=1)
    rest.load_state_dict(loader.state_dict())
    ids = [first.ids.tolist()] + [b.ids.tolist() for b in rest]
    assert ids == [r[0] for r in rows[0]]
    ranks = [
        i for rank in range(2) for batch in leat.Loader(ds, 2, shuffle=True, seed=3, outputs=outputs, rank=rank,
        framework="numpy", epochs=1, world_size=2, tail="uneven") for i in batch.ids.tolist()
    ]  # fmt: skip
    assert sorted(ranks) == list(range(len(ds)))


def part(value: Any) -> Any:
    values = value.values if hasattr(value, "values") else value
    return np.asarray(values).tobytes()


def pack(folder: Path, to: Path, options: list[str]) -> leat.Dataset:
    command = [os.environ["LEAT_CLI"], "pack", str(folder), str(to), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=to.parent)
    assert done.returncode == 0, done.stderr
    return leat.open(to)
