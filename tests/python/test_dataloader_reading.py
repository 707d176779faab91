"""When a sampler is begun and read, beside PyTorch's loader; and that any is read on where a state was taken."""

from __future__ import annotations

import copy
import itertools
import json
import random
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from script_support import python  # noqa: E402

import leat  # noqa: E402

ROWS = 20
SHARED = np.random.default_rng(11)  # of the process: no state can know of it


def world(seed: int) -> None:
    random.seed(seed), np.random.seed(seed), torch.manual_seed(seed)


def numbers() -> tuple[Any, ...]:
    """Of the global generators, the next ones."""
    return random.random(), np.random.random(), torch.rand(()).item()


def lists(batches: Any) -> list[list[int]]:
    return [batch.tolist() for batch in batches]


class Batches:
    """Batches of 4 positions: a batch sampler that draws a permutation before it says its first one."""

    batch_size, drop_last = 4, False

    def __len__(self) -> int:
        return 4

    def order(self) -> list[int]:
        return [int(i) for i in np.random.permutation(16)]

    def __iter__(self) -> Iterator[list[int]]:
        order = self.order()
        return iter([order[i : i + 4] for i in range(0, 16, 4)])


class Lazily(Batches):
    """The same, drawn when the first batch is read."""

    def __iter__(self) -> Iterator[list[int]]:
        yield from super().__iter__()


class Episodes(Batches):
    """Draws for each batch."""

    def __iter__(self) -> Iterator[list[int]]:
        for _ in range(6):
            yield random.sample(range(ROWS), 2)


class WithoutRepeats(Batches):
    """Draws for each batch, and keeps in mind what it drew."""

    def __iter__(self) -> Iterator[list[int]]:
        left = list(range(ROWS))
        while left:
            yield [left.pop(int(torch.randint(len(left), ()))) for _ in range(4)]


class Held:
    """A part of a sampler."""

    def __init__(self, generator: Any) -> None:
        self.generator = generator

    def permutation(self) -> list[int]:
        if isinstance(self.generator, torch.Generator):
            return torch.randperm(16, generator=self.generator).tolist()
        if isinstance(self.generator, random.Random):
            return self.generator.sample(range(16), 16)
        return [int(i) for i in self.generator.permutation(16)]


class Holding(Lazily):
    """Draws from a generator of its own, some levels below it."""

    def __init__(self, generator: Any) -> None:
        self.parts = {"one": [Held(generator)]}

    def order(self) -> list[int]:
        return self.parts["one"][0].permutation()


class Counting(Batches):
    """Its order follows from an epoch that it counts itself."""

    def __init__(self) -> None:
        self.epoch = 0

    def order(self) -> list[int]:
        self.epoch += 1
        return [int(i) for i in np.random.RandomState(self.epoch).permutation(16)]


class Stateful:
    """A sampler of single positions with a state: its order follows from the epoch."""

    def __init__(self) -> None:
        self.at = self.epoch = 0

    def __len__(self) -> int:
        return 16

    def __iter__(self) -> Iterator[int]:
        order = np.random.RandomState(self.epoch).permutation(16)
        while self.at < 16:
            self.at += 1
            yield int(order[self.at - 1])
        self.at, self.epoch = 0, self.epoch + 1

    def state_dict(self) -> dict[str, int]:
        return {"at": self.at, "epoch": self.epoch}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.at, self.epoch = state["at"], state["epoch"]


class Around(Batches):
    """Batches by parity of what another sampler says: it holds positions back."""

    def __init__(self, sampler: Any) -> None:
        self.sampler = sampler

    def __iter__(self) -> Iterator[list[int]]:
        kept: list[list[int]] = [[], []]
        for i in self.sampler:
            kept[i % 2].append(i)
            if len(kept[i % 2]) == 3:
                yield kept[i % 2]
                kept[i % 2] = []
        yield from filter(None, kept)


class WithIterator(Batches):
    """Its iterator has a state, the sampler has none."""

    class Reader:
        def __init__(self, order: list[int]) -> None:
            self.order, self.at = order, 0

        def __iter__(self) -> Any:
            return self

        def __next__(self) -> list[int]:
            if self.at >= 16:
                raise StopIteration
            self.at += 4
            return self.order[self.at - 4 : self.at]

        def state_dict(self) -> dict[str, Any]:
            return {"at": self.at}

        def load_state_dict(self, state: dict[str, Any]) -> None:
            self.at = state["at"]

    def __iter__(self) -> Any:
        return self.Reader(self.order())


