"""Consumers that send a port every kind of nonsense, beside good ones; and ports that do so to a consumer."""

from __future__ import annotations

import array
import contextlib
import fcntl
import json
import mmap
import os
import random
import socket
import struct
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from drawn_support import SEEDS
from port_support import Server, numbers, undisturbed
from process_support import PATIENCE, eventually

import leat

ROWS, BATCH = 1000, 32
HEAD = struct.Struct("<4sHHII")
VERSION, MOST = 3, 96 << 10
HELLO, WELCOME, SEEK, ROWS_OF, IDS, MAKE, END, REPLY, FAILED, ORDER = range(1, 11)
ATTACH = {"want": "attach", "batch_size": BATCH, "rank": 0, "world_size": 1, "waits": False, "label": "bad"}
N_GIVEN, N_RETURNED, EPOCH, GIVEN, RETURNED, RING, CHANNEL = 0, 64, 72, 128, 3200, 128, 3712
BEYOND = [0, 1, ROWS - 1, ROWS, 2**31, 2**32, 2**62, 2**63 - 1, 2**63, 2**64 - 1]


def message(kind: int, body: bytes = b"", version: int = VERSION, magic: bytes = b"leat", said: int = -1) -> bytes:
    return HEAD.pack(magic, version, kind, 1, len(body) if said < 0 else said) + body


def said(reply: bytes) -> str:
    """The text of a FAILED."""
    assert HEAD.unpack_from(reply)[2] == FAILED
    return reply[HEAD.size + 600 :].split(b"\0")[0].decode()


class Raw:
    """A connection that speaks for itself."""

    def __init__(self, folder: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.connect(str(folder / "p.port"))
        self.socket.settimeout(PATIENCE)
        self.fds: list[int] = []
        self.channel: mmap.mmap | None = None

    def send(self, data: bytes, fds: Sequence[int] = ()) -> bool:
        """False: the port has ended the connection."""
        try:
            socket.send_fds(self.socket, [data], fds)
        except (BrokenPipeError, ConnectionResetError):
            return False
        return True

    def receive(self) -> bytes:
        data, fds, _, _ = socket.recv_fds(self.socket, MOST + HEAD.size, 8)
        self.fds += fds
        return data

    def answer(self, data: bytes, fds: Sequence[int] = ()) -> bytes:
        """What the port says to this; nothing: it has ended the connection."""
        try:
            return self.receive() if self.send(data, fds) else b""
        except ConnectionResetError:
            return b""

    def attach(self) -> dict[str, Any]:
        welcome = self.answer(message(HELLO, json.dumps(ATTACH).encode()))
        assert HEAD.unpack_from(welcome)[2] == WELCOME and len(self.fds) == 3
        assert HEAD.unpack_from(self.receive())[2] == REPLY
        self.channel = mmap.mmap(self.fds[1], CHANNEL)
        about: dict[str, Any] = json.loads(welcome[HEAD.size :])
        return about

    def seek(self, epoch: int, row: int) -> bytes:
        return self.answer(message(SEEK, struct.pack("<QQII", epoch, row, 1, 0)))

    def word(self, at: int) -> int:
        assert self.channel
        word: int = struct.unpack_from("<I", self.channel, at)[0]
        return word

    def put(self, at: int, value: int) -> None:
        assert self.channel
        struct.pack_into("<I", self.channel, at, value & 0xFFFFFFFF)

    def ring(self) -> None:
        os.write(self.fds[2], struct.pack("<Q", 1))

    def is_over(self) -> bool:
        """Whether the port ends the connection, whatever it says before."""
        try:
            while self.receive():
                pass
        except ConnectionResetError:
            pass
        return True

    def close(self) -> None:
        if self.channel:
            self.channel.close()
        self.socket.close()
        for fd in self.fds:
            os.close(fd)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "ports"


@pytest.fixture
def server(folder: Path) -> Iterator[Server]:
    server = Server(folder, numbers, ROWS, BATCH)
    yield server
    server.end()
    assert list(folder.iterdir()) == []


@pytest.fixture
def good(server: Server, folder: Path) -> Iterator[None]:
    with undisturbed(server, folder, ROWS, BATCH):
        yield


def nonsense(draw: random.Random) -> bytes:
    """A message, or what is none."""
    kind = draw.randrange(12)
    numbers_of = [draw.choice([*BEYOND, draw.randrange(2 * ROWS)]) for _ in range(8)]
    if kind == 0:
        return draw.randbytes(draw.randrange(1, 300))
    if kind == 1:
        return message(draw.randrange(2**16), draw.randbytes(draw.randrange(100)))
    if kind == 2:
        return message(HELLO, b"{}", version=draw.choice([0, VERSION, 65535]))
    if kind == 3:
        return message(HELLO, b"{}", said=draw.choice([0, 1, 3, MOST, MOST + 1, 2**32 - 1]))
    if kind == 4:
        return message(HELLO, b"{}", magic=draw.randbytes(4))
    if kind == 5:
        return message(HELLO, draw.choice([b"", b"[]", b"1", b'"', b"{" * 3000, b'{"want": 3}', b"\xff\xfe", b"null"]))
    if kind == 6:
        wish = {**ATTACH, draw.choice(list(ATTACH)): draw.choice([*BEYOND[:-2], -1, "x" * 5000, None, [], {}, 1.5])}
        return message(HELLO, json.dumps(wish).encode())
    if kind == 7:
        return message(
            SEEK, struct.pack("<QQII", *numbers_of[:2], draw.randrange(2**32), 0)[: draw.choice([24, 24, 23])]
        )
    if kind == 8:
        return message(ROWS_OF, struct.pack("<Q", numbers_of[0]))
    if kind in (9, 10):
        return message(IDS if kind == 9 else MAKE, struct.pack("<8Q", *numbers_of))
    return message(draw.choice([WELCOME, REPLY, FAILED, END]), draw.randbytes(draw.randrange(2000)))


@pytest.mark.parametrize("seed", SEEDS)
def test_random_messages_end_the_connection_that_sent_them_and_no_other(seed: int, good: None, folder: Path) -> None:
    draw = random.Random(seed)
    for turn in range(600):
        bad = Raw(folder)
        if turn % 3 == 0:
            bad.attach()
        for _ in range(draw.randrange(1, 6)):
            if not bad.send(nonsense(draw)):
                break
        if turn % 2 and bad.send(b"x"):
            assert bad.is_over()
        bad.close()


def test_thousands_of_connections_come_and_go(good: None, folder: Path) -> None:
    for turn in range(2000):
        bad = Raw(folder)
        if turn % 4 == 1:
            bad.send(message(HELLO, json.dumps(ATTACH).encode()))
        elif turn % 4 == 2:
            bad.send(b"leat")
        bad.close()


def test_more_connections_than_a_port_takes_are_refused_and_those_who_read_go_on(good: None, folder: Path) -> None:
    import resource

    most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most[1], most[1]))
    open_ones: list[Raw] = []
    try:
        for _ in range(1100):
            open_ones.append(Raw(folder))
        with pytest.raises(leat.HeldError, match="no further connection: it has as many"):
            leat.attach("p", folder=folder)
        assert "no further connection" in said(open_ones.pop().receive())
    finally:
        for bad in open_ones:
            bad.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, most)


