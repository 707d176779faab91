"""``leat.Loader(..., share="job")``: ranks of a job in processes of their own, which read one loader."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from port_support import expected, numbers, seen
from process_support import Process, eventually

import leat
from leat import _leat

ROWS, BATCH = 600, 16
Order = Callable[..., Any]


def _rank(environment: dict[str, str], pipe: Any) -> None:
    os.environ.update(environment)
    own = types.SimpleNamespace(loader=None, batches=None)
    while True:
        try:
            order = pipe.recv()
        except EOFError:
            order = None
        if order is None:
            break
        function, *args = order
        try:
            pipe.send(function(own, *args))
        except Exception as error:
            pipe.send(error)


def opens(own: Any, options: dict[str, Any], make: Order = numbers) -> None:
    own.batches = None
    own.loader = make(ROWS, share="job", **{"batch_size": BATCH, **options})


def reads(own: Any, n: int | None = None) -> list[tuple[int, int, str]]:
    """So many batches, over the ends of epochs; None: to the end of this one."""
    got: list[tuple[int, int, str]] = []
    while n is None or len(got) < n:
        own.batches = own.batches or iter(own.loader)
        batch = next(own.batches, None)
        if batch is not None:
            got.append(seen(batch))
            continue
        own.batches = None
        if n is None:
            break
    return got


def calls(own: Any, name: str, *args: Any) -> Any:
    return getattr(own.loader, name)(*args)


def loads(own: Any, state: dict[str, Any]) -> None:
    own.loader.load_state_dict(state)
    own.batches = None


def states(own: Any, n: int) -> list[Any]:
    return [(reads(own, 1), own.loader.state_dict(), own.loader.epoch) for _ in range(n)]


def ports(own: Any) -> dict[str, Any]:
    return leat.ports.stat(own.loader.stats()["shared"]["port"])


def looks(own: Any) -> Any:
    loader = own.loader
    return len(loader), loader.plan(1, 3).tolist(), seen(loader.batch_at(1, 3)), loader.state_dict(), loader.epoch


def keeps(own: Any) -> None:
    """A batch is the rank's own to write to."""
    batch = next(iter(own.loader))
    batch["x"][:] = 5


class Rank(Process):
    def __init__(self, folder: Path, rank: int, world: int, local: int | None = None, **environment: str) -> None:
        here = {"RANK": rank, "WORLD_SIZE": world, "LOCAL_RANK": rank % (local or world)}
        job = {"TORCHELASTIC_RUN_ID": "test", "MASTER_PORT": "29500", "LEAT_RUNTIME_DIR": str(folder)}
        here |= {"LOCAL_WORLD_SIZE": local or world}
        super().__init__(_rank, {**job, **{k: str(v) for k, v in here.items()}, **environment})

    def asks(self, *order: Any) -> Any:
        self.pipe.send(order)
        return self.answer()


def opened(ranks: list[Rank], options: Callable[[int], dict[str, Any]] = lambda rank: {}, *more: Any) -> list[Rank]:
    for r, rank in enumerate(ranks):
        rank.pipe.send((opens, options(r), *more))
    for rank in ranks:
        rank.answer()
    return ranks


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "p"


@pytest.fixture
def pair(folder: Path) -> Iterator[list[Rank]]:
    ranks = opened([Rank(folder, r, 2) for r in range(2)])
    yield ranks
    for rank in ranks:
        rank.end()


def alone(rank: int, world: int = 2, epochs: int = 1, **options: Any) -> list[tuple[int, int, str]]:
    return expected(numbers(ROWS, BATCH, rank=rank, world_size=world, **options), epochs)


def together(ranks: list[Rank], wants: list[list[tuple[int, int, str]]]) -> None:
    """All read what they should, about as fast as each other, as ranks that train do."""
    for begin in range(0, len(wants[0]), 4):
        for rank, want in zip(ranks, wants):
            assert rank.asks(reads, len(want[begin : begin + 4])) == want[begin : begin + 4]


