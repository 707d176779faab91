"""Batches ahead of the consumer, as pinned memory is made. Here `pin` copies: what needs a GPU is PyTorch's part."""

import pytest

torch = pytest.importorskip("torch")

import numpy as np  # noqa: E402

import leat  # noqa: E402
from leat.torch.pinning import Pinning  # noqa: E402
from leat.workers.feed import Feed, Planned  # noqa: E402
from leat.workers.loop import ROWS, Job  # noqa: E402
from leat.workers.pool import Pool  # noqa: E402


class Numbers:
    def __len__(self) -> int:
        return 40

    def __getitem__(self, i: int) -> int:
        if i == 13:
            raise ValueError("unlucky")
        return i


def source(pinned: list[int], rows: int, n: int, first: int = 0) -> tuple[Pinning, Pool]:
    def pin(value: "torch.Tensor") -> "torch.Tensor":
        pinned.append(int(value[0]))
        return value.clone()

    plan = (Planned(np.arange(i, i + rows), rows, ROWS, 0, 0, i // rows, i) for i in range(first, n, rows))
    pool = Pool(Numbers(), 2, 2, "fork", None, 0, False)
    collate = torch.utils.data.default_collate
    feed = Feed(pool, Job(pool.dataset, collate), plan, window=8, window_bytes=1 << 30, collate=collate, direct=True)
    pool.start()
    return Pinning(feed, pin), pool


def test_every_batch_is_pinned_once_and_in_order() -> None:
    pinned: list[int] = []
    made, pool = source(pinned, 4, 12)
    values = []
    while (batch := made.next()) is not None:
        values.append(batch.value.tolist())
    made.close()
    pool.stop()
    assert values == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    assert pinned == [0, 4, 8]


def test_an_error_of_the_batch_ahead_is_raised_when_it_is_its_turn() -> None:
    made, pool = source([], 4, 20, first=8)
    first = made.next()
    assert first is not None and first.value.tolist() == [8, 9, 10, 11]
    with pytest.raises(ValueError, match="unlucky"):
        made.next()
    assert made.failed is not None and made.failed.step == 3
    last = made.next()
    assert last is not None and last.value.tolist() == [16, 17, 18, 19] and made.next() is None
    made.close()
    pool.stop()


def test_the_head_is_the_batch_that_next_gives() -> None:
    made, pool = source([], 2, 10)
    for step in range(5):
        head = made.head()
        assert head is not None and head.step == step
        made.next()
    assert made.head() is None
    made.close()
    pool.stop()


def test_the_plan_is_read_when_the_consumer_gets_a_batch_not_when_it_is_pinned() -> None:
    made, pool = source([], 1, 12)
    feed, read = made.source, []
    feed.plan = (read.append(p.step) or p for p in feed.plan)  # type: ignore[func-returns-value]
    feed.distance = 3
    feed.publish()
    for step in range(12):
        assert len(read) == min(12, 3 + step)
        batch = made.next()
        assert batch is not None and batch.planned.step == step
    assert made.next() is None
    made.close()
    pool.stop()


@pytest.mark.card
def test_pin_memory_gives_pinned_tensors() -> None:
    for batch in leat.DataLoader(Numbers(), batch_size=4, sampler=range(12), num_workers=2, pin_memory=True):
        assert batch.is_pinned()
