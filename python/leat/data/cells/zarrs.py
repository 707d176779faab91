"""Arrays of Zarr 2 and 3, in a folder or a zip: the package zarr reads the metadata, leat the chunks."""

from __future__ import annotations

import itertools
import math
import os
import struct
import zipfile
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...errors import CorruptError, FormatError, UnsupportedError
from . import stored
from .anndata import Part, Reader
from .hdf5 import MOST_CHUNKS
from .plain import read_arrays
from .stored import CHUNK, Array, Stored

_V2 = {"blosc": stored.BLOSC, "zstd": stored.ZSTD, "gzip": stored.GZIP, "zlib": stored.ZLIB}
_V3 = {"blosc": stored.BLOSC, "zstd": stored.ZSTD, "gzip": stored.GZIP, "crc32c": stored.CRC32C}
_LOCAL = struct.Struct("<4s22xHH")  # of a member of a zip: mark, bytes of the name and of what follows it


def open_group(path: str, wanted: Callable[[str], bool], index_dir: str | None) -> Part:
    """Cells, if anndata wrote it; else its arrays."""
    zarr = stored.package("zarr", path)
    store = Zip(path) if os.path.isfile(path) else Folder(path)
    try:
        root = _opened(zarr, store.opened(zarr))
    except (FileNotFoundError, ValueError, KeyError, zipfile.BadZipFile) as e:
        raise FormatError(f"{path} is no Zarr of version 2 or 3: {e}") from e
    arrays = Arrays(path, store)
    if not hasattr(root, "keys"):
        return read_arrays(path, {"data": root}, arrays.describe, wanted)
    if root.attrs.get("encoding-type") == "anndata" or ("obs" in root and "var" in root):
        return Reader(path, root, arrays.describe, index_dir).read(wanted)
    return read_arrays(path, root, arrays.describe, wanted)


class Place(NamedTuple):
    """Where the bytes of a key lie. `deflated`: a zip has compressed them once more."""

    path: str
    at: int
    bytes: int
    deflated: bool = False


def _opened(zarr: Any, store: Any) -> Any:
    """A group or an array. Metadata of the whole store in one place may have types that zarr does not know, of nodes
    that nobody reads."""
    try:
        return zarr.open_group(store, mode="r", use_consolidated=False)
    except (FileNotFoundError, zarr.errors.ContainsArrayError, zarr.errors.NodeTypeValidationError):
        return zarr.open_array(store, mode="r")


class Folder:
    """The files of chunks are files."""

    def __init__(self, path: str) -> None:
        self.path = path

    def opened(self, zarr: Any) -> Any:
        return self.path

    def find(self, key: str) -> Place | None:
        path = os.path.join(self.path, key)
        try:
            return Place(path, 0, os.stat(path).st_size)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def count(self, prefix: str) -> int:
        return sum(len(files) for _, _, files in os.walk(os.path.join(self.path, prefix)))


class Zip:
    """The files of chunks are members of one file, which are stored as they are."""

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            with zipfile.ZipFile(path) as file:
                self.members = {m.filename: m for m in file.infolist()}
        except zipfile.BadZipFile as e:
            raise FormatError(f"{path} is no zip, or it was cut: {e}") from e
        self.file = open(path, "rb")  # noqa: SIM115

    def opened(self, zarr: Any) -> Any:
        return zarr.storage.ZipStore(self.path, mode="r")

    def find(self, key: str) -> Place | None:
        member = self.members.get(key)
        if member is None:
            return None
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise UnsupportedError(
                f"{self.path}: {key} is compressed within the zip in a way that leat does not decode"
            )
        self.file.seek(member.header_offset)
        head = self.file.read(_LOCAL.size)
        mark, name, extra = _LOCAL.unpack(head) if len(head) == _LOCAL.size else (b"", 0, 0)
        if mark != b"PK\3\4":
            raise CorruptError(
                f"{self.path}, byte {member.header_offset}: there is no member {key}, as its directory says"
            )
        at = member.header_offset + _LOCAL.size + name + extra
        return Place(self.path, at, member.compress_size, member.compress_type == zipfile.ZIP_DEFLATED)

    def count(self, prefix: str) -> int:
        return sum(name.startswith(prefix) for name in self.members)