SAMPLERS: dict[str, Callable[[], dict[str, Any]]] = {
    "eager": lambda: {"batch_sampler": Batches()},
    "lazy": lambda: {"batch_sampler": Lazily()},
    "episodes": lambda: {"batch_sampler": Episodes()},
    "without repeats": lambda: {"batch_sampler": WithoutRepeats()},
    "default_rng": lambda: {"batch_sampler": Holding(np.random.default_rng(5))},
    "Philox": lambda: {"batch_sampler": Holding(np.random.Generator(np.random.Philox(5)))},
    "RandomState": lambda: {"batch_sampler": Holding(np.random.RandomState(5))},
    "random.Random": lambda: {"batch_sampler": Holding(random.Random(5))},
    "torch.Generator": lambda: {"batch_sampler": Holding(torch.Generator().manual_seed(5))},
    "epochs": lambda: {"batch_sampler": Counting()},
    "state": lambda: {"sampler": Stateful(), "batch_size": 4},
    "around a state": lambda: {"batch_sampler": Around(Stateful())},
    "around a shuffle": lambda: {"batch_sampler": Around(torch.utils.data.RandomSampler(range(16)))},
    "iterator with state": lambda: {"batch_sampler": WithIterator()},
    "subset": lambda: {"sampler": torch.utils.data.SubsetRandomSampler(range(3, 17)), "batch_size": 4},
    "replacement": lambda: {
        "sampler": torch.utils.data.RandomSampler(range(16), replacement=True, generator=torch.Generator()),
        "batch_size": 4,
    },
    "shuffle": lambda: {"shuffle": True, "batch_size": 4},
    "generator": lambda: {"shuffle": True, "batch_size": 4, "generator": torch.Generator().manual_seed(3)},
}
#: of which the epochs after the one that is resumed follow from the state, too
KNOWN_ON = SAMPLERS.keys() - {"subset", "shuffle"}


def made(name: str, num_workers: int, kind: Any = leat.DataLoader, **options: Any) -> Any:
    return kind(range(ROWS), num_workers=num_workers, **SAMPLERS[name](), **options)


def epoch_of(loader: Any, cuts: Sequence[int | None]) -> tuple[list[list[int]], dict[int | None, Any]]:
    """The batches of an epoch, and the states after so many of them; None: before it is begun."""
    found, states = list[list[int]](), dict[int | None, Any]()
    if None in cuts:
        states[None] = loader.state_dict()
    it = iter(loader)
    for cut in range(10):  # more than an epoch has: its end has been seen then
        found += lists(itertools.islice(it, min(cut, 1)))
        if cut in cuts:
            states[cut] = json.loads(json.dumps(loader.state_dict()))
    return found, states


FOUR_AHEAD = {"num_workers": 1, "prefetch_factor": 4}


@pytest.mark.parametrize(
    "epochs, options, cuts",
    [
        (0, {}, [0, 1, 2, 4, 9, None]),
        (2, {}, [0, 1, 2, 4, 9, None]),
        (0, FOUR_AHEAD, [0, 3]),
        (1, FOUR_AHEAD, [3]),
        (0, FOUR_AHEAD | {"persistent_workers": True}, [1, 9]),
        (2, FOUR_AHEAD | {"persistent_workers": True}, [1, 9, None]),
    ],
)
@pytest.mark.parametrize("name", SAMPLERS)
def test_any_sampler_goes_on_after_a_state(
    name: str, epochs: int, options: dict[str, Any], cuts: list[int | None]
) -> None:
    if name == "shuffle" and "persistent_workers" in options:
        pytest.skip("leat's own order")
    world(1)
    loader = made(name, **{"num_workers": 0, **options})
    for _ in range(epochs):
        list(loader)
    whole, states = epoch_of(loader, cuts)
    later = [lists(loader) for _ in range(1 if options == FOUR_AHEAD else 2)]
    for cut, state in states.items():
        if cut is None and not epochs and name not in ("generator", "replacement"):
            continue  # nothing has been drawn: another program begins as it likes
        world(99)
        again = made(name, **{"num_workers": 0, **options})
        again.load_state_dict(state)
        if cut is None and name not in ("default_rng", "epochs", "state", "generator"):
            continue
        expected = [epoch for epoch in (whole[cut:], *later) if epoch]
        found = [lists(again) for _ in expected]
        known = len(expected) if name in KNOWN_ON else int(cut is not None and cut < len(whole))
        assert found[:known] == expected[:known], cut


@pytest.mark.parametrize("cut", [1, 3])
@pytest.mark.parametrize("epochs", [0, 2])
@pytest.mark.parametrize("name", SAMPLERS)
def test_a_loader_that_has_gone_on_goes_back_to_a_state_of_its_own(name: str, epochs: int, cut: int) -> None:
    world(1)
    loader = made(name, 0)
    for _ in range(epochs):
        list(loader)
    whole, states = epoch_of(loader, [cut])
    list(loader)
    loader.load_state_dict(states[cut])
    iter(loader)  # which reads the sampler again, and delivers nothing
    assert lists(loader) == whole[cut:]


