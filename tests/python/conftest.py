"""Small data sets that the tests share, written once."""

from __future__ import annotations

import gc
import importlib.util
import io
import logging
import os
import resource
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import script_support
import tfrecord_made
from hypothesis import settings

import leat
import leat.workers.pool

if os.environ.get("LEAT_REQUIRE_TORCH"):
    import torch  # noqa: F401  where it must be there, no test is skipped for want of it

# A shell without job control starts what runs in the background with SIGINT ignored, nohup with SIGHUP, and every
# process that a test starts would inherit that. Here both are caught and dropped: what is caught is the default after
# an exec.
for _number in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, lambda *_: None)

# Examples are few, because each opens a loader; the deadline is off, because a test machine may be busy. They are the
# same in each run, except in the shard that draws: a find prints the line that repeats it.
settings.register_profile("leat", deadline=None, max_examples=25, derandomize=True, database=None)
settings.register_profile("draws", deadline=None, max_examples=25, database=None, print_blob=True)
settings.load_profile("draws" if os.environ.get("LEAT_SEED") else "leat")


def pytest_collection_finish() -> None:
    """What is imported by now is there to the end: no collection looks through it, in forked children neither."""
    gc.collect()
    gc.freeze()


CPU_BEFORE = pytest.StashKey[float]()
SHARDS = ("draws", "torch", "parallel", "ray", "whole")  # those of tools/checks/shards.py that run tests of Python
#: files that need packages which only that shard installs, by the beginning of their names
OF_SHARD = {"test_frameworks_": "torch", "test_deepspeed": "parallel", "test_elastic": "parallel",
            "test_parallel": "parallel", "test_on_ray": "ray"}  # fmt: skip


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--shard",
        help="only the tests of that shard (marked shard(NAME)); `gate`: those of none, which `make test` runs",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "card(needed): tools/gpu.sh runs it on a machine with a card; skipped elsewhere unless needed=False"
    )
    config.addinivalue_line("markers", "shard(name): runs in that deep shard of tools/check.py, not in `make test`")


def shard_of(item: pytest.Item) -> str:
    """`gate`: of none."""
    mark = item.get_closest_marker("shard")
    if mark is not None and mark.args[0] not in SHARDS:
        raise pytest.UsageError(f"{item.nodeid} is of the shard {mark.args[0]!r}, which runs no tests of Python")
    return str(mark.args[0]) if mark else shard_of_file(item.path) or "gate"


def shard_of_file(path: Path) -> str | None:
    """The shard of all tests of a file that needs packages which no other one has."""
    return next((shard for begin, shard in OF_SHARD.items() if path.name.startswith(begin)), None)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    shard = shard_of_file(collection_path)
    return True if shard and config.getoption("--shard") not in (None, shard) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    shard = config.getoption("--shard")
    if shard is None:
        return
    kept, left = list[pytest.Item](), list[pytest.Item]()
    for item in items:
        (kept if shard_of(item) == shard else left).append(item)
    config.hook.pytest_deselected(items=left)
    items[:] = kept


@cache
def has_card() -> bool:
    if importlib.util.find_spec("torch") is None:
        return False
    import torch

    return torch.cuda.is_available()


def cpu_s() -> float:
    return sum(os.times()[:4]) + sum(script_support.used)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    item.stash[CPU_BEFORE] = cpu_s()
    mark = item.get_closest_marker("card")
    if mark and mark.kwargs.get("needed", True) and not has_card():
        pytest.skip("PyTorch sees no card")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """CPU seconds of each test, with those of the processes that it has waited for, go into the report."""
    if call.when == "teardown":
        item.user_properties.append(("cpu_s", round(cpu_s() - item.stash[CPU_BEFORE], 3)))


def jpeg(width: int, height: int, seed: int = 0, mode: str = "RGB", **options: object) -> bytes:
    """A photo of smooth colours."""
    from PIL import Image

    rng = np.random.default_rng(seed)
    small = rng.integers(0, 256, (4, 5, 3), np.uint8)
    image = Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC).convert(mode)
    out = io.BytesIO()
    image.save(out, "JPEG", **options)
    return out.getvalue()


@pytest.fixture(scope="session", name="jpeg")
def jpeg_fixture() -> Callable[..., bytes]:
    """jpeg(width, height, seed, mode, **options): an encoded photo."""
    return jpeg


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("leat")


