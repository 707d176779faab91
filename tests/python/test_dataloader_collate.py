"""What becomes of samples in a batch: the default collation of every kind of value, one's own, and what cannot be
collated.
"""

from __future__ import annotations

import collections
import gc
import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from dataloader_support import (  # noqa: E402
    BAD_KINDS,
    KINDS,
    LAZY_KINDS,
    Count,
    From,
    Kind,
    KindStream,
    Opaque,
    OwnDict,
    OwnList,
    Point,
    as_is,
    as_opaque,
    as_ragged,
    assert_same,
    error_of,
)
from dtypes import odd_torch_types  # noqa: E402
from script_support import python  # noqa: E402
from torch.utils.data import DataLoader, Dataset, default_collate, default_convert  # noqa: E402
from torch.utils.data._utils.collate import default_collate_fn_map  # noqa: E402

import leat  # noqa: E402
from leat import _leat  # noqa: E402
from leat.torch.in_process import is_default  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    pytest.mark.filterwarnings("ignore:The given NumPy array is not writable"),
]


@pytest.fixture(params=[0, 2])
def num_workers(request: pytest.FixtureRequest) -> int:
    return request.param


def collated(name: str, n: int, size: int) -> list[Any]:
    """What torch.utils.data.default_collate, called here, makes of the samples."""
    samples = [KINDS[name](i) for i in range(n)]
    return [default_collate(samples[k : k + size]) for k in range(0, n, size)]


def of_type(name: str, i: int, shape: tuple[int, ...] = (2, 3)) -> Any:
    """A tensor of any type, of bytes that depend on i."""
    dtype = getattr(torch, name)
    n = int(np.prod(shape)) * dtype.itemsize
    return (torch.arange(n) * 7 + i).to(torch.uint8).view(dtype).reshape(shape)


def with_tensors_of(name: str) -> Callable[[int], Any]:
    return lambda i: {"x": of_type(name, i), "y": (of_type(name, i, ()), i, of_type(name, i, (0, 2)))}


#: kinds of samples by name, of which the positions from 100 k on are the samples
EVERY = KINDS | BAD_KINDS | {f"of type {name}": with_tensors_of(name) for name in odd_torch_types()}


