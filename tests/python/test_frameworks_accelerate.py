"""Hugging Face Accelerate shards, evens, skips, gathers and saves leat.DataLoader as it does torch's, and leat's engine
does the work.

Each case runs all scenes of frameworks/accelerate_ranks.py once: in one process, and in two that speak gloo.
"""

from __future__ import annotations

import functools
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

import leat

pytest.importorskip("torch")

from frameworks_support import available, environment, needs, run_ranks, run_script  # noqa: E402

needs("accelerate", "torchdata")


@dataclass
class Case:
    kind: str
    ranks: list[dict[str, Any]]

    def __getitem__(self, scene: str) -> list[Any]:
        """What each rank told of a scene."""
        return [rank[scene] for rank in self.ranks]


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Case]:
    """cases("leat-2"): that loader in two processes."""
    folder = tmp_path_factory.mktemp("accelerate")

    @functools.cache
    def run(name: str) -> Case | Exception:
        kind, world = name.split("-")
        try:
            if world == "1":
                told = run_script("accelerate_ranks.py", kind, 2, folder)
                return Case(kind, [{k: v for one in told for k, v in one.items()}])
            return Case(kind, run_ranks("accelerate_ranks.py", kind, 2, folder, world=int(world)))
        except Exception as e:  # once for all tests of the case
            return e

    def found(name: str) -> Case:
        if not available(name.partition("-")[0]):
            pytest.skip("leat has no DataLoader yet")
        case = run(name)
        if isinstance(case, Exception):
            raise case
        return case

    return found


@pytest.fixture(params=["torch-1", "leat-1"])
def alone(request: pytest.FixtureRequest, cases: Callable[[str], Case]) -> Case:
    return cases(request.param)


@pytest.fixture(params=["torch-2", "leat-2"])
def two(request: pytest.FixtureRequest, cases: Callable[[str], Case]) -> Case:
    return cases(request.param)


@pytest.fixture(params=["torch-1", "leat-1", "torch-2", "leat-2"])
def any_case(request: pytest.FixtureRequest, cases: Callable[[str], Case]) -> Case:
    return cases(request.param)


# What two ranks get of samples 0 to 9 in batches of 2: whole batches in turn, the last ones filled from the first.
SHARDS = [[[0, 1], [4, 5], [8, 9]], [[2, 3], [6, 7], [0, 1]]]
WHOLE = [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]


@pytest.mark.parametrize(
    "scene", ["sharded", "sharded_without_workers", "own_batch_sampler", "sampler_of_batches", "split"]
)
def test_two_ranks_share_the_batches_and_the_last_are_evened_from_the_first(two: Case, scene: str) -> None:
    assert two[scene] == SHARDS


@pytest.mark.parametrize("scene", ["sharded", "sharded_without_workers", "own_batch_sampler", "uneven", "dispatched"])
def test_one_process_gets_every_batch(alone: Case, scene: str) -> None:
    assert alone[scene] == [WHOLE]


def test_each_epoch_of_a_prepared_loader_is_whole(two: Case) -> None:
    assert two["sharded_twice"] == [[shard, shard] for shard in SHARDS]


def test_without_even_batches_the_last_rank_gets_fewer(two: Case) -> None:
    assert two["uneven"] == [SHARDS[0], SHARDS[1][:2]]


def test_with_drop_last_a_round_that_is_not_full_is_left_out(two: Case) -> None:
    assert two["dropped"] == [[[0, 1], [4, 5]], [[2, 3], [6, 7]]]


@pytest.mark.parametrize("scene", ["dispatched", "dispatched_and_split"])
def test_dispatched_batches_are_made_on_the_first_rank_and_cut(two: Case, scene: str) -> None:
    assert two[scene] == [[[0, 1], [4, 5], [8]], [[2, 3], [6, 7], [9]]]


def test_a_stream_is_dispatched_by_default(two: Case) -> None:
    # Each of the two workers has every second number; their batches come in turn.
    assert two["streamed"] == [[[0, 2], [4, 6], [8]], [[1, 3], [5, 7], [9]]]


def test_a_stream_can_be_read_on_each_rank_which_keeps_its_part_of_each_round(two: Case) -> None:
    # A round of a worker is 2 batches of 2; the last is filled from its first.
    assert two["streamed_in_shards"] == [[[0, 2], [1, 3], [8, 0], [9, 1]], [[4, 6], [5, 7], [2, 4], [3, 5]]]


@pytest.mark.parametrize("scene", ["streamed", "streamed_in_shards"])
def test_a_stream_in_one_process_comes_whole(alone: Case, scene: str) -> None:
    assert alone[scene] == [[[0, 2], [1, 3], [4, 6], [5, 7], [8], [9]]]


@pytest.mark.parametrize("how", ["sharded", "dispatched"])
def test_gathered_metrics_hold_each_sample_once_and_in_order(any_case: Case, how: str) -> None:
    for rank in any_case["gathered"]:
        assert rank[how] == list(range(11))
        assert rank["split"] == list(range(12))


