"""What is the same for all readers: a loader, a further consumer of it, and what is attached to a port."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leat

ROWS, BATCH = 50, 4
STEPS = 13
KINDS = ["loader", "consumer", "port"]


class Opened:
    """Readers of one kind over one data set and order."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind = kind
        with leat.Writer(folder / "a.leat", {"x": "int64"}) as w:
            w.write_batch({"x": np.arange(ROWS)})
        self.folder, self.held = folder, list[Any]()
        self.port = leat.Port(self.loader(), "readers") if kind == "port" else None

    def loader(self, seed: int = 3) -> leat.Loader:
        self.held.append(leat.Loader(leat.open(self.folder / "a.leat"), BATCH, True, seed=seed, framework="numpy"))
        return self.held[-1]  # type: ignore[no-any-return]

    def reader(self, seed: int = 3) -> Any:
        if self.kind == "loader":
            return self.loader(seed)
        if self.kind == "consumer":
            self.held.append(self.loader(seed).consumer(BATCH))
        elif seed == 3:
            self.held.append(leat.attach("readers", start="beginning"))
        else:
            port = leat.Port(self.loader(seed), "others")
            self.held += [port, leat.attach("others", start="beginning")]
        return self.held[-1]

    def close(self) -> None:
        for one in reversed(self.held):
            if not isinstance(one, leat.Port):
                one.close()
        for one in [*self.held, self.port]:
            if isinstance(one, leat.Port):
                one.close()


@pytest.fixture(params=KINDS)
def opened(request: pytest.FixtureRequest, tmp_path: Path, ports: Path) -> Iterator[Opened]:
    made = Opened(request.param, tmp_path)
    yield made
    made.close()


@pytest.fixture(scope="module")
def wanted() -> list[list[list[int]]]:
    """Ids of each batch of the first epochs."""
    order = [np.frombuffer(memoryview(leat._leat.order_shuffled(ROWS, 3, e, 0, ROWS)), np.int64) for e in range(6)]
    return [[ids[i : i + BATCH].tolist() for i in range(0, ROWS, BATCH)] for ids in order]


def test_each_pass_is_the_next_epoch(opened: Opened, wanted: list[Any]) -> None:
    reader = opened.reader()
    assert len(reader) == STEPS and reader.epoch == 0
    for epoch in range(3):
        for step, batch in enumerate(reader):
            assert (batch.epoch, batch.ids.tolist(), reader.epoch) == (epoch, wanted[epoch][step], epoch)
        assert reader.epoch == epoch + 1


def test_an_epoch_that_is_left_is_over_and_an_older_pass_ends(opened: Opened, wanted: list[Any]) -> None:
    reader = opened.reader()
    first = iter(reader)
    assert next(first).ids.tolist() == wanted[0][0]
    second = iter(reader)
    with pytest.raises(leat.ClosedError, match="newer iteration"):
        next(first)
    assert [b.ids.tolist() for b in second] == wanted[1]
    for _ in range(3):
        with pytest.raises(StopIteration):
            next(second)


def test_set_epoch_says_which_epoch_begins_next(opened: Opened, wanted: list[Any]) -> None:
    reader = opened.reader()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        reader.set_epoch(4)  # the position that opening gave is dropped without a word
        assert reader.epoch == 4
        batches = iter(reader)
        assert next(batches).ids.tolist() == wanted[4][0]
        reader.set_epoch(2)  # the running one goes on
        assert reader.epoch == 4 and next(batches).ids.tolist() == wanted[4][1]
        assert next(iter(reader)).ids.tolist() == wanted[2][0]


