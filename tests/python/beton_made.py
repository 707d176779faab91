"""Files of FFCV, made byte by byte, for tests and for the seeds of fuzz/."""

from __future__ import annotations

import json
import struct
from typing import Any

import numpy as np

PAGE = 1 << 21
FLOAT, INT, RGB, BYTES, NDARRAY, JSON, TENSOR = range(7)
COLUMNS: dict[int, tuple[str, bool]] = {
    FLOAT: ("d", True), INT: ("q", True), RGB: ("BHHQ", False), BYTES: ("QQ", False),
    NDARRAY: ("Q", True), JSON: ("QQ", False), TENSOR: ("Q", True),
}  # fmt: skip


def array_arguments(dtype: str, shape: tuple[int, ...]) -> bytes:
    descr = dtype if dtype[:1] in ("[", "{") else json.dumps(np.dtype(dtype).descr)
    return struct.pack("<32QQ", *shape, *[0] * (32 - len(shape)), len(descr)) + descr.encode()


class Made:
    """`fields`: name, type, arguments. `rows`: of each field a number, bytes, or for RGB (mode, width, height, bytes).
    What a test wants to be wrong it changes in `bytes` by the offsets here. `tight`: the table follows the values."""

    def __init__(self, fields: list[tuple[str, int, bytes]], rows: list[list[Any]], tight: bool = False) -> None:
        self.offsets: list[int] = []
        at = 0
        for _, kind, _ in fields:
            code, aligned = COLUMNS.get(kind, ("Q", True))
            at = -(-at // 8) * 8 if aligned else at
            self.offsets.append(at)
            at += struct.calcsize("<" + code)
        aligned = any(COLUMNS.get(kind, ("Q", True))[1] for _, kind, _ in fields)
        self.row = -(-at // 8) * 8 if aligned else at
        self.rows = 24 + 1041 * len(fields)
        end = self.rows + self.row * len(rows)
        self.values = -(-end // PAGE) * PAGE
        table, place = bytearray(), self.values
        out = bytearray(self.values)
        for i, row in enumerate(rows):
            for (_, kind, _), offset, value in zip(fields, self.offsets, row, strict=True):
                where = self.rows + i * self.row + offset
                code = "<" + COLUMNS.get(kind, ("Q", True))[0]
                if kind in (FLOAT, INT):
                    struct.pack_into(code, out, where, value)
                    continue
                data = value[3] if kind == RGB else value
                first = value[:3] if kind == RGB else ()
                struct.pack_into(code, out, where, *first, place, *([len(data)] if kind in (BYTES, JSON) else []))
                table += struct.pack("<3Q", i, place, len(data))
                out += data
                place += len(data)
        out += bytes(0 if tight else -len(out) % PAGE)
        self.table = len(out)
        struct.pack_into("<HHIQQ", out, 0, 2, len(fields), PAGE, len(rows), self.table)
        for k, (name, kind, arguments) in enumerate(fields):
            struct.pack_into("<B16s1024s", out, 24 + 1041 * k, kind, name.encode(), arguments)
        self.bytes = out + table

    def put(self, at: int, code: str, *values: Any) -> bytes:
        data = bytearray(self.bytes)
        struct.pack_into("<" + code, data, at, *values)
        return bytes(data)

    def at(self, sample: int, field: int) -> int:
        return self.rows + sample * self.row + self.offsets[field]
