"""What goes between a process and its workers: layouts that samples are written by, and odd objects as bytes."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import numpy as np
import pytest
from dtypes import COMMON_TYPES
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
from torch.utils.data import default_collate  # noqa: E402

from leat import _leat  # noqa: E402
from leat.workers import feed, transport  # noqa: E402

FROM_DLPACK = feed._from_dlpack()


@pytest.fixture(autouse=True)
def no_row_is_left() -> Iterator[None]:
    """Rows are filled here in the process of the tests: it must not look like a worker's afterwards."""
    yield
    _leat.set_current_row()


def same(a: Any, b: Any) -> bool:
    """Equal in types, shapes, dtypes and bits."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and a.shape == b.shape and torch.equal(a, b)
    if isinstance(a, np.ndarray | np.generic):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    return bool(a == b)


def descriptors() -> int:
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


class Written:
    """Samples that were written by the layout of the first."""

    def __init__(self, samples: list[Any], room: int = 1000) -> None:
        spec = transport.describe(samples[0])
        assert spec is not None
        self.spec, self.rows = spec, len(samples)
        self.core = _leat.Layout(spec)
        self.slots = self.core.slots(self.rows, room)
        self.elsewhere: dict[int, list[Any]] = {}
        self.fits = [self.core.store(sample, self.slots, row, self.elsewhere) for row, sample in enumerate(samples)]

    def texts(self, row: int) -> list[Any]:
        return self.core.texts(self.slots, row, self.elsewhere)

    def sample(self, row: int) -> Any:
        arrays = transport.arrays_of(self.spec, self.slots, self.rows)
        return transport.rebuild(self.spec, arrays, row, self.texts(row))

    def batch(self) -> Any:
        return self.core.batch(self.slots, self.rows, FROM_DLPACK, self.elsewhere)


# ---- samples that look alike -----------------------------------------------------------------------------------------

shapes = st.lists(st.integers(0, 4), max_size=3).map(tuple)
Maker = Callable[[np.random.Generator], Any]


def array_of(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    kind = np.dtype(dtype)
    raw = rng.integers(0, 2 if dtype == "bool" else 100, shape)
    return np.asarray(raw).astype(kind)


def strided(array: np.ndarray[Any, Any], how: int) -> np.ndarray[Any, Any]:
    """The same values, lying differently in memory."""
    if how == 1:
        return np.asfortranarray(array)
    if how == 2 and array.ndim:
        return np.repeat(array, 2, axis=-1)[..., ::2]
    return array


leaf_makers: st.SearchStrategy[Maker] = st.one_of(
    st.just(lambda rng: int(rng.integers(-(1 << 63), (1 << 63) - 1))),
    st.just(lambda rng: float(rng.standard_normal())),
    st.just(lambda rng: bool(rng.integers(2))),
    st.just(lambda rng: f"text {rng.integers(1000)}"),
    st.just(lambda rng: b"bytes %d" % rng.integers(1000)),
    st.builds(lambda dtype: lambda rng: np.dtype(dtype).type(rng.integers(2)), st.sampled_from(COMMON_TYPES)),
    st.builds(lambda d, s, how: lambda rng: strided(array_of(rng, d, s), how), st.sampled_from(COMMON_TYPES), shapes,
    st.integers(0, 2)),
    st.builds(lambda d, s, how: lambda rng: torch.from_numpy(strided(array_of(rng, d, s), how)),
    st.sampled_from(COMMON_TYPES), shapes,
              st.integers(0, 2)),
    st.builds(lambda s: lambda rng: torch.from_numpy(array_of(rng, "float32", s)).to(torch.bfloat16), shapes),
)  # fmt: skip


def containers(inside: st.SearchStrategy[Maker]) -> st.SearchStrategy[Maker]:
    parts = st.lists(inside, min_size=1, max_size=3)
    return st.one_of(
        parts.map(lambda makers: lambda rng: tuple(make(rng) for make in makers)),
        parts.map(lambda makers: lambda rng: [make(rng) for make in makers]),
        parts.map(lambda makers: lambda rng: {k: make(rng) for k, make in enumerate(makers)}),
        parts.map(lambda makers: lambda rng: {"abc"[k]: make(rng) for k, make in enumerate(makers)}),
    )


samples_of = st.recursive(leaf_makers, containers, max_leaves=8)


@given(samples_of, st.integers(1, 5), st.integers(0, 1 << 32), st.sampled_from([0, 20, 1000]))
def test_a_batch_over_its_slots_is_what_default_collate_makes(make: Maker, rows: int, seed: int, room: int) -> None:
    rng = np.random.default_rng(seed)
    samples = [make(rng) for _ in range(rows)]
    written = Written(samples, room)
    assert all(written.fits)
    assert same(written.batch(), default_collate(samples))


@given(samples_of, st.integers(1, 5), st.integers(0, 1 << 32))
def test_a_batch_that_is_gathered_is_what_default_collate_makes(make: Maker, rows: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    samples = [make(rng) for _ in range(rows)]
    spec: Any = transport.describe(samples[0])
    core = _leat.Layout(spec)
    tensors = [torch.empty((rows, *shape), dtype=dtype) for shape, dtype in transport.tensors_of(spec)]
    order = np.arange(rows)[::-1].copy()
    at, odd, found = core.gather(samples, order, None, 1, 2, 3, tensors)
    if at == rows:
        assert odd is None and same(found, default_collate(samples[::-1]))
        assert strides(found) == strides(default_collate(samples[::-1]))
        return
    assert odd is samples[order[at]]  # with arrays in another order than C's
    texts = [found[row * core.n_texts : (row + 1) * core.n_texts] for row in range(at)]
    arrays = [transport.array_of(tensor) for tensor in tensors]
    again = [transport.rebuild(spec, arrays, row, texts[row]) for row in range(at)]
    assert same(again, [samples[i] for i in order[:at]])


def strides(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.stride()
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return [strides(part) for part in parts]


TEXTS = ["", "a", "\0", "ä" * 3, "\U0001f600", "\ud800", "ab\udc80", "x" * 5000, "\uffff"]


@pytest.mark.parametrize("room", [0, 1, 7, 1 << 16])
def test_texts_come_back_as_they_are_whatever_the_room(room: int) -> None:
    samples = [(a, {"b": b.encode("utf-8", "surrogatepass")}, [b]) for a in TEXTS for b in TEXTS]
    written = Written(samples, room)
    assert all(written.fits)
    assert same(written.batch(), default_collate(samples))
    assert same([written.sample(row) for row in range(len(samples))], samples)


def test_the_room_that_texts_ask_for_is_counted_whether_they_have_it_or_not() -> None:
    for room in (0, 3, 100):
        written = Written([("äb", b"1234"), ("", b""), ("\udc80", b"x")], room)
        assert written.core.asked(written.slots) == 3 + 4 + 1
    assert written.core.n_texts == 2 and not written.core.row_bytes
    core = _leat.Layout(transport.describe(1))  # type: ignore[arg-type]
    assert core.asked(core.slots(2, 0)) == 0


def test_a_batch_whose_texts_are_missing_or_outside_is_an_error() -> None:
    written = Written(["abc", "def"], 0)
    with pytest.raises(ValueError, match="a text is missing"):
        written.core.batch(written.slots, 2, FROM_DLPACK, {0: ["abc"]})
    with pytest.raises(IndexError):
        written.core.batch(written.slots, 2, FROM_DLPACK, {0: ["abc"], 1: []})
    with pytest.raises(IndexError, match="outside"):
        written.core.batch(written.slots, 3, FROM_DLPACK, {})
    with pytest.raises(IndexError, match="outside"):
        written.core.store("x", written.slots, 2, {})
    written = Written(["abc", "def"], 6)
    memory: Any = written.slots[0].memory(0, 64)
    np.frombuffer(memory, np.uint64)[3 + 1] = 1 << 40
    with pytest.raises(ValueError, match="outside"):
        written.batch()
    with pytest.raises(MemoryError):
        written.core.slots(1 << 62, 0)
    with pytest.raises(MemoryError):
        written.core.slots(1, (1 << 64) - 1)


def test_a_string_is_not_made_to_keep_its_bytes() -> None:
    import sys

    text = "ä" * 10_000
    before = sys.getsizeof(text)
    written = Written([text], 1 << 20)
    assert sys.getsizeof(text) == before and written.batch() == [text]


@given(samples_of, st.integers(1, 5), st.integers(0, 1 << 32))
def test_a_sample_is_read_back_as_it_was_written(make: Maker, rows: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    samples = [make(rng) for _ in range(rows)]
    written = Written(samples)
    assert all(same(written.sample(row), sample) for row, sample in enumerate(samples))


# ---- samples that do not
# -----------------------------------------------------------------------------------------------

ODD: list[tuple[Any, Any]] = [
    (1, 1.0),
    (1, True),
    (1, np.int64(1)),
    (1, 1 << 63),
    (1.0, 1),
    (True, 1),
    ("text", b"text"),
    ("text", None),
    (np.zeros(3), np.zeros(4)),
    (np.zeros(3), np.zeros((3, 1))),
    (np.zeros((1, 2)), np.zeros((2, 1))),
    (np.zeros(3), np.zeros(3, np.float32)),
    (np.zeros(3), np.zeros(3, ">f8")),
    (np.zeros(3), torch.zeros(3, dtype=torch.float64)),
    (np.zeros(3), np.array(["2020-01-01"] * 3, "datetime64[D]")),
    (np.zeros(3, np.int64), np.zeros(3, np.uint64)),
    (np.float32(1), np.float64(1)),
    (torch.zeros(3), torch.zeros(4)),
    (torch.zeros(1, 2), torch.zeros(2, 1)),
    (torch.zeros(3), torch.zeros(3, dtype=torch.bfloat16)),
    (torch.zeros(3, dtype=torch.bfloat16), torch.zeros(3, dtype=torch.int16)),
    (torch.zeros(3), torch.zeros(3, requires_grad=True)),
    (torch.zeros(3), torch.zeros(3).to_sparse()),
    (torch.zeros(3), torch.nn.Parameter(torch.zeros(3))),
    (torch.zeros(3), np.zeros(3, np.float32)),
    (torch.zeros(2, dtype=torch.complex64), torch.zeros(2, dtype=torch.complex64).conj()),
    ((1, 2), [1, 2]),
    ((1, 2), (1, 2, 3)),
    ([1, 2], [1]),
    ({"a": 1}, {"b": 1}),
    ({"a": 1}, {"a": 1, "b": 2}),
    ({"a": 1}, [("a", 1)]),
    ((1,), 1),
]


@pytest.mark.parametrize("first, odd", ODD, ids=repr)
def test_a_sample_that_looks_different_is_not_written(first: Any, odd: Any) -> None:
    written = Written([first, odd])
    assert written.fits == [True, False]
    assert same(written.sample(0), first)


@pytest.mark.parametrize("odd", [("a", "b", 1.0), ("a", "b"), ("a", 2, 3), ("a", "b", [1])], ids=repr)
def test_text_of_a_sample_that_does_not_fit_is_taken_back(odd: Any) -> None:
    core = _leat.Layout(transport.describe(("x", "y", 3)))  # type: ignore[arg-type]
    slots = core.slots(2, 0)
    elsewhere = {7: ["before"]}
    assert not core.store(odd, slots, 0, elsewhere)
    assert elsewhere == {7: ["before"]}
    assert core.store(("p", "q", 5), slots, 1, elsewhere)
    assert elsewhere == {7: ["before"], 1: ["p", "q"]}
    assert core.store(("r", "s", 5), slots, 1, elsewhere)  # a row that is tried again
    assert elsewhere == {7: ["before"], 1: ["r", "s"]}


class Shy:
    """A key of dicts that hash alike, and that refuses to be compared with others."""

    def __hash__(self) -> int:
        return 1

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        raise RuntimeError("not with me")


def test_text_of_a_sample_that_could_not_be_written_is_taken_back() -> None:
    core = _leat.Layout(transport.describe(("text", {Shy(): 1})))  # type: ignore[arg-type]
    elsewhere = {7: ["before"]}
    with pytest.raises(RuntimeError, match="not with me"):
        core.store(("more", {Shy(): 1}), core.slots(1, 0), 0, elsewhere)
    assert elsewhere == {7: ["before"]}


def test_a_sample_that_is_changed_while_it_is_written_harms_nobody() -> None:
    from torch.overrides import TorchFunctionMode

    sample: list[Any] = [torch.arange(3.0), torch.arange(4.0)]
    core = _leat.Layout(transport.describe(sample))  # type: ignore[arg-type]
    slots = core.slots(1, 0)

    class Clearing(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            sample.clear()
            gc.collect()
            return func(*args, **(kwargs or {}))

    with Clearing(), pytest.raises(IndexError):
        core.store(sample, slots, 0, {})
    assert core.store([torch.ones(3), torch.ones(4)], slots, 0, {})


NO_LAYOUT = [
    None,
    (),
    [],
    {},
    (1, None),
    1 << 63,
    object(),
    datetime(2020, 1, 1),
    np.zeros(2, [("a", "i4"), ("b", "f8")]),
    np.array([object()]),
    np.array(["text"]),
    np.zeros(2, "datetime64[s]"),
    np.zeros(2, ">i4"),
    np.ma.zeros(3),
    np.zeros((1,) * 8),
    torch.zeros((1,) * 8),
    torch.zeros(2, requires_grad=True),
    torch.zeros(2).to_sparse(),
    torch.zeros(2, dtype=torch.complex64).conj(),
    type("Pair", (tuple,), {})((1, 2)),
]


@pytest.mark.parametrize("sample", NO_LAYOUT, ids=lambda s: f"{type(s).__name__}")
def test_what_only_the_collate_function_understands_has_no_layout(sample: Any) -> None:
    assert transport.describe(sample) is None


def test_a_sample_that_contains_itself_has_no_layout() -> None:
    sample: list[Any] = []
    sample += [sample] * 10
    assert transport.describe(sample) is None


LEAF = ("leaf", 0, 0, 64, "l", (), int)
NOT_LAYOUTS: list[Any] = [
    1,
    (),
    ("leaf",),
    (1, 2),
    ("leaf", 9, 0, 64, "l", (), int),
    ("leaf", -1, 0, 64, "l", (), int),
    ("leaf", 0, 0, 8, "l", (), int),
    ("leaf", 0, 0, 64, "l", (2,), int),
    ("leaf", 2, 6, 64, "?", (), bool),
    ("leaf", 4, 0, 63, "l", (), int),
    ("leaf", 4, 0, 64, "l" * 20, (), int),
    ("leaf", 4, 0, 64, "l", (-1,), int),
    ("leaf", 4, 0, 64, "l", ("1",), int),
    ("leaf", 4, 0, 64, "l", (1,) * 9, int),
    ("leaf", 4, 0, 64, "l", (1 << 62, 1 << 62), int),
    ("leaf", 4, 0, 64, "l", (1 << 60,), int),
    ("leaf", 5, 0, 64, "l", (), int),
    ("tuple", 1),
    ("dict", ["a"], []),
    ("dict", [], [LEAF]),
    ("list", [LEAF] * 33),
]


@pytest.mark.parametrize("spec", NOT_LAYOUTS, ids=repr)
def test_what_is_no_layout_is_refused(spec: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        _leat.Layout(spec)


def test_a_layout_nested_too_deeply_is_refused() -> None:
    spec: Any = LEAF
    for _ in range(100_000):
        spec = ("list", [spec])
    with pytest.raises(ValueError, match="not a layout"):
        _leat.Layout(spec)
    while spec is not LEAF:  # unwound by hand: the interpreter would recurse
        spec = spec[1][0]


def test_rows_outside_of_the_slots_are_refused() -> None:
    core = _leat.Layout(LEAF)
    slots = (_leat.Slot(4096),)
    assert core.store(1, slots, 511, {})
    for row in (512, 1 << 61, (1 << 64) - 1):
        with pytest.raises(IndexError):
            core.store(1, slots, row, {})
    with pytest.raises(IndexError):
        core.batch(slots, 513, FROM_DLPACK, {})
    for wrong in ((), (slots[0], slots[0]), [slots[0]], (None,)):
        with pytest.raises(TypeError):
            core.store(1, wrong, 0, {})  # type: ignore[arg-type]


def test_a_batch_keeps_its_memory_and_gives_it_back(no_workers_of_before: None) -> None:
    before = _leat.share_used()
    written = Written([(np.full(1000, i), "text") for i in range(4)])
    batch = written.batch()
    del written
    gc.collect()
    assert _leat.share_used() > before
    assert torch.equal(batch[0][3], torch.full((1000,), 3, dtype=torch.int64))
    part = batch[0][1]
    del batch
    gc.collect()
    assert _leat.share_used() > before and part.sum() == 1000
    del part
    gc.collect()
    assert _leat.share_used() == before


# ---- odd objects
# ---------------------------------------------------------------------------------------------------------

ROOM = 1 << 20
big, small = np.arange(5000), np.arange(5)
OBJECTS: dict[str, Any] = {
    "small": {"a": small, "b": [torch.arange(5), None, "text"]},
    "large": [big, torch.arange(5000.0), {"x": (big.astype("f4"), 1)}],
    "bfloat16": [torch.arange(5000.0).to(torch.bfloat16), torch.zeros((), dtype=torch.bfloat16)],
    "bool and complex": [torch.arange(5000) % 2 == 0, torch.full((5000,), 1 + 2j), np.full(5000, 1j)],
    "empty and without dimensions": [
        torch.zeros(0),
        torch.zeros(3, 0, 2),
        torch.tensor(5),
        np.array(5),
        np.zeros((0, 3)),
    ],
    "not contiguous": [
        torch.arange(20000).reshape(100, 200).t(),
        torch.arange(6000).reshape(10, 20, 30).permute(2, 0, 1),
        torch.arange(20000)[::3],
        big[::2],
        big.reshape(50, 100).T,
    ],
    "structured": np.zeros(3000, [("a", "i4"), ("b", "f8")]),
    "dates": np.arange("2020-01", "2030-01", dtype="datetime64[h]"),
    "objects": np.array([None, "text", {"a": 1}], object),
    "the same twice": [big, big],
    "nothing": None,
}


@pytest.mark.parametrize("room", [None, 100, ROOM], ids=["without room", "with too little room", "in the slot"])
@pytest.mark.parametrize("name", OBJECTS)
def test_an_object_comes_back_as_it_was_sent(name: str, room: int | None) -> None:
    value, before = OBJECTS[name], descriptors()
    slot = _leat.Slot(room) if room else None
    view = memoryview(slot.memory(0, room)).cast("B") if slot is not None and room else None
    data, places, fd = transport.encode(value, view)
    assert (fd is None) == (not places or room == ROOM)
    assert len(data) < 40_000 or not places
    again = transport.decode(data, places, fd, slot)
    assert same(again, value) if name != "objects" else again.tolist() == value.tolist()
    del again
    assert descriptors() == before


@pytest.mark.parametrize("name", OBJECTS)
def test_a_value_is_put_into_its_slot_if_there_is_room(name: str) -> None:
    value = OBJECTS[name]
    slot = _leat.Slot(ROOM)
    view = memoryview(slot.memory(0, ROOM)).cast("B")
    assert transport.put(value, view) is None
    again, used = transport.fetch(slot)
    assert same(again, value) if name != "objects" else again.tolist() == value.tolist()
    for room in (None, view[: used - 1], view[:64], view[:0]):
        rest = transport.put(value, room)
        assert rest is not None
        again = transport.decode(*rest, slot)
        assert same(again, value) if name != "objects" else again.tolist() == value.tolist()
    assert transport.put(value, view[:used]) is None


@pytest.mark.parametrize("offset, n", [(4088, 16), (4097, 0), (0, 4097), (8, 2**64 - 8)])
def test_a_piece_ends_within_its_slot(offset: int, n: int) -> None:
    slot = _leat.Slot(4096)
    assert len(memoryview(slot.memory(4088, 8)).cast("B")) == 8
    with pytest.raises(IndexError, match="a piece outside of its slot"):
        slot.memory(offset, n)


def test_what_came_over_a_file_or_a_slot_can_be_written_to_and_outlives_the_message() -> None:
    slot = _leat.Slot(ROOM)
    for view in (None, memoryview(slot.memory(0, ROOM)).cast("B")):
        array, tensor = transport.decode(
            *transport.encode([big, torch.arange(5000)], view), slot if view is not None else None
        )
        gc.collect()
        array[0], tensor[1] = 7, 8
        assert array[0] == 7 and tensor[1] == 8 and array[-1] == 4999 and tensor[-1] == 4999


def test_a_class_that_is_not_importable_travels_by_value_with_large_arrays_beside_it() -> None:
    class Local:
        def __init__(self, array: Any) -> None:
            self.array = array

    before = descriptors()
    again = transport.decode(*transport.encode([big, Local(big)]), None)
    assert same(again[0], big) and same(again[1].array, big)
    del again
    assert descriptors() == before


def test_what_cannot_be_pickled_is_an_error_that_leaves_nothing_behind() -> None:
    before = descriptors()
    with pytest.raises(TypeError, match="lock"):
        transport.encode([big, threading.Lock()])
    assert descriptors() == before


class Unspeakable(Exception):
    def __init__(self) -> None:  # takes no text
        super().__init__("unspeakable")

    def __str__(self) -> str:
        raise RuntimeError("no text")


def raised(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as caught:
        return transport.unpack_error(transport.pack_error(caught, "in worker 3"))


@pytest.mark.parametrize(
    "error", [ValueError("a"), KeyError("a"), OSError(2, "a"), UnicodeDecodeError("utf-8", b"a", 0, 1, "b")], ids=repr
)
def test_an_error_comes_back_with_its_class_or_as_a_runtime_error_and_with_its_text(error: Exception) -> None:
    again = raised(error)
    assert type(again) is type(error) or (type(again) is RuntimeError and isinstance(error, UnicodeDecodeError))
    assert "in worker 3" in str(again) and "Traceback" in str(again) and "\\n" not in str(again)


@pytest.mark.parametrize(
    "error",
    [StopIteration(1), SystemExit(3), KeyboardInterrupt(), GeneratorExit(), Unspeakable()],
    ids=lambda e: type(e).__name__,
)
def test_an_error_that_means_something_else_here_comes_back_as_a_runtime_error(error: BaseException) -> None:
    again = raised(error)
    assert type(again) is RuntimeError
    assert type(error).__name__ in str(again) and "in worker 3" in str(again)


def test_an_error_of_a_local_class_comes_back_as_that_class() -> None:
    class Mine(ValueError):
        pass

    again = raised(Mine("a"))
    assert type(again).__name__ == "Mine" and isinstance(again, ValueError)


# ---- rows that a worker fills
# ----------------------------------------------------------------------------------------------


class Bench:
    """A board with one batch, its only unit taken, and a layout for it: what a worker has when it fills rows."""

    def __init__(self, sample: Any, indices: list[int], room: int = 0) -> None:
        spec = transport.describe(sample)
        assert spec is not None
        self.spec, self.rows = spec, len(indices)
        self.layout = _leat.Layout(spec)
        self.pool = _leat.Pool(1)
        self.board = _leat.Board(self.pool, 2, 4, 1e6, 1.0)
        self.theirs = _leat.Board.attach(_leat.Pool.attach(self.pool.offset, 0, True), self.board.offset, True)
        self.payload = _leat.Slot(8 * self.rows)
        memory: Any = self.payload.memory(0, 8 * self.rows)
        np.frombuffer(memory, np.int64)[:] = indices
        self.slots = self.layout.slots(self.rows, room)
        self.board.publish(
            1,
            self.rows,
            self.rows,
            -1,
            1,
            0,
            self.payload.offset,
            8 * self.rows,
            5,
            6,
            70,
            0,
            self.slots,
        )
        assert self.theirs.take() is not None
        self.elsewhere: dict[int, list[Any]] = {}

    def fill(self, dataset: Any, first: int = 0, before: Any = None) -> tuple[int, Any]:
        return self.layout.fill(self.theirs, dataset, first, self.rows, before, self.elsewhere)

    def column(self, i: int = 0) -> list[Any]:
        found: list[Any] = transport.arrays_of(self.spec, self.slots, self.rows)[i].tolist()
        return found


class Calls:
    """A data set that is a function."""

    def __init__(self, function: Callable[[int], Any]) -> None:
        self.function = function

    def __getitem__(self, i: int) -> Any:
        return self.function(i)


def test_rows_are_filled_with_the_samples_of_their_indices() -> None:
    bench = Bench((1.0, "x"), [30, 10, 20])
    assert bench.fill(Calls(lambda i: (i / 2, f"t{i}"))) == (3, None)
    assert bench.column() == [15.0, 5.0, 10.0]
    assert bench.elsewhere == {0: ["t30"], 1: ["t10"], 2: ["t20"]}
    bench = Bench((1.0, "x"), [30, 10, 20], room=5)
    assert bench.fill(Calls(lambda i: (i / 2, f"t{i}"))) == (3, None)
    assert bench.elsewhere == {1: ["t10"], 2: ["t20"]}
    assert bench.layout.texts(bench.slots, 0, {}) == ["t30"]


def test_a_row_that_does_not_fit_is_handed_back_and_filling_goes_on_after_it() -> None:
    bench = Bench((1, "x"), [0, 1, 2])
    data = Calls(lambda i: (i, f"t{i}") if i != 1 else ("odd", "t"))
    assert bench.fill(data) == (1, ("odd", "t"))
    assert bench.fill(data, 2) == (3, None)
    assert bench.elsewhere == {0: ["t0"], 2: ["t2"]} and bench.column()[::2] == [0, 2]


def test_a_row_that_was_taken_out_is_handed_back_without_asking_the_data_set() -> None:
    bench = Bench(1, [4, -(1 << 63), 6])
    asked: list[int] = []
    data = Calls(lambda i: asked.append(i) or i)  # type: ignore[func-returns-value]
    assert bench.fill(data) == (1, NotImplemented)
    assert bench.fill(data, 2) == (3, None)
    assert asked == [4, 6]


def test_an_exception_of_the_data_set_passes_through_and_the_pool_knows_its_row() -> None:
    bench = Bench(1, [1, 1, 0, 1])
    with pytest.raises(ZeroDivisionError):
        bench.fill(Calls(lambda i: 1 // i))
    assert bench.pool.worker(0)[:3] == (bench.board.offset, 1, 2)


def test_each_row_is_announced_and_known_while_it_is_made() -> None:
    bench = Bench(1, [7, 8])
    announced: list[Any] = []
    known: list[Any] = []
    data = Calls(lambda i: known.append(_leat.current_row()) or i)  # type: ignore[func-returns-value]
    try:
        bench.fill(data, before=lambda *row: announced.append(row))
    finally:
        _leat.set_current_row()
    assert announced == known == [(5, 6, 70), (5, 6, 71)]
    assert _leat.current_row() is None


def test_filling_keeps_no_references() -> None:
    import sys

    text, key, index = "a text of its own", "a key of its own", 10**9
    array, tensor = np.arange(4), torch.arange(3)
    sample = {key: (text, array), "t": [tensor, index]}
    bench = Bench(sample, [0] * 8, room=6 * len(text))
    watched = [
        sample,
        text,
        key,
        index,
        array,
        tensor,
        np.ndarray,
        torch.Tensor,
        torch.int64,
        bench.elsewhere,
        bench.theirs,
    ]
    odd: Any = ("differs",)

    def once() -> None:
        bench.fill(Calls(lambda i: sample))
        assert bench.fill(Calls(lambda i: odd)) == (0, odd)
        with pytest.raises(KeyError):
            bench.fill({})
        bench.elsewhere[0] = [text]
        del bench.layout.batch(bench.slots, 8, FROM_DLPACK, bench.elsewhere)[key]
        assert bench.layout.texts(bench.slots, 1, bench.elsewhere) == [text]
        bench.elsewhere.clear()
        tensors = [torch.empty(8, 4, dtype=torch.int64), torch.empty(8, 3, dtype=torch.int64), torch.empty(8).long()]
        assert bench.layout.gather([sample], np.zeros(8, np.int64), None, 0, 0, 0, tensors)[1] is None
        assert bench.layout.gather([sample, odd], np.arange(2), None, 0, 0, 0, [t[:2] for t in tensors])[1] is odd
        with pytest.raises(IndexError):
            bench.layout.gather([sample], np.arange(8), None, 0, 0, 0, tensors)
        with pytest.raises(ValueError, match="of the batch's size"):
            bench.layout.gather([sample], np.arange(7), None, 0, 0, 0, tensors)
        assert _leat.samples(None, [sample, odd], [0, 1, 0], None, 0, 0, 0) == [sample, odd, sample]

    once()
    gc.collect()
    before = [sys.getrefcount(x) for x in [*watched, odd]]
    for _ in range(100):
        once()
    gc.collect()
    assert max(abs(sys.getrefcount(x) - n) for x, n in zip([*watched, odd], before)) < 10