def test_set_epoch_keeps_a_loaded_position_of_that_epoch_and_drops_another_with_a_warning(
    opened: Opened, wanted: list[Any]
) -> None:
    first, reader = opened.reader(), opened.reader()
    batches = iter(first)
    next(batches), next(batches)
    state = first.state_dict()
    reader.load_state_dict(state)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        reader.set_epoch(0)
    assert next(iter(reader)).ids.tolist() == wanted[0][2]
    reader.load_state_dict(state)
    with pytest.warns(UserWarning, match=r"set_epoch\(3\) drops the loaded position") as told:
        reader.set_epoch(3)
    assert told[0].filename == __file__
    assert next(iter(reader)).ids.tolist() == wanted[3][0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        reader.set_epoch(1)  # nothing is loaded any more


@pytest.mark.parametrize("step", [0, 1, 7, STEPS - 1, STEPS])
def test_a_state_goes_on_with_the_next_row(opened: Opened, wanted: list[Any], step: int) -> None:
    first, again = opened.reader(), opened.reader()
    first.set_epoch(1)
    batches = iter(first)
    for _ in range(step):
        next(batches)
    again.load_state_dict(first.state_dict())
    flat = [ids for epoch in wanted[1:4] for ids in epoch][step:]
    got: list[Any] = []
    while len(got) < 20:
        got += [b.ids.tolist() for b in again]
    assert got[:20] == flat[:20]


def test_states_of_all_kinds_have_one_form_and_those_of_versions_before_are_loaded(
    opened: Opened, wanted: list[Any]
) -> None:
    reader, again = opened.reader(), opened.reader()
    next(iter(reader))
    state = reader.state_dict()
    kind, older = {
        "loader": ("loader", {"state": state["state"], "at": state["at"]}),
        "consumer": ("consumer", {"consumer": 1, "epoch": 0, "rows": BATCH}),
        "port": ("attached", {"attached": 1, "epoch": 0, "row": BATCH}),
    }[opened.kind]
    assert (state.pop("reader"), state.pop("state"), state.pop("at")) == (kind, 1, {"epoch": 0, "row": BATCH})
    again.load_state_dict({**state, **older})
    assert next(iter(again)).ids.tolist() == wanted[0][1]


def test_what_is_no_state_is_refused_and_changes_nothing(opened: Opened, wanted: list[Any]) -> None:
    reader = opened.reader()
    batches = iter(reader)
    next(batches)
    state = reader.state_dict()
    other = opened.reader(seed=4)
    next(iter(other))
    wrong = [None, 3, "state", {}, {"epoch": 0}, {**state, "fingerprint": "0" * 32}, other.state_dict()]
    wrong += [
        {**state, "reader": "another"},
        {**state, "at": 3},
        {**state, "epoch": object()},
        {**state, "x": float("nan")},
        {**state, "\ud800": 1},
    ]
    for each in wrong[:-2]:
        with pytest.raises(leat.StateError):
            reader.load_state_dict(each)
    for each in wrong[-2:]:  # may be taken, where what is more in it does not matter, or is refused as a state
        try:
            reader.load_state_dict(each)
        except leat.StateError:
            continue
        reader.load_state_dict(state)
        batches = iter(reader)
    assert next(batches).ids.tolist() == wanted[0][1]


def test_what_was_peeked_at_is_not_counted_and_comes_next(opened: Opened, wanted: list[Any]) -> None:
    reader = opened.reader()
    with pytest.raises(leat.InvalidError, match="no epoch has begun"):
        reader.peek()
    batches = iter(reader)
    next(batches)
    counted = reader if hasattr(reader, "stats") else reader.loader
    state, stats, epoch = reader.state_dict(), counted.stats(), reader.epoch
    for _ in range(2):
        assert reader.peek().ids.tolist() == wanted[0][1]
    names = ("batches", "samples", "bytes")
    assert [counted.stats()[n] for n in names] == [stats[n] for n in names]
    assert reader.state_dict() == state and reader.epoch == epoch
    assert next(batches).ids.tolist() == wanted[0][1]
    assert counted.stats()["batches"] == stats["batches"] + 1
    for _ in range(STEPS - 2):
        next(batches)
    assert reader.peek() is None
    with pytest.raises(StopIteration):
        next(batches)


def test_set_epoch_holds_also_behind_the_end_that_was_peeked_at(opened: Opened, wanted: list[Any]) -> None:
    reader = opened.reader()
    batches = iter(reader)
    for _ in range(STEPS):
        next(batches)
    assert reader.peek() is None
    reader.set_epoch(4)
    with pytest.raises(StopIteration):
        next(batches)
    assert reader.epoch == 4 and reader.state_dict()["at"] == {"epoch": 4, "row": 0}
    assert next(iter(reader)).ids.tolist() == wanted[4][0]


def test_a_position_that_is_loaded_ends_the_pass_and_what_was_peeked_at(opened: Opened, wanted: list[Any]) -> None:
    reader = opened.reader()
    batches = iter(reader)
    next(batches)
    state = reader.state_dict()
    next(batches), reader.peek()
    reader.load_state_dict(state)
    with pytest.raises(leat.ClosedError):
        next(batches)
    assert reader.epoch == 0
    assert [b.ids.tolist() for b in reader] == wanted[0][1:]


def test_a_reader_that_is_closed_says_so(opened: Opened) -> None:
    reader = opened.reader()
    batches = iter(reader)
    kept = next(batches)["x"].copy()
    reader.close()
    reader.close()
    for use in (lambda: next(batches), lambda: next(iter(reader)), reader.state_dict):
        with pytest.raises(leat.ClosedError):
            use()
    assert len(kept) == BATCH
