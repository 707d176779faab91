"""Consumers of a port that die, stop, hold, lag and come late; ports that die and come back."""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from port_support import Consumer, Server, expected, numbers, seen
from process_support import PATIENCE, eventually

import leat

ROWS, BATCH = 1000, 32


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "ports"


@pytest.fixture
def port(folder: Path) -> Iterator[leat.Port]:
    with leat.Port(numbers(ROWS, BATCH), "p", folder=folder) as port:
        yield port
    assert list(folder.iterdir()) == []


def consumers_of(port: leat.Port) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = port.stat()["consumers"]
    return found


def test_what_a_killed_consumer_held_is_taken_back_and_others_do_not_notice(port: leat.Port, folder: Path) -> None:
    want = expected(numbers(ROWS, 8), 2)
    victim, other = Consumer(folder, batch_size=BATCH, start="beginning"), Consumer(folder, batch_size=8)
    first = other.read(5)
    victim.read(5, hold=True)
    assert len(consumers_of(port)) == 2 and port.stat()["published"] >= 5
    victim.kill()
    rest = other.read(len(want) - 5)
    assert first + rest == want
    other.end()
    eventually(lambda: not consumers_of(port))
    eventually(lambda: port.stat()["published"] == 0 and port.stat()["loader"]["memory"]["held_bytes"] == 0)


def test_a_stopped_consumer_goes_on_where_it_was_and_held_batches_are_as_they_were(
    port: leat.Port, folder: Path
) -> None:
    want = expected(numbers(ROWS, BATCH), 3)
    slow, fast = Consumer(folder, start="beginning"), Consumer(folder, start="beginning")
    held = slow.read(2, hold=True)
    slow.signal(signal.SIGSTOP)
    assert fast.read(len(want)) == want
    slow.signal(signal.SIGCONT)
    assert slow.ask("check") == [d for _, _, d in held]
    slow.ask("drop")
    assert held + slow.read(len(want) - 2) == want
    slow.end()
    fast.end()


def test_one_that_holds_all_that_it_is_lent_is_told_so_and_goes_on_when_it_lets_go(
    port: leat.Port, folder: Path
) -> None:
    want = expected(numbers(ROWS, BATCH), 8)
    hoarder, other = Consumer(folder, start="beginning"), Consumer(folder, start="beginning")
    with pytest.raises(leat.HeldError, match="are held"):
        hoarder.read(len(want), hold=True)
    assert other.read(len(want)) == want
    n = len(hoarder.ask("check"))
    assert hoarder.ask("check") == [d for _, _, d in want[:n]]
    hoarder.ask("drop")
    assert hoarder.read(len(want) - n) == want[n:]
    hoarder.end()
    other.end()


def test_a_late_joiner_starts_where_the_others_are_or_at_the_beginning(port: leat.Port, folder: Path) -> None:
    want = expected(numbers(ROWS, BATCH), 2)
    first = Consumer(folder)
    assert first.read(20) == want[:20]
    here, beginning = Consumer(folder), Consumer(folder, start="beginning")
    assert here.read(5) == want[20:25]
    assert beginning.read(len(want)) == want
    assert first.read(10) == want[20:30]
    for consumer in (first, here, beginning):
        consumer.end()


def test_consumers_go_on_exactly_with_the_port_that_comes_in_place_of_a_dead_one(folder: Path) -> None:
    want = expected(numbers(ROWS, 24), 2)
    server = Server(folder, numbers, ROWS, BATCH)
    reader = Consumer(folder, batch_size=24, patience=PATIENCE)
    first = reader.read(10, hold=True)
    server.kill()
    again = Server(folder, numbers, ROWS, BATCH)
    assert first + reader.read(len(want) - 10) == want
    assert reader.ask("check") == []  # the last read has let go of them
    reader.end()
    again.end()
    assert list(folder.iterdir()) == []


def test_an_epoch_that_is_longer_than_what_was_lent_goes_on_where_the_port_comes_back(folder: Path) -> None:
    want = expected(numbers(8 * ROWS, 24))
    server = Server(folder, numbers, 8 * ROWS, BATCH)
    reader = Consumer(folder, batch_size=24, patience=PATIENCE)
    first = reader.read(10)
    server.kill()
    again = Server(folder, numbers, 8 * ROWS, BATCH)
    assert first + reader.read(len(want) - 10) == want
    reader.end()
    again.end()


def test_a_child_that_outlives_the_port_does_not_keep_its_name_or_its_readers(folder: Path) -> None:
    want = expected(numbers(ROWS, BATCH))
    server = Server(folder, numbers, ROWS, BATCH, forks=True)
    reader = Consumer(folder, patience=PATIENCE)
    try:
        first = reader.read(3)
        server.kill()
        again = Server(folder, numbers, ROWS, BATCH)
        assert first + reader.read(None) == want
    finally:
        os.kill(server.child, signal.SIGKILL)
    reader.end()
    again.end()


def test_a_port_that_comes_back_over_other_data_is_refused(folder: Path) -> None:
    server = Server(folder, numbers, ROWS, BATCH)
    reader = Consumer(folder, patience=PATIENCE)
    reader.read(3)
    server.kill()
    other = Server(folder, numbers, ROWS + 1, BATCH)
    with pytest.raises(leat.ChangedError, match="another data set"):
        reader.read(100)
    reader.end()
    other.end()


def test_without_patience_the_end_of_a_port_is_an_error(folder: Path) -> None:
    server = Server(folder, numbers, ROWS, BATCH)
    reader = Consumer(folder, patience=0)
    held = reader.read(3, hold=True)
    server.end()
    with pytest.raises(leat.ClosedError, match="has ended"):
        reader.read(1000, hold=True)
    assert reader.ask("check")[:3] == [d for _, _, d in held]
    reader.end()


def test_one_that_others_wait_for_is_never_computed_anew(port: leat.Port, folder: Path) -> None:
    want = expected(numbers(ROWS, BATCH), 12)
    slow, fast = Consumer(folder, lag="wait", label="slow"), Consumer(folder, start="beginning")
    assert slow.read(1) == want[:1]
    fast.pipe.send(("read", len(want), False))
    got = want[:1]
    while len(got) < len(want):
        got += slow.read(min(13, len(want) - len(got)))
    assert got == want and fast.answer() == want
    assert [c["recomputed"] for c in consumers_of(port) if c["label"] == "slow"] == [0]
    slow.end()
    fast.end()


@pytest.mark.parametrize("taken", [5, 32, 40])
def test_a_port_begins_where_its_loader_stands(folder: Path, taken: int) -> None:
    """Within the first epoch, which has 32 batches, at its end, and within the second one."""
    want = expected(numbers(ROWS, BATCH), 2)
    with numbers(ROWS, BATCH) as loader:
        batches = itertools.chain.from_iterable(iter(loader) for _ in range(2))
        got = [seen(batch) for batch in itertools.islice(batches, taken)]
        with leat.Port(loader, "p", folder=folder):
            reader = Consumer(folder)
            assert got + reader.read(len(want) - taken) == want
            reader.end()