def test_all_readers_are_told_of_however_many_there_are(server: Server, folder: Path) -> None:
    """More than one message has room for."""
    labels = [f"{i:03}{'x' * 57}" for i in range(300)]
    readers = [leat.attach("p", folder=folder, batch_size=1, framework="numpy", label=label) for label in labels]
    stat = leat.ports.stat("p", folder=folder)
    assert len(json.dumps(stat["consumers"])) > MOST
    assert sorted(c["label"] for c in stat["consumers"]) == labels
    for reader in readers:
        reader.close()


@pytest.mark.parametrize("seed", SEEDS)
def test_what_was_not_lent_is_not_taken_back(seed: int, good: None, folder: Path) -> None:
    draw = random.Random(seed)
    for turn in range(100):
        bad = Raw(folder)
        bad.attach()
        assert HEAD.unpack_from(bad.seek(turn % 3, draw.randrange(ROWS)))[2] == REPLY
        eventually(lambda bad=bad: bad.word(N_GIVEN) > 0)  # type: ignore[misc]
        mine = struct.unpack_from("<I", bad.channel or b"", GIVEN + 16)[0]
        for i in range(RING):  # slots of others too
            bad.put(RETURNED + 4 * i, draw.choice([mine, draw.randrange(16), draw.randrange(512)]))
        if turn % 2:
            bad.put(RETURNED, mine)
        bad.put(RETURNED + 4, mine if turn % 2 else draw.choice([512, 2**32 - 1]))  # twice, or what is no slot
        bad.put(N_RETURNED, draw.choice([2, 3, 100, 121, 2**31, 2**32 - 1]))
        bad.ring()
        last = b""
        while not (last and HEAD.unpack_from(last)[2] == FAILED):
            last = bad.receive()
            assert last
        assert "what it did not have" in said(last)
        assert bad.is_over()
        bad.close()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_channel_full_of_noise_harms_nobody(seed: int, good: None, folder: Path) -> None:
    draw = random.Random(seed)
    for _ in range(40):
        bad = Raw(folder)
        bad.attach()
        bad.seek(0, draw.randrange(ROWS))
        for _ in range(20):
            assert bad.channel
            bad.channel[:] = draw.randbytes(CHANNEL)
            bad.ring()
        bad.close()