@pytest.mark.parametrize("num_workers", [0, 1])
@pytest.mark.parametrize("name", ["eager", "episodes", "lazy"])
def test_a_sampler_goes_on_though_the_training_draws_from_its_generators(name: str, num_workers: int) -> None:
    world(1)
    loader = made(name, num_workers)
    it = iter(loader)
    for _ in range(2):
        next(it)
        numbers()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        state = json.loads(json.dumps(loader.state_dict()))

    def rest(it: Any) -> Any:
        return [(batch.tolist(), random.random(), np.random.random()) for batch in it]

    def only(found: Any) -> Any:  # the generator that the sampler draws from is that of the state
        return [(batch, r if name == "episodes" else n) for batch, r, n in found]

    expected = rest(it), rest(loader)
    world(99)
    again = made(name, num_workers)
    again.load_state_dict(state)
    assert list(map(only, (rest(again), rest(again)))) == list(map(only, expected))


def test_that_others_draw_from_the_generator_of_a_sampler_is_said_with_the_state() -> None:
    loader = made("without repeats", 0)
    it = iter(loader)
    for _ in range(3):
        next(it)
        numbers()
    with pytest.warns(UserWarning, match="WithoutRepeats.*draws for each batch.*torch.*Give it a generator of its own"):
        loader.state_dict()


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_sampler_that_gives_other_batches_when_it_is_read_again_is_refused(num_workers: int) -> None:
    class Hidden(Batches):
        def order(self) -> list[int]:
            return [int(i) for i in SHARED.permutation(16)]

    loader = leat.DataLoader(range(ROWS), batch_sampler=Hidden(), num_workers=num_workers)
    next(it := iter(loader))
    again = leat.DataLoader(range(ROWS), batch_sampler=Hidden(), num_workers=num_workers)
    again.load_state_dict(loader.state_dict())
    with pytest.raises(leat.StateError, match="Hidden.*gives other batches.*state_dict"):
        next(iter(again))
    assert len(list(it)) == 3


# --- beside PyTorch
# ---------------------------------------------------------------------------------------------------------------


def among(name: str, num_workers: int, persistent: bool) -> Any:
    """One for the next test: workers that each epoch starts anew are dear, and few samplers show all of them."""
    dear = num_workers and not persistent and (num_workers == 1 or name not in ("lazy", "episodes", "state", "shuffle"))
    return pytest.param(name, num_workers, persistent, marks=[pytest.mark.shard("torch")] if dear else [])


@pytest.mark.parametrize(
    "name, num_workers, persistent",
    [
        among(name, *workers)
        for name in SAMPLERS
        for workers in [(0, False), (1, False), (2, False), (2, True)]
        if (name, workers) != ("shuffle", (2, True))  # leat's own order
    ],
)
def test_batches_and_generators_are_pytorchs_whatever_the_program_draws(
    name: str, num_workers: int, persistent: bool
) -> None:
    def run(kind: Any) -> Any:
        world(3)
        loader = made(name, num_workers, kind, persistent_workers=persistent)
        found: list[Any] = []
        for stop in (None, 2, None, 1, None):
            it = iter(loader)
            found.append(numbers())
            for k, batch in enumerate(it):
                found.append((batch.tolist(), numbers()))
                if k == stop:
                    break
            found.append(numbers())
            if loader.generator is not None:
                found.append(loader.generator.get_state().sum().item())
        return found

    assert run(leat.DataLoader) == run(torch.utils.data.DataLoader)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_two_shuffled_loaders_side_by_side_draw_as_pytorchs_do(loader_class: Any, num_workers: int) -> None:
    world(5)
    one, other = (loader_class(range(ROWS), 4, shuffle=True, num_workers=num_workers) for _ in range(2))
    found = [(a.tolist(), b.tolist()) for a, b in zip(one, other)]
    world(5)
    one, other = (torch.utils.data.DataLoader(range(ROWS), 4, shuffle=True, num_workers=num_workers) for _ in range(2))
    assert found == [(a.tolist(), b.tolist()) for a, b in zip(one, other)]


def test_a_state_reads_nothing_ahead_without_workers() -> None:
    read = []

    class Watched(Batches):
        def __iter__(self) -> Iterator[list[int]]:
            for i in range(4):
                read.append(i)
                yield [i]

    loader = leat.DataLoader(range(ROWS), batch_sampler=Watched())
    for k, _ in enumerate(loader):
        loader.state_dict()
        assert read == list(range(k + 1))
        if k == 2:
            break
    loader.state_dict()
    assert read == [0, 1, 2]


