"""Ragged: rows of different lengths, in numpy and torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import leat

ROWS = st.lists(st.lists(st.integers(-9, 9), max_size=6), max_size=8)


def ragged(rows: list[list[int]], framework: str) -> leat.Ragged:
    values = np.array([v for row in rows for v in row], np.int64)
    offsets = np.cumsum([0] + [len(row) for row in rows], dtype=np.int64)
    if framework == "torch":
        torch = pytest.importorskip("torch")
        return leat.Ragged(torch.from_numpy(values), torch.from_numpy(offsets))
    return leat.Ragged(values, offsets)


@pytest.mark.parametrize("framework", ["numpy", "torch"])
@given(rows=ROWS)
def test_rows_come_back_by_unbind_by_index_and_by_iteration(framework: str, rows: list[list[int]]) -> None:
    r = ragged(rows, framework)
    assert len(r) == len(rows)
    assert [x.tolist() for x in r.unbind()] == rows
    assert [x.tolist() for x in r] == rows
    assert [r[i].tolist() for i in range(-len(rows), len(rows))] == rows + rows
    assert r.lengths.tolist() == [len(row) for row in rows]


@pytest.mark.parametrize("framework", ["numpy", "torch"])
@given(rows=ROWS, data=st.data())
def test_a_slice_is_a_ragged_of_those_rows(framework: str, rows: list[list[int]], data: st.DataObject) -> None:
    key = data.draw(st.slices(len(rows)))
    r = ragged(rows, framework)[key]
    assert [x.tolist() for x in r] == rows[key] and int(r.offsets[0]) == 0


@pytest.mark.parametrize("framework", ["numpy", "torch"])
@given(rows=ROWS)
def test_padding_fills_up_to_the_longest_row(framework: str, rows: list[list[int]]) -> None:
    longest = max((len(row) for row in rows), default=0)
    assert ragged(rows, framework).to_padded(-1).tolist() == [row + [-1] * (longest - len(row)) for row in rows]


def test_padding_to_a_length_cuts_longer_rows() -> None:
    assert ragged([[1, 2, 3], [4]], "numpy").to_padded(0, 2).tolist() == [[1, 2], [4, 0]]


def _as(tensor: Any, dtype: str) -> Any:
    import torch

    return tensor.to(getattr(torch, dtype))


@pytest.mark.parametrize("framework", ["numpy", "torch"])
def test_a_padding_that_the_values_cannot_hold_is_refused(framework: str) -> None:
    """-100 of uint16 would be the token 65436."""
    given = ragged([[1, 2], [3]], framework)
    for dtype, wrong, right in (
        ("uint16", (-100, 65536, 0.5), 65535),
        ("int64", (2**70, 0.5), -100),
        ("bool", (2,), 1),
    ):
        values = given.values.astype(dtype) if framework == "numpy" else _as(given.values, dtype)
        r = leat.Ragged(values, given.offsets)
        for padding in wrong:
            with pytest.raises(ValueError, match=f"padding is a number of .*{dtype}, not"):
                r.to_padded(padding)
        assert r.to_padded(right).tolist()[1][1] == right
    halves = given.values.astype("float16") if framework == "numpy" else given.values.half()
    assert leat.Ragged(halves, given.offsets).to_padded(0.1).shape == (2, 2)


def test_a_nested_tensor_has_the_same_rows() -> None:
    nested: Any = ragged([[1, 2, 3], [4]], "torch").to_nested()
    assert [t.tolist() for t in nested.unbind()] == [[1, 2, 3], [4]]


def test_a_pytorch_without_nested_tensors_over_values_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.delattr(torch.nested, "nested_tensor_from_jagged")
    with pytest.raises(leat.UnsupportedError, match="need PyTorch 2.4, and this is 2"):
        ragged([[1, 2, 3], [4]], "torch").to_nested()


@pytest.mark.parametrize("key", ["a", [0, 1], 1.0, None])
def test_what_is_neither_row_nor_slice_is_a_type_error(key: object) -> None:
    with pytest.raises(TypeError, match="row or by a slice"):
        leat.Ragged(np.arange(5), np.array([0, 2, 5]))[key]


def test_a_row_out_of_range_is_an_index_error() -> None:
    with pytest.raises(IndexError):
        ragged([[1]], "numpy")[1]
