"""Data sets on a web server, which may be late, broken or hostile."""

from __future__ import annotations

import contextlib
import gzip
import os
import pickle
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from http_support import Answer, Server, passing
from process_support import Process, eventually

import leat

N = 3000


def values(i: int) -> dict[str, Any]:
    return {"x": np.full(5, i, np.float32), "label": i % 7, "raw": bytes([i % 251]) * (20 + i % 60)}


@pytest.fixture(scope="session")
def packed(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A file with fixed and varying fields, several pages of each."""
    path = tmp_path_factory.mktemp("http") / "data.leat"
    schema = {"x": leat.field("float32", (5,)), "label": "int64", "raw": "bytes"}
    with leat.Writer(path, schema, classes=[f"c{i}" for i in range(7)]) as w:
        for i in range(N):
            w.write(values(i))
    return path.read_bytes()


LONG = 300_000


def long_value(i: int) -> bytes:
    return bytes([i]) * LONG


@pytest.fixture(scope="session")
def packed_long(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A file whose values are too long for the cache of blocks: each is asked for when it is read."""
    path = tmp_path_factory.mktemp("http") / "long.leat"
    with leat.Writer(path, {"raw": "bytes", "label": "int64"}) as w:
        for i in range(40):
            w.write({"raw": long_value(i), "label": i})
    return path.read_bytes()


@pytest.fixture
def server(packed: bytes, packed_long: bytes) -> Iterator[Server]:
    with Server({"data.leat": packed, "long.leat": packed_long}) as s:
        yield s


def assert_same(got: dict[str, Any], i: int) -> None:
    for name, value in values(i).items():
        assert np.array_equal(got[name], value), (i, name)


def test_a_file_on_a_server_has_the_values_of_the_file(server: Server, packed: bytes, tmp_path: Path) -> None:
    (tmp_path / "data.leat").write_bytes(packed)
    local, ds = leat.open(tmp_path / "data.leat"), leat.open(server.url("data.leat"))
    assert ds.schema == local.schema
    assert (ds.fingerprint, ds.classes, len(ds)) == (local.fingerprint, local.classes, N)
    for i in (0, 1, 1234, N - 1):
        assert_same(ds[i], i)
    assert np.array_equal(ds.column("x"), local.column("x"))
    assert ds[::-1].column("label")[:3].tolist() == [(N - 1 - i) % 7 for i in range(3)]
    assert pickle.loads(pickle.dumps(ds))[7]["label"] == 0


def test_opening_takes_few_requests_and_columns_are_read_in_blocks(server: Server) -> None:
    ds = leat.open(server.url("data.leat"))
    assert server.requests <= 7
    assert server.connections == 1
    ds.column("label")
    for i in range(100):
        _ = ds[i]["label"]
    assert server.requests <= 7 + 3 + 100  # of each sample its value of varying size


def test_idx_files_are_read_from_a_server() -> None:
    import gzip

    from test_made import idx

    x = np.random.default_rng(0).integers(0, 256, (50, 28, 28), np.uint8)
    with Server({"x.gz": gzip.compress(idx(x)), "y": idx(np.arange(50, dtype=np.int32))}) as s:
        ds = leat.open({"image": s.url("x.gz"), "label": s.url("y")})
        assert np.array_equal(ds.column("image")[:, 0], x)
        assert ds.column("label").tolist() == list(range(50))


@pytest.mark.parametrize("packed", [False, True])
def test_an_idx_file_is_read_ahead_from_a_server(packed: bool) -> None:
    import gzip

    from test_made import idx

    x = np.random.default_rng(0).integers(0, 256, (6, 1 << 20), np.uint8)
    with Server({"x": gzip.compress(idx(x), 1) if packed else idx(x)}, latency_s=0.05) as s:
        ds = leat.open(s.url("x"))
        assert s.most > 1
        assert np.array_equal(ds.column("data"), x)


def test_a_manifest_and_its_shards_are_read_from_a_server(tmp_path: Path) -> None:
    noise = np.random.default_rng(0)
    with leat.Writer(tmp_path / "all.leat", {"x": "int64", "raw": "bytes"}, shard_bytes=1 << 20) as w:
        for i in range(300):
            w.add(x=i, raw=noise.bytes(100_000))
    files = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    assert len(files) > 2
    with Server(files) as s:
        assert leat.open(s.url("all.leat")).column("x").tolist() == list(range(300))


def every(n: int, answer: Callable[[Answer], Answer]) -> Callable[..., Answer | None]:
    """Each n-th request is answered otherwise."""
    return lambda number, path, asked, right: answer(right) if number % n == 0 else None


@passing
def test_what_fails_now_and_then_is_asked_for_again(server: Server, wrong: Callable[[Answer], Answer]) -> None:
    server.behave = every(3, wrong)
    ds = leat.open(server.url("data.leat"))
    for i in range(0, N, 500):
        assert_same(ds[i], i)


@pytest.mark.parametrize(
    ("answer", "kind", "why"),
    [
        (Answer(404), FileNotFoundError, "no such file"),
        (Answer(403, b"<xml>denied</xml>"), leat.FileError, "refuses access \\(403\\)"),
        (Answer(500, b"oops"), leat.FileError, "cannot answer now \\(500\\)"),
        (Answer(503, headers={"Retry-After": "0"}), leat.FileError, "503"),
        (Answer(429), leat.FileError, "too many requests"),
        (Answer(302, headers={"Location": "/data.leat"}), leat.FileError, "redirects without end"),
        (Answer(302, headers={"Location": "file:///etc/passwd"}), leat.InvalidError, "no address"),
        (Answer(200, b"x" * 3_000_000), leat.UnsupportedError, "does not answer requests for ranges"),
        (Answer(206, b"x", {"Content-Encoding": "gzip"}), leat.UnsupportedError, "compresses what it sends"),
        (Answer(206, b"x", {"Content-Range": "bytes 1-1/9"}), leat.FileError, "another range than was asked for"),
        (Answer(206, b"x"), leat.UnsupportedError, "how long the file is"),
        (Answer(206, b"x", {"Content-Range": "bytes 0-0/*"}), leat.UnsupportedError, "how long the file is"),
        (Answer(206, b"x", {"Content-Range": "bytes 5-5/99999999999999999999999"}), leat.UnsupportedError, "how long"),
        (Answer(416, headers={"Content-Range": "bytes */0"}), leat.FormatError, "is empty"),
        (Answer(200), leat.FormatError, "is empty"),
    ],
)
def test_a_server_that_does_not_serve_the_file_is_an_error_that_says_so(
    server: Server, answer: Answer, kind: type[Exception], why: str
) -> None:
    server.behave = lambda *_: answer
    with pytest.raises(kind, match=why) as e:
        leat.open(server.url("data.csv"))
    assert server.url("data.csv") in str(e.value)


@pytest.mark.parametrize(
    ("name", "encoding"),
    [("a.jsonl.gz", "x-gzip"), ("A.JSONL.GZ", "gzip"), ("a.jsonl.gz?x=1", "gzip"), ("a.jsonl", "aws-chunked"),
     ("a.jsonl", "utf-8"), ("a.jsonl", "identity, none")],
)  # fmt: skip
def test_a_file_is_read_as_it_lies_there_though_its_server_names_an_encoding(name: str, encoding: str) -> None:
    records = b'{"a": 1}\n{"a": 2}\n'
    with Server({name: records if name == "a.jsonl" else gzip.compress(records)}) as s:
        s.behave = lambda number, path, asked, right: replace(
            right, headers={**right.headers, "Content-Encoding": encoding}
        )
        assert leat.open(s.url(name), format="jsonl").column("a").tolist() == [1, 2]


@pytest.mark.parametrize("encoding", ["gzip", "identity, br", "GZIP;q=1", "zstd"])
def test_compressed_answers_are_refused_whatever_the_address_has(encoding: str) -> None:
    with Server({"a.gz.d/a.jsonl?x=.gz": b'{"a": 1}\n'}) as s:
        s.behave = lambda number, path, asked, right: replace(
            right, headers={**right.headers, "Content-Encoding": encoding}
        )
        with pytest.raises(leat.UnsupportedError, match="compresses what it sends"):
            leat.open(s.url("a.gz.d/a.jsonl?x=.gz"), format="jsonl")


def test_characters_that_no_address_has_are_sent_in_their_code(packed: bytes) -> None:
    with Server({"my%20caf%C3%A9%20%25.leat": packed}) as s:
        assert len(leat.open(s.url("my caf\u00e9 %25.leat"))) == N


def test_tables_on_a_server_and_outputs_there_say_to_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for path in ("http://127.0.0.1:9/a.parquet", "s3://bucket/a.arrow", "s3://bucket/a.h5ad"):
        with pytest.raises(leat.UnsupportedError, match=f"^{path}: files of .* are read from paths alone: copy it"):
            leat.open(path)
        with pytest.raises(leat.FileError, match=r"written to a path alone: write it here.*\(" + path):
            leat.Writer(path, {"x": "int64"})
        with pytest.raises(leat.FileError, match=r"written to a path alone: write it here.*\(" + path):
            leat.pack([{"x": 1}], path)
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("login", ["ann:secret", "ann lee:secret", "ann:se cret"])
def test_a_password_in_an_address_is_in_no_error(server: Server, login: str) -> None:
    url = server.url("data.csv").replace("//", f"//{login}@")
    with pytest.raises(FileNotFoundError, match=server.url("data.csv")) as e:
        leat.open(url)
    assert "cret" not in str(e.value) + repr(e.value) + str(e.value.filename)
    assert len(leat.open(url.replace("csv", "leat"))) == N


WAITS: dict[str, Callable[[leat.Dataset, str], object]] = {
    "open": lambda ds, url: leat.open(url),
    "Loader": lambda ds, url: leat.Loader(ds, batch_size=1),
    "a sample": lambda ds, url: ds[0],
    "a batch": lambda ds, url: next(iter(leat.Loader(ds, batch_size=1))),
}


def waits(what: str, data: str, other: str, pipe: Any) -> None:
    ds = leat.open(data)
    pipe.send("open")
    pipe.recv()
    try:
        WAITS[what](ds, other)
        pipe.send("nothing was waited for")
    except BaseException as error:
        pipe.send(type(error).__name__)


def test_ctrl_c_ends_waiting_for_a_server(packed: bytes, packed_long: bytes) -> None:
    with contextlib.ExitStack() as stack:
        waiting = []
        for what in WAITS:  # all at once: some end with the next look at the clock
            server = stack.enter_context(Server({"data.leat": packed, "long.leat": packed_long}))
            process = Process(waits, what, server.url("long.leat"), server.url("data.leat"))
            assert process.answer() == "open"
            server.behave = lambda number, path, asked, answer: replace(answer, cut=0, hang=True)
            process.pipe.send("go on")
            waiting.append((server, process))
        for server, process in waiting:
            eventually(lambda server=server: bool(server.hangs))  # type: ignore[misc]
            process.signal(signal.SIGINT)
        assert [process.answer() for _, process in waiting] == ["KeyboardInterrupt"] * len(WAITS)
        for _, process in waiting:
            process.kill()


def test_a_server_that_is_not_there_is_an_error() -> None:
    with pytest.raises(leat.FileError, match="reading from the server failed.*(refused|connect)"):
        leat.open("http://127.0.0.1:1/data.leat")


def test_an_object_that_was_replaced_is_changed_and_never_mixed(server: Server, packed_long: bytes) -> None:
    ds = leat.open(server.url("long.leat"))
    assert ds[5]["raw"] == long_value(5)
    other = bytearray(packed_long)
    other[-1] ^= 1
    server.files["long.leat"] = bytes(other)  # another ETag
    with pytest.raises(leat.ChangedError, match="replaced"):
        _ = ds[6]["raw"]
    server.files["long.leat"] = packed_long + b"x"
    with pytest.raises(leat.ChangedError):
        _ = ds[7]["raw"]
    del server.files["long.leat"]
    with pytest.raises(leat.ChangedError, match="removed"):
        _ = ds[8]["raw"]
    server.files["long.leat"] = packed_long
    assert ds[9]["raw"] == long_value(9)


def test_small_values_of_a_moderate_file_take_each_byte_once(server: Server, packed: bytes) -> None:
    seen = []
    with leat.Loader(
        leat.open(server.url("data.leat")), batch_size=50, shuffle=True, epochs=2, framework="numpy"
    ) as loader:
        for _ in range(2):
            for batch in loader:
                seen += batch.ids.tolist()
                assert [bytes(v)[:1] for v in batch["raw"]] == [bytes([i % 251]) for i in batch.ids.tolist()]
    assert sorted(seen) == sorted([*range(N)] * 2)
    assert sum(last - first + 1 for first, last in server.ranges) < 2 * len(packed)


def test_another_range_than_was_asked_for_is_refused(server: Server) -> None:
    ds = leat.open(server.url("long.leat"))
    of = len(server.files["long.leat"])

    def further_on(first: int, last: int) -> str:
        return f"bytes {first + 100}-{last + 100}/{of}"

    bad: list[Callable[[int, int], str]] = [further_on, lambda *_: f"bytes 7-20/{of}", lambda *_: "nonsense"]
    for header in bad:
        server.behave = lambda n, path, asked, right, header=header: Answer(
            206, right.body, right.headers | {"Content-Range": header(*asked)}
        )
        with pytest.raises(leat.FileError, match="another range"):
            _ = ds[30]["raw"]


def test_longer_answers_than_asked_for_do_not_overrun(server: Server) -> None:
    ds = leat.open(server.url("long.leat"))
    server.behave = lambda n, path, asked, right: Answer(206, right.body + b"y" * 100000, right.headers)
    with pytest.raises(leat.FileError, match="another range"):
        _ = ds[30]["raw"]


def test_a_forked_child_talks_to_the_server_by_itself(server: Server) -> None:
    ds = leat.open(server.url("data.leat"))
    assert_same(ds[5], 5)
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            assert_same(ds[77], 77)
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0
    assert_same(ds[78], 78)
