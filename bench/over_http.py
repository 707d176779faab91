"""Reading from a web server on loopback that takes 50 ms for each answer: small samples, beside one thread that fetches
a sample at a time as a torch Dataset would; and large values in order from a server without delay, beside the command
curl. over_http.py [--latency SECONDS]
"""

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

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


def rate(url: str, shuffle: bool) -> tuple[float, float]:
    samples = size = 0
    with leat.Loader(leat.open(url), batch_size=256, shuffle=shuffle, epochs=1, framework="numpy") as loader:
        begin = time.perf_counter()
        for batch in loader:
            samples += batch.size
            size += len(batch["raw"].values)
        seconds = time.perf_counter() - begin
    return samples / seconds, size / seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--latency", type=float, default=0.05)
    parser.add_argument("--serve", type=Path)
    args = parser.parse_args()
    if args.serve:
        asyncio.run(serve(args.serve, args.latency))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rng = np.random.default_rng(0)
        for file, n, length in (("small.leat", 20_000, 500), ("large.leat", 200, 1_000_000)):
            with leat.Writer(folder / file, {"raw": "bytes", "label": "int64"}) as w:
                for i in range(n):
                    w.add(raw=rng.bytes(length), label=i)
        child, url = started(folder, args.latency)
        begin = time.perf_counter()
        for i in range(20):
            urllib.request.urlopen(
                urllib.request.Request(url + "small.leat", headers={"Range": f"bytes={i}-{i + 499}"})
            ).read()
        alone = 20 / (time.perf_counter() - begin)
        for shuffle in (False, True):
            got = rate(url + "small.leat", shuffle)[0]
            print(
                f"500 bytes, {args.latency * 1000:.0f} ms, {'shuffled' if shuffle else 'in order'}: {got:,.0f} "
                f"samples/s ({got / alone:.0f}x one at a time)"
            )
        child.terminate()
        child, url = started(folder, 0.0)
        begin = time.perf_counter()
        subprocess.run(["curl", "-s", "-o", "/dev/null", url + "large.leat"], check=True)
        curl = (folder / "large.leat").stat().st_size / (time.perf_counter() - begin)
        got = rate(url + "large.leat", False)[1]
        print(f"1 MB values in order: {got / 1e6:,.0f} MB/s; curl {curl / 1e6:,.0f} MB/s ({got / curl:.0%})")
        child.terminate()


if __name__ == "__main__":
    main()
