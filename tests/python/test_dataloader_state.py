"""state_dict and load_state_dict: an epoch goes on after any batch as if it had never stopped.

What torchdata's StatefulDataLoader asks for is asked of both where torchdata is installed.
"""

from __future__ import annotations

import copy
import itertools
import json
import multiprocessing
import pickle
import random
from collections.abc import Callable, Collection, Iterable
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
from dataloader_support import (  # noqa: E402
    Count,
    Draws,
    Failing,
    Meeting,
    PlainStream,
    StatefulSampler,
    StatefulStream,
    StreamOfStatefulIterators,
    Waits,
    as_is,
    error_of,
    failing_init,
    rows,
)
from torch.utils.data import (  # noqa: E402
    BatchSampler,
    DistributedSampler,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

import leat  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")
FORK = multiprocessing.get_context("fork")


WAYS: dict[str, dict[str, Any]] = {
    "here": {},
    "3 workers": {"num_workers": 3},
    "3 persistent workers": {"num_workers": 3, "persistent_workers": True},
}
SIZES = [0, 20, 7]

MAKERS: dict[str, Callable[[], dict[str, Any]]] = {
    "stream with state": lambda: {"dataset": StatefulStream(SIZES), "batch_size": 3},
    "stream with state, no batches": lambda: {"dataset": StatefulStream(SIZES), "batch_size": None},
    "stream of iterators with state": lambda: {"dataset": StreamOfStatefulIterators(SIZES), "batch_size": 3},
    "stream that draws": lambda: {"dataset": StreamOfStatefulIterators(SIZES, draw=True), "batch_size": 3},
    "stream without state": lambda: {"dataset": PlainStream(SIZES), "batch_size": 3},
    "stream without state or batches": lambda: {"dataset": PlainStream(SIZES), "batch_size": None},
    "stream, last batches dropped": lambda: {"dataset": PlainStream(SIZES), "batch_size": 3, "drop_last": True},
    "in order": lambda: {"dataset": Count(27), "batch_size": 3},
    "sampler with a seed": lambda: {
        "dataset": Count(27), "batch_size": 3, "sampler": RandomSampler(range(27),
        generator=torch.Generator().manual_seed(13)),
    },
    "sampler with state": lambda: {"dataset": Count(27), "batch_size": 3, "sampler": StatefulSampler(27)},
    "list as sampler": lambda: {"dataset": Count(27), "batch_size": 2, "sampler": list(range(26, 0, -1))},
    "no batches": lambda: {"dataset": Count(20), "batch_size": None},
    "batch sampler": lambda: {"dataset": Count(20), "batch_sampler": BatchSampler(SequentialSampler(range(20)), 3,
    False)},
    "shuffled with a generator": lambda: {
        "dataset": Count(27), "batch_size": 3, "shuffle": True, "generator": torch.Generator().manual_seed(21),
    },
}  # fmt: skip


def same(found: list[Any], expected: list[Any]) -> bool:
    return repr(found) == repr(expected)


def in_ways(names: Iterable[str], anew: Iterable[str]) -> pytest.MarkDecorator:
    """Each name here and with workers that persist; and with workers that each epoch starts anew: those."""
    pairs = [(name, way) for name in names for way in WAYS if way != "3 workers" or name in anew]
    return pytest.mark.parametrize("name, way", pairs)


def run(loader: Any, cuts: Collection[int]) -> tuple[list[Any], dict[int, Any]]:
    """The batches of an epoch, and the states that were taken after so many of them."""
    it, found, states = iter(loader), list[Any](), dict[int, Any]()
    for cut in range(max(cuts) + 1):
        found += itertools.islice(it, min(cut, 1))
        if cut in cuts:
            states[cut] = pickle.dumps(loader.state_dict())
    return found + list(it), {cut: pickle.loads(state) for cut, state in states.items()}


@pytest.mark.parametrize("way, cuts", [("here", {0, 1, 4, 6}), ("3 workers", {1, 6}), ("3 persistent workers", {0, 4})])
@pytest.mark.parametrize("name", MAKERS)
def test_another_loader_goes_on_where_the_state_was_taken(
    stateful_class: Any, name: str, way: str, cuts: set[int]
) -> None:
    if stateful_class is not leat.DataLoader and name == "stream with state" and way != "here":
        cuts = cuts - {6}  # torchdata gives a worker's stream once more if its last batch, a short one, was delivered
    whole, states = run(stateful_class(**MAKERS[name](), **WAYS[way], collate_fn=as_is), cuts)
    for cut, state in states.items():
        again = stateful_class(**MAKERS[name](), **WAYS[way], collate_fn=as_is)
        again.load_state_dict(state)
        assert whole[cut:] and same(list(again), whole[cut:]), cut


# not "sampler with a seed", whose generator is not the loader's
@in_ways([name for name in MAKERS if name != "sampler with a seed"], ("in order", "stream with state", "no batches"))
def test_the_same_loader_goes_back_to_a_state(stateful_class: Any, name: str, way: str) -> None:
    loader = stateful_class(**MAKERS[name](), **WAYS[way], collate_fn=as_is)
    it = iter(loader)
    at_first = loader.state_dict()
    before = [next(it) for _ in range(4)]
    after_four = loader.state_dict()
    rest = list(it)
    loader.load_state_dict(after_four)
    assert same(list(loader), rest)
    loader.load_state_dict(at_first)
    assert same(list(loader), before + rest)


@in_ways(MAKERS, ("in order", "stream with state"))
def test_after_a_resumed_epoch_the_next_is_whole(stateful_class: Any, name: str, way: str) -> None:
    def run(resume: bool) -> list[Any]:
        torch.manual_seed(1)
        loader = stateful_class(**MAKERS[name](), **WAYS[way], collate_fn=as_is)
        it = iter(loader)
        found = [next(it) for _ in range(4)]
        if resume:
            state = loader.state_dict()
            loader = stateful_class(**MAKERS[name](), **WAYS[way], collate_fn=as_is)
            loader.load_state_dict(state)
            it = iter(loader)
        found += list(it)
        return [found, sorted(map(repr, loader))]

    whole, resumed = run(False), run(True)
    assert same(resumed[0], whole[0]) and len(resumed[1]) == len(whole[1])


@in_ways(
    ["in order", "sampler with state", "stream with state", "stream without state", "stream of iterators with state"],
    ("in order", "stream with state"),
)
def test_a_state_after_an_epoch_is_the_start_of_the_next(stateful_class: Any, name: str, way: str) -> None:
    loader = stateful_class(**MAKERS[name](), **WAYS[way], collate_fn=as_is)
    list(loader)
    state = loader.state_dict()
    expected = list(loader)
    assert expected
    again = stateful_class(**MAKERS[name](), **WAYS[way], collate_fn=as_is)
    it = iter(again)
    next(it), next(it)  # what was begun does not matter
    again.load_state_dict(state)
    assert same(list(again), expected)


def test_the_epochs_of_a_stream_that_counts_them_go_on(stateful_class: Any) -> None:
    loader = stateful_class(**MAKERS["stream with state"](), collate_fn=as_is)
    first = list(loader)
    state = loader.state_dict()
    second, third = list(loader), list(loader)
    assert [e for _, e in sum(first + second + third, [])] == [0] * 27 + [1] * 27 + [2] * 27
    again = stateful_class(**MAKERS["stream with state"](), collate_fn=as_is)
    again.load_state_dict(state)
    assert [list(again), list(again)] == [second, third]


@pytest.mark.parametrize("way", WAYS)
def test_a_state_can_be_taken_and_loaded_before_anything_has_run(stateful_class: Any, way: str) -> None:
    loader = stateful_class(Count(20), 3, **WAYS[way])
    state = loader.state_dict()
    assert rows(loader) == list(range(20))
    it = iter(loader)
    next(it), next(it)
    loader.load_state_dict(state)
    assert rows(loader) == list(range(20)) and rows(loader) == list(range(20))


@pytest.mark.parametrize("way", WAYS)
def test_a_loaded_state_is_what_is_saved_until_something_runs(stateful_class: Any, way: str) -> None:
    loader = stateful_class(Count(20), 3, **WAYS[way])
    it = iter(loader)
    next(it)
    state = loader.state_dict()
    again = stateful_class(Count(20), 3, **WAYS[way])
    again.load_state_dict(state)
    assert again.state_dict() == state
    assert rows(again) == list(range(3, 20))


@in_ways(
    ["in order", "sampler with state", "stream with state", "stream without state", "shuffled with a generator"], ()
)
def test_a_state_of_plain_values_survives_json(name: str, way: str) -> None:
    loader = leat.DataLoader(**MAKERS[name](), **WAYS[way], collate_fn=as_is)
    it = iter(loader)
    for _ in range(4):
        next(it)
    state = json.loads(json.dumps(loader.state_dict()))
    expected = list(it)
    again = leat.DataLoader(**MAKERS[name](), **WAYS[way], collate_fn=as_is)
    again.load_state_dict(state)
    assert same(list(again), expected)


@pytest.mark.parametrize("name", MAKERS)
def test_a_state_does_not_change_when_iteration_goes_on(stateful_class: Any, name: str) -> None:
    loader = stateful_class(**MAKERS[name](), num_workers=3, collate_fn=as_is)
    it = iter(loader)
    for _ in range(3):
        next(it)
    state = loader.state_dict()
    kept = copy.deepcopy(state)
    for _ in range(3):
        next(it)
    assert repr(state) == repr(kept) and repr(loader.state_dict()) != repr(kept)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_iter_of_a_stream_is_called_once_when_it_resumes(stateful_class: Any, num_workers: int) -> None:
    calls = FORK.Value("i", 0)

    class Watched(StatefulStream):
        def __iter__(self) -> Any:
            with calls.get_lock():
                calls.value += 1
            return super().__iter__()

    def made() -> Any:
        return stateful_class(Watched([10, 10]), 2, num_workers=num_workers, collate_fn=as_is)

    loader = made()
    it = iter(loader)
    for _ in range(4):
        next(it)
    state = loader.state_dict()
    calls.value = 0
    again = made()
    again.load_state_dict(state)
    list(again)
    assert calls.value == max(1, num_workers)


def test_a_state_can_be_taken_after_every_batch_of_resumed_persistent_workers(stateful_class: Any) -> None:
    """A state taken before each worker has given a batch again still knows all of them."""
    name, options = "stream that draws", WAYS["3 persistent workers"]
    loader = stateful_class(**MAKERS[name](), **options, collate_fn=as_is)
    it = iter(loader)
    for _ in range(3):
        next(it)
    first = loader.state_dict()
    next(it)
    expected = list(it)
    loader.load_state_dict(first)
    it = iter(loader)
    next(it)
    second = loader.state_dict()
    again = stateful_class(**MAKERS[name](), **options, collate_fn=as_is)
    again.load_state_dict(second)
    assert same(list(again), expected)


def test_errors_arrive_from_stateful_loaders(stateful_class: Any) -> None:
    failing = Failing(10, lambda i: ValueError("no sample"))
    assert "no sample" in error_of(ValueError, lambda: next(iter(stateful_class(failing, num_workers=2))))
    assert "cannot begin" in error_of(
        LookupError, lambda: next(iter(stateful_class(Count(9), num_workers=2, worker_init_fn=failing_init)))
    )


def test_out_of_order_a_state_leaves_out_what_was_delivered() -> None:
    event = FORK.Event()
    loader = leat.DataLoader(Waits(10, event, slow=0), num_workers=2, in_order=False)
    it = iter(loader)
    found = [int(next(it)) for _ in range(4)]
    assert 0 not in found
    state = loader.state_dict()
    event.set()
    again = leat.DataLoader(Waits(10, event, slow=0), num_workers=2, in_order=False)
    again.load_state_dict(state)
    assert sorted(found + rows(again)) == list(range(10))


@pytest.mark.parametrize("name", [name for name in MAKERS if name.startswith("stream") and "no batches" not in name])
def test_streams_that_have_met_their_ends_stay_at_them(name: str) -> None:
    whole, states = run(leat.DataLoader(**MAKERS[name](), num_workers=3, collate_fn=as_is), range(5, 10))
    for cut, state in states.items():
        again = leat.DataLoader(**MAKERS[name](), num_workers=3, collate_fn=as_is)
        again.load_state_dict(state)
        # after the last batch it is the start of the next epoch
        assert same(list(again), whole[cut:]) or not whole[cut:], cut


# --- what leat promises beyond
# -----------------------------------------------------------------------------------------


ORDERS: dict[str, Callable[[], dict[str, Any]]] = {
    "in order": dict,
    "shuffled": lambda: {"shuffle": True},
    "shuffled by leat": lambda: {"shuffle": True, "seed": 5},
    "shuffled with a generator": lambda: {"shuffle": True, "generator": torch.Generator().manual_seed(2)},
    "random sampler": lambda: {"sampler": RandomSampler(range(31), True, 40)},
    "subset": lambda: {"sampler": SubsetRandomSampler(range(5, 25))},
    "sampler with state": lambda: {"sampler": StatefulSampler(31)},
    "last batch dropped": lambda: {"shuffle": True, "drop_last": True},
}


@given(
    st.sampled_from(sorted(ORDERS)), st.integers(1, 7), st.integers(0, 30), st.sampled_from([0, 1, 2]),
    st.sampled_from([0, 1, 2]),
    st.sampled_from([False, True]), st.sampled_from([False, True]), st.integers(0, 2),
)  # fmt: skip
@example("shuffled", 1, 2, 0, 1, False, True, 0)
@example("shuffled", 1, 2, 1, 0, True, False, 0)
def test_any_cut_of_any_order_goes_on_with_any_number_of_workers(
    order: str, size: int, cut: int, before: int, after: int, persistent: bool, then_persistent: bool, epochs: int
) -> None:
    def made(workers: int, persistent: bool = False) -> leat.DataLoader:
        return leat.DataLoader(
            Count(31), size, num_workers=workers, persistent_workers=persistent and workers > 0, **ORDERS[order]()
        )

    torch.manual_seed(cut)
    loader = made(before, persistent)
    for _ in range(epochs):
        rows(loader)
    it = iter(loader)
    for _ in itertools.islice(it, cut):
        pass
    state = json.loads(json.dumps(loader.state_dict()))
    expected = rows(it) or None  # an epoch that was over is followed by the next
    del it, loader
    torch.manual_seed(987654)  # the process that resumes has other seeds
    again = made(after, then_persistent)
    again.load_state_dict(state)
    found = rows(again)
    if expected is not None:
        assert found == expected
    else:
        assert len(found) == len(rows(made(0)))


@given(st.integers(0, 12), st.sampled_from([1, 2]), st.sampled_from([0, 1, 2]))
def test_out_of_order_each_row_comes_once_over_a_cut(cut: int, before: int, after: int) -> None:
    loader = leat.DataLoader(Count(37), 3, shuffle=True, num_workers=before, in_order=False)
    it = iter(loader)
    found = [int(i) for batch in itertools.islice(it, cut) for i in batch]
    state = loader.state_dict()
    again = leat.DataLoader(Count(37), 3, shuffle=True, num_workers=after, in_order=False)
    again.load_state_dict(state)
    assert sorted(found + rows(again)) == list(range(37))


def test_a_state_of_a_stream_needs_the_same_number_of_workers() -> None:
    loader = leat.DataLoader(StatefulStream([9, 9]), 2, num_workers=2)
    it = iter(loader)
    next(it)
    with pytest.raises(ValueError, match="2 workers"):
        leat.DataLoader(StatefulStream([9, 9]), 2, num_workers=1).load_state_dict(loader.state_dict())


@pytest.mark.parametrize("state", [{}, None, {"version": 99, "epoch": 0}, {"_snapshot": {}}, 7])
def test_what_is_no_state_is_refused(state: Any) -> None:
    with pytest.raises(ValueError, match="state_dict"):
        leat.DataLoader(Count(9)).load_state_dict(state)


def test_a_state_of_a_stream_is_refused_by_a_map_style_loader() -> None:
    loader = leat.DataLoader(StatefulStream([9]), 2)
    it = iter(loader)
    next(it)
    with pytest.raises(ValueError, match="kind of data set"):
        leat.DataLoader(Count(9)).load_state_dict(loader.state_dict())


def test_a_state_counts_what_was_delivered_not_what_was_prefetched() -> None:
    meeting = Meeting(FORK, 1)

    class Met(Count):
        def __getitem__(self, i: int) -> int:
            meeting.wait()
            return i

    loader = leat.DataLoader(Met(100), 2, num_workers=2, prefetch_factor=8)
    it = iter(loader)
    next(it), next(it), next(it)
    assert loader.state_dict()["step"] == 3


def test_a_state_after_the_last_batch_is_the_start_of_the_next_epoch() -> None:
    loader = leat.DataLoader(Count(6), 2)
    for _ in loader:
        state = loader.state_dict()
    assert (state["epoch"], state["step"]) == (1, 0) == (loader.state_dict()["epoch"], loader.state_dict()["step"])


@pytest.mark.parametrize("num_workers", [0, 1, 2])
def test_reseeded_augmentations_are_the_same_for_any_workers_and_after_a_cut(num_workers: int) -> None:
    def made(workers: int) -> leat.DataLoader:
        return leat.DataLoader(Draws(24), 5, shuffle=True, seed=3, reseed=True, num_workers=workers, collate_fn=as_is)

    loader = made(0)
    expected = [list(loader), list(loader)]
    loader = made(num_workers)
    assert same([list(loader), list(loader)], expected)
    loader = made(num_workers)
    list(loader)
    it = iter(loader)
    next(it), next(it)
    again = made(2 - num_workers)
    again.load_state_dict(loader.state_dict())
    assert same(list(again), expected[1][2:])


def test_reseeded_samples_differ_from_each_other_and_from_epoch_to_epoch() -> None:
    loader = leat.DataLoader(Draws(24), 5, seed=3, reseed=True, num_workers=2, collate_fn=as_is)
    draws = [value for _ in range(2) for batch in loader for sample in batch for value in map(float, sample)]
    assert len(set(draws)) == len(draws) == 2 * 24 * 3


@pytest.mark.parametrize("num_workers", [0, 1])
def test_reseeding_samples_leaves_the_generators_here_alone(num_workers: int) -> None:
    random.seed(1), np.random.seed(2), torch.manual_seed(3)
    list(leat.DataLoader(Draws(6), 2, seed=3, num_workers=1))
    expected = random.random(), np.random.random(), float(torch.rand(()))
    random.seed(1), np.random.seed(2), torch.manual_seed(3)
    list(leat.DataLoader(Draws(6), 2, seed=3, reseed=True, num_workers=num_workers))
    assert (random.random(), np.random.random(), float(torch.rand(()))) == expected


def test_the_epoch_can_be_said() -> None:
    loader = leat.DataLoader(Count(50), 7, shuffle=True, seed=11)
    epochs = [rows(loader) for _ in range(3)]
    loader.set_epoch(1)
    assert rows(loader) == epochs[1] and rows(loader) == epochs[2]


# --- states that were edited
# -------------------------------------------------------------------------------------------

EDITED: dict[str, Callable[[], dict[str, Any]]] = {
    "map-style": lambda: {"dataset": Count(27), "batch_size": 3},
    "shuffled": lambda: {"dataset": Count(27), "batch_size": 3, "shuffle": True},
    "shuffled with a generator": MAKERS["shuffled with a generator"],
    "sampler with a seed": MAKERS["sampler with a seed"],
    "subset": lambda: {"dataset": Count(27), "batch_size": 3, "sampler": SubsetRandomSampler(range(5, 25))},
    "list as sampler": MAKERS["list as sampler"],
    "stream with state": MAKERS["stream with state"],
    "stream without state": MAKERS["stream without state"],
}
HOSTILE = [
    None,
    True,
    -1,
    0,
    1,
    3,
    10**6,
    2**63,
    -(2**70),
    1.5,
    float("nan"),
    "",
    "7",
    "AAAA",
    b"x",
    [],
    [0],
    [[0, None, 1]],
    {},
    {"random": 1},
    ...,
]


def paths_of(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where something stands in nested dicts and lists, containers included; the user's own states are left alone."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    mine = [] if at[:1] == ("streams",) and at[3:] else [at] if at else []
    return mine + [
        path for name, each in inside if name not in ("dataset", "iterator") for path in paths_of(each, (*at, name))
    ]


@pytest.mark.parametrize("workers", [0, 2])
def test_an_iterator_from_before_a_state_was_loaded_does_not_read_on(workers: int) -> None:
    def opened() -> Any:
        return leat.DataLoader(range(40), 4, shuffle=True, seed=2, num_workers=workers, persistent_workers=workers > 0)

    whole = [batch.tolist() for batch in opened()]
    taker, loader = opened(), opened()
    for _ in zip(range(3), taker, strict=False):
        pass
    before, within = iter(loader), iter(loader)
    next(within)
    loader.load_state_dict(taker.state_dict())
    for old in (before, within):
        with pytest.raises(leat.ClosedError, match="a state was loaded after this iterator had begun"):
            next(old)
    again = iter(loader)
    assert next(again).tolist() == whole[3]
    if not workers:  # persistent workers have one iterator
        with pytest.raises(leat.ClosedError, match="a state was loaded after this iterator had begun"):
            next(within)
    assert [batch.tolist() for batch in again] == whole[4:]
    loader.load_state_dict(taker.state_dict())
    assert next(again, None) is None  # its epoch was over


@given(st.sampled_from(sorted(EDITED)), st.integers(0, 6), st.data())
@example("map-style", 0, None)
def test_an_edited_state_is_a_state_error_or_goes_on(name: str, cut: int, data: Any) -> None:
    loader = leat.DataLoader(**EDITED[name](), collate_fn=as_is)
    it = iter(loader)
    for _ in itertools.islice(it, cut):
        pass
    state = json.loads(json.dumps(loader.state_dict()))
    for _ in range(data.draw(st.integers(1, 3)) if data else 0):
        found = paths_of(state)
        if not found:
            break
        *inside, last = data.draw(st.sampled_from(found))
        holder = state
        for each in inside:
            holder = holder[each]
        value = data.draw(st.sampled_from(HOSTILE))
        if value is ...:
            del holder[last]
        else:
            holder[last] = copy.deepcopy(value)
    again = leat.DataLoader(**EDITED[name](), collate_fn=as_is)
    try:
        again.load_state_dict(state)
    except leat.StateError:
        assert len(list(again)) == len(list(leat.DataLoader(**EDITED[name](), collate_fn=as_is)))
        return
    try:
        list(again)
    except leat.StateError as e:
        # how long a sampler of the user's, or a stream, is shows when it is read, and what it gives
        assert "than the" in str(e) or "gives other batches than those" in str(e)


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        ({"step": 10**6, "yielded": 10**6}, "an epoch has 9 batches"),
        ({"step": -1}, "step is 0 or above"),
        ({"step": "2"}, "step is an integer"),
        ({"step": 1}, "'yielded'"),
        ({"epoch": 2**80}, "epoch is 0 or above"),
        ({"beyond": [99], "yielded": 3}, "batch 99"),
        ({"generator": "AAAA"}, "'generator'"),
        ({"of": {}}, "'batch_size'"),
        ({"base_seed": None}, "base_seed is an integer"),
        ({"workers": 0}, "kind of data set"),
    ],
)
def test_a_state_error_names_what_is_wrong(edit: dict[str, Any], said: str) -> None:
    loader = leat.DataLoader(Count(27), 3)
    it = iter(loader)
    next(it), next(it)
    with pytest.raises(leat.StateError, match=said):
        leat.DataLoader(Count(27), 3).load_state_dict({**loader.state_dict(), **edit})


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("streams", [[], [[0, None, 0]], [[0, None, 2]]])
def test_a_state_of_a_stream_that_lacks_delivered_batches_is_refused(workers: int, streams: Any) -> None:
    loader = leat.DataLoader(PlainStream([50, 50]), 4, num_workers=workers)
    it = iter(loader)
    next(it), next(it), next(it)
    with pytest.raises(leat.StateError, match="'streams'"):
        leat.DataLoader(PlainStream([50, 50]), 4, num_workers=workers).load_state_dict(
            loader.state_dict() | {"streams": streams}
        )


