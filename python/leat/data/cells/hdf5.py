"""Arrays of HDF5: h5py says where their chunks lie, leat reads them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...errors import BusyError, CorruptError, FileError, FormatError, UnsupportedError
from . import stored
from .remote import Remote, is_remote
from .stored import CHUNK, Stored

#: registered numbers of filters
_DEFLATE, _SHUFFLE, _FLETCHER32, _LZF, _BLOSC, _ZSTD = 1, 2, 3, 32000, 32001, 32015
#: a table of more chunks than these has to have written some of them
MOST_CHUNKS = 1 << 20
_NAMES = {4: "szip", 5: "nbit", 6: "scale-offset", 307: "bzip2", 32004: "lz4", 32008: "bitshuffle", 32026: "blosc2"}


class File:
    """An open file of HDF5."""

    def __init__(self, path: str) -> None:
        h5py = stored.package("h5py", path)
        self.path = path
        remote = Remote.renewed(path) if is_remote(path) else None
        if remote is None:
            self.sizes, self.times = stored.facts_of([path])
        else:
            self.sizes, self.times = np.array([remote.size], np.uint64), np.zeros(1, np.int64)
        try:
            self.root = h5py.File(remote or path, "r")
        except BlockingIOError as e:
            raise BusyError(
                f"{path} is locked, as by a process that writes it ({e}): HDF5_USE_FILE_LOCKING=FALSE in the "
                "environment opens it all the same"
            ) from e
        except PermissionError as e:
            raise FileError(f"cannot open {path}: {e}") from e
        except OSError as e:
            raise FormatError(f"{path} is no file of HDF5, or a damaged one: {e}") from e
        self.compact = h5py.h5d.COMPACT

    def __enter__(self) -> File:
        return self

    def __exit__(self, *_: object) -> None:
        self.root.close()

    def describe(self, array: Any) -> Stored:
        """A dataset of h5py. Whole arrays that lie in no piece of the file (compact, virtual) are refused."""
        name = array.name.strip("/")
        what = f"{self.path}, {name}"
        dtype = stored.native(array.dtype, what)
        if not array.shape:
            raise FormatError(f"{what} is a single value, no array")
        found = {"name": name, "dtype": dtype, "shape": tuple(map(int, array.shape)), "files": (self.path,)}
        found |= {"sizes": self.sizes, "times": self.times}
        swap = ((stored.SWAP, dtype.itemsize),) if not array.dtype.isnative and dtype.itemsize > 1 else ()
        if array.file.filename != self.root.file.filename:
            raise UnsupportedError(f"{what} lies in another file (external link), which leat does not follow")
        if array.is_virtual or array.external:
            raise UnsupportedError(f"{what} lies in other files (virtual or external), which leat does not follow")
        if array.id.get_create_plist().get_layout() == self.compact:
            raise UnsupportedError(f"{what} lies within the metadata of the file (compact layout)")
        if array.chunks is None:
            if not array.id.get_storage_size():
                return self._unwritten(array, found)
            return Stored(**found, offset=int(array.id.get_offset()), filters=swap)
        fill = np.asarray(array.fillvalue, dtype).tobytes()
        filters, table = swap + self._filters(array, what), self._table(array, what, len(swap))
        return Stored(**found, chunk=tuple(array.chunks), chunks=table, filters=filters, fill=fill)

    def _unwritten(self, array: Any, found: dict[str, Any]) -> Stored:
        """Nothing of it was written."""
        if 0 in found["shape"]:
            return Stored(**found)
        table = np.zeros(1, CHUNK)
        table["offset"] = stored.MISSING
        fill = np.asarray(array.fillvalue, found["dtype"]).tobytes()
        return Stored(**found, chunk=found["shape"], chunks=table, fill=fill)

    def _filters(self, array: Any, what: str) -> tuple[tuple[int, int], ...]:
        plist = array.id.get_create_plist()
        known = {_DEFLATE: stored.ZLIB, _FLETCHER32: stored.FLETCHER32, _LZF: stored.LZF, _BLOSC: stored.BLOSC}
        known |= {_ZSTD: stored.ZSTD}
        found = list[tuple[int, int]]()
        for i in range(plist.get_nfilters()):
            number, _, values, name = plist.get_filter(i)
            if number == _SHUFFLE:
                found.append((stored.SHUFFLE, int(values[0]) if values else array.dtype.itemsize))
            elif number in known:
                found.append((known[number], 0))
            else:
                text = _NAMES.get(number) or bytes(name).decode(errors="replace") or "unknown"
                raise UnsupportedError(f"{what} is stored with filter {number} ({text}), which leat does not decode")
        return tuple(found)

    def _table(self, array: Any, what: str, swaps: int) -> np.ndarray[Any, Any]:
        """The places of chunks. HDF5's mask of filters that a chunk lacks does not count the `swaps` before them."""
        grid = [-(-n // c) for n, c in zip(array.shape, array.chunks, strict=True)]
        n = int(np.prod(grid, dtype=object))
        if n > MOST_CHUNKS and n > 16 * array.id.get_num_chunks():
            raise CorruptError(f"{what} says that it has {n} chunks, of which {array.id.get_num_chunks()} are there")
        table = np.zeros(n, CHUNK)
        table["offset"] = stored.MISSING
        steps = np.cumprod([1, *grid[:0:-1]])[::-1].tolist()
        chunk = array.chunks
        wrong = list[str]()

        def take(info: Any) -> None:
            place = info.chunk_offset
            if any(o % c or o // c >= g for o, c, g in zip(place, chunk, grid, strict=True)):
                wrong.append(f"a chunk is at {place}, and chunks are {chunk} in {array.shape}")
                return
            at = sum(o // c * s for o, c, s in zip(place, chunk, steps, strict=True))
            if table["offset"][at] != stored.MISSING:
                wrong.append(f"two chunks are at {place}")
            table[at] = (info.byte_offset, info.size, 0, info.filter_mask << swaps & 0xFFFFFFFF)

        try:
            array.id.chunk_iter(take)
        except (RuntimeError, OSError) as e:
            raise CorruptError(f"{what}: its table of chunks is damaged: {e}") from e
        if wrong:
            raise CorruptError(f"{what}: its table of chunks is damaged: {wrong[0]}")
        return table