def test_a_reader_that_makes_its_descriptors_block_holds_up_nobody(good: None, folder: Path) -> None:
    bad = Raw(folder)
    bad.attach()
    wake = bad.fds[2]
    fcntl.fcntl(wake, fcntl.F_SETFL, fcntl.fcntl(wake, fcntl.F_GETFL) & ~os.O_NONBLOCK)
    for _ in range(3000):  # a port that read from it would wait at some time, because it is empty again
        os.write(wake, struct.pack("Q", 1))
        with contextlib.suppress(BlockingIOError):
            os.read(wake, 8)
    assert leat.ports.stat("p", folder=folder)["consumers"]
    bad.close()


SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE


@contextlib.contextmanager
def memory(ids: Sequence[int], seals: int = SEALS) -> Iterator[int]:
    fd = os.memfd_create("ids", os.MFD_ALLOW_SEALING)
    os.write(fd, array.array("q", ids).tobytes())
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    try:
        yield fd
    finally:
        os.close(fd)


def wishes(n: Any, **more: Any) -> bytes:
    return message(HELLO, json.dumps({**ATTACH, "samples": n, "seed": "1", "epoch": 0, **more}).encode())


@pytest.mark.parametrize(
    ("ids", "seals", "wish", "why"),
    [
        ([1, 2, 3], 0, {"n": 3}, "no sealed memory"),
        ([1, 2, 3], fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW, {"n": 3}, "no sealed memory"),
        ([1, 2], SEALS, {"n": 3}, "no sealed memory"),
        ([1, 2, 3, 4], SEALS, {"n": 3}, "no sealed memory"),
        ([1, 2, 3], SEALS, {"n": 3, "ordered": True}, "no sealed memory"),
        ([1, 2, 2], SEALS, {"n": 3}, "is there twice"),
        ([1, 2, ROWS], SEALS, {"n": 3}, f"sample {ROWS} is not in the data set"),
        ([1, 2, -1], SEALS, {"n": 3}, "sample -1 is not in the data set"),
        ([1, 2, 2**63 - 1], SEALS, {"n": 3}, "is not in the data set"),
        ([1, 2, 3, 3, 2, 2], SEALS, {"n": 3, "ordered": True}, "does not have each sample once"),
        ([1, 2, 3, 3, 2, 4], SEALS, {"n": 3, "ordered": True}, "does not have each sample once"),
        ([1, 2, 3], SEALS, {"n": 0}, "0 samples"),
        ([1, 2, 3], SEALS, {"n": ROWS + 1}, f"of a data set of {ROWS}"),
        ([1, 2, 3], SEALS, {"n": 2**63 - 1}, f"of a data set of {ROWS}"),
        ([1, 2, 3], SEALS, {"n": -1}, "does not say which samples"),
        ([1, 2, 3], SEALS, {"n": "3"}, "does not say which samples"),
        ([1, 2, 3], SEALS, {"n": 3, "seed": 1}, "does not say which samples"),
        ([1, 2, 3], SEALS, {"n": 3, "seed": "1x"}, "does not say which samples"),
        ([1, 2, 3], SEALS, {"n": 3, "epoch": 2**63 - 1}, "does not say which samples"),
    ],
)
def test_samples_that_are_not_what_they_should_be_are_refused(
    ids: list[int], seals: int, wish: dict[str, Any], why: str, server: Server, folder: Path
) -> None:
    raw = Raw(folder)
    with memory(ids, seals) as fd:
        assert why in said(raw.answer(wishes(**wish), [fd]))
    assert raw.is_over()
    raw.close()
    with leat.attach("p", folder=folder, samples=[1, 2, 3], framework="numpy", tail="uneven") as reader:
        assert sorted(next(iter(reader)).ids.tolist()) == [1, 2, 3]


