"""A file on another machine, as the metadata of HDF5 are read from it: a block at a time, by ranges of HTTP."""

from __future__ import annotations

import http.client
import io
import re
import threading
import urllib.error
import urllib.request
from collections import OrderedDict

from ...errors import FileError, MissingFileError
from ..paths import REMOTE

BLOCK, KEPT = 256 << 10, 64


def is_remote(path: str) -> bool:
    return bool(REMOTE.match(path))


class Remote(io.RawIOBase):
    """Reads anywhere; blocks that were read last stay. For one thread."""

    def __init__(self, url: str) -> None:
        self.url, self.at = url, 0
        self.blocks: OrderedDict[int, bytes] = OrderedDict()
        self.size = 0
        self.blocks[0] = self._get(0)

    def _get(self, block: int) -> bytes:
        end = block * BLOCK + BLOCK - 1
        asked = urllib.request.Request(self.url, headers={"Range": f"bytes={block * BLOCK}-{end}"})
        try:
            with urllib.request.urlopen(asked, timeout=60) as answer:
                told = re.match(r"bytes \d+-\d+/(\d+)$", answer.headers.get("Content-Range", ""))
                if answer.status != 206 or not told:
                    raise FileError(f"{self.url}: the server does not give parts of files (status {answer.status})")
                self.size = int(told[1])
                n = max(min(self.size - block * BLOCK, BLOCK), 0)
                found = bytes(answer.read(BLOCK + 1))
                if len(found) != n:
                    raise FileError(f"{self.url}: the server gave {len(found)} bytes where it was asked for {n}")
                return found
        except http.client.HTTPException as e:
            raise FileError(f"{self.url} cannot be read: {e!r}") from e
        except urllib.error.HTTPError as e:
            kind = MissingFileError if e.code in (404, 410) else FileError
            raise kind(f"{self.url}: the server says {e.code} {e.reason}") from None
        except OSError as e:
            raise FileError(f"{self.url} cannot be read: {e}") from e

    @classmethod
    def opened(cls, url: str) -> Remote:
        """The one by which this thread opened that file last, for pieces of it."""
        last: Remote | None = getattr(_here, "last", None)
        return last if last is not None and last.url == url else cls.renewed(url)

    @classmethod
    def renewed(cls, url: str) -> Remote:
        """One that knows nothing of the file yet, which may have changed."""
        _here.last = found = cls(url)
        return found

    def part(self, at: int, n: int) -> bytes:
        """Bytes from a place on; fewer at the end."""
        self.seek(at)
        found = bytearray(n)
        return bytes(found[: self.readinto(found)])

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self.at = offset + (self.at if whence == io.SEEK_CUR else self.size if whence == io.SEEK_END else 0)
        return self.at

    def tell(self) -> int:
        return self.at

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer).cast("B")  # type: ignore[arg-type]
        done = 0
        while done < len(view) and self.at < self.size:
            block = self.at // BLOCK
            if block not in self.blocks:
                self.blocks[block] = self._get(block)
                if len(self.blocks) > KEPT:
                    self.blocks.popitem(last=False)
            self.blocks.move_to_end(block)
            part = self.blocks[block][self.at - block * BLOCK :][: len(view) - done]
            if not part:
                break
            view[done : done + len(part)] = part
            done += len(part)
            self.at += len(part)
        return done


_here = threading.local()