def test_ranks_get_the_batches_of_loaders_of_their_own_and_each_row_is_made_once(pair: list[Rank]) -> None:
    wants = [alone(r, epochs=4) for r in range(2)]
    half = len(wants[0]) // 2
    together(pair, [want[:half] for want in wants])  # one has begun before the other, and caught up since
    before = pair[0].asks(ports)
    together(pair, [want[half:] for want in wants])
    told = pair[1].asks(ports)
    assert told["recomputed"] == before["recomputed"]
    assert told["samples"] <= 6 * ROWS  # some of them ahead
    assert sorted(c["label"] for c in told["consumers"]) == ["rank 0", "rank 1"]


def test_states_positions_and_plans_are_those_of_a_loader_of_ones_own(pair: list[Rank]) -> None:
    n = len(alone(0)) + 3
    for r, rank in enumerate(pair):
        own = types.SimpleNamespace(loader=numbers(ROWS, BATCH, rank=r, world_size=2), batches=None)
        assert rank.asks(looks) == looks(own)
        assert rank.asks(states, n) == states(own, n)
        assert rank.asks(looks) == looks(own)
        assert rank.asks(calls, "set_epoch", 7) is None
        own.loader.set_epoch(7)
        rank.asks(loads, state := own.loader.state_dict())
        loads(own, state)
        assert rank.asks(reads, 2) == reads(own, 2)
        own.loader.close()


@pytest.mark.parametrize("batch", [BATCH, 10])
def test_a_job_goes_on_at_the_state_of_a_loader_that_nobody_shared(folder: Path, batch: int) -> None:
    """Of other sizes, too: the epoch then has borders that no shared loader would have."""
    with numbers(ROWS, batch, rank=0, world_size=2) as other:
        batches = iter(other)
        for _ in range(5):
            next(batches)
        state = json.loads(json.dumps(other.state_dict()))
    ranks = opened([Rank(folder, r, 2) for r in range(2)])
    for r, rank in enumerate(ranks):
        with numbers(ROWS, BATCH, rank=r, world_size=2) as own:
            own.load_state_dict(state)
            want = [seen(b) for _ in range(3) for b in own]
        rank.asks(loads, state)
        assert rank.asks(reads, len(want)) == want
        assert rank.asks(calls, "stats")["shared"]["batches"] >= len(alone(0))  # at the latest from the next epoch on
    for rank in ranks:
        rank.end()


def test_a_rank_that_is_killed_harms_nobody(folder: Path, pair: list[Rank]) -> None:
    pair[1].asks(reads, 3)
    first = pair[0].asks(reads, 5)
    pair[1].kill()
    assert first + pair[0].asks(reads, 40) == alone(0, epochs=3)[:45]
    eventually(lambda: len(pair[0].asks(ports)["consumers"]) == 1)
    pair[0].end()
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("killed", [True, False])
def test_ranks_go_on_by_themselves_when_the_first_one_has_gone(folder: Path, pair: list[Rank], killed: bool) -> None:
    pair[0].asks(reads, 2)
    first = pair[1].asks(reads, 5)
    if killed:
        pair[0].kill()
    else:
        pair[0].asks(calls, "close")
    assert first + pair[1].asks(reads, 40) == alone(1, epochs=3)[:45]
    assert pair[1].asks(calls, "stats")["shared"]["attached"] is False
    pair[1].end()  # it does not close its loader
    assert list(folder.iterdir()) == []


def test_what_killed_jobs_have_left_the_next_one_removes(folder: Path) -> None:
    ranks = opened([Rank(folder, r, 2) for r in range(2)])
    for rank in ranks:
        rank.kill()
    assert len(list(folder.iterdir())) == 2
    ranks = opened([Rank(folder, r, 2, MASTER_PORT="1") for r in range(2)])
    assert len(list(folder.iterdir())) == 2
    for rank in ranks:
        rank.end()
    assert list(folder.iterdir()) == []