def test_samples_without_memory_or_in_a_file_or_a_pipe_are_refused(server: Server, folder: Path) -> None:
    pipe = os.pipe()
    with open(__file__, "rb") as file:
        for fds in ([], [file.fileno()], [pipe[0]], [pipe[1]]):
            raw = Raw(folder)
            assert "no sealed memory" in said(raw.answer(wishes(3), fds))
            raw.close()
    for fd in pipe:
        os.close(fd)


def test_orders_are_of_those_who_have_samples_of_their_own_and_of_epochs_in_turn(good: None, folder: Path) -> None:
    raw = Raw(folder)
    raw.attach()
    assert "order of no epoch" in said(raw.answer(message(ORDER, struct.pack("<Q", 0))))
    assert raw.is_over()
    raw.close()
    for epoch in BEYOND[4:]:
        raw = Raw(folder)
        with memory([5, 3, 4]) as fd:
            assert HEAD.unpack_from(raw.answer(wishes(3), [fd]))[2] == WELCOME
        assert HEAD.unpack_from(raw.receive())[2] == REPLY
        raw.socket.settimeout(0.5)
        with contextlib.suppress(TimeoutError):  # what nobody can draw is not answered
            assert HEAD.unpack_from(raw.answer(message(ORDER, struct.pack("<Q", epoch))))[2] == FAILED
        raw.close()


def test_a_reader_that_says_it_is_far_ahead_gets_what_it_may_have_and_no_more(good: None, folder: Path) -> None:
    raw = Raw(folder)
    raw.attach()
    raw.seek(0, 0)
    assert raw.channel
    for epoch in (2**64 - 1, 2**63, 2**62, 7, 0):
        struct.pack_into("<QQ", raw.channel, EPOCH, epoch, epoch)
        raw.ring()
        assert leat.ports.stat("p", folder=folder)["name"] == "p"
        with leat.attach("p", folder=folder, framework="numpy") as reader:  # at the position of the others
            assert next(iter(reader))["x"].shape[1] == 8
    assert raw.word(N_GIVEN) <= RING
    raw.close()


def test_one_that_never_reads_its_answers_is_dropped(good: None, folder: Path) -> None:
    bad = Raw(folder)
    bad.attach()
    asks = 0
    while bad.send(message(HELLO, b'{"want": "stat"}')):
        asks += 1
        assert asks < 1_000_000
    bad.close()


def test_seeks_without_end_and_batches_that_are_never_taken_stay_within_what_is_lent(good: None, folder: Path) -> None:
    bad = Raw(folder)
    bad.attach()
    draw = random.Random(4)
    for _ in range(500):
        assert HEAD.unpack_from(bad.seek(draw.randrange(3), draw.randrange(ROWS)))[2] == REPLY
    assert bad.word(N_GIVEN) <= RING
    reply = bad.seek(0, ROWS)
    assert "has no row 1000" in said(reply)
    assert "has no rows" in said(bad.seek(2**63, 0))
    assert HEAD.unpack_from(bad.seek(0, 0))[2] == REPLY  # it may ask on
    bad.close()


