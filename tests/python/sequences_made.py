"""Files of sequences that tests make: BGZF with its .gzi, a .fai, an index that leat keeps."""

from __future__ import annotations

import struct
import tempfile
import zlib
from pathlib import Path

import leat

END = bytes.fromhex("1f8b08040000000000ff0600424302001b0003000000000000000000")  # BGZF's empty block


def bgzf(data: bytes, block: int = 60000, end: bool = True) -> tuple[bytes, bytes]:
    """The file and its .gzi."""
    out, starts = b"", []
    for at in range(0, len(data), block):
        part = data[at : at + block]
        starts.append((len(out), at))
        deflate = zlib.compressobj(6, zlib.DEFLATED, -15)
        body = deflate.compress(part) + deflate.flush()
        head = bytes.fromhex("1f8b08040000000000ff0600424302") + b"\0" + struct.pack("<H", len(body) + 25)
        out += head + body + struct.pack("<II", zlib.crc32(part), len(part))
    starts.append((len(out), len(data)))
    gzi = struct.pack("<Q", len(starts) - 1) + b"".join(struct.pack("<QQ", *s) for s in starts[1:])
    return out + END * end, gzi


def fai(data: bytes) -> bytes:
    """What faidx writes, of files whose lines are even; of others, something."""
    out, name = [], b""
    at = n = first = line = width = 0

    def end() -> None:
        if first:
            out.append(b"%s\t%d\t%d\t%d\t%d\n" % (name, n, first, line, width))

    for text in data.splitlines(keepends=True):
        at += len(text)
        if text[:1] == b">":
            end()
            name, first, n, line, width = (text[1:].split() or [b""])[0], at, 0, 0, 0
        else:
            n += len(text.strip())
            line, width = line or len(text.strip()), width or len(text)
    end()
    return b"".join(out)


def kept_index(data: str, suffix: str) -> bytes:
    """The index that leat keeps of a file with this content."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"a{suffix}"
        path.write_text(data)
        leat.open(path)
        return Path(f"{path}.leat-index").read_bytes()
