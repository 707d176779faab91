"""Tars of samples, made by Python's tarfile or byte by byte, for tests and for the seeds of fuzz/."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable

import numpy as np

Files = Iterable[tuple[str, bytes]]


def tar(files: Files, kind: int = tarfile.USTAR_FORMAT, **pax: str) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=kind) as t:
        for name, data in files:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            info.pax_headers = pax
            t.addfile(info, io.BytesIO(data))
    return out.getvalue()


def npy(array: np.ndarray, **options: bool) -> bytes:
    out = io.BytesIO()
    np.save(out, array, **options)
    return out.getvalue()


def header(name: bytes, size: bytes, kind: bytes = b"0", prefix: bytes = b"", magic: bytes = b"ustar\x0000") -> bytes:
    """A header with a right checksum, whatever stands in it. `size`: its field, such as octal digits."""
    block = bytearray(512)
    block[0 : len(name)] = name
    block[100:108] = b"0000644\0"
    block[124 : 124 + len(size)] = size
    block[148:156] = b" " * 8
    block[156:157] = kind
    block[257 : 257 + len(magic)] = magic
    block[345 : 345 + len(prefix)] = prefix
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def member(name: bytes, data: bytes, **more: bytes) -> bytes:
    return header(name, b"%011o\0" % len(data), **more) + data + bytes(-len(data) % 512)


def pax(records: dict[str, str] | bytes, kind: bytes = b"x") -> bytes:
    text = records if isinstance(records, bytes) else b"".join(record(k, v) for k, v in records.items())
    return member(b"pax", text, kind=kind)


def record(key: str, value: str) -> bytes:
    rest = f" {key}={value}\n".encode()
    n = len(rest) + 1
    while len(str(n)) + len(rest) != n:
        n = len(str(n)) + len(rest)
    return str(n).encode() + rest


END = bytes(1024)