def test_memory_of_a_port_cannot_be_written_to_or_resized_by_a_consumer(server: Server, folder: Path) -> None:
    bad = Raw(folder)
    bad.attach()
    memory, channel, _ = bad.fds
    with pytest.raises(OSError):
        mmap.mmap(memory, 4096, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
    for fd in (memory, channel):
        for size in (0, 2**40):
            with pytest.raises(OSError):
                os.ftruncate(fd, size)
    with pytest.raises(OSError):
        os.pwrite(memory, b"x", 0)
    assert os.fstat(memory).st_mode & 0o777 == 0o400  # it cannot be opened anew for writing, but by root
    if os.geteuid():
        with pytest.raises(OSError):
            os.close(os.open(f"/proc/self/fd/{memory}", os.O_RDWR))
    bad.close()


@pytest.mark.parametrize("version", [0, 1, VERSION + 1, 65535])
def test_a_reader_of_another_version_is_refused_and_both_are_named(version: int, good: None, folder: Path) -> None:
    bad = Raw(folder)
    why = said(bad.answer(message(HELLO, json.dumps(ATTACH).encode(), version=version)))
    assert f"speaks version {version} of ports, this library version {VERSION}" in why and "one release" in why
    assert bad.is_over()
    bad.close()


# ---- ports that are none -------------------------------------------------------------------------


class FakePort:
    """Answers each connection with what it is told, and ends it."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, exist_ok=True)
        self.path = folder / "p.port"
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.bind(str(self.path))
        self.socket.listen()
        self.answers: list[tuple[bytes, list[int]]] = []
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self) -> None:
        while True:
            peer, _ = self.socket.accept()
            with peer:
                if not self.answers:
                    return
                peer.settimeout(PATIENCE)
                try:
                    peer.recv(MOST)
                    for data, fds in self.answers:
                        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
                        peer.sendmsg([data], rights)
                except OSError:
                    continue  # it has had enough

    def close(self) -> None:
        self.answers = []
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as last:
            last.connect(str(self.path))
            self.thread.join(PATIENCE)
        self.socket.close()
        self.path.unlink()


@pytest.fixture
def fake(folder: Path) -> Iterator[FakePort]:
    fake = FakePort(folder)
    yield fake
    fake.close()


WELCOMED = {
    "name": "p",
    "pid": 1,
    "fingerprint": "0" * 32,
    "order": "0" * 16,
    "program": "0" * 16,
    "batch_size": 4,
    "rank": 0,
    "world_size": 1,
    "epoch": 0,
    "row": 0,
    "about": {},
}


def descriptors(channel_bytes: int, memory_bytes: int, sealed: str = "mc") -> list[int]:
    fds = {}
    for name, size in (("m", memory_bytes), ("c", channel_bytes)):
        fds[name] = os.memfd_create(name, os.MFD_ALLOW_SEALING)
        os.ftruncate(fds[name], size)
        if name in sealed:
            fcntl.fcntl(fds[name], fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
    return [fds["m"], fds["c"], os.eventfd(0)]


def test_a_port_that_talks_nonsense_ends_in_an_error_that_says_so(fake: FakePort, folder: Path) -> None:
    draw = random.Random(5)
    whole, short, empty = descriptors(CHANNEL, 1 << 20), descriptors(100, 1 << 20), descriptors(CHANNEL, 0)
    welcome = json.dumps(WELCOMED).encode()
    texts = [b"", b"[]", b"{}", b"\xff", b"[" * 3000, b'[{"name": "x"}]', b'[{"name": "x", "kind": 1}]', b"[1]"]
    answers: list[list[tuple[bytes, list[int]]]] = [[(draw.randbytes(n), [])] for n in range(1, 200, 7)]
    answers += [[(message(kind, draw.randbytes(60)), whole)] for kind in range(12)]
    answers += [[(message(WELCOME, welcome), fds)] for fds in ([], whole[:1], whole[:2], short, empty, whole * 3)]
    answers += [[(message(WELCOME, text), whole)] for text in texts]
    for key in WELCOMED:
        values: tuple[Any, ...] = (None, -1, 2**63 - 1, "", "x" * 100, [])
        for value in values:
            if key not in ("name", "pid", "about"):
                answers.append([(message(WELCOME, json.dumps({**WELCOMED, key: value}).encode()), whole)])
    answers += [[(message(WELCOME, welcome), whole), (message(REPLY, text), [])] for text in texts if text != b"[]"]
    answers += [[(message(WELCOME, welcome), whole), (message(kind, b"[]"), [])] for kind in (1, 2, 3, 99)]
    before = len(os.listdir("/proc/self/fd"))
    for answer in answers:
        fake.answers = answer
        with pytest.raises(leat.Error):
            leat.attach("p", folder=folder, patience=0.0).close()
    eventually(lambda: len(os.listdir("/proc/self/fd")) <= before)
    for fd in whole + short + empty:
        os.close(fd)


@pytest.mark.parametrize(("sealed", "why"), [("m", "no channel"), ("c", "no memory that is sealed")])
def test_memory_that_could_become_shorter_is_refused(sealed: str, why: str, fake: FakePort, folder: Path) -> None:
    fds = descriptors(CHANNEL, 1 << 20, sealed)
    fake.answers = [(message(WELCOME, json.dumps(WELCOMED).encode()), fds), (message(REPLY, b"[]"), [])]
    with pytest.raises(leat.FormatError, match=why):
        leat.attach("p", folder=folder, patience=0.0).close()
    for fd in fds:
        os.close(fd)


@pytest.mark.parametrize("version", [0, 1, VERSION + 1, 65535])
def test_a_port_of_another_version_is_refused_and_both_are_named(version: int, fake: FakePort, folder: Path) -> None:
    why = message(FAILED, b"in the words of that version", version=version)
    fake.answers = [(why, [])]
    for ask in (leat.attach, leat.ports.stat, leat.ports.stop):
        with pytest.raises(leat.UnsupportedError, match=f"version {version} of ports, this library version {VERSION}"):
            ask("p", folder=folder)
