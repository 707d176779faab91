"""Feedback of views: ids that are no positions."""

from __future__ import annotations

import numpy as np
import pytest

import leat


@pytest.mark.parametrize(
    "chosen",
    [np.arange(2_000_000, 1_990_000, -1), np.arange(10_000), np.arange(0, 20_000, 2) + 5, np.arange(10_000)[::-1]],
    ids=["far", "positions", "near", "backwards"],
)
def test_reports_of_a_view_are_found_by_id_wherever_its_ids_lie(chosen: np.ndarray) -> None:
    data = leat.from_arrays(x=np.zeros(2_000_001, np.int8)).select(chosen)
    policy = leat.TopFraction(0.01)
    with leat.Loader(data, 500, shuffle=True, seed=3, framework="numpy", feedback=policy) as loader:
        for batch in loader:
            loader.report(batch, loss=batch.ids % 1009)
        table = loader.feedback["loss"]
        assert (table.value == chosen % 1009).all() and table.known.all()
        hard = set(chosen[np.argsort(-(chosen % 1009), kind="stable")[:100]].tolist())
        assert {id for batch in loader for id in batch.ids.tolist()} == hard
        with pytest.raises(leat.RangeError, match="none of the 10000"):
            loader.report([chosen.max() + 1], loss=[1.0])