class AllKinds(Dataset):
    """Samples of every kind, so that loaders of different kinds can share workers."""

    def __init__(self) -> None:
        self.makers = list(EVERY.values())

    def __len__(self) -> int:
        return 100 * len(self.makers)

    def __getitem__(self, i: int) -> Any:
        return self.makers[i // 100](i % 100)


@pytest.fixture(scope="module")
def samples_of() -> Iterator[Callable[..., Any]]:
    """samples_of(name, n, ...): a loader over n samples of that kind. All of leat's that have workers share two."""
    data = AllKinds()

    def loader(
        name: str, n: int, *arguments: Any, kind: Any = leat.DataLoader, num_workers: int = 2, **more: Any
    ) -> Any:
        first = 100 * list(EVERY).index(name)
        if num_workers and kind is leat.DataLoader:
            more["persistent_workers"] = "shared"
        return kind(data, *arguments, sampler=range(first, first + n), num_workers=num_workers, **more)

    keeps = iter(loader("int", 1))
    yield loader
    del keeps


@pytest.mark.parametrize(
    "kind, workers", [pytest.param("torch", 0, marks=pytest.mark.shard("torch")), ("leat", 0), ("leat", 2)]
)
@pytest.mark.parametrize("name", KINDS)
def test_batches_are_what_default_collate_makes(samples_of: Any, kind: str, workers: int, name: str) -> None:
    loader_class = DataLoader if kind == "torch" else leat.DataLoader
    assert_same(list(samples_of(name, 5, 2, kind=loader_class, num_workers=workers)), collated(name, 5, 2))


@pytest.mark.parametrize("name", KINDS)
def test_samples_without_batches_are_what_default_convert_makes(loader_class: Any, samples_of: Any, name: str) -> None:
    workers = 2 if loader_class is leat.DataLoader else 0
    found = list(samples_of(name, 2, batch_size=None, kind=loader_class, num_workers=workers))
    assert_same(found, [default_convert(KINDS[name](i)) for i in range(2)])


@pytest.mark.parametrize("name", LAZY_KINDS)
def test_tensors_whose_memory_is_not_their_value_are_right_from_workers(
    name: str, num_workers: int, leat_loader_class: Any
) -> None:
    samples = [LAZY_KINDS[name](i) for i in range(4)]
    found = list(leat_loader_class(Kind(name, 4), 2, num_workers=num_workers))
    assert [b.resolve_conj().tolist() for b in found] == [torch.stack(samples[k : k + 2]).tolist() for k in (0, 2)]
    found = list(leat_loader_class(Kind(name, 4), batch_size=None, num_workers=num_workers))
    assert [b.tolist() for b in found] == [x.tolist() for x in samples]


@pytest.mark.parametrize("name", LAZY_KINDS)
def test_streams_of_tensors_whose_memory_is_not_their_value_are_right(
    name: str, num_workers: int, leat_loader_class: Any
) -> None:
    found = list(leat_loader_class(KindStream(name, 4), 2, num_workers=min(1, num_workers)))
    samples = [LAZY_KINDS[name](i) for i in range(4)]
    assert [b.tolist() for b in found] == [torch.stack(samples[k : k + 2]).tolist() for k in (0, 2)]


def bits(value: Any) -> Any:
    """A nested value with every tensor as its type and bytes: PyTorch compares few of its types."""
    if isinstance(value, torch.Tensor):
        size = value.dtype.itemsize
        return value.dtype, tuple(value.shape), value.contiguous().view(getattr(torch, f"int{8 * size}")).tolist()
    if isinstance(value, dict):
        return {key: bits(part) for key, part in value.items()}
    return [bits(part) for part in value] if isinstance(value, list | tuple) else value


@pytest.mark.parametrize("name", odd_torch_types())
def test_tensors_of_types_that_numpy_lacks_come_with_their_type_and_bits(samples_of: Any, name: str) -> None:
    made = [with_tensors_of(name)(i) for i in range(4)]
    expected = [bits(default_collate(made[i : i + 2])) for i in (0, 2)]
    name = f"of type {name}"
    assert [bits(batch) for batch in samples_of(name, 4, 2)] == expected
    assert [bits(batch) for batch in samples_of(name, 4, 2, collate_fn=list)] == [bits(made[:2]), bits(made[2:])]
    collated = samples_of(name, 4, 2, collate_fn=lambda batch: default_collate(batch))
    assert [bits(batch) for batch in collated] == expected
    assert [bits(sample) for sample in samples_of(name, 2, batch_size=None)] == [bits(sample) for sample in made[:2]]


@pytest.mark.parametrize("name", ["float8_e5m2", "complex32", "uint16"])
def test_large_and_strided_tensors_of_types_that_numpy_lacks_keep_their_bits(name: str) -> None:
    def make(i: int) -> Any:
        x = of_type(name, i, (1, 30, 40, 50))
        return [x, x.transpose(2, 3), x.to(memory_format=torch.channels_last), x[..., ::2]]

    (found,) = leat.DataLoader(From(1, make), batch_size=None, num_workers=1)
    assert bits(found) == bits(make(0))
    assert found[2].stride() == make(0)[2].stride()


@pytest.mark.parametrize("name", ["float8_e4m3fn", "complex32", "float32"])
def test_parameters_and_tensors_that_need_gradients_come_from_workers_as_such(name: str) -> None:
    def make(i: int) -> Any:
        x = of_type(name, i, (40, 50))
        return [x.clone().requires_grad_(), torch.nn.Parameter(x.clone()), torch.nn.Parameter(x, requires_grad=False)]

    (found,) = leat.DataLoader(From(1, make), batch_size=None, num_workers=1, collate_fn=as_is)
    assert [(type(x), x.requires_grad, x.is_leaf) for x in found] == [
        (type(x), x.requires_grad, x.is_leaf) for x in make(0)
    ]
    assert bits([x.detach() for x in found]) == bits([x.detach() for x in make(0)])


def test_quantized_tensors_come_from_workers_and_collate_as_torch_has_it() -> None:
    def make(i: int) -> Any:
        return torch.quantize_per_tensor(torch.arange(4.0) + i, 0.5, 3, torch.quint8)

    for collate in (None, lambda batch: default_collate(batch)):
        (found,) = leat.DataLoader(From(2, make), 2, num_workers=1, collate_fn=collate)
        expected = default_collate([make(0), make(1)])
        assert found.is_quantized and torch.equal(found.dequantize(), expected.dequantize())
        assert found.q_scale() == expected.q_scale() and found.q_zero_point() == expected.q_zero_point()
    singles = leat.DataLoader(From(2, make), batch_size=None, num_workers=1)
    assert [x.dequantize().tolist() for x in singles] == [make(i).dequantize().tolist() for i in range(2)]


@pytest.mark.parametrize("on_error", ["raise", "skip", "substitute"])
def test_an_empty_batch_is_collated_like_any_other(num_workers: int, on_error: str) -> None:
    source = [[1], [], [2, 3], []]
    loader: Any = leat.DataLoader(
        range(9), batch_sampler=source, collate_fn=list, num_workers=num_workers, on_error=on_error
    )
    assert list(loader) == [[1], [], [2, 3], []]
    assert list(loader) == [[1], [], [2, 3], []]


@pytest.mark.parametrize(
    "on_error", [pytest.param(None, marks=pytest.mark.shard("torch"), id="torch"), "raise", "skip", "substitute"]
)
def test_an_empty_batch_fails_where_it_cannot_be_collated_and_the_next_one_follows(
    num_workers: int, on_error: str | None
) -> None:
    options: dict[str, Any] = {"batch_sampler": [[1], [], [2, 3], []], "num_workers": num_workers}
    kind: Any = DataLoader if on_error is None else leat.DataLoader
    it = iter(kind(range(9), **options, **({} if on_error is None else {"on_error": on_error})))
    for expected in ([1], None, [2, 3], None):
        if expected is None:
            assert "list index out of range" in error_of(IndexError, lambda: next(it))
        else:
            assert next(it).tolist() == expected
    with pytest.raises(StopIteration):
        next(it)


class Fetched(Dataset):
    """A data set that gives batches as a whole."""

    def __len__(self) -> int:
        return 9

    def __getitem__(self, i: int) -> int:
        raise AssertionError("not one by one")

    def __getitems__(self, indices: list[int]) -> list[int]:
        return [10 * i for i in indices] or [-1]


def test_a_data_set_that_gives_batches_is_asked_for_an_empty_one(loader_class: Any, num_workers: int) -> None:
    loader = loader_class(Fetched(), batch_sampler=[[1], [], [2, 3]], collate_fn=list, num_workers=num_workers)
    assert list(loader) == [[10], [-1], [20, 30]]


def test_a_run_with_empty_batches_resumes_behind_one(num_workers: int) -> None:
    def loader() -> Any:
        return leat.DataLoader(range(9), batch_sampler=[[1], [], [], [2, 3]], collate_fn=list, num_workers=num_workers)

    for passed in range(4):
        first = loader()
        iterator = iter(first)
        for _ in range(passed):
            next(iterator)
        second = loader()
        second.load_state_dict(first.state_dict())
        assert list(second) == [[1], [], [], [2, 3]][passed:]


def test_collation_in_workers_makes_no_file_in_shared_memory(leat_loader_class: Any) -> None:
    def collate(batch: list[Any]) -> bool:
        return bool(default_collate(batch)["x"].is_shared())

    data = From(4, lambda i: {"x": torch.ones(5)})
    assert list(leat_loader_class(data, 2, num_workers=1, collate_fn=collate)) == [False, False]


@pytest.mark.parametrize("name", ["int", "dict", "nested", "str", "numpy array float32", "image and label", "own dict"])
def test_batches_of_a_stream_are_what_default_collate_makes(loader_class: Any, name: str) -> None:
    for workers in (0, 1):
        assert_same(list(loader_class(KindStream(name), 2, num_workers=workers)), collated(name, 5, 2))


@pytest.mark.parametrize("name", ["int", "nested", "str", "tuple", "torch float32"])
def test_default_collate_given_by_name_is_the_same(loader_class: Any, name: str, num_workers: int) -> None:
    found = list(loader_class(Kind(name), 2, num_workers=num_workers, collate_fn=default_collate))
    assert_same(found, collated(name, 5, 2))


def test_the_kinds_change_from_batch_to_batch_if_the_samples_do(loader_class: Any, num_workers: int) -> None:
    def make(i: int) -> Any:
        return [i, float(i), str(i), torch.full((2,), i), torch.full((3, 1), float(i)), {"a": i}][i // 4]

    found = list(loader_class(From(24, make), 4, num_workers=num_workers))
    assert_same(found, [default_collate([make(i) for i in range(k, k + 4)]) for k in range(0, 24, 4)])


def test_shapes_may_change_from_batch_to_batch(loader_class: Any, num_workers: int) -> None:
    def make(i: int) -> Any:
        return np.full((1 + i // 2, 7), i, np.float32), str(i)

    found = list(loader_class(From(60, make), 2, num_workers=num_workers))
    assert_same(found, [default_collate([make(k), make(k + 1)]) for k in range(0, 60, 2)])


def test_attributes_of_an_own_mapping_are_kept(loader_class: Any, num_workers: int) -> None:
    def make(i: int) -> OwnDict:
        made = OwnDict(a=i)
        made.note = "of the first sample" if i % 2 == 0 else "of another"
        return made

    for k, batch in enumerate(loader_class(From(6, make), 2, num_workers=num_workers)):
        assert type(batch) is OwnDict and batch.note == "of the first sample"
        assert_same(batch["a"], torch.tensor([2 * k, 2 * k + 1]))


def test_samples_are_not_changed_by_collation(loader_class: Any) -> None:
    data = [{"a": [1, 2], "b": OwnList([3])}, {"a": [4, 5], "b": OwnList([6])}]
    list(loader_class(data, 2))
    assert data == [{"a": [1, 2], "b": OwnList([3])}, {"a": [4, 5], "b": OwnList([6])}]


def test_a_batch_is_no_view_of_the_samples(loader_class: Any) -> None:
    data = [torch.zeros(2)]
    for batch in loader_class(data, 1):
        batch += 1
    assert data[0].tolist() == [0, 0]


def test_gradients_are_kept_without_workers(loader_class: Any) -> None:
    data = [torch.ones(2, requires_grad=True) for _ in range(4)]
    for batch in loader_class(data, 2):
        assert batch.requires_grad
        batch.sum().backward()
    assert all(d.grad.tolist() == [1, 1] for d in data)


def test_numpy_memory_maps_are_collated(loader_class: Any, tmp_path: Any, num_workers: int) -> None:
    mapped = np.memmap(tmp_path / "a", np.int64, "w+", shape=(4, 2))
    mapped[:] = np.arange(8).reshape(4, 2)
    mapped.flush()
    data = np.memmap(tmp_path / "a", np.int64, "r", shape=(4, 2))
    assert_same(
        list(loader_class(data, 2, num_workers=num_workers)),
        [torch.tensor([[0, 1], [2, 3]]), torch.tensor([[4, 5], [6, 7]])],
    )


@pytest.mark.parametrize("name", BAD_KINDS)
def test_what_cannot_be_collated_is_the_error_of_default_collate(
    loader_class: Any, name: str, num_workers: int, samples_of: Any
) -> None:
    try:
        default_collate([BAD_KINDS[name](i) for i in range(2)])
        raise AssertionError(f"{name} can be collated")
    except Exception as e:
        kind, expected = type(e), str(e)
    loader = samples_of(name, 4, 2, kind=loader_class, num_workers=num_workers)
    text = error_of(kind, lambda: next(iter(loader)))
    assert expected.splitlines()[0].strip("'")[:40] in text


def test_values_of_an_unknown_class_pass_without_batches(loader_class: Any) -> None:
    found = list(loader_class(From(3, Opaque), batch_size=None, num_workers=1))
    assert found == [Opaque(0), Opaque(1), Opaque(2)]


@pytest.mark.parametrize("value", [None, ..., frozenset({1}), Opaque(3), b"x", 3, 2.5, "text"])
def test_any_value_passes_without_batches(loader_class: Any, value: Any) -> None:
    assert list(loader_class([value] * 2, batch_size=None, num_workers=1)) == [value] * 2


# --- one's own collate_fn --------------------------------------------------------------------------------------------


def test_a_collate_fn_gets_a_list_of_samples_and_gives_anything(loader_class: Any, num_workers: int) -> None:
    assert list(loader_class(Count(5), 2, num_workers=num_workers, collate_fn=as_opaque)) == [
        Opaque(1),
        Opaque(5),
        Opaque(4),
    ]


def test_a_collate_fn_may_give_none_and_text(loader_class: Any, num_workers: int) -> None:
    assert list(loader_class(Count(3), 2, num_workers=num_workers, collate_fn=lambda b: None)) == [None, None]
    assert list(loader_class(Count(3), 2, num_workers=num_workers, collate_fn=lambda b: f"{b}")) == ["[0, 1]", "[2]"]


def test_a_collate_fn_that_gives_the_list_back_gives_the_samples(loader_class: Any, num_workers: int) -> None:
    def make(i: int) -> Any:
        return {"i": i, "x": torch.full((i,), float(i)), "a": np.full((2, i), i), "o": Opaque(i), "s": f"{i}"}

    found = list(loader_class(From(6, make), 4, num_workers=num_workers, collate_fn=as_is))
    assert_same(found, [[make(i) for i in range(4)], [make(4), make(5)]])


def test_a_collate_fn_may_pad_ragged_samples(loader_class: Any, num_workers: int) -> None:
    data = [torch.arange(1 + i % 5) for i in range(20)]
    found = list(loader_class(data, 4, num_workers=num_workers, collate_fn=as_ragged))
    assert_same(found, [as_ragged(data[k : k + 4]) for k in range(0, 20, 4)])


def test_a_collate_fn_may_give_sparse_nested_packed_and_shared_tensors(loader_class: Any, num_workers: int) -> None:
    def collate(batch: list[int]) -> Any:
        n = len(batch)
        one = torch.arange(6.0)
        return {
            "coo": torch.eye(n).to_sparse(),
            "packed": torch.nn.utils.rnn.pack_sequence([torch.ones(2), torch.ones(1)]),
            "view": one[2:4],
            "twice": (one, one),
            "strided": torch.arange(12).reshape(3, 4).t(),
            "channels_last": torch.zeros(1, 3, 4, 4).to(memory_format=torch.channels_last),
        }

    for batch in loader_class(Count(4), 2, num_workers=num_workers, collate_fn=collate):
        assert batch["coo"].layout is torch.sparse_coo and torch.equal(batch["coo"].to_dense(), torch.eye(2))
        assert type(batch["packed"]) is torch.nn.utils.rnn.PackedSequence and batch["packed"].batch_sizes.tolist() == [
            2,
            1,
        ]
        assert batch["view"].tolist() == [2, 3] and batch["twice"][1].tolist() == list(range(6))
        assert torch.equal(batch["strided"], torch.arange(12).reshape(3, 4).t())
        assert batch["channels_last"].is_contiguous(memory_format=torch.channels_last)


def test_a_collate_fn_may_give_nested_tensors(loader_class: Any, num_workers: int) -> None:
    data = [torch.nested.nested_tensor([torch.arange(5.0) + i]) for i in range(6)]
    found = list(loader_class(data, 1, num_workers=num_workers, collate_fn=_clones))
    assert [b[0].unbind()[0].tolist() for b in found] == [d.unbind()[0].tolist() for d in data]


def _clones(batch: list[Any]) -> list[Any]:
    return [x.clone() for x in batch]


def test_a_collate_fn_is_used_without_batches_too(loader_class: Any, num_workers: int) -> None:
    assert list(loader_class(Count(3), batch_size=None, num_workers=num_workers, collate_fn=str)) == ["0", "1", "2"]


def test_a_collate_fn_may_be_a_partial_a_method_or_an_object(loader_class: Any, num_workers: int) -> None:
    from functools import partial

    class Scale:
        def __init__(self, by: int) -> None:
            self.by = by

        def __call__(self, batch: list[int]) -> list[int]:
            return [self.by * i for i in batch]

        def collate(self, batch: list[int]) -> list[int]:
            return self(batch)

    for collate in (Scale(3), Scale(3).collate, partial(_scaled, by=3)):
        assert list(loader_class(Count(3), 2, num_workers=num_workers, collate_fn=collate)) == [[0, 3], [6]]


def _scaled(batch: list[int], by: int) -> list[int]:
    return [by * i for i in batch]


# --- default_collate_fn_map, which users extend ----------------------------------------------------------------------


def test_a_class_added_to_the_collate_map_is_collated(
    loader_class: Any, monkeypatch: pytest.MonkeyPatch, num_workers: int
) -> None:
    monkeypatch.setitem(
        default_collate_fn_map, Opaque, lambda batch, *, collate_fn_map=None: torch.tensor([o.value for o in batch])
    )
    found = list(loader_class(From(4, lambda i: {"o": Opaque(i), "i": i}), 2, num_workers=num_workers))
    assert_same(found, [{"o": torch.tensor([k, k + 1]), "i": torch.tensor([k, k + 1])} for k in (0, 2)])


@pytest.mark.parametrize(
    "kind, sample", [(torch.Tensor, torch.ones(2)), (int, 3), (str, "x"), (float, 0.5), (np.ndarray, np.ones(2))]
)
def test_an_entry_replaced_in_the_collate_map_is_used(
    loader_class: Any, monkeypatch: pytest.MonkeyPatch, num_workers: int, kind: type, sample: Any
) -> None:
    monkeypatch.setitem(default_collate_fn_map, kind, lambda batch, *, collate_fn_map=None: f"{len(batch)} of mine")
    assert list(loader_class([(sample,)] * 3, 2, num_workers=num_workers)) == [["2 of mine"], ["1 of mine"]]


# --- one shape per kind, as users know them --------------------------------------------------------------------------


def test_named_tuples_stay_named_tuples(loader_class: Any, num_workers: int) -> None:
    for k, batch in enumerate(loader_class(Kind("nested named tuple", 4), 2, num_workers=num_workers)):
        assert type(batch.point) is Point
        assert_same(batch.point, Point(torch.tensor([2 * k, 2 * k + 1]), torch.tensor([-2 * k, -2 * k - 1])))
        assert list(batch.name) == [str(2 * k), str(2 * k + 1)] and batch.values.shape == (2, 3)


def test_dicts_hold_tensors_under_the_same_keys(loader_class: Any, num_workers: int) -> None:
    def make(i: int) -> Any:
        return {"a_tensor": torch.full((4, 2), float(i)), "a_dict": {"a_number": i}}

    for k, batch in enumerate(loader_class(From(4, make), 2, num_workers=num_workers)):
        assert list(batch) == ["a_tensor", "a_dict"]
        assert batch["a_tensor"].shape == (2, 4, 2) and (batch["a_tensor"][1] == 2 * k + 1).all()
        assert batch["a_dict"]["a_number"].tolist() == [2 * k, 2 * k + 1]


def test_text_stays_text(loader_class: Any, num_workers: int) -> None:
    text = "12345"
    for letters, numbers in loader_class(From(5, lambda i: (text[i], i)), 2, num_workers=num_workers):
        assert all(type(x) is str for x in letters) and [text[i] for i in numbers] == list(letters)


def test_numbers_get_the_dtypes_of_python(loader_class: Any, num_workers: int) -> None:
    for value, dtype in ((1, torch.int64), (1.5, torch.float64), (True, torch.bool)):
        (batch,) = loader_class([value] * 2, 2, num_workers=num_workers)
        assert batch.dtype is dtype


def test_arrays_of_many_batches_are_right(loader_class: Any, num_workers: int) -> None:
    generator = np.random.default_rng(3)
    data = generator.standard_normal((300, 17, 3)).astype(np.float32)
    found = torch.cat(list(loader_class(data, 7, num_workers=num_workers))).numpy()
    np.testing.assert_array_equal(found, data)


def test_counters_and_chain_maps_keep_their_type(loader_class: Any, num_workers: int) -> None:
    data = [collections.Counter(a=i, b=2) for i in range(2)]
    assert_same(list(loader_class(data, 2, num_workers=num_workers)), [default_collate(data)])


# ---- batches that the process gathers for itself ---------------------------------------------------------------------


def layout_of(value: Any) -> Any:
    """What PyTorch says of the tensors in a nested value beside their numbers."""
    if isinstance(value, torch.Tensor):
        storage = value.untyped_storage()
        return value.stride(), value.storage_offset(), storage.nbytes(), storage.resizable(), value._is_view()
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return [layout_of(part) for part in parts]


@pytest.mark.parametrize("name", KINDS)
def test_later_batches_are_what_default_collate_makes_too_in_the_same_memory_format(name: str) -> None:
    for ours, theirs in zip(leat.DataLoader(Kind(name, 11), 2), collated(name, 11, 2), strict=True):
        assert_same(ours, theirs)
        assert layout_of(ours) == layout_of(theirs)


IMAGES: dict[str, Any] = {
    "height, width, channels": lambda i: torch.rand(4, 5, 3).permute(2, 0, 1),
    "one channel": lambda i: torch.rand(1, 4, 5),
    "one row": lambda i: torch.rand(3, 1, 5),
    "one pixel": lambda i: torch.rand(3, 1, 1),
    "channels last": lambda i: torch.rand(2, 3, 4, 5).contiguous(memory_format=torch.channels_last),
    "one in a batch": lambda i: torch.rand(1, 3, 4, 5),
    "array with channels last": lambda i: np.random.rand(4, 5, 3).transpose(2, 0, 1),
    "one channel last": lambda i: torch.rand(4, 5, 1).permute(2, 0, 1),
    "strides of one row": lambda i: torch.rand(3, 5, 1).permute(0, 2, 1),
    "no pixel": lambda i: torch.rand(3, 0, 5),
}


@pytest.mark.parametrize("name", IMAGES)
def test_images_are_batches_of_the_same_strides(name: str) -> None:
    theirs = [layout_of(default_collate([IMAGES[name](i), IMAGES[name](i + 1)])) for i in range(0, 8, 2)]
    assert [layout_of(batch) for batch in leat.DataLoader(From(8, IMAGES[name]), 2)] == theirs


def test_samples_that_change_their_kind_in_the_middle_of_a_batch_are_collated_all_the_same() -> None:
    def make(i: int) -> Any:
        kind = 0.0 if i % 8 == 5 and i > 20 else 0
        return {"x": torch.full((2,), i).bfloat16(), "y": (i + kind, np.float32(i), str(i)), "z": np.full(3, i)}

    found = list(leat.DataLoader(From(64, make), 4))
    assert_same(found, [default_collate([make(i) for i in range(k, k + 4)]) for k in range(0, 64, 4)])


def test_an_error_in_the_middle_of_a_gathered_batch_is_the_data_sets_and_the_next_batch_follows() -> None:
    def make(i: int) -> Any:
        if i == 13:
            raise KeyError(i)
        return i, str(i)

    iterator = iter(leat.DataLoader(From(20, make), 4))
    for _ in range(3):
        next(iterator)
    with pytest.raises(KeyError, match="13"):
        next(iterator)
    assert_same(next(iterator), default_collate([make(i) for i in range(16, 20)]))


def test_texts_of_gathered_batches_are_the_samples_own() -> None:
    texts = [f"text {i}" for i in range(20)]
    found = [text for batch in leat.DataLoader(texts, 4) for text in batch]
    assert all(a is b for a, b in zip(found, texts, strict=True))


def test_gathered_batches_share_no_memory() -> None:
    batches = list(leat.DataLoader(From(40, lambda i: torch.full((1000,), i)), 4))
    assert [batch[:, 0].tolist() for batch in batches] == [list(range(k, k + 4)) for k in range(0, 40, 4)]
    assert len({batch.data_ptr() for batch in batches}) == 10


def test_memory_of_a_large_batch_is_used_again_only_when_nothing_refers_to_it() -> None:
    def image(i: int) -> Any:
        return torch.full((30_000,), i)

    def numbers(kept: Any) -> Any:
        if isinstance(kept, torch.UntypedStorage):
            kept = torch.empty(0, dtype=torch.int64).set_(kept)
        return kept.tolist() if hasattr(kept, "tolist") else None

    if hasattr(torch._C, "_storage_address"):
        addresses = [batch.data_ptr() for batch in leat.DataLoader(From(240, image), 4)]
        assert len(set(addresses[10:])) <= 3
    held: list[Any] = []
    holders: list[Any] = [
        lambda batch: batch[1],
        lambda batch: batch.numpy()[1],
        lambda batch: batch.untyped_storage(),
        lambda batch: batch.view(torch.uint8)[1:, ::8],
        lambda batch: batch.__dlpack__(),
        lambda batch: batch.resize_(8, 30_000),
        lambda batch: batch.share_memory_() if torch.multiprocessing.get_all_sharing_strategies() else batch,
        lambda batch: memoryview(batch.numpy()),
        lambda batch: (batch.set_(), batch)[1],
        lambda batch: batch.as_subclass(torch.nn.Parameter),
    ]
    for i, batch in enumerate(leat.DataLoader(From(240, image), 4)):
        assert batch[:, -1].tolist() == list(range(4 * i, 4 * i + 4))
        assert batch.shape == (4, 30_000) and batch.is_contiguous() and not batch.is_shared()
        if i % 3 == 0:
            kept = holders[i // 3 % len(holders)](batch)
            held.append((kept, numbers(kept)))
        del batch
    assert len(held) == 2 * len(holders)
    for kept, values in held:
        assert numbers(kept) == values


def test_a_default_device_and_other_modes_have_their_say_in_every_batch(loader_class: Any) -> None:
    from torch.utils._python_dispatch import TorchDispatchMode

    class Counting(TorchDispatchMode):
        seen = 0

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            type(self).seen += 1
            return func(*args, **(kwargs or {}))

    iterator = iter(loader_class(From(40, lambda i: (i, torch.full((3,), i))), 4))
    for _ in range(5):
        next(iterator)
    torch.set_default_device("meta")
    try:
        assert next(iterator)[0].device.type == "meta"
    finally:
        torch.set_default_device(None)
    with Counting():
        next(iterator)
    assert Counting.seen
    with torch.inference_mode():
        assert next(iterator)[1].is_inference()
    assert next(iterator)[1].tolist() == [[i] * 3 for i in range(32, 36)]


def test_a_collation_that_is_changed_in_an_epoch_has_its_say(
    loader_class: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    iterator = iter(loader_class(range(40), 4))
    for _ in range(5):
        next(iterator)
    monkeypatch.setitem(default_collate_fn_map, int, lambda batch, collate_fn_map: ["mine", *batch])
    assert next(iterator) == ["mine", 20, 21, 22, 23]


def test_rows_of_gathered_batches_have_their_random_draws() -> None:
    def make(i: int) -> Any:
        return i, float(leat.rng().random()), float(torch.rand(()))

    options: dict[str, Any] = {"seed": 3, "shuffle": True, "reseed": True}
    batches = list(leat.DataLoader(From(40, make), 4, **options))
    assert_same(batches, list(leat.DataLoader(From(40, make), 4, num_workers=2, **options)))
    ours = list(leat.DataLoader(From(40, make), 4, collate_fn=as_is, **options))
    assert_same(batches, [default_collate(batch) for batch in ours])


# ---- texts -----------------------------------------------------------------------------------------------------------


def text_of(i: int) -> str:
    return ["", "a", "ä" * (i % 50), "\U0001f600" * 3, "\udc80", "x" * (1 << (i % 17)), "\0"][i % 7]


@pytest.mark.parametrize("size", [1, 3, 32])
def test_texts_of_any_kind_and_length_come_from_workers_as_they_are(size: int) -> None:
    def make(i: int) -> Any:
        return {"a": text_of(i), "b": (i, text_of(i + 1).encode("utf-8", "surrogatepass")), "c": [text_of(3 * i)]}

    expected = [default_collate([make(i) for i in range(k, min(k + size, 400))]) for k in range(0, 400, size)]
    loader: Any = leat.DataLoader(From(400, make), size, num_workers=2)
    assert_same(list(loader), expected)
    assert loader.stats()["odd_batches"] == 0


class Word(str):
    """A text of a class of its own."""


def test_texts_of_other_classes_among_texts_are_what_they_are(loader_class: Any, num_workers: int) -> None:
    def make(i: int) -> Any:
        return Word("w") if i % 9 == 4 else b"b" if i % 9 == 7 else f"{i}"

    found = [x for batch in loader_class(From(90, make), 4, num_workers=num_workers) for x in batch]
    assert found == [make(i) for i in range(90)]
    assert [type(x) for x in found] == [type(make(i)) for i in range(90)]


@pytest.mark.parametrize("on_error", ["skip", "substitute"])
def test_texts_beside_broken_samples_are_those_of_their_rows(num_workers: int, on_error: str) -> None:
    def make(i: int) -> Any:
        if i % 5 == 3:
            raise ValueError(i)
        return i, text_of(i), f"{i}"

    loader: Any = leat.DataLoader(
        From(60, make), 4, num_workers=num_workers, on_error=on_error, seed=1, return_ids=True
    )
    for (numbers, texts, names), ids in loader:
        assert numbers.tolist() == ids.tolist() and names == tuple(map(str, ids.tolist()))
        assert texts == tuple(text_of(i) for i in ids.tolist())


def test_texts_of_a_batch_whose_worker_died_are_all_there(tmp_path: Any) -> None:
    def make(i: int) -> str:
        if i == 37 and not (tmp_path / "died").exists():
            (tmp_path / "died").touch()
            os._exit(1)
        return text_of(i) + str(i)

    found = [x for batch in leat.DataLoader(From(100, make), 10, num_workers=2) for x in batch]
    assert found == [text_of(i) + str(i) for i in range(100)]


def test_a_run_over_texts_resumes_where_it_was(num_workers: int) -> None:
    def loader() -> Any:
        return leat.DataLoader(From(100, lambda i: (i, text_of(i))), 7, num_workers=num_workers, shuffle=True, seed=5)

    whole, first = list(loader()), loader()
    iterator = iter(first)
    for _ in range(6):
        next(iterator)
    second = loader()
    second.load_state_dict(first.state_dict())
    assert_same(list(second), whole[6:])


def test_texts_that_need_more_than_their_share_of_the_window_come_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_leat, "memory_allowed", lambda: 1 << 20)
    texts = [f"{i} " * (1 + i % 3000) for i in range(200)]
    assert [x for batch in leat.DataLoader(texts, 8, num_workers=2) for x in batch] == texts


def test_an_epoch_goes_on_with_what_the_one_before_has_learned_also_if_samples_are_others_now() -> None:
    data: Any = [torch.full((80_000,), i) for i in range(12)]
    loader = leat.DataLoader(data, 4)
    for epoch in range(4):
        data[:] = [torch.full((80_000 + epoch % 2,), i + epoch) for i in range(12)]
        batches = list(loader)
        assert_same(batches, [torch.stack(data[k : k + 4]) for k in (0, 4, 8)])
        both = list(zip(loader, loader, strict=True))  # two iterators at once
        assert all(torch.equal(a, b) and a.data_ptr() != b.data_ptr() for a, b in both)
        assert_same([a for a, _ in both], batches)


def test_an_epoch_leaves_nothing_to_the_garbage_collector() -> None:
    loader = leat.DataLoader(range(8), 2, shuffle=True)
    list(loader)
    gc.collect()
    gc.disable()
    try:
        for _ in range(3):
            list(loader)
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_a_batch_has_the_order_of_keys_of_its_first_sample(loader_class: Any, num_workers: int) -> None:
    def make(i: int) -> Any:
        keys = ("a", "b", "c") if i % 16 < 8 or i % 4 else ("b", "c", "a")  # of some batches only the first sample
        return {"in": [{k: f"{k}{i}" for k in keys}], **{k: i for k in keys}}

    found = list(loader_class(From(48, make), 4, num_workers=num_workers))
    for k, batch in enumerate(found):
        assert_same(batch, default_collate([make(i) for i in range(4 * k, 4 * k + 4)]))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_samples_that_come_to_require_gradients_keep_them(loader_class: Any, dtype: Any) -> None:
    weight = torch.ones(3, dtype=dtype, requires_grad=True)
    found = list(loader_class(From(32, lambda i: weight * 2 if i >= 20 else weight.detach()), 4))
    assert [batch.requires_grad for batch in found] == [False] * 5 + [True] * 3
    found[-1].sum().backward()
    assert weight.grad.tolist() == [8.0] * 3


def test_an_entry_replaced_before_leat_is_imported_is_used() -> None:
    script = """
import torch
from torch.utils.data._utils.collate import default_collate_fn_map
default_collate_fn_map[torch.Tensor] = lambda batch, *, collate_fn_map=None: f"{len(batch)} of mine"
import leat
for workers in 0, 2:
    assert list(leat.DataLoader([torch.ones(2)] * 16, 4, num_workers=workers)) == ["4 of mine"] * 4
"""
    done = python("-c", script)
    assert done.returncode == 0, done.stderr


def test_the_default_collation_of_this_pytorch_is_known() -> None:
    assert is_default(default_collate) and not is_default(default_convert) and not is_default(None)