def test_gathered_metrics_hold_each_shuffled_sample_once(any_case: Case) -> None:
    for rank in any_case["gathered"]:
        assert sorted(rank["shuffled"]) == list(range(11))
        assert rank["shuffled"] != list(range(11))


def flat(batches: list[list[int]]) -> list[int]:
    return [i for batch in batches for i in batch]


def test_ranks_whose_random_numbers_differ_still_share_one_order(any_case: Case) -> None:
    epochs = [sorted(i for rank in any_case["shuffled"] for i in flat(rank[epoch])) for epoch in range(2)]
    assert epochs == [list(range(16))] * 2
    assert any_case["shuffled"][0][0] != any_case["shuffled"][0][1]


@pytest.mark.parametrize("world", [1, 2])
def test_a_generator_determines_the_order_of_dispatched_batches_as_with_torchs_loader(
    cases: Callable[[str], Case], world: int
) -> None:
    found = cases(f"leat-{world}")["shuffled_by_generators"]
    assert found == cases(f"torch-{world}")["shuffled_by_generators"]
    assert found[0][0] != found[0][1]  # of two generators


@pytest.mark.parametrize("world", [1, 2])
def test_rows_and_generators_are_those_of_torchs_loader_however_it_is_prepared_and_iterated(
    cases: Callable[[str], Case], world: int
) -> None:
    for theirs, ours in zip(cases(f"torch-{world}")["table"], cases(f"leat-{world}")["table"]):
        differ = {name: (theirs[name], ours[name]) for name in theirs if theirs[name] != ours[name]}
        assert theirs.keys() == ours.keys() and len(theirs) > 150
        assert not differ


def test_a_seedable_sampler_gives_each_epoch_an_order_that_set_epoch_brings_back(any_case: Case) -> None:
    for first, second, again in any_case["seedable"]:
        assert first == again != second
    assert sorted(i for rank in any_case["seedable"] for i in flat(rank[0])) == list(range(16))


def test_the_order_of_a_seedable_sampler_is_that_of_its_seed(two: Case) -> None:
    from accelerate.data_loader import SeedableRandomSampler

    order = list(SeedableRandomSampler(range(16), data_seed=3))
    rounds = [order[i : i + 4] for i in range(0, 16, 4)]
    assert [rank[0] for rank in two["seedable"]] == [[r[:2] for r in rounds], [r[2:] for r in rounds]]


def test_skipped_batches_are_those_of_the_epoch_under_way_and_later_epochs_are_whole(any_case: Case) -> None:
    for rank in any_case["skipped"]:
        assert rank["rest"] == rank["epochs"][1][2:]
        assert rank["length"] == len(rank["rest"])
        assert len(rank["after"]) == len(rank["epochs"][0])


def test_batches_can_be_skipped_in_two_goes(two: Case) -> None:
    assert [rank["twice"] for rank in two["skipped"]] == [[[8, 9], [12, 13], [16, 17]], [[10, 11], [14, 15], [18, 19]]]


def test_batches_of_a_stream_can_be_skipped(any_case: Case) -> None:
    for whole, rest in any_case["skipped_of_a_stream"]:
        assert len(whole) > 2
        assert rest == whole[2:]


def test_batches_of_a_loader_that_is_not_prepared_can_be_skipped(any_case: Case) -> None:
    assert any_case["skipped_unprepared"] == [[WHOLE[3:], any_case.kind]] * len(any_case.ranks)


def test_a_saved_state_goes_on_with_the_very_next_batch(any_case: Case) -> None:
    for rank in any_case["saved"]:
        assert len(rank["tail"]) > 2
        assert rank["resumed"] == rank["tail"]
        assert rank["resumed next"] == rank["next"]
        if any_case.kind == "leat":
            assert rank["left"] == []  # of a save into the same folder by other ranks, or of another loader


@pytest.mark.parametrize("name", ["leat-1", "leat-2"])
def test_a_saved_state_knows_its_epoch_and_order(cases: Callable[[str], Case], name: str) -> None:
    # torchdata's loader does not know which epoch Accelerate's sampler was in.
    for rank in cases(name)["saved_shuffled"]:
        assert rank["resumed"] == rank["tail"]
        assert rank["resumed next"] == rank["next"] != rank["head"] + rank["tail"]


def test_a_state_saved_after_an_epoch_goes_on_with_a_whole_one(two: Case) -> None:
    assert two["saved_at_the_end"] == [[[0, 1], [4, 5]], [[2, 3], [6, 7]]]


def test_the_last_batch_is_known_as_it_is_handed_out(any_case: Case) -> None:
    for rank in any_case["ends"]:
        assert [end for end, _ in rank["batches"]] == [False] * (rank["length"] - 1) + [True]
        assert rank["after"] is False


def test_the_remainder_and_the_sizes_are_those_of_all_ranks(two: Case) -> None:
    for rank in two["ends"]:
        assert {remainder for _, remainder in rank["batches"]} == {3}
        assert (rank["length"], rank["total_batch_size"], rank["total_dataset_length"]) == (3, 4, 11)


