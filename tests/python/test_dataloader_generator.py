"""Randomness: the same seeds give the same order, the same draws in workers, and leave the same generators behind."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from dataloader_support import Count, Draws, Stream, as_is, batches, rows  # noqa: E402
from torch.utils.data import DataLoader, RandomSampler  # noqa: E402
from torch.utils.data._utils.worker import _generate_state  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")
WORKERS = pytest.mark.parametrize("num_workers", [0, 2])


def drawn(generator: torch.Generator | None = None) -> int:
    """The next integer of 64 bits."""
    return int(torch.empty((), dtype=torch.int64).random_(generator=generator))


@WORKERS
def test_the_global_seed_says_the_order(loader_class: Any, num_workers: int) -> None:
    torch.manual_seed(0)
    drawn()  # for the workers' seeds
    expected = torch.randperm(50, generator=torch.Generator().manual_seed(drawn())).tolist()
    torch.manual_seed(0)
    assert rows(loader_class(Count(50), 7, shuffle=True, num_workers=num_workers)) == expected


@WORKERS
def test_a_generator_says_the_order(loader_class: Any, num_workers: int) -> None:
    generator = torch.Generator().manual_seed(42)
    drawn(generator)
    expected = torch.randperm(50, generator=generator).tolist()
    generator = torch.Generator().manual_seed(42)
    assert rows(loader_class(Count(50), 7, shuffle=True, num_workers=num_workers, generator=generator)) == expected


def arguments(kind: str) -> dict[str, Any]:
    return {
        "shuffle": lambda: {"shuffle": True},
        "in order": dict,
        "without batches": lambda: {"shuffle": True, "batch_size": None},
        "dropped": lambda: {"shuffle": True, "drop_last": True},
        "sampler": lambda: {"sampler": RandomSampler(range(50), True, 31)},
        "sampler of two rounds": lambda: {"sampler": RandomSampler(range(50), num_samples=120)},
        "persistent": lambda: {"sampler": RandomSampler(range(50)), "num_workers": 2, "persistent_workers": True},
    }[kind]()


KINDS = ["shuffle", "in order", "without batches", "dropped", "sampler", "sampler of two rounds", "persistent"]


def epochs(loader_class: Any, kind: str, num_workers: int, generator: torch.Generator | None) -> Any:
    """Three epochs, with what the global generator gives after each."""
    loader = loader_class(
        Count(50), **{"batch_size": 7, "num_workers": num_workers, "generator": generator, **arguments(kind)}
    )
    return [([torch.as_tensor(b).tolist() for b in loader], drawn()) for _ in range(3)]


@WORKERS
@pytest.mark.parametrize("kind", KINDS)
def test_epochs_are_pytorchs_for_the_same_global_seed(loader_class: Any, kind: str, num_workers: int) -> None:
    torch.manual_seed(5)
    expected = epochs(DataLoader, kind, num_workers, None)
    torch.manual_seed(5)
    assert epochs(loader_class, kind, num_workers, None) == expected


@WORKERS
@pytest.mark.parametrize("kind", KINDS)
def test_epochs_are_pytorchs_for_the_same_generator(loader_class: Any, kind: str, num_workers: int) -> None:
    a, b = torch.Generator().manual_seed(9), torch.Generator().manual_seed(9)
    torch.manual_seed(1)
    expected = epochs(DataLoader, kind, num_workers, a)
    torch.manual_seed(1)
    assert epochs(loader_class, kind, num_workers, b) == expected
    assert drawn(a) == drawn(b)


def test_persistent_workers_shuffle_as_pytorch_for_a_generator(loader_class: Any) -> None:
    def run(kind: Any) -> list[list[int]]:
        generator = torch.Generator().manual_seed(4)
        loader = kind(Count(50), 7, shuffle=True, num_workers=2, persistent_workers=True, generator=generator)
        return [rows(loader) for _ in range(3)]

    assert run(loader_class) == run(DataLoader)


def test_persistent_workers_shuffle_alike_for_the_same_global_seed(loader_class: Any) -> None:
    def run() -> list[list[int]]:
        torch.manual_seed(4)
        loader = loader_class(Count(50), 7, shuffle=True, num_workers=2, persistent_workers=True)
        return [rows(loader) for _ in range(3)]

    found = run()
    assert found == run() and len({tuple(e) for e in found}) == 3


@WORKERS
def test_out_of_order_batches_have_the_rows_of_pytorchs(loader_class: Any, num_workers: int) -> None:
    torch.manual_seed(5)
    expected = batches(DataLoader(Count(50), 7, shuffle=True))
    torch.manual_seed(5)
    assert sorted(batches(loader_class(Count(50), 7, shuffle=True, num_workers=num_workers, in_order=False))) == sorted(
        expected
    )


@WORKERS
def test_the_order_does_not_depend_on_the_number_of_workers(loader_class: Any, num_workers: int) -> None:
    torch.manual_seed(3)
    expected = batches(loader_class(Count(20), 3, shuffle=True))
    torch.manual_seed(3)
    assert batches(loader_class(Count(20), 3, shuffle=True, num_workers=num_workers)) == expected


@WORKERS
def test_epochs_begun_under_one_seed_are_alike_though_they_are_read_in_turns(
    loader_class: Any, num_workers: int
) -> None:
    loader = loader_class(Count(20), 3, shuffle=True, num_workers=num_workers)
    begun = []
    for _ in range(2):
        torch.manual_seed(6)
        it = iter(loader)
        begun.append((next(it), it))
    (a, ait), (b, bit) = begun
    found = [(x.tolist(), y.tolist()) for x, y in [(a, b), *zip(ait, bit)]]
    assert len(found) == 7 and all(x == y for x, y in found)


@WORKERS
def test_a_given_generator_leaves_the_global_one_alone(loader_class: Any, num_workers: int) -> None:
    before = torch.get_rng_state()
    rows(loader_class(Count(20), 3, shuffle=True, num_workers=num_workers, generator=torch.Generator()))
    assert torch.equal(torch.get_rng_state(), before)


@WORKERS
def test_pythons_and_numpys_generators_are_left_alone(loader_class: Any, num_workers: int) -> None:
    before = random.getstate(), np.random.get_state()[1].tolist()
    rows(loader_class(Count(20), 3, shuffle=True, num_workers=num_workers))
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before


def test_starting_an_iterator_draws_once_from_the_global_generator(loader_class: Any) -> None:
    for num_workers in (0, 1):
        torch.manual_seed(8)
        drawn()
        expected = drawn()
        torch.manual_seed(8)
        it = iter(loader_class(Stream(4), num_workers=num_workers))
        assert drawn() == expected
        del it


def test_one_worker_draws_what_its_seed_says(loader_class: Any) -> None:
    seed = drawn(torch.Generator().manual_seed(77))
    own = random.Random(seed)
    numpy_own = np.random.RandomState(_generate_state(seed, 0))
    torch_own = torch.Generator().manual_seed(seed)
    expected = [
        (own.random(), numpy_own.random_sample(), float(torch.rand((), dtype=torch.float64, generator=torch_own)))
        for _ in range(12)
    ]
    loader = loader_class(Draws(12), 3, num_workers=1, generator=torch.Generator().manual_seed(77), collate_fn=as_is)
    found = [(a, b, float(c)) for batch in loader for a, b, c in batch]
    assert found == expected


def test_one_worker_of_the_default_collation_draws_the_same(loader_class: Any) -> None:
    def run(kind: Any) -> list[list[float]]:
        loader = kind(Draws(12), 3, num_workers=1, generator=torch.Generator().manual_seed(77))
        return [[x.tolist() for x in batch] for _ in range(2) for batch in loader]

    assert run(loader_class) == run(DataLoader)


def test_without_workers_samples_draw_from_the_generators_here(loader_class: Any) -> None:
    random.seed(1), np.random.seed(2), torch.manual_seed(3)
    drawn()
    expected = [(random.random(), np.random.random(), float(torch.rand((), dtype=torch.float64))) for _ in range(4)]
    random.seed(1), np.random.seed(2), torch.manual_seed(3)
    found = [(a, b, float(c)) for batch in loader_class(Draws(4), 2, collate_fn=as_is) for a, b, c in batch]
    assert found == expected
