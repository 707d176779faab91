"""What leat.DataLoader has beyond PyTorch's: seed, reseed, on_error, sample_timeout_s, return_ids, workers that adapt,
are shared, or are threads.
"""

import os
import random
import signal
import threading
import time
import weakref
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from dataloader_support import LONG_S, Deadly, Hanging  # noqa: E402
from dataloader_support import Count as Range  # noqa: E402
from process_support import eventually  # noqa: E402

import leat  # noqa: E402
import leat.torch.iteration  # noqa: E402


class Noise(Range):
    """What the three global generators give for a sample."""

    def __getitem__(self, i: int) -> Any:  # type: ignore[override]
        return i, random.random(), float(np.random.random()), torch.rand(2)


class Broken(Range):
    """Samples 5 and 11 raise."""

    def __getitem__(self, i: int) -> int:
        if i in (5, 11):
            raise ValueError(f"no sample {i}")
        return i


def rows(loader: Any) -> list[list[int]]:
    return [batch.tolist() for batch in loader]


# ---- seed ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_seed_gives_the_order_of_a_leat_loader_with_that_seed(workers: int, tmp_path: Any) -> None:
    with leat.Writer(tmp_path / "n.leat", {"x": "int64"}) as w:
        w.write_batch({"x": np.arange(50)})
    native = leat.Loader(leat.open(tmp_path / "n.leat"), 8, shuffle=True, seed=7)
    ours = leat.DataLoader(Range(50), 8, shuffle=True, seed=7, num_workers=workers)
    for epoch in range(2):
        assert rows(ours) == [native.plan(epoch, step).tolist() for step in range(len(native))]