@pytest.mark.parametrize(
    "missing", ["yielded", "of", "generator", "base_seed", "sampler_seed", "own", "step", "epoch", "version"]
)
def test_a_state_that_is_not_whole_is_refused(missing: str) -> None:
    loader = leat.DataLoader(Count(27), 3)
    it = iter(loader)
    next(it), next(it)
    state = loader.state_dict()
    del state[missing]
    with pytest.raises(leat.StateError):
        leat.DataLoader(Count(27), 3).load_state_dict(state)


def test_a_state_beyond_the_end_of_a_sampler_of_unknown_length_is_refused_when_it_is_read() -> None:
    class Some:
        def __iter__(self) -> Any:
            return iter([[1, 2], [3]])

    loader = leat.DataLoader(Count(9), batch_sampler=Some())
    it = iter(loader)
    next(it)
    state = {**loader.state_dict(), "step": 10**3, "yielded": 10**3}
    state["reading"]["count"] = 10**3
    again = leat.DataLoader(Count(9), batch_sampler=Some())
    again.load_state_dict(state)
    with pytest.raises(leat.StateError, match="more batches than the sampler gives"):
        next(iter(again))


@in_ways([name for name in MAKERS if name.startswith("stream")], ("stream with state",))
def test_a_state_taken_in_the_loop_after_the_last_batch_of_a_stream_goes_on_with_the_next_epoch(
    name: str, way: str
) -> None:
    loader = leat.DataLoader(**MAKERS[name](), **WAYS[way], collate_fn=as_is)
    for _ in loader:
        state = loader.state_dict()
    expected = [list(loader), list(loader)]
    assert expected[0]
    again = leat.DataLoader(**MAKERS[name](), **WAYS[way], collate_fn=as_is)
    again.load_state_dict(pickle.loads(pickle.dumps(state)))
    found = list(again)
    assert len(found) == len(expected[0]) and again.state_dict()["epoch"] == 2
    if name != "stream that draws" or way == "here":
        assert same([found, list(again)], expected)


