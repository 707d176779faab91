"""What a Loader makes of a web server that fails in the middle of a run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from http_support import Answer, Server, passing

import leat

N = 40
POLICIES = ("raise", "skip", "substitute")


def value(i: int) -> bytes:
    return bytes([i]) * 300_000  # too long for the cache of blocks: each is asked for when it is read


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("http") / "data.leat"
    with leat.Writer(path, {"raw": leat.field("uint8", (300_000,)), "label": "int64"}) as w:
        for i in range(N):
            w.write({"raw": np.frombuffer(value(i), np.uint8), "label": i})
    return path.read_bytes()


@pytest.fixture
def server(packed: bytes) -> Iterator[Server]:
    with Server({"data.leat": packed}) as s:
        yield s


def loader(server: Server, **options: Any) -> leat.Loader:
    given = {"batch_size": 4, "shuffle": True, "epochs": 1, "framework": "numpy", **options}
    return leat.Loader(leat.open(server.url("data.leat")), **given)


def ids_of(batch: leat.Batch) -> list[int]:
    ids: list[int] = batch.ids.tolist()
    assert batch["label"].tolist() == ids
    assert [v.tobytes() for v in batch["raw"]] == [value(i) for i in ids]
    return ids


def run(opened: leat.Loader) -> list[int]:
    return [i for batch in opened for i in ids_of(batch)]


def spoil(server: Server, i: int, answer: Callable[[Answer], Answer]) -> None:
    """From now on whoever asks for value i gets another answer."""
    at = server.files["data.leat"].index(value(i)) + 1000
    server.behave = lambda number, path, asked, right: answer(right) if asked and asked[0] <= at <= asked[1] else None


@passing
def test_what_passes_is_read_again_and_no_row_is_lost(server: Server, wrong: Any) -> None:
    opened = loader(server)
    failed: set[tuple[int, int] | None] = set()

    def behave(number: int, path: str, asked: tuple[int, int] | None, right: Answer) -> Answer | None:
        if asked in failed or number % 3:
            return None
        failed.add(asked)
        return wrong(right)  # type: ignore[no-any-return]

    server.behave = behave
    assert sorted(run(opened)) == list(range(N))
    assert failed
    assert opened.stats()["broken"] == {"skipped": 0, "substituted": 0, "raised": 0}


@pytest.mark.parametrize("on_error", POLICIES)
@pytest.mark.parametrize(
    ("answer", "kind", "why"),
    [
        (lambda right: Answer(500), leat.FileError, "cannot answer now \\(500\\)"),
        (lambda right: Answer(503, headers={"Retry-After": "0"}), leat.FileError, "503"),
        (lambda right: Answer(429), leat.FileError, "too many requests"),
        (lambda right: Answer(403), leat.FileError, "refuses access"),
        (lambda right: Answer(404), leat.ChangedError, "removed"),
        (lambda right: Answer(206, right.body, right.headers | {"ETag": '"other"'}), leat.ChangedError, "replaced"),
        (lambda right: Answer(200, right.body * 20, {}), leat.UnsupportedError, "status 200"),
        (lambda right: Answer(206, right.body, right.headers, cut=1000), leat.FileError, "failed|ends early"),
    ],
    ids=["500", "503", "429", "403", "404", "changed", "ranges", "cut"],
)
def test_what_is_not_a_samples_fault_is_raised_whatever_the_policy_and_the_run_goes_on_from_its_state(
    server: Server, answer: Callable[[Answer], Answer], kind: type[Exception], why: str, on_error: str
) -> None:
    opened = loader(server, on_error=on_error)
    spoil(server, 7, answer)
    seen: list[int] = []
    with pytest.raises(kind, match=why) as e:
        for batch in opened:
            seen += ids_of(batch)
    assert server.url("data.leat") in str(e.value)
    server.behave = None
    again = loader(server, on_error=on_error)
    again.load_state_dict(opened.state_dict())
    opened.close()
    assert sorted(seen + run(again)) == list(range(N))


def other_byte(right: Answer) -> Answer:
    at = right.body.index(b"\x07" * 1000)
    return Answer(right.status, right.body[:at] + b"\x08" + right.body[at + 1 :], right.headers)


def test_a_value_with_other_bytes_than_were_written_is_its_samples_fault(server: Server) -> None:
    opened = loader(server)
    spoil(server, 7, other_byte)
    with pytest.raises(leat.CorruptError, match="checksum") as e:
        run(opened)
    assert e.value.sample == 7  # type: ignore[attr-defined]


def test_such_a_value_is_skipped_or_substituted(server: Server) -> None:
    for on_error in ("skip", "substitute"):
        server.behave = None
        opened = loader(server, on_error=on_error)
        spoil(server, 7, other_byte)
        seen = run(opened)
        assert set(seen) == set(range(N)) - {7}
        assert len(seen) == N - (on_error == "skip")
        broken = opened.stats()["broken"]
        assert broken["skipped" if on_error == "skip" else "substituted"] == 1


def test_an_answer_that_was_wrong_once_is_not_kept(tmp_path: Path) -> None:
    path = tmp_path / "data.leat"
    values = [bytes([i]) * 100_000 for i in range(N)]  # short enough for the cache of blocks
    with leat.Writer(path, {"raw": "bytes"}) as w:
        for v in values:
            w.write({"raw": v})
    data = path.read_bytes()
    at = data.index(values[20])
    spoilt: list[tuple[int, int]] = []

    def behave(number: int, path: str, asked: tuple[int, int] | None, right: Answer) -> Answer | None:
        if spoilt or not asked or not asked[0] <= at <= asked[1]:
            return None
        spoilt.append(asked)
        k = at - asked[0]
        return Answer(right.status, right.body[:k] + b"\xff" + right.body[k + 1 :], right.headers)

    with Server({"data.leat": data}) as server:
        opened = leat.open(server.url("data.leat"))
        server.behave = behave
        with pytest.raises(leat.CorruptError, match="checksum"):
            list(leat.Loader(opened, batch_size=4, epochs=1, framework="numpy"))
        assert spoilt
        again = leat.Loader(opened, batch_size=4, epochs=1, framework="numpy")
        assert [bytes(v) for batch in again for v in batch["raw"]] == values


def hangs(right: Answer) -> Answer:
    return Answer(right.status, right.body, right.headers, cut=10, hang=True)


def test_closing_a_loader_does_not_wait_for_a_server_that_hangs(server: Server) -> None:
    opened = loader(server)
    spoil(server, 7, hangs)
    ended = []

    def read() -> None:
        try:
            run(opened)
        except leat.ClosedError:
            ended.append(True)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    while server.hangs == 0:
        reader.join(0.01)
    opened.close()
    reader.join()
    assert ended
    server.behave = None
    assert sorted(run(loader(server))) == list(range(N))


def test_a_server_that_hangs_in_some_answers_keeps_nothing_else_waiting(server: Server) -> None:
    """Rows behind one that hangs are made; it is given up when the loader is."""
    with loader(server, in_order=False, batch_size=1) as opened:
        spoil(server, 7, hangs)
        rows = iter(opened)
        seen = [i for _ in range(N - 1) for i in ids_of(next(rows))]
    assert set(seen) == set(range(N)) - {7}