def test_persistent_workers_give_every_epoch_another_order_and_each_row_once() -> None:
    loader = leat.DataLoader(Range(30), 4, shuffle=True, seed=1, num_workers=2, persistent_workers=True)
    epochs = [sum(rows(loader), []) for _ in range(4)]
    assert all(sorted(epoch) == list(range(30)) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 4
    fresh = leat.DataLoader(Range(30), 4, shuffle=True, seed=1)
    assert epochs == [sum(rows(fresh), []) for _ in range(4)]


def test_an_epoch_that_is_left_does_not_disturb_the_next_one() -> None:
    loader = leat.DataLoader(Range(30), 4, shuffle=True, seed=1, num_workers=2, persistent_workers=True)
    whole = leat.DataLoader(Range(30), 4, shuffle=True, seed=1)
    expected = [rows(whole) for _ in range(3)]
    for i, batch in enumerate(loader):
        assert batch.tolist() == expected[0][i]
        if i == 2:
            break
    assert [rows(loader), rows(loader)] == expected[1:]


def test_seed_and_generator_exclude_each_other() -> None:
    with pytest.raises(ValueError, match="exclude each other"):
        leat.DataLoader(Range(4), seed=1, generator=torch.Generator())


@pytest.mark.parametrize(
    ("what", "other"),
    [
        ("batch_size", {"batch_size": 8}),
        ("seed", {"seed": 7}),
        ("order", {"shuffle": False}),
        ("samples", {"dataset": Range(60)}),
    ],
)
def test_a_state_in_mid_epoch_is_refused_where_it_would_lose_samples(what: str, other: dict[str, Any]) -> None:
    arguments: dict[str, Any] = {"dataset": Range(64), "batch_size": 16, "shuffle": True, "seed": 0}
    loader = leat.DataLoader(**arguments)
    next(iter(loader))
    state = loader.state_dict()
    with pytest.raises(leat.StateError, match=f"would lose or repeat samples here .*{what}: "):
        leat.DataLoader(**arguments | other).load_state_dict(state)


# ---- reseed ----------------------------------------------------------------------------------------------------------


def noise(workers: int, **more: Any) -> list[Any]:
    loader = leat.DataLoader(Noise(20), 3, shuffle=True, seed=3, reseed=True, num_workers=workers, **more)
    return [[x.tolist() for x in batch] for batch in loader]


def test_reseed_makes_augmentations_the_same_with_a_collate_function_of_the_users() -> None:
    collate = torch.utils.data.default_collate
    assert noise(2, collate_fn=lambda samples: collate(samples)) == noise(0)


# ---- on_error --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("collate", [None, "own"])
def test_skip_leaves_broken_samples_out_and_moves_nothing_else(workers: int, collate: str | None) -> None:
    own = torch.tensor if collate else None
    loader = leat.DataLoader(Broken(16), 4, on_error="skip", num_workers=workers, collate_fn=own)
    assert rows(loader) == [[0, 1, 2, 3], [4, 6, 7], [8, 9, 10], [12, 13, 14, 15]]
    assert loader.stats()["broken"] == 2


def test_substitute_puts_the_same_samples_in_for_any_number_of_workers() -> None:
    made = [rows(leat.DataLoader(Broken(16), 4, on_error="substitute", seed=2, num_workers=n)) for n in (0, 1, 3)]
    assert made[0] == made[1] == made[2]
    assert [len(batch) for batch in made[0]] == [4, 4, 4, 4]
    assert not {5, 11} & set(sum(made[0], []))


def refuses(x: Any) -> Any:
    if int(x) in (5, 11):
        raise ValueError(f"no sample {x}")
    return x


@pytest.mark.parametrize("workers", [0, 2])
def test_a_substitute_is_the_one_that_a_loader_takes(workers: int) -> None:
    outputs = {"x": [leat.ops.Map(refuses)]}
    for seed in range(4):
        mine = rows(leat.DataLoader(Broken(16), 4, on_error="substitute", seed=seed, num_workers=workers))
        with leat.Loader(
            leat.from_arrays(x=np.arange(16)), 4, outputs=outputs, on_error="substitute", seed=seed
        ) as loader:
            assert mine == [batch["x"].tolist() for batch in loader]


@pytest.mark.parametrize("collate", [None, torch.tensor])
def test_a_sample_that_ends_workers_has_the_same_substitute_for_any_number_of_them(collate: Any) -> None:
    class Fails(Range):
        def __getitem__(self, i: int) -> int:
            if i == 5:
                os.kill(os.getpid(), signal.SIGKILL)
            return i

    found = [
        rows(leat.DataLoader(Fails(12), 4, on_error="substitute", seed=7, num_workers=n, collate_fn=collate))
        for n in (1, 2)
    ]
    assert found[0] == found[1] and 5 not in sum(found[0], [])


def test_indices_below_zero_are_read_and_have_the_substitutes_of_their_positions() -> None:
    class Keyed:
        def __len__(self) -> int:
            return 12

        def __getitem__(self, key: int) -> int:
            if key == 5:
                raise ValueError
            return key

    keys = [-(1 << 63) + (1 << 20), -(1 << 62), 3]
    assert rows(leat.DataLoader(Keyed(), 3, sampler=keys, on_error="skip", num_workers=1)) == [keys]
    given: list[Any] = [[5], [np.int64(5)], [torch.tensor(5)]]
    found = [
        rows(leat.DataLoader(Keyed(), 1, sampler=i, on_error="substitute", seed=7, collate_fn=torch.tensor))
        for i in given
    ]
    assert found[0] == found[1] == found[2]


def test_each_broken_row_of_a_batch_has_a_substitute_of_its_own() -> None:
    class Half(Range):
        def __getitem__(self, i: int) -> int:
            if i % 2:
                raise ValueError(f"no sample {i}")
            return i

    (batch,) = rows(leat.DataLoader(Half(64), 64, on_error="substitute", seed=2))
    assert batch[::2] == list(range(0, 64, 2)) and len(set(batch[1::2])) > 12


@pytest.mark.parametrize("workers", [0, 2])
def test_a_batch_of_which_no_row_is_left_raises_its_first_error(workers: int) -> None:
    with pytest.raises(RuntimeError, match="(?s)no row of the batch is left.*no sample 5"):
        list(leat.DataLoader(Broken(16), 1, sampler=[5], on_error="skip", num_workers=workers))


@pytest.mark.parametrize("workers", [0, 2])
def test_return_ids_names_the_samples_that_were_delivered(workers: int) -> None:
    loader = leat.DataLoader(Broken(8), 4, on_error="skip", return_ids=True, num_workers=workers)
    for batch, ids in loader:
        assert batch.tolist() == ids.tolist()


# ---- workers that die or hang ----------------------------------------------------------------------------------------


def test_a_row_that_ended_three_workers_is_a_broken_sample() -> None:
    with pytest.raises(leat.BrokenSampleError, match="index 5, ended 3 workers, the last with signal SIGKILL"):
        list(leat.DataLoader(Deadly(16), 4, num_workers=2))
    loader = leat.DataLoader(Deadly(16), 4, num_workers=2, on_error="skip")
    assert rows(loader) == [[0, 1, 2, 3], [4, 6, 7], [8, 9, 10, 11], [12, 13, 14, 15]]
    assert len(loader.stats()["replaced"]) == 3


def test_a_sample_that_takes_too_long_is_broken_and_its_worker_replaced() -> None:
    with pytest.raises(TimeoutError, match="index 5, took longer than sample_timeout_s = 0.3"):
        list(leat.DataLoader(Hanging(16), 4, sampler=[5], num_workers=2, sample_timeout_s=0.3))
    skipping = leat.DataLoader(Hanging(16), 4, num_workers=2, sample_timeout_s=LONG_S, on_error="skip")
    assert rows(skipping) == [[0, 1, 2, 3], [4, 6, 7], [8, 9, 10, 11], [12, 13, 14, 15]]


class Stream(torch.utils.data.IterableDataset):
    """Worker w gives 100 w, 100 w + 1, ...; the sixth sample of worker 0 ends it, or never comes."""

    def __init__(self, dies: bool) -> None:
        self.dies = dies

    def __iter__(self) -> Any:
        worker = torch.utils.data.get_worker_info().id
        for i in range(12):
            if worker == 0 and i == 6:
                os.kill(os.getpid(), signal.SIGKILL) if self.dies else time.sleep(1000)
            yield 100 * worker + i


@pytest.mark.parametrize("dies", [True, False])
def test_a_stream_that_ends_workers_or_hangs_is_over_and_the_others_go_on(dies: bool) -> None:
    iterator = iter(leat.DataLoader(Stream(dies), 4, num_workers=2, sample_timeout_s=None if dies else LONG_S))
    made = [next(iterator).tolist() for _ in range(2)]
    with pytest.raises(leat.BrokenSampleError if dies else TimeoutError):
        next(iterator)
    assert made + rows(iterator) == [[0, 1, 2, 3], [100, 101, 102, 103], [104, 105, 106, 107], [108, 109, 110, 111]]


def test_on_error_is_refused_for_streams() -> None:
    with pytest.raises(ValueError, match="on_error is for map-style data sets"):
        leat.DataLoader(Stream(True), 4, on_error="skip")


# ---- workers that are shared, adapt, or are threads
# --------------------------------------------------------------------


def test_loaders_of_one_data_set_share_workers_if_they_are_told_to() -> None:
    dataset = Range(24)
    first, second = (leat.DataLoader(dataset, size, num_workers=2, persistent_workers="shared") for size in (4, 6))
    a, b = iter(first), iter(second)
    made = [[], []]  # type: list[list[int]]
    for y in b:  # in turn: both are served by the same two processes
        made[0] += next(a).tolist()
        made[1] += y.tolist()
    made[0] += sum((x.tolist() for x in a), [])
    assert made == [list(range(24)), list(range(24))]
    assert first.stats()["pids"] == second.stats()["pids"]


def test_workers_are_shared_only_by_loaders_that_need_the_same() -> None:
    dataset = Range(8)
    kinds: list[dict[str, Any]] = [
        {},
        {"num_workers": 1},
        {"worker_init_fn": print},
        {"multiprocessing_context": "forkserver"},
        {"persistent_workers": True},
        {"dataset": Range(8)},
    ]
    common = {"dataset": dataset, "num_workers": 2, "persistent_workers": "shared"}
    loaders = [leat.DataLoader(**{**common, **kind}) for kind in [*kinds, {}]]
    for loader in loaders:
        assert sum(rows(loader), []) == list(range(8))
    pids = [frozenset(loader.stats()["pids"]) for loader in loaders]
    assert pids[0] == pids[-1] and len(frozenset().union(*pids)) == 11


def test_sharing_workers_is_asked_for_by_name() -> None:
    with pytest.raises(ValueError, match="persistent_workers is True, False or 'shared', not 'yes'"):
        leat.DataLoader(Range(8), num_workers=1, persistent_workers="yes")
    with pytest.raises(ValueError, match="persistent_workers"):
        leat.DataLoader(Range(8), persistent_workers="shared")


def test_workers_end_with_the_last_loader_that_uses_them() -> None:
    dataset = Range(24)
    first, second = (leat.DataLoader(dataset, 4, num_workers=2, persistent_workers="shared") for _ in range(2))
    next(iter(first)), next(iter(second))
    pids = second.stats()["pids"]
    del first
    assert sum(rows(second), []) == list(range(24))
    del second
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_an_iterator_that_is_dropped_ends_its_workers() -> None:
    loader = leat.DataLoader(Range(1000), 4, num_workers=2)
    iterator = iter(loader)
    next(iterator)
    pids, gone = loader.stats()["pids"], weakref.ref(iterator)
    del iterator
    assert gone() is None
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_a_number_of_workers_that_adapts_gives_the_same_batches() -> None:
    loader = leat.DataLoader(Range(50), 4, shuffle=True, seed=5, num_workers="auto")
    assert rows(loader) == rows(leat.DataLoader(Range(50), 4, shuffle=True, seed=5))
    assert loader.stats()["workers"] >= 1


def test_workers_start_and_end_while_batches_are_in_flight() -> None:
    loader = leat.DataLoader(Range(400), 4, num_workers="auto")
    iterator = iter(loader)
    made = []
    for i, batch in enumerate(iterator):
        made += batch.tolist()
        if i % 10 == 0:
            iterator.pool.resize(1 + i // 10 % iterator.pool.room)
    assert made == list(range(400))


def test_without_a_gil_workers_are_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    # as on an interpreter without one
    monkeypatch.setattr(leat.torch.iteration, "threads_wanted", lambda context: True)
    before = threading.active_count()
    for workers in (1, 3):
        loader = leat.DataLoader(Range(50), 4, shuffle=True, seed=5, num_workers=workers)
        assert rows(loader) == rows(leat.DataLoader(Range(50), 4, shuffle=True, seed=5))
    with pytest.raises(ValueError, match="no sample 5"):
        list(leat.DataLoader(Broken(16), 4, num_workers=2))
    eventually(lambda: threading.active_count() <= before)


def test_samples_that_grow_from_batch_to_batch_are_collated_in_workers() -> None:
    class Growing(Range):
        def __getitem__(self, i: int) -> Any:  # type: ignore[override]
            return torch.full((1 + i // 4,), float(i))

    loader = leat.DataLoader(Growing(40), 4, num_workers=2)
    assert [tuple(batch.shape) for batch in loader] == [(4, 1 + i) for i in range(10)]


def test_tensors_of_a_batch_stay_as_they_are_while_they_are_held() -> None:
    held = list(leat.DataLoader(Range(400), 4, num_workers=2))
    again = list(leat.DataLoader(Range(400), 4, num_workers=2))
    assert (
        [batch.tolist() for batch in held]
        == [batch.tolist() for batch in again]
        == [list(range(i, i + 4)) for i in range(0, 400, 4)]
    )


def test_memory_is_let_go_where_samples_come_to_differ_without_workers() -> None:
    class Growing(Range):
        def __getitem__(self, i: int) -> Any:  # type: ignore[override]
            return torch.full(((1 << 18) + max(0, i - 20),), i, dtype=torch.uint8)

    loader = leat.DataLoader(Growing(40), 1)
    assert [batch.shape[1] - (1 << 18) for batch in loader] == [max(0, i - 20) for i in range(40)]
    assert loader._gathering.core is None and not loader._gathering.memory


class Nested(Range):
    """Each sample takes one of another loader's before it draws on."""

    def __getitem__(self, i: int) -> Any:  # type: ignore[override]
        first = leat.rng().random()
        if i % 2:
            assert len(list(leat.DataLoader(Range(2), 1))) == 2
        return first, leat.rng().random()


def test_a_loader_inside_a_data_set_leaves_the_row_at_hand_as_it_is() -> None:
    found = [
        pair for first, second in leat.DataLoader(Nested(8), 4, seed=1) for pair in zip(first.tolist(), second.tolist())
    ]
    assert len({value for pair in found for value in pair}) == 16
    other = [
        pair for first, second in leat.DataLoader(Nested(8), 1, seed=1) for pair in zip(first.tolist(), second.tolist())
    ]
    assert found == other


@pytest.mark.parametrize("workers", [0, 2])
def test_the_least_integers_are_indices_like_any_other(workers: int) -> None:
    order = [[i - (1 << 63)] for i in range(20)]
    loader = leat.DataLoader(Range(20), batch_sampler=order, num_workers=workers)
    assert [batch.tolist() for batch in loader] == order


@pytest.mark.parametrize(
    "options", [{}, {"pending": False}, {"pending": False, "negatives": 0, "before": "batch"}], ids=repr
)
def test_a_graph_of_events_is_refused_where_its_batches_say_what_is_in_it(
    loader_class: Any, options: dict[str, Any]
) -> None:
    """PyTorch's own loader would give each event as a batch of its own."""
    events = leat.from_arrays(src=np.arange(8), dst=np.arange(8), t=np.arange(8))
    graph = leat.temporal(events, **options)
    for data in (graph, graph[2:], torch.utils.data.Subset(graph, [1, 2])):
        with pytest.raises(ValueError, match=r"leat\.Loader reads a graph of events"):
            list(loader_class(data, batch_size=2))
    assert len(graph[3]) == len(graph.schema)


def test_a_graph_of_events_that_are_whole_by_themselves_is_read_by_any_loader(loader_class: Any) -> None:
    events = leat.from_arrays(src=np.arange(8) % 3, dst=np.arange(8) % 2, t=np.arange(8))
    graph = leat.temporal(events, 2, pending=False, key="id")
    batches = list(loader_class(graph, batch_size=4))
    whole = next(iter(leat.Loader(graph, 8)))
    assert all(bool((torch.cat([batch[name] for batch in batches]) == whole[name]).all()) for name in whole)
