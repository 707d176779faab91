"""pin_memory: what it does where there is an accelerator, and that it does nothing but warn where there is none."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
from dataloader_support import Count, From, Opaque, Point, Stream, as_opaque, rows  # noqa: E402

pytestmark = [
    pytest.mark.card(needed=False),
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    pytest.mark.parametrize("num_workers", [0, 2]),
]
ACCELERATOR = torch.accelerator.is_available()


class Custom:
    """A batch that pins itself."""

    def __init__(self, samples: list[int]) -> None:
        self.x, self.asked = torch.tensor(samples), False

    def pin_memory(self) -> Custom:
        self.asked = True
        self.x = self.x.pin_memory()
        return self


def sample(i: int) -> Any:
    return {"point": Point(torch.full((3,), float(i)), i), "name": f"{i}", "list": [i]}


def test_asking_without_an_accelerator_warns_and_gives_the_same_batches(loader_class: Any, num_workers: int) -> None:
    loader = loader_class(Count(7), 2, num_workers=num_workers, pin_memory=True)
    if ACCELERATOR:
        assert rows(loader) == list(range(7))
        return
    with pytest.warns(UserWarning, match="no accelerator is found"):
        assert rows(loader) == list(range(7))


def test_the_device_argument_alone_pins_nothing(loader_class: Any, num_workers: int) -> None:
    for batch in loader_class(Count(4), 2, num_workers=num_workers, pin_memory_device="cuda"):
        assert not batch.is_pinned()


@pytest.mark.filterwarnings("ignore:'pin_memory' argument is set")
def test_the_device_argument_is_said_to_be_ignored(loader_class: Any, num_workers: int) -> None:
    loader = loader_class(Count(4), 2, num_workers=num_workers, pin_memory=True, pin_memory_device="mine")
    with pytest.warns(UserWarning, match="ignore pin_memory_device='mine'"):
        assert rows(loader) == [0, 1, 2, 3]


@pytest.mark.filterwarnings("ignore:'pin_memory' argument is set")
def test_tensors_are_pinned_where_they_stand(loader_class: Any, num_workers: int) -> None:
    for batch in loader_class(From(6, sample), 2, num_workers=num_workers, pin_memory=True):
        assert type(batch["point"]) is Point and all(type(n) is str for n in batch["name"])
        for tensor in (batch["point"].x, batch["point"].y, batch["list"][0]):
            assert tensor.is_pinned() == ACCELERATOR


@pytest.mark.filterwarnings("ignore:'pin_memory' argument is set")
def test_a_batch_that_pins_itself_is_asked_to(loader_class: Any, num_workers: int) -> None:
    for batch in loader_class(Count(6), 2, num_workers=num_workers, pin_memory=True, collate_fn=Custom):
        assert type(batch) is Custom and batch.asked == batch.x.is_pinned() == ACCELERATOR


@pytest.mark.filterwarnings("ignore:'pin_memory' argument is set")
def test_a_batch_of_an_unknown_class_passes(loader_class: Any, num_workers: int) -> None:
    loader = loader_class(Count(4), 2, num_workers=num_workers, pin_memory=True, collate_fn=as_opaque)
    assert list(loader) == [Opaque(1), Opaque(5)]


@pytest.mark.filterwarnings("ignore:'pin_memory' argument is set")
def test_without_batches_tensors_are_pinned_too(loader_class: Any, num_workers: int) -> None:
    for point in loader_class(
        From(3, lambda i: Point(torch.ones(2), i)), batch_size=None, num_workers=num_workers, pin_memory=True
    ):
        assert type(point) is Point and point.x.is_pinned() == ACCELERATOR and type(point.y) is int


@pytest.mark.filterwarnings("ignore:'pin_memory' argument is set")
def test_streams_are_pinned(loader_class: Any, num_workers: int) -> None:
    for batch in loader_class(Stream(5), 2, num_workers=num_workers, pin_memory=True):
        assert batch.is_pinned() == ACCELERATOR


@pytest.mark.filterwarnings("ignore:'pin_memory' argument is set")
def test_packed_sequences_are_pinned(loader_class: Any, num_workers: int) -> None:
    def collate(batch: list[int]) -> Any:
        return torch.nn.utils.rnn.pack_sequence([torch.ones(2), torch.ones(1)])

    for batch in loader_class(Count(4), 2, num_workers=num_workers, pin_memory=True, collate_fn=collate):
        assert type(batch) is torch.nn.utils.rnn.PackedSequence and batch.is_pinned() == ACCELERATOR


@pytest.mark.filterwarnings("ignore:'pin_memory' argument is set")
def test_persistent_workers_pin_in_each_epoch(loader_class: Any, num_workers: int) -> None:
    loader = loader_class(Count(6), 2, num_workers=num_workers, pin_memory=True, persistent_workers=num_workers > 0)
    for _ in range(3):
        assert all(batch.is_pinned() == ACCELERATOR for batch in loader)