@pytest.mark.parametrize("num_workers", [0, 1])
@pytest.mark.parametrize(
    "before, after",
    [
        (lambda n: DistributedSampler(n, 2, 0), lambda n: DistributedSampler(n, 3, 0)),
        (lambda n: DistributedSampler(n, 2, 1), lambda n: DistributedSampler(n, 2, 1, seed=5)),
        (lambda n: WeightedRandomSampler([1.0] * len(n), 30), lambda n: WeightedRandomSampler([1.0, 9.0] * 30, 30)),
        (lambda n: SubsetRandomSampler(n[:30]), lambda n: SubsetRandomSampler(n[30:])),
        (lambda n: n[:30], lambda n: n[30:]),
    ],
    ids=["ranks", "seed", "weights", "positions", "list"],
)
def test_a_state_over_a_sampler_of_pytorchs_does_not_fit_one_with_other_arguments(
    before: Any, after: Any, num_workers: int
) -> None:
    data = range(60)
    loader = leat.DataLoader(data, 5, sampler=before(data), num_workers=num_workers)
    rest = iter(loader)
    next(rest)
    state = loader.state_dict()
    same = leat.DataLoader(data, 5, sampler=before(data), num_workers=num_workers)
    same.load_state_dict(state)
    assert [batch.tolist() for batch in same] == [batch.tolist() for batch in rest]
    other = leat.DataLoader(data, 5, sampler=after(data), num_workers=num_workers)
    other.load_state_dict(state)
    for _ in range(2):
        with pytest.raises(leat.StateError, match="other batches|of 2 ranks, and this one is of 3"):
            list(other)


@pytest.mark.parametrize("rank", [None, 2, [2], ["0", "2"], {}])
def test_a_state_whose_rank_is_damaged_is_refused(rank: Any) -> None:
    loader = leat.DataLoader(range(60), 5, sampler=DistributedSampler(range(60), 2, 0))
    next(iter(loader))
    state = loader.state_dict()
    state["reading"]["rank"] = rank
    with pytest.raises(leat.StateError, match="'rank' cannot be"):
        loader.load_state_dict(state)


def test_a_state_over_a_distributed_sampler_fits_the_other_ranks() -> None:
    data, states = range(60), []
    for rank in range(2):
        loader = leat.DataLoader(data, 5, sampler=DistributedSampler(data, 2, rank))
        rest = iter(loader)
        next(rest)
        states.append(loader.state_dict())
        other = leat.DataLoader(data, 5, sampler=DistributedSampler(data, 2, rank))
        other.load_state_dict(states[0])
        assert [batch.tolist() for batch in other] == [batch.tolist() for batch in rest]