def test_a_sampler_is_not_taken_for_leats_by_its_name() -> None:
    read = []

    class Shuffled(torch.utils.data.Sampler):  # as one of leat's is called
        def __iter__(self) -> Iterator[int]:
            for i in range(100):
                read.append(i)
                yield i

    it = iter(leat.DataLoader(range(100), 1, sampler=Shuffled(), num_workers=1))
    next(it)
    assert len(read) == 3


@pytest.mark.parametrize("num_workers", [0, 2])
def test_persistent_streams_draw_a_seed_once(loader_class: Any, num_workers: int) -> None:
    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self) -> Iterator[int]:
            return iter(range(4))

    generator = torch.Generator().manual_seed(1)
    loader = loader_class(Stream(), generator=generator, num_workers=num_workers, persistent_workers=num_workers > 0)
    for _ in range(3):
        list(loader)
    expected = torch.Generator().manual_seed(1)
    for _ in range(1 if num_workers else 3):
        torch.empty((), dtype=torch.int64).random_(generator=expected)
    assert torch.equal(generator.get_state(), expected.get_state())


@pytest.mark.parametrize("arguments", ["", ", num_workers=1", ", 2, shuffle=True, num_workers=2"])
def test_a_script_may_end_in_the_middle_of_an_epoch(arguments: str) -> None:
    quiet = "import warnings\nwarnings.filterwarnings('ignore', 'This DataLoader will create')\n"  # on few cores
    done = python("-c", quiet + f"import leat\nit = iter(leat.DataLoader(range(8){arguments}))\nnext(it)\n")
    assert (done.returncode, done.stderr) == (0, "")


# --- streams that keep what they are at
# ---------------------------------------------------------------------------------------------


class ItsOwnIterator(torch.utils.data.IterableDataset):
    """Counts its epochs, and is its own iterator."""

    def __init__(self) -> None:
        self.epoch, self.at = -1, 0

    def __iter__(self) -> Any:
        if self.at in (0, 6):
            self.epoch, self.at = self.epoch + 1, 0
        return self

    def __next__(self) -> int:
        if self.at == 6:
            raise StopIteration
        self.at += 1
        return 10 * self.epoch + self.at - 1

    def state_dict(self) -> dict[str, int]:
        return {"epoch": self.epoch, "at": self.at}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.epoch, self.at = state["epoch"], state["at"]


class KeepsItsIterator(torch.utils.data.IterableDataset):
    """Gives the same iterator, which counts the epochs, again and again."""

    def __init__(self) -> None:
        self.reader = ItsOwnIterator()

    def __iter__(self) -> Any:
        return iter(self.reader)


@pytest.mark.parametrize("num_workers", [0, 1])
@pytest.mark.parametrize("kind", [ItsOwnIterator, KeepsItsIterator])
def test_the_counter_of_a_stream_goes_on_after_the_end_of_an_epoch(kind: Any, num_workers: int) -> None:
    def loader() -> leat.DataLoader:
        return leat.DataLoader(kind(), 2, num_workers=num_workers, persistent_workers=num_workers > 0)

    first = loader()
    epochs = [lists(first)]
    state = copy.deepcopy(first.state_dict())
    epochs += [lists(first), lists(first)]
    assert epochs[1] == [[10, 11], [12, 13], [14, 15]]
    second = loader()
    second.load_state_dict(json.loads(json.dumps(state)))
    assert [lists(second), lists(second)] == epochs[1:]


@pytest.mark.parametrize("num_workers", [0, 1, 2])
def test_a_stream_that_is_its_own_iterator_goes_on_behind_what_was_read_ahead(num_workers: int) -> None:
    def run(kind: Any) -> Any:
        class Own(torch.utils.data.IterableDataset):
            at = 0

            def __iter__(self) -> Any:
                return self

            def __next__(self) -> int:
                if self.at >= 60:
                    raise StopIteration
                self.at += 1
                return self.at

        loader = kind(Own(), 2, num_workers=num_workers, persistent_workers=num_workers > 0)
        found = []
        for stop in (1, 0, 3, 100):
            for k, batch in enumerate(loader):
                found.append(batch.tolist())
                if k == stop:
                    break
        return found

    assert run(leat.DataLoader) == run(torch.utils.data.DataLoader)


@pytest.mark.parametrize(
    "options, error", [({"prefetch_factor": 0, "num_workers": 1}, AssertionError), ({"generator": 3}, TypeError)]
)
def test_arguments_that_iteration_cannot_use_fail_as_pytorchs(options: dict[str, Any], error: type) -> None:
    with pytest.raises(error):
        list(leat.DataLoader(range(4), shuffle=True, **options))