@pytest.fixture
def ports(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of ports, with a path that is short enough for sockets. In the end it is empty."""
    place = Path(tempfile.mkdtemp(prefix="leat-"))
    monkeypatch.setenv("LEAT_RUNTIME_DIR", str(place))
    yield place
    left = sorted(p.name for p in place.iterdir())
    shutil.rmtree(place)
    assert left == []


@pytest.fixture(scope="session")
def records(folder: Path) -> Path:
    """100 samples: x = [i, i, i] as float32, label = i % 10."""
    path = folder / "records.leat"
    with leat.Writer(path, {"x": leat.field("float32", (3,)), "label": "int64"}, metadata={"made": "by a test"}) as w:
        w.write_batch({"x": np.repeat(np.arange(100, dtype=np.float32)[:, None], 3, 1), "label": np.arange(100) % 10})
    return path


@pytest.fixture(scope="session")
def mixed(folder: Path) -> Path:
    """10 samples with a field of every kind."""
    path = folder / "mixed.leat"
    schema = {
        "number": "float64",
        "flag": "bool",
        "vector": leat.field("int16", (2, 2)),
        "boxes": leat.field("float32", (None, 4)),
        "raw": "bytes",
        "text": "str",
        "meta": "json",
        "image": "image",
    }
    with leat.Writer(path, schema) as w:
        for i in range(10):
            w.add(
                number=i / 4,
                flag=i % 2 == 0,
                vector=[[i, -i], [1, 2]],
                boxes=np.full((i % 4, 4), i, np.float32),
                raw=bytes(range(i)),
                text="ä" * i,
                meta={"i": [i, None, "x"]},
                image=jpeg(20 + i, 30, i),
            )
    return path


@pytest.fixture(scope="session")
def photos(folder: Path) -> Path:
    """24 photos of different sizes with labels."""
    path = folder / "photos.leat"
    with leat.Writer(path, {"image": "image", "label": "int64"}, classes=["even", "odd"]) as w:
        for i in range(24):
            w.add(image=jpeg(60 + 3 * i, 90 - 2 * i, i), label=i % 2)
    return path


@pytest.fixture(scope="session")
def broken(folder: Path) -> Path:
    """20 photos, of which numbers 3 and 11 do not decode."""
    path = folder / "broken.leat"
    with leat.Writer(path, {"image": "image", "label": "int64"}) as w:
        for i in range(20):
            data = jpeg(40, 40, i)
            w.add(image=data[: len(data) // 2] if i in (3, 11) else data, label=i)
    return path


@pytest.fixture
def no_workers_of_before() -> None:
    """Ends workers that loaders of earlier tests have left: what they share is given back before the test."""
    gc.collect()
    for pool in list(leat.workers.pool._live):
        pool.stop()


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of real data."""
    found = os.environ.get("LEAT_DATA")
    if not found:
        pytest.skip("LEAT_DATA does not name the folder of real data")
    return Path(found)


# PyTorch's own loader, which shows that a test is right, takes it in a shard: it changes only when the test does.
@pytest.fixture(params=[pytest.param("torch", marks=pytest.mark.shard("torch")), "leat"])
def loader_class(request: pytest.FixtureRequest) -> type:
    """PyTorch's DataLoader, which shows that a test is right, and the one that stands in for it."""
    torch_data = pytest.importorskip("torch.utils.data")
    return torch_data.DataLoader if request.param == "torch" else leat.DataLoader


@pytest.fixture
def leat_loader_class() -> type:
    """leat.DataLoader, for what it does otherwise than PyTorch's or beside it."""
    pytest.importorskip("torch")
    return leat.DataLoader


TORCHDATA = [pytest.param("torchdata", marks=pytest.mark.shard("torch"))]


@pytest.fixture(params=["leat"] + (TORCHDATA if importlib.util.find_spec("torchdata") else []))
def stateful_class(request: pytest.FixtureRequest) -> type:
    """leat.DataLoader, and where it is installed torchdata's loader with state, which shows that a test is right."""
    pytest.importorskip("torch")
    if request.param == "leat":
        return leat.DataLoader
    found: type = pytest.importorskip("torchdata.stateful_dataloader").StatefulDataLoader
    return found


@pytest.fixture(scope="session")
def held_cluster() -> Iterator[Any]:
    """One Ray cluster for all tests. At the end nothing of it is left."""
    if not os.environ.get("LEAT_REQUIRE_RAY"):
        pytest.importorskip("ray")
    import ray
    from ray_cluster import Cluster

    before = set(os.listdir("/dev/shm"))
    cluster = Cluster(nodes=2)
    logging.getLogger("ray").setLevel(logging.ERROR)
    ray.init(address=cluster.address, log_to_driver=False, logging_level=logging.ERROR)
    yield cluster
    ray.shutdown()
    assert cluster.close() == []
    assert set(os.listdir("/dev/shm")) <= before


@pytest.fixture
def cluster(held_cluster: Any) -> Any:
    """The Ray cluster, with two nodes of one CPU: those that the last test killed are there again."""
    while len(held_cluster.nodes) < 2:
        held_cluster.nodes.append(held_cluster.add_node())
    return held_cluster


@pytest.fixture
def no_file_stays_open(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Data sets open the files of others when they read them, as if there were too many to stay open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = 2 * (max(map(int, os.listdir("/proc/self/fd"))) + 64)  # half for what is open, and to read with
    path = tmp_path_factory.mktemp("open") / "a.tfrecord"
    path.write_bytes(tfrecord_made.records([{"a": 1}]))
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    try:
        held = [leat.open(path) for _ in range(limit // 2 + 1)]  # half of the limit stays open
        yield
        del held
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
