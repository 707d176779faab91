"""Reading from a web server on loopback that takes 50 ms for each answer: 100,000 samples of 1 to 4 KiB, in order,
shuffled, and shuffled without the cache, beside one thread that fetches one at a time as a torch Dataset would; rows of
2048 tokens, shuffled, cut from documents of 10 MB, with and without the cache; and large values in order from a server
without delay (nginx, where it is installed or --nginx names it), beside the command
curl. over_http.py [--latency SECONDS] [--nginx FILE]
"""

import argparse
import asyncio
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np

import leat


async def serve(folder: Path, latency: float) -> None:
    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                data = files[lines[0].split(" ")[1][1:]]
                asked = [line.split("=")[1].split("-") for line in lines if line.lower().startswith("range:")]
                first, last = (int(asked[0][0]), min(int(asked[0][1]), len(data) - 1)) if asked else (0, len(data) - 1)
                await asyncio.sleep(latency)
                head = f'HTTP/1.1 {206 if asked else 200} OK\r\nContent-Length: {last - first + 1}\r\nETag: "1"\r\n'
                writer.write(f"{head}Content-Range: bytes {first}-{last}/{len(data)}\r\n\r\n".encode())
                writer.write(data[first : last + 1])
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    files = {p.name: memoryview(p.read_bytes()) for p in folder.iterdir()}
    server = await asyncio.start_server(one, "127.0.0.1", 0, backlog=512)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def started(folder: Path, latency: float) -> tuple[subprocess.Popen[str], str]:
    child = subprocess.Popen(
        [sys.executable, __file__, "--serve", folder, "--latency", str(latency)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    return child, f"http://127.0.0.1:{int(child.stdout.readline())}/"


def fast_server(folder: Path, nginx: str | None) -> tuple[subprocess.Popen[Any], str]:
    if not nginx:
        return started(folder, 0.0)
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    paths = " ".join(
        f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    http = f"access_log off; sendfile on; {paths} server {{ listen 127.0.0.1:{port}; root {folder}; }}"
    top = f"daemon off; master_process off; pid {folder}/pid; error_log {folder}/log; events {{}}"
    (folder / "conf").write_text(f"{top} http {{ {http} }}")
    child = subprocess.Popen([nginx, "-c", folder / "conf", "-p", folder], stderr=subprocess.DEVNULL)
    for _ in range(100):
        with socket.socket() as s:
            if not s.connect_ex(("127.0.0.1", port)):
                break
        time.sleep(0.05)
    return child, f"http://127.0.0.1:{port}/"


def rates(url: str, shuffle: bool, batch_size: int, epochs: int, most: int = 1 << 60) -> list[tuple[float, float]]:
    """Samples and bytes a second of each epoch, of which at most so many samples are read."""
    got = []
    with leat.Loader(
        leat.open(url), batch_size=batch_size, shuffle=shuffle, epochs=epochs, framework="numpy"
    ) as loader:
        for _ in range(epochs):
            samples = size = 0
            begin = time.perf_counter()
            for batch in loader:
                samples += batch.size
                size += len(batch["raw"].values)
                if samples >= most:
                    break
            seconds = time.perf_counter() - begin
            got.append((samples / seconds, size / seconds))
    return got


def packed_rates(url: str, rows: int) -> float:
    """Rows a second, cut from long documents."""
    data = leat.pack_rows(leat.open(url), "tokens", length=2048)
    with leat.Loader(data, batch_size=16, shuffle=True, framework="numpy", outputs={"tokens": []}) as loader:
        begin, got = time.perf_counter(), 0
        for batch in loader:
            got += batch.size
            if got >= rows:
                break
        return got / (time.perf_counter() - begin)


def with_a_small_cache(kind: str, url: str, connections: str = "128") -> float:
    """The same in a process whose cache is far smaller than the file."""
    environment = {**os.environ, "LEAT_CACHE_BYTES": "20000000", "LEAT_HTTP_CONNECTIONS": connections}
    command = [sys.executable, __file__, "--uncached", kind, url]
    return float(subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout)


def packed(folder: Path, latency: float) -> None:
    child, url = started(folder, latency)
    for what, got in (
        ("first rows", packed_rates(url + "documents.leat", 1600)),
        ("more than the cache", with_a_small_cache("packed", url + "documents.leat")),
    ):
        print(f"rows of documents of 10 MB, {latency * 1000:.0f} ms, shuffled, {what}: {got:,.0f} rows/s", flush=True)
    child.terminate()


def small(folder: Path, latency: float) -> None:
    child, url = started(folder, latency)
    begin = time.perf_counter()
    for i in range(20):
        urllib.request.urlopen(
            urllib.request.Request(url + "small.leat", headers={"Range": f"bytes={i}-{i + 499}"})
        ).read()
    alone = 20 / (time.perf_counter() - begin)

    def tell(what: str, got: float) -> None:
        print(
            f"1 to 4 KiB, {latency * 1000:.0f} ms, {what}: {got:,.0f} samples/s ({got / alone:.0f}x one at a time)",
            flush=True,
        )

    tell("in order", rates(url + "small.leat", False, 256, 1)[0][0])
    for epoch, (got, _) in enumerate(rates(url + "small.leat", True, 256, 2)):
        tell(f"shuffled, epoch {epoch + 1}", got)
    for connections in ("128", "512"):
        got = with_a_small_cache("small", url + "small.leat", connections)
        tell(f"shuffled, more than the cache, {connections} connections", got)
    child.terminate()


def large(folder: Path, nginx: str | None) -> None:
    """Epochs 3 to 6 of 8: as much is read ahead when the clock is stopped as when it is started, in memory that was
    touched before."""
    child, url = fast_server(folder, nginx)
    size, curl = (folder / "large.leat").stat().st_size, []
    for _ in range(5):
        begin = time.perf_counter()
        subprocess.run(["curl", "-s", "-o", "/dev/null", url + "large.leat"], check=True)
        curl.append(size / (time.perf_counter() - begin))
    got = [1 / rate for _, rate in rates(url + "large.leat", False, 16, 8)]
    first, steady, peer = 1 / got[0], 4 / sum(got[2:6]), float(np.median(curl))
    speeds = f"{steady / 1e6:,.0f} MB/s; first epoch {first / 1e6:,.0f}; curl {peer / 1e6:,.0f}"
    print(f"1 MB values in order: {speeds} MB/s ({steady / peer:.0%})")
    child.terminate()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--latency", type=float, default=0.05)
    parser.add_argument("--nginx", default=shutil.which("nginx"))
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--uncached", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        asyncio.run(serve(args.serve, args.latency))
        return
    if args.uncached:
        kind, url = args.uncached
        print(packed_rates(url, 3200) if kind == "packed" else rates(url, True, 256, 1, 10_000)[0][0])
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)  # nginx reads it as another user
        rng = np.random.default_rng(0)
        for file, n, least, most in (("small.leat", 100_000, 1024, 4096), ("large.leat", 300, 1_000_000, 1_000_000)):
            with leat.Writer(folder / file, {"raw": "bytes", "label": "int64"}) as w:
                for i in range(n):
                    w.add(raw=rng.bytes(int(rng.integers(least, most + 1))), label=i)
        with leat.Writer(folder / "documents.leat", {"tokens": leat.field("uint16", (None,))}) as w:
            for _ in range(4):
                w.add(tokens=rng.integers(0, 60_000, 5_000_000, dtype=np.uint16))
        small(folder, args.latency)
        packed(folder, args.latency)
        large(folder, args.nginx)


if __name__ == "__main__":
    main()
