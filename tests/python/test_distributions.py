"""The checks of distributions.py tell right from wrong."""

from __future__ import annotations

import numpy as np
import pytest
from distributions import assert_follows, assert_shares, follows, normal, shares_fit, uniform


def test_shares_are_compared_by_chi_square() -> None:
    rng = np.random.default_rng(0)
    fair = {k: 1 / 6 for k in range(6)}
    passed = [shares_fit(rng.integers(0, 6, 600).tolist(), fair) for _ in range(1000)]
    assert 0.99 < np.mean(passed) <= 1
    assert_shares(rng.integers(0, 6, 6000).tolist(), fair, {**fair, 0: 1 / 6 + 0.03, 1: 1 / 6 - 0.03}, {0: 1.0})
    assert not shares_fit([0, 1, 2, 3, 4, 5, 6] * 100, fair)
    with pytest.raises(AssertionError):
        assert_shares(rng.integers(0, 6, 600).tolist(), fair, fair)


def test_numbers_are_compared_by_kolmogorov_and_smirnov() -> None:
    rng = np.random.default_rng(0)
    assert 0.99 < np.mean([follows(rng.uniform(2, 3, 500), uniform(2, 3)) for _ in range(1000)]) <= 1
    assert_follows(rng.normal(1, 2, 5000), normal(1, 2), rng.normal(1.2, 2, 5000), rng.uniform(-3, 5, 5000))
    with pytest.raises(AssertionError):
        assert_follows(rng.normal(size=500), normal(), rng.normal(size=500))