class Arrays:
    """Describes arrays of a store."""

    def __init__(self, path: str, store: Folder | Zip) -> None:
        self.path, self.store = path, store

    def describe(self, array: Any) -> Stored:
        meta = array.metadata.to_dict()
        name = str(array.path or "data")
        what = f"{self.path}, {name}"
        dtype = stored.native(np.dtype(array.dtype), what)
        shape = tuple(map(int, array.shape))
        if not shape:
            raise FormatError(f"{what} is a single value, no array")
        fill = array.metadata.fill_value
        found: dict[str, Any] = {
            "name": name,
            "dtype": dtype,
            "shape": shape,
            "fill": np.asarray(0 if fill is None else fill, dtype).tobytes(),
        }
        if int(meta["zarr_format"]) == 2:
            filters = self._filters_of_v2(meta, np.dtype(array.dtype), what)
            chunk = tuple(map(int, meta["chunks"]))
            separator = meta.get("dimension_separator", ".")
            places = self._places(str(array.path), shape, chunk, lambda at: separator.join(map(str, at)))
            return Stored(**found, chunk=chunk, **self._table(places, filters))
        return self._of_v3(array, meta, found, what)

    def _filters_of_v2(self, meta: dict[str, Any], dtype: np.dtype[Any], what: str) -> tuple[tuple[int, int], ...]:
        if meta.get("order", "C") != "C" and len(meta["shape"]) > 1:
            raise UnsupportedError(f"{what} is stored in Fortran's order, which leat does not read")
        swap = () if dtype.isnative or dtype.itemsize == 1 else ((stored.SWAP, dtype.itemsize),)
        steps = list(meta.get("filters") or ()) + ([meta["compressor"]] if meta.get("compressor") else [])
        found = list[tuple[int, int]](swap)
        for step in steps:
            config = step if isinstance(step, dict) else step.get_config()
            name = str(config["id"])
            if name == "shuffle":
                found.append((stored.SHUFFLE, int(config.get("elementsize", 4))))
            elif name in _V2:
                found.append((_V2[name], 0))
            else:
                raise UnsupportedError(f"{what} is stored with {name}, which leat does not decode")
        return tuple(found)

    def _filters_of_v3(self, codecs: Any, dtype: np.dtype[Any], what: str) -> tuple[tuple[int, int], ...]:
        found = list[tuple[int, int]]()
        for codec in codecs:
            name, config = str(codec["name"]), codec.get("configuration") or {}
            if name == "bytes":
                if config.get("endian") == "big" and dtype.itemsize > 1:
                    found.append((stored.SWAP, dtype.itemsize))
            elif name in _V3:
                found.append((_V3[name], 0))
            else:
                raise UnsupportedError(f"{what} is stored with {name}, which leat does not decode")
        return tuple(found)

    def _of_v3(self, array: Any, meta: dict[str, Any], found: dict[str, Any], what: str) -> Stored:
        if meta["chunk_grid"]["name"] != "regular":
            raise UnsupportedError(f"{what} has chunks of {meta['chunk_grid']['name']} sizes, which leat does not read")
        chunk = tuple(int(n) for n in meta["chunk_grid"]["configuration"]["chunk_shape"])
        encoding = meta["chunk_key_encoding"]
        default = encoding["name"] == "default"
        separator = str((encoding.get("configuration") or {}).get("separator", "/" if default else "."))

        def key(at: tuple[int, ...]) -> str:
            return separator.join(["c", *map(str, at)] if default else map(str, at))

        places = self._places(str(array.path), found["shape"], chunk, key)
        codecs = list(meta["codecs"])
        if len(codecs) == 1 and codecs[0]["name"] == "sharding_indexed":
            return self._sharded(codecs[0]["configuration"], chunk, places, found, what)
        filters = self._filters_of_v3(codecs, found["dtype"], what)
        return Stored(**found, chunk=chunk, **self._table(places, filters))

    def _places(
        self, prefix: str, shape: tuple[int, ...], chunk: tuple[int, ...], key: Callable[[tuple[int, ...]], str]
    ) -> list[Place | None]:
        grid = [range(-(-a // c)) for a, c in zip(shape, chunk, strict=True)]
        base = f"{prefix}/" if prefix else ""
        n = math.prod(map(len, grid))
        if n > MOST_CHUNKS and n > 16 * (there := self.store.count(base)):
            raise CorruptError(
                f"{self.path}, {prefix or 'data'} says that it has {n} chunks, and {there} files are there"
            )
        return [self.store.find(base + key(at)) for at in itertools.product(*grid)]

    def _files(self, places: list[Place | None]) -> tuple[tuple[str, ...], Array, Array, dict[str, int]]:
        numbers: dict[str, int] = {}
        for place in places:
            if place is not None:
                numbers.setdefault(place.path, len(numbers))
        files = tuple(numbers) or (self.path,)
        sizes, times = stored.facts_of(list(files))
        return files, sizes, times, numbers

    def _table(self, places: list[Place | None], filters: tuple[tuple[int, int], ...]) -> dict[str, Any]:
        files, sizes, times, numbers = self._files(places)
        deflated = any(place is not None and place.deflated for place in places)
        table = np.zeros(len(places), CHUNK)
        table["offset"] = stored.MISSING
        for i, place in enumerate(places):
            if place is not None:
                mask = 1 << len(filters) if deflated and not place.deflated else 0
                table[i] = (place.at, place.bytes, numbers[place.path], mask)
        if deflated:
            filters += ((stored.DEFLATE, 0),)
        return {"chunks": table, "filters": filters, "files": files, "sizes": sizes, "times": times}

    def _sharded(
        self,
        config: dict[str, Any],
        shard: tuple[int, ...],
        places: list[Place | None],
        found: dict[str, Any],
        what: str,
    ) -> Stored:
        """Each shard has an index of its chunks at an end: offset and bytes of each, in the order of C."""
        chunk = tuple(int(n) for n in config["chunk_shape"])
        within = tuple(s // c for s, c in zip(shard, chunk, strict=True))
        index_names = [str(c["name"]) for c in config["index_codecs"]]
        if index_names not in (["bytes"], ["bytes", "crc32c"]):
            raise UnsupportedError(f"{what} has an index of chunks stored with {index_names}, which leat does not read")
        n = int(np.prod(within))
        size = 16 * n + (4 if "crc32c" in index_names else 0)
        files, sizes, times, numbers = self._files(places)
        grid = [-(-a // c) for a, c in zip(found["shape"], chunk, strict=True)]
        shards = [-(-a // s) for a, s in zip(found["shape"], shard, strict=True)]
        whole = np.zeros([s * w for s, w in zip(shards, within, strict=True)], CHUNK)
        whole["offset"] = stored.MISSING
        for place, at in zip(places, itertools.product(*map(range, shards)), strict=True):
            if place is None:
                continue
            path, begin, bytes_, deflated = place
            if deflated:
                raise UnsupportedError(
                    f"{self.path}: a shard is compressed within the zip, so that its chunks have no places"
                )
            if bytes_ < size:
                raise CorruptError(f"{path} has {bytes_} bytes: its index of chunks alone has {size}")
            with open(path, "rb") as file:
                file.seek(begin if config.get("index_location") == "start" else begin + bytes_ - size)
                raw = file.read(size)
            if len(raw) > 16 * n:
                import google_crc32c

                if int.from_bytes(raw[16 * n :], "little") != google_crc32c.value(raw[: 16 * n]):
                    raise CorruptError(f"{path}: the checksum of its index of chunks does not fit it")
            pairs = np.frombuffer(raw, "<u8", 2 * n).reshape(n, 2)
            table = np.zeros(n, CHUNK)
            there = pairs[:, 0] != stored.MISSING
            table["offset"] = np.where(there, pairs[:, 0] + np.uint64(begin), np.uint64(stored.MISSING))
            table["bytes"] = np.where(there, pairs[:, 1], 0)
            table["file"] = numbers[path]
            if np.any(pairs[there].sum(1) > bytes_):
                raise CorruptError(f"{path}: its index of chunks leads beyond it")
            box = tuple(slice(a * w, (a + 1) * w) for a, w in zip(at, within, strict=True))
            whole[box] = table.reshape(within)
        table = np.ascontiguousarray(whole[tuple(slice(g) for g in grid)]).reshape(-1)
        filters = self._filters_of_v3(config["codecs"], found["dtype"], what)
        return Stored(**found, chunk=chunk, chunks=table, filters=filters, files=files, sizes=sizes, times=times)
