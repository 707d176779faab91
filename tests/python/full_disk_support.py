"""What leat writes, on a disk that gets full: `full_disk_support.py FOLDER`, in which a small file system is mounted.

Each writer is run while so many bytes are free, from none to more than it needs. A line of JSON says how that ended,
and what of the folder is still open or mapped then, while the error is kept.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import leat

BLOCK = 4096
Make = Callable[[Path], Any]


def free(folder: Path) -> int:
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


def fill(folder: Path, leave: int) -> None:
    """Writes a file until no more than `leave` bytes are free."""
    with open(folder / "filler", "wb", buffering=0) as out:
        while free(folder) > leave:
            out.write(bytes(min(free(folder) - leave, 1 << 20)) or b"\0")


def clear(folder: Path) -> None:
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def kept(folder: Path) -> list[str]:
    """Files of the folder that this process has open or mapped."""
    found = []
    for number in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{number}"))
        except OSError:
            continue
    with open("/proc/self/maps") as maps:
        found += [line.split()[-1] for line in maps if "/" in line]
    return sorted({name for name in found if name.startswith(str(folder))})


# ---- what is written -------------------------------------------------------------------------------------------------

NOISE = np.random.default_rng(0).random((600, 500)).astype(np.float32)
ROWS = leat.from_arrays(x=np.arange(50_000))
MARKED = leat.from_arrays(x=np.arange(100_000))
TOKENS = leat.from_arrays(tokens=np.random.default_rng(1).integers(0, 9999, (500, 1000)).astype(np.uint16))


def writer(folder: Path) -> None:
    with leat.Writer(folder / "a.leat", {"x": leat.field("float32", (500,))}) as w:
        for row in NOISE:
            w.add(x=row)


def shards(folder: Path) -> None:
    with leat.Writer(folder / "s.leat", {"x": leat.field("float32", (500,))}, shard_bytes=1 << 18) as w:
        for row in NOISE:
            w.add(x=row)


def store(folder: Path) -> None:
    with leat.Store(folder / "a.store", {"x": leat.field("float32", (500,))}, key="id") as s:
        for at in range(0, 600, 100):
            s[np.arange(at, at + 100)] = NOISE[at : at + 100]


def store_of_lists(folder: Path) -> None:
    s = leat.Store(folder / "b.store", {"x": leat.field("float32", (None,))}, key=("id", "key"))
    try:
        for at in range(300):
            s[[at], [1]] = [NOISE[at]]
        s.flush()
    finally:
        s.close()


def copy_of_store(folder: Path) -> None:
    """The store is elsewhere; of a copy that does not fit nothing is left."""
    with leat.Store(Path(sys.argv[2]).with_name("from.store"), {"x": leat.field("float32", (500,))}) as s:
        s[np.arange(200)] = NOISE[:200]
        try:
            s.copy(folder / "copy.store")
        except OSError:
            assert [path.name for path in folder.iterdir()] == ["filler"], "a part of the copy is there"
            raise
        assert leat.Store(folder / "copy.store", framework="numpy")[[199]][0].tolist() == NOISE[199].tolist()


def trace(folder: Path) -> None:
    with leat.Loader(ROWS, 50) as loader, loader.trace(folder / "trace.json"):
        for _ in loader:
            pass


def megatron(folder: Path) -> None:
    leat.write_megatron(TOKENS, folder / "corpus")


def scdl(folder: Path) -> None:
    columns = np.tile(np.arange(20, dtype=np.int32), 3000)
    rows = leat.Sparse(np.ones(len(columns), "f4"), columns, np.arange(3001) * 20, 20)
    leat.write_scdl(leat.from_arrays(X=rows), folder / "cells.scdl")


def positions(folder: Path) -> None:
    with leat.Loader(ROWS, 10, shuffle=True, log_dir=folder / "run") as loader:
        loader.select(np.random.default_rng(2).permutation(50_000))
        next(iter(loader))


def reports(folder: Path) -> None:
    with leat.Loader(
        MARKED, 100_000, feedback=leat.TopFraction(0.5), log_dir=folder / "run", framework="numpy"
    ) as loader:
        batch = next(iter(loader))
        loader.report(batch, loss=np.random.default_rng(3).random(batch.size))
        loader.state_dict()


def decisions(folder: Path) -> None:
    """Where there is room again, the log in the folder is whole again."""
    mix, failed = leat.Mix({"a": (ROWS, 1), "b": (ROWS, 1)}, normalize=True), None
    with leat.Loader(mix, 10, log_dir=folder / "run") as loader:
        batches = iter(loader)
        for k in range(80):
            try:
                next(batches)
                loader.set_mixture({"a": 1 / (2 + k), "b": 1 - 1 / (2 + k)})
            except OSError as e:
                failed = failed or e
                (folder / "filler").unlink()
        log = loader.log
    written = [json.loads(line) for line in (folder / "run/decisions.jsonl").read_text().splitlines()]
    assert written == log, "the log in the folder is another one"
    if failed is not None:
        raise failed


def copy_of_text(folder: Path) -> None:
    """A gzip file cannot be read from its middle: a copy is made beside its index."""
    assert len(leat.open(Path(sys.argv[2]), index_dir=folder / "index")) == 20_000


def copy_without_index(folder: Path) -> None:
    """Where the index has no place, the copy is in TMPDIR, without a name."""
    assert len(leat.open(Path(sys.argv[2]), index_dir="/proc/leat")) == 20_000


def page(folder: Path) -> None:
    from leat.text.view import main

    main({"path": str(Path(sys.argv[2]).with_name("tokens.leat")), "out": str(folder / "rows.html")})


CASES: dict[str, Make] = {f.__name__: f for f in (writer, shards, store, store_of_lists, copy_of_store)} | {
    f.__name__: f
    for f in (trace, megatron, scdl, positions, reports, decisions, copy_of_text, copy_without_index, page)
}


# ---- commands --------------------------------------------------------------------------------------------------------


def commands(folder: Path) -> dict[str, list[str]]:
    beside = Path(sys.argv[2]).parent
    photos = str(beside / "photos.leat")
    return {
        "pack": ["pack", str(beside / "photos"), str(folder / "p.leat")],
        "view": ["view", photos, "--out", str(folder / "sheet.png")],
        "trace_command": ["trace", photos, "--out", str(folder / "t.json"), "--batch-size", "1"],
        "cat": ["cat", photos, "--id", "3", "--field", "image", "--out", str(folder / "photo.jpg")],
        "stats": ["stats", photos, "--plot", str(folder / "stats.png")],
        "replay": ["replay", str(beside / "state.json"), photos, "--out", str(folder / "made")],
    }


def run(name: str, folder: Path, leave: int) -> dict[str, Any]:
    fill(folder, leave)
    said = ""
    if name in CASES:
        error: BaseException | None = None
        try:
            CASES[name](folder)
        except (OSError, MemoryError, AssertionError) as e:
            error, said = e, f"{type(e).__name__}: {e}"
        told = kept(folder)
        del error
    else:
        done = subprocess.run(
            [sys.argv[3], *commands(folder)[name]], capture_output=True, text=True, timeout=60, check=False
        )
        said, told = (done.stderr if done.returncode else ""), []
        if done.returncode not in (0, 2):
            said = f"exit code {done.returncode}: {said}"
    clear(folder)
    return {"name": name, "free": leave, "said": said, "kept": told}


def prepare(source: Path) -> None:
    """Files outside of the small disk: text, tokens, photos, and a state."""
    with gzip.open(source, "wt", compresslevel=1) as out:
        rnd = random.Random(4)
        for _ in range(20_000):
            out.write(json.dumps({"text": "".join(rnd.choices("abcdefgh ", k=60))}) + "\n")
    with leat.Writer(source.with_name("tokens.leat"), {"tokens": leat.field("uint16", (None,))}) as w:
        for row in range(16):
            w.add(tokens=np.arange(2000 + row, dtype=np.uint16))
    photos = source.with_name("photos")
    photos.mkdir()
    pixels = np.random.default_rng(5)
    for i in range(8):
        Image.fromarray(pixels.integers(0, 256, (120, 160, 3), np.uint8)).save(photos / f"{i}.jpg", quality=95)
    ds = leat.open(photos)
    with leat.Writer(source.with_name("photos.leat"), {"image": "image", "name": "str"}) as w:
        for i in range(8):
            w.add(image=bytes(ds.stored(i, "image")), name=f"{i}")
    loader = leat.Loader(
        leat.open(source.with_name("photos.leat")),
        4,
        outputs={"image": [leat.ops.Decode(), leat.ops.Resize((120, 160))]},
    )
    source.with_name("state.json").write_text(json.dumps(loader.state_dict()))
    loader.close()


def main(folder: Path) -> None:
    prepare(Path(sys.argv[2]))
    os.environ["TMPDIR"] = str(folder)
    rnd = random.Random(6)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for name in [*CASES, *commands(folder)]:
        few = name not in CASES
        drawn = [int(400 ** rnd.random()) * BLOCK for _ in range(1 if few else 3)]
        for leave in [0, free(folder) // BLOCK * BLOCK, *drawn]:
            try:
                print(json.dumps(run(name, folder, leave)), flush=True)
            except Exception:
                print(json.dumps({"name": name, "free": leave, "said": traceback.format_exc(), "kept": []}), flush=True)
                clear(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