def test_a_shared_loader_has_memory_for_every_rank_of_its_host(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for key, value in {"RANK": "0", "WORLD_SIZE": "8", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "8"}.items():
        monkeypatch.setenv(key, value)
    monkeypatch.setenv("LEAT_RUNTIME_DIR", str(folder))
    monkeypatch.setattr("leat.sharing.served.HELD", 1)
    ds = leat.from_arrays(x=np.zeros((64, 1 << 17)))
    with leat.Loader(ds, 8, framework="numpy", share="job") as loader, contextlib.ExitStack() as stack:
        name = loader.stats()["shared"]["port"]
        ranks = [stack.enter_context(leat.attach(name, 8, rank=r, world_size=8)) for r in range(1, 8)]
        assert [b["x"].shape for reader in (loader, *ranks) for b in reader] == [(8, 1 << 17)] * 8


def mesh(rank: int) -> dict[str, Any]:
    return {"mesh": {"dp": (rank // 2, 2), "tp": (rank % 2, 2)}}


def test_tensor_parallel_peers_get_the_same_rows_made_once_by_each_host(folder: Path) -> None:
    ranks = opened([Rank(folder, r, 4, 2) for r in range(4)], mesh)
    wants = [alone(r // 2, epochs=4) for r in range(4)]
    half = len(wants[0]) // 2
    together(ranks, [want[:half] for want in wants])
    before = [rank.asks(ports)["recomputed"] for rank in ranks]
    together(ranks, [want[half:] for want in wants])
    told = [rank.asks(ports) for rank in ranks]
    assert [t["recomputed"] for t in told] == before
    assert [len(t["consumers"]) for t in told] == [2] * 4
    assert [t["samples"] <= 6 * ROWS // 2 for t in told] == [True] * 4  # some of them ahead
    assert [t["pid"] for t in told] == [ranks[r].process.pid for r in (0, 0, 2, 2)]
    for rank in ranks:
        rank.end()
    assert list(folder.iterdir()) == []


HOSTS = 2


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[list[Rank]]:
    """Two ranks on each of two hosts, which have a folder each."""
    folders = [tmp_path / f"h{h}" for h in range(HOSTS)]
    ranks = opened([Rank(folders[r // 2], r, 4, 2) for r in range(4)])
    yield ranks
    for rank in ranks:
        rank.end()
    assert [list(folder.iterdir()) for folder in folders] == [[]] * HOSTS


def test_each_host_makes_the_rows_of_its_own_ranks_and_no_other(hosts: list[Rank]) -> None:
    wants = [alone(r, 4, epochs=8) for r in range(4)]
    half = len(wants[0]) // 2
    together(hosts, [want[:half] for want in wants])
    before = [rank.asks(ports) for rank in hosts]
    together(hosts, [want[half:] for want in wants])
    told = [rank.asks(ports) for rank in hosts]
    assert [t["pid"] for t in told] == [hosts[r].process.pid for r in (0, 0, 2, 2)]
    assert [t["samples"] <= 10 * ROWS // HOSTS for t in told] == [True] * 4  # some of them ahead
    # Of the last batch, 24 rows of 64, ranks are padded to have six: those of a host are not the half that it made.
    assert [t["recomputed"] - b["recomputed"] <= 8 for t, b in zip(told, before)] == [True] * 4
    assert [rank.asks(calls, "stats")["shared"]["attached"] for rank in hosts] == [True] * 4


def read_by(ranks: list[Rank], n: int) -> list[list[tuple[int, int, str]]]:
    return [rank.asks(reads, n) for rank in ranks]


def ids_of(own: Any, n: int) -> list[list[int]]:
    """Of rows that count, of so many batches."""
    got: list[list[int]] = []
    while len(got) < n:
        own.batches = own.batches or iter(own.loader)
        batch = next(own.batches, None)
        if batch is None:
            own.batches = None
        else:
            got.append(batch.ids[batch.valid].tolist())
    return got


def test_a_job_goes_on_with_another_number_of_hosts_and_reads_each_row_once(tmp_path: Path) -> None:
    size = {"batch_size": None, "global_batch_size": 48}
    steps, got, state = -(-ROWS // 48), [], None
    for hosts, begin, end in ((2, 0, 4), (1, 4, 9), (3, 9, steps)):
        world = 2 * hosts
        ranks = [Rank(tmp_path / f"h{r // 2}", r, world, 2, MASTER_PORT=str(hosts)) for r in range(world)]
        for rank in opened(ranks, lambda rank: size):
            if state is not None:
                rank.asks(loads, state)
        parts = [rank.asks(ids_of, end - begin) for rank in ranks]
        got += [[i for part in parts for i in part[step]] for step in range(end - begin)]
        states_of = [rank.asks(calls, "state_dict") for rank in ranks]
        state = states_of[0]
        assert states_of == [state] * world
        for rank in ranks:
            rank.end()
    with numbers(ROWS, 48, tail="uneven") as own:
        assert got == [batch.ids.tolist() for batch in own]
    assert sorted(i for batch in got for i in batch) == list(range(ROWS))


def test_a_host_that_has_no_row_of_the_last_batch_goes_on_with_the_next_epoch(tmp_path: Path) -> None:
    """Of 65 rows in batches of 64, the last batch is of the last rank alone. The third rank is on the same host.

    It goes to the next epoch before the port has made that batch.
    """
    options = {"batch_size": 16, "tail": "uneven"}
    ranks = [Rank(tmp_path / f"h{r // 2}", r, 4, 2) for r in range(4)]
    opened(ranks, lambda rank: options, few)
    for r, rank in enumerate(ranks):
        with few(ROWS, rank=r, world_size=4, **options) as own:
            want = [seen(batch) for _ in range(100) for batch in own]
        assert rank.asks(reads, len(want)) == want
    for rank in ranks:
        rank.end()


def few(rows: int, batch_size: int, **options: Any) -> leat.Loader:
    return numbers(65, batch_size, **options)


def test_a_host_goes_on_by_itself_when_its_first_rank_is_killed(hosts: list[Rank]) -> None:
    wants = [alone(r, 4, epochs=3) for r in range(4)]
    first = read_by(hosts, 4)
    hosts[2].kill()
    rest = [hosts[r].asks(reads, len(wants[r]) - 4) for r in (0, 1, 3)]
    assert [first[r] + more for r, more in zip((0, 1, 3), rest)] == [wants[r] for r in (0, 1, 3)]
    assert [hosts[r].asks(calls, "stats")["shared"]["attached"] for r in (0, 1, 3)] == [True, True, False]


def turned(rank: int) -> dict[str, Any]:
    """Peers that are on different hosts: no host has a part that its ranks' numbers say."""
    return {"mesh": {"dp": (rank % 2, 2), "tp": (rank // 2, 2)}}


def test_ranks_that_are_numbered_in_another_way_get_their_batches_all_the_same(tmp_path: Path) -> None:
    ranks = opened([Rank(tmp_path / f"h{r // 2}", r, 4, 2) for r in range(4)], turned)
    for r, rank in enumerate(ranks):
        want = alone(r % 2, epochs=2)
        assert rank.asks(reads, len(want)) == want
    for rank in ranks:
        rank.end()


def staged(rank: int) -> dict[str, Any]:
    return {"mesh": {"pp": (rank // 2, 2), "dp": (rank % 2, 2)}}


def test_hosts_that_are_stages_of_a_pipeline_make_all_rows(tmp_path: Path) -> None:
    ranks = opened([Rank(tmp_path / f"h{r // 2}", r, 4, 2) for r in range(4)], staged)
    together(ranks, [alone(r % 2, epochs=2) for r in range(4)])
    assert [rank.asks(calls, "stats")["shared"]["made"] for rank in ranks] == [0] * 4
    for rank in ranks:
        rank.end()


def mixed(rows: int, batch_size: int, **options: Any) -> leat.Loader:
    a, b = (leat.from_arrays(x=np.arange(n)) for n in (rows, rows // 3))
    mix = leat.Mix({"a": (a, 0.7), "b": (b, 0.3)}, exhausted="repeat")
    return leat.Loader(mix, batch_size, shuffle=True, framework="numpy", **options)


def test_ranks_share_a_mixture_with_its_states(folder: Path) -> None:
    ranks = opened([Rank(folder, r, 2) for r in range(2)], lambda r: {}, mixed)
    for r, rank in enumerate(ranks):
        with mixed(ROWS, BATCH, rank=r, world_size=2) as loader:
            own = types.SimpleNamespace(loader=loader, batches=None)
            assert rank.asks(states, 40) == states(own, 40)
        with pytest.raises(leat.UnsupportedError, match="set_mixture"):
            rank.asks(calls, "set_mixture", {"a": 0.5, "b": 0.5}, (5, 0))
        rank.end()


def blended(rows: int, batch_size: int, **options: Any) -> leat.Loader:
    with tempfile.TemporaryDirectory() as folder:
        fields = {"x": leat.field("uint8", (8, 8, 3), layout="HWC"), "label": "int64"}
        with leat.Writer(Path(folder) / "a.leat", fields) as writer:
            for i in range(100):
                writer.add(x=np.full((8, 8, 3), i, np.uint8), label=i % 5)
        ds = leat.open(Path(folder) / "a.leat")
    chain = [leat.ops.ToDtype("float32"), leat.ops.MixUp(num_classes=5)]
    return leat.Loader(ds, 8, True, outputs={("x", "label"): chain}, framework="numpy", **options)


@pytest.mark.parametrize("peers", [True, False])
def test_rows_are_mixed_within_the_batches_that_a_rank_of_its_own_would_have(folder: Path, peers: bool) -> None:
    """Tensor-parallel peers read the same batches; data-parallel ranks mix others, and make them themselves."""
    place = (lambda r: {"mesh": {"tp": (r, 2)}}) if peers else (lambda r: {})
    ranks = opened([Rank(folder, r, 2) for r in range(2)], place, blended)
    for r, rank in enumerate(ranks):
        with blended(0, 0, rank=0 if peers else r, world_size=1 if peers else 2) as loader:
            own = types.SimpleNamespace(loader=loader, batches=None)
            assert rank.asks(states, 20) == states(own, 20)
        assert rank.asks(calls, "stats")["shared"]["attached"] is peers
    for rank in ranks:
        rank.end()


@pytest.mark.parametrize("tail", ["drop", "uneven"])
def test_the_last_rows_of_an_epoch_are_those_of_a_loader_of_ones_own(folder: Path, tail: str) -> None:
    ranks = opened([Rank(folder, r, 2) for r in range(2)], lambda r: {"tail": tail, "batch_size": 70})
    for r, rank in enumerate(ranks):
        with numbers(ROWS, 70, rank=r, world_size=2, tail=tail) as loader:
            own = types.SimpleNamespace(loader=loader, batches=None)
            assert [rank.asks(reads) for _ in range(2)] == [reads(own) for _ in range(2)]
            assert rank.asks(looks) == looks(own)
        rank.end()


def test_ranks_write_to_batches_that_are_their_own(pair: list[Rank]) -> None:
    for rank in pair:
        rank.asks(keeps)
    for r, rank in enumerate(pair):
        rank.asks(calls, "set_epoch", 0)
        assert rank.asks(reads) == alone(r)


def test_several_loaders_of_a_job_have_a_port_each(folder: Path, pair: list[Rank]) -> None:
    first = [rank.asks(reads, 2) for rank in pair]
    opened(pair, lambda r: {"batch_size": 8})
    assert [rank.asks(reads, 3) for rank in pair] == [
        expected(numbers(ROWS, 8, rank=r, world_size=2))[:3] for r in range(2)
    ]
    assert first == [alone(r)[:2] for r in range(2)]


ORDINARY = [
    ({}, {}),
    ({"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}, {}),  # one rank on this host
    ({"RANK": "1", "WORLD_SIZE": "5", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}, {}),  # hosts of different sizes
    ({"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}, {"rank": 0, "world_size": 1}),
]


@pytest.mark.parametrize(("environment", "options"), ORDINARY)
def test_where_there_is_nothing_to_share_it_is_the_ordinary_loader(
    environment: dict[str, str], options: dict[str, Any], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key, value in {**environment, "LEAT_RUNTIME_DIR": str(folder)}.items():
        monkeypatch.setenv(key, value)
    with numbers(ROWS, BATCH, share="job", **options) as loader:
        assert type(loader._core) is _leat.Loader
        loader.set_batch_size(4, at=(0, 0))
    assert not folder.exists()


def _mapped(rows: int, batch_size: int, **options: Any) -> leat.Loader:
    ds = leat.from_arrays(x=np.arange(rows))
    return leat.Loader(ds, batch_size, outputs={"x": [leat.ops.Map(np.negative)]}, framework="numpy", **options)


def _sampled(rows: int, batch_size: int, **options: Any) -> leat.Loader:
    class Backwards:
        def __iter__(self) -> Iterator[int]:
            return iter(range(rows - 1, -1, -1))

        def __len__(self) -> int:
            return rows

    return leat.Loader(leat.from_arrays(x=np.arange(rows)), batch_size, sampler=Backwards(), **options)


def _sized(rows: int, batch_size: int, **options: Any) -> leat.Loader:
    with tempfile.TemporaryDirectory() as folder:
        with leat.Writer(Path(folder) / "a.leat", {"x": leat.field("uint8", (8, 8, 3), layout="HWC")}) as writer:
            writer.add(x=np.zeros((8, 8, 3), np.uint8))
        ds = leat.open(Path(folder) / "a.leat")
    outputs = {"x": [leat.ops.RandomResizedCrop(leat.PerBatch([4, 6]))]}
    return leat.Loader(ds, batch_size, outputs=outputs, **options)


@pytest.mark.parametrize(
    ("options", "make", "words"),
    [
        ({}, _mapped, "functions in Python"),
        ({}, _sampled, "a Sampler"),
        ({}, _sized, "PerBatch"),
        ({"in_order": False}, numbers, "in_order"),
        ({"global_batch_size": 33, "batch_size": None}, numbers, "not the same for all"),
    ],
)
def test_what_ranks_cannot_share_is_said_at_once(
    options: dict[str, Any], make: Order, words: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key, value in {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(key, value)
    monkeypatch.setenv("LEAT_RUNTIME_DIR", str(folder))
    with pytest.raises(leat.UnsupportedError, match=words):
        make(ROWS, **{"batch_size": BATCH, **options}, share="job")
    assert not folder.exists()


def test_what_is_of_one_rank_a_shared_loader_does_not_have(pair: list[Rank]) -> None:
    for name, *args in (("set_batch_size", 8, (0, 0)), ("consumer", 4)):
        with pytest.raises(leat.UnsupportedError, match=name):
            pair[0].asks(calls, name, *args)


def test_arguments_of_sharing_are_checked() -> None:
    with pytest.raises(ValueError, match="share is 'job' or None"):
        numbers(ROWS, BATCH, share="host")
    with pytest.raises(ValueError, match="give one of them"):
        numbers(ROWS, BATCH, share="job", tp_read="first")


def test_a_rank_whose_first_process_opens_another_loader_is_told_so(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key, value in {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(key, value)
    monkeypatch.setenv("LEAT_RUNTIME_DIR", str(folder))
    monkeypatch.setattr("leat.sharing.job.PATIENCE_S", 0.05)
    with pytest.raises(leat.WaitTimeoutError, match="has not opened this loader"):
        numbers(ROWS, BATCH, share="job")