def test_a_training_with_accumulated_gradients_ends_with_the_same_weights_on_all_ranks(two: Case) -> None:
    first, second = two["trained"]
    assert first == second
    assert first == pytest.approx([0.17059067, -0.00593896], abs=1e-6)


@pytest.mark.parametrize("stage", ["sharded prepared", "sharded skipped", "dispatched prepared", "dispatched skipped"])
def test_a_prepared_loader_keeps_its_engine_and_every_argument(any_case: Case, stage: str) -> None:
    for rank in any_case["arguments"]:
        found = dict(rank[stage])
        own = found.pop("own")
        assert found == {"engine": any_case.kind, "dataset": True, "collate_fn": True, "timeout": 50,
        "worker_init_fn": True, "method": "fork",
                         "num_workers": 2, "prefetch_factor": 3, "persistent_workers": True,
                         "isinstance": True}  # fmt: skip
        assert own == (
            {"reseed": True, "on_error": "skip", "sample_timeout_s": 60.0} if any_case.kind == "leat" else {}
        )


def test_a_loader_whose_state_is_saved_keeps_its_engine(any_case: Case) -> None:
    for rank in any_case["saved"]:
        assert rank["engine"] == ("torchdata" if any_case.kind == "torch" else any_case.kind)


# --- what PyTorch's loader does not have ---------------------------------------------------------------------------


@pytest.fixture(params=["leat-1", "leat-2"])
def own(request: pytest.FixtureRequest, cases: Callable[[str], Case]) -> Case:
    return cases(request.param)


@pytest.mark.parametrize("how", ["sharded False", "sharded True", "dispatched False", "dispatched True"])
def test_a_seed_gives_all_ranks_together_the_order_that_it_gives_one_loader(own: Case, how: str) -> None:
    world = len(own.ranks)
    plain = leat.DataLoader(range(16), batch_size=2, shuffle=True, seed=9)
    for epoch in range(2):
        order = [batch.tolist() for batch in plain]
        assert [rank[how]["epochs"][epoch] for rank in own["seeded"]] == [
            order[number::world] for number in range(world)
        ]
    if how.startswith("sharded"):  # of dispatched batches Accelerate skips some of the first rank's, not rounds
        for rank in own["seeded"]:
            assert rank[how]["rest"] == rank[how]["epochs"][1][1:]


def test_samples_after_skipped_batches_draw_what_they_draw_in_the_whole_epoch(own: Case) -> None:
    for rank in own["redrawn"]:
        assert len(rank["whole"]) > 2
        assert rank["rest"] == rank["whole"][2:]


def test_ranks_draw_random_numbers_of_their_own(cases: Callable[[str], Case]) -> None:
    first, second = [[tuple(x) for batch in rank["whole"] for x in batch] for rank in cases("leat-2")["redrawn"]]
    assert len({*first, *second}) == 16


def test_an_adapting_number_of_workers_and_a_window_that_nobody_gave_stay_so(own: Case) -> None:
    for rank in own["kept"]:
        assert rank["adaptive"] == [True, True]
        assert rank["windows"] == [None, None]
        assert rank["batches"] == (4 if len(own.ranks) == 1 else 2)


@pytest.mark.parametrize(
    "how",
    [
        "dispatched",
        "dispatched and split",
        "a stream",
        "shuffled without a seed",
        "shuffled with a seed",
        "without workers",
    ],
)
def test_any_saved_state_goes_on_with_the_very_next_batch_and_the_epochs_after_it(own: Case, how: str) -> None:
    for rank in own["saved_otherwise"]:
        found = rank[how]
        assert len(found["tail"]) > 2
        assert found["resumed"] == found["tail"]
        if how != "shuffled without a seed":
            assert found["resumed next"] == found["next"]


def test_a_saved_state_of_any_sampler_that_draws_goes_on_as_if_nothing_had_happened(own: Case) -> None:
    for number, rank in enumerate(own["saved_drawn"]):
        for how, found in rank.items():
            if number == 0 or "sharded" in how:
                assert found["resumed"] == found["tail"], how
            else:  # a rank that others read for has no state of its own
                rows = [[[ids for ids, *_ in epoch] for epoch in found[when]] for when in ("resumed", "tail")]
                assert rows[0] == rows[1], how
            assert len(found["tail"][0]) > 2


def test_a_version_of_accelerate_that_is_not_known_gets_a_warning_and_trains_with_torchs_loader() -> None:
    script = """
import sys, types, warnings
import leat
module = sys.modules["accelerate.data_loader"] = types.ModuleType("accelerate.data_loader")
module.DataLoaderAdapter = type("DataLoaderAdapter", (), {"__init__": lambda self, loader: None})
loader = leat.DataLoader(range(4), batch_size=2, timeout=0)
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    assert loader.timeout == loader.timeout == 0
assert [str(w.message)[:40] for w in said] == ["leat does not know how this version of A"], said
assert [batch.tolist() for batch in loader] == [[0, 1], [2, 3]]
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120, env=environment())
