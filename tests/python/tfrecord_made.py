"""TFRecord files of tf.train.Example, made byte by byte, for tests and for the seeds of fuzz/."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data: bytes) -> bytes:
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def record(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return length + masked(length) + data + masked(data)


def varint(n: int) -> bytes:
    n &= (1 << 64) - 1
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes([*out, n])


def field(number: int, data: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(data)) + data


def feature(values: Any, packed: bool = True) -> bytes:
    """bytes or a list of them, floats, integers; None: an empty Feature."""
    if values is None:
        return b""
    values = values if isinstance(values, list) else [values]
    if values and isinstance(values[0], bytes):
        return field(1, b"".join(field(1, v) for v in values))
    floats = bool(values) and isinstance(values[0], float)
    one = [struct.pack("<f", v) if floats else varint(v) for v in values]
    if packed:
        return field(2 if floats else 3, field(1, b"".join(one)) if one else b"")
    return field(2 if floats else 3, b"".join(bytes([1 << 3 | (5 if floats else 0)]) + v for v in one))


def entry(name: str, feature: bytes) -> bytes:
    return field(1, field(1, name.encode()) + field(2, feature))


def example(values: dict[str, Any], packed: bool = True) -> bytes:
    return field(1, b"".join(entry(n, feature(v, packed)) for n, v in values.items()))


def records(values: Iterable[dict[str, Any]], packed: bool = True) -> bytes:
    return b"".join(record(example(v, packed)) for v in values)
