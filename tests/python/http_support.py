"""A web server on loopback that answers range requests as a test wants it: late, wrongly, cut, or not at all."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

STATUS = {200: "OK", 206: "Partial Content", 302: "Found", 403: "Forbidden", 404: "Not Found",
416: "Range Not Satisfiable",
          429: "Too Many Requests", 500: "Internal Server Error", 503: "Service Unavailable"}  # fmt: skip


@dataclass
class Answer:
    """What is sent. `body` is cut after `cut` bytes, and the connection closed; with `hang` nothing follows these."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    cut: int | None = None
    hang: bool = False
    delay_s: float = 0.0


#: what a server answers now and then, and not when it is asked again
PASSING: dict[str, Callable[[Answer], Answer]] = {
    "500": lambda right: Answer(500),
    "502": lambda right: Answer(502),
    "503": lambda right: Answer(503, headers={"Retry-After": "0"}),
    "429": lambda right: Answer(429, b"slow down"),
    "cut": lambda right: Answer(right.status, right.body, right.headers, cut=len(right.body) // 2),
    "short": lambda right: Answer(right.status, right.body[:-1], right.headers),
    "nothing": lambda right: Answer(right.status, right.body, right.headers, cut=0),
    "empty": lambda right: Answer(right.status, b"", right.headers, cut=0),
}
passing = pytest.mark.parametrize("wrong", PASSING.values(), ids=PASSING)


class Server:
    """Serves `files`; `behave(number, path, (first, last) or None, answer)` may change the answer that is right.

    `requests` counts them, `ranges` lists what was asked for, `most` is how many were answered at once,
    `hangs` how many answers hang, `connections` how many were made.
    """

    def __init__(
        self, files: dict[str, bytes], latency_s: float = 0.0, behave: Callable[..., Answer | None] | None = None
    ) -> None:
        self.files, self.latency_s, self.behave = files, latency_s, behave
        self.requests, self.ranges, self.open, self.most = 0, [], 0, 0  # type: int, list[tuple[int, int]], int, int
        self.hangs = self.connections = 0
        self.loop = asyncio.new_event_loop()
        started = threading.Event()
        self.thread = threading.Thread(target=self._run, args=(started,), daemon=True)
        self.thread.start()
        started.wait()

    def _run(self, started: threading.Event) -> None:
        asyncio.set_event_loop(self.loop)
        server = self.loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=512))
        self.port = server.sockets[0].getsockname()[1]
        started.set()
        self.loop.run_forever()
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.loop.run_until_complete(asyncio.sleep(0))
        server.close()

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}/{path}"

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while await self._one(await reader.readuntil(b"\r\n\r\n"), writer):
                pass
        writer.close()

    def _right(self, path: str, asked: tuple[int, int] | None) -> Answer:
        data = self.files.get(path)
        if data is None:
            return Answer(404, b"no such file")
        headers = {"ETag": f'"{hashlib.md5(data[:4096] + data[-4096:]).hexdigest()}"'}
        if asked is None:
            return Answer(200, data, headers)
        first, last = asked[0], min(asked[1], len(data) - 1)
        if first > last:
            return Answer(416, b"", {"Content-Range": f"bytes */{len(data)}"})
        return Answer(206, data[first : last + 1], headers | {"Content-Range": f"bytes {first}-{last}/{len(data)}"})

    async def _one(self, head: bytes, writer: asyncio.StreamWriter) -> bool:
        lines = head.decode("latin-1").split("\r\n")
        path = lines[0].split(" ")[1].lstrip("/")
        ranges = [line.partition("=")[2] for line in lines if line.lower().startswith("range:")]
        asked = None
        if ranges:
            first, _, last = ranges[0].partition("-")
            asked = (int(first), int(last))
            self.ranges.append(asked)
        self.requests += 1
        answer = self._right(path, asked)
        if self.behave:
            answer = self.behave(self.requests, path, asked, answer) or answer
        self.open += 1
        self.most = max(self.most, self.open)
        if self.latency_s or answer.delay_s:
            await asyncio.sleep(self.latency_s + answer.delay_s)
        self.open -= 1
        text = f"HTTP/1.1 {answer.status} {STATUS.get(answer.status, '')}\r\nContent-Length: {len(answer.body)}\r\n"
        text += "".join(f"{k}: {v}\r\n" for k, v in answer.headers.items())
        writer.write(text.encode() + b"\r\n" + (answer.body if answer.cut is None else answer.body[: answer.cut]))
        await writer.drain()
        if answer.hang:
            self.hangs += 1
            await asyncio.sleep(3600)
        return answer.cut is None
