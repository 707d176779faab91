"""Files that the package writes: whole or not at all, and errors that name the file and a remedy."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Iterator
from typing import IO, Any

from .errors import Error, FileError

_ADVICE = {
    errno.ENOSPC: "; make room on the disk",
    errno.EDQUOT: "; make room on the disk",
    errno.EFBIG: "; raise the limit of the size of files (ulimit -f), or write to a file system that takes larger ones",
}


@contextlib.contextmanager
def writing(path: str | os.PathLike[str], then: str = "") -> Iterator[None]:
    """Errors of the system within the block name the file that it writes. `then`: the remedy besides making room.

    Raises:
        FileError: a write failed. A file that cannot be opened is an error of the usual class.
    """
    try:
        yield
    except Error:
        raise
    except OSError as e:
        if type(e) is not OSError:  # such as PermissionError
            e.filename = os.fspath(path) if e.filename is None and e.errno is not None else e.filename
            raise
        why = e.strerror or str(e)
        error = FileError(f"{os.fspath(path)} could not be written: {why}{_ADVICE.get(e.errno or 0, '')}{then}")
        error.code, error.file = "LEAT_E_IO", os.fspath(path)
        error.errno, error.strerror, error.filename = e.errno, e.strerror, os.fspath(path)
        raise error from None


@contextlib.contextmanager
def whole(path: str, then: str = "", *, folder: bool = False) -> Iterator[IO[Any]]:
    """A file for bytes that appears under its name when the block ends, on the disk, or not at all. `folder`: that it
    lies in is made, if there is none.
    """
    with writing(path, then):
        if folder:
            os.makedirs(os.path.dirname(path), exist_ok=True)
        partial = f"{path}.{secrets.token_hex(6)}.partial"
        try:
            with open(partial, "xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(partial, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(partial)
            raise
