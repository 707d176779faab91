"""Orders that follow those of others. What is exact about them tests/c/plan/test_dependent.c shows."""

import numpy as np
import pytest

import leat
from leat.ports import dependent_order


def test_an_order_has_each_sample_once_and_is_the_same_for_a_seed():
    ids = np.arange(0, 3000, 3)
    order = dependent_order(ids, seed=5)
    assert order.dtype == np.int64
    assert sorted(order.tolist()) == ids.tolist()
    assert order.tolist() != ids.tolist()
    assert np.array_equal(order, dependent_order(ids, seed=5))
    assert not np.array_equal(order, dependent_order(ids, seed=6))


def test_who_begins_with_the_same_samples_reads_the_same():
    first = dependent_order(range(100), seed=1)
    assert np.array_equal(dependent_order(range(100), [first], seed=2), first)


def test_a_part_shares_as_much_as_both_have_left_in_common():
    large, small, shared = np.arange(1000), np.arange(0, 1000, 2), 0
    for seed in range(40):
        first = dependent_order(small, seed=2 * seed)
        second = dependent_order(large, [first], seed=2 * seed + 1)
        shared += int((second[: len(first)] == first).sum())
    expected = sum((500 - t) / (1000 - t) for t in range(500))
    assert abs(shared / 40 / expected - 1) < 0.05


def test_an_order_that_begins_later_is_followed_from_there_on():
    first, second = dependent_order(range(50), seed=1), dependent_order(range(50), seed=2)
    order = dependent_order(range(50), [first[40:], (second, 10)], seed=3)
    assert (order[:10] == first[40:]).sum() < 10
    assert (order[10:] == second[:40]).sum() > 20  # |J| is 50 - t, |K| is 40 - t
    both = dependent_order(range(50), [(first, 0)], seed=3)
    assert np.array_equal(both, first)


def test_ids_are_taken_as_users_have_them():
    ids = [3, 1, 2]
    for given in (ids, tuple(ids), set(ids), range(1, 4), np.array(ids, np.uint8)):
        assert sorted(dependent_order(given).tolist()) == [1, 2, 3]
    assert dependent_order([]).tolist() == []
    view = leat.from_arrays(x=np.arange(9)).select([8, 2, 5])
    assert sorted(dependent_order(view).tolist()) == [2, 5, 8]


@pytest.mark.parametrize(
    ("samples", "others", "error", "text"),
    [
        ([1, 1], [], ValueError, "sample 1 is there twice"),
        ([-1], [], ValueError, "sample -1 does not exist"),
        ([1.0, 2.0], [], TypeError, "samples are sample ids, a list of integers"),
        ([[1], [2]], [], TypeError, "a list of integers"),
        (np.array([1 << 63], np.uint64), [], ValueError, "is none"),
        ([1, 2], [[2, 2]], ValueError, "the order of another has sample 2 twice"),
        ([1, 2], [([2, 1], -1)], ValueError, "begin is 0 or above"),
        ([1, 2], [["a"]], TypeError, "others are sample ids"),
    ],
)
def test_what_is_no_order_is_refused(samples, others, error, text):
    with pytest.raises(error, match=text):
        dependent_order(samples, others)
