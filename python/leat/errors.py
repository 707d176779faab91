"""Exceptions. Each is a :class:`leat.Error` and one of the usual classes, so that ``except FileNotFoundError`` works.

The text describes the error, with file, sample and byte if there are any, and the remedy; the same are attributes.
"""

from __future__ import annotations

import re
from typing import Any


class Error(Exception):
    """The base of every exception of the library.

    Attributes:
        code: the library's name of the error, such as ``"LEAT_E_CORRUPT"``.
        file: path of the file concerned, or None.
        sample: sample id, or None.
        field: name of the field or output, or None.
        offset: byte offset in the file or in the sample's value, or None.
    """

    code: str = ""
    file: str | None = None
    sample: int | None = None
    field: str | None = None
    offset: int | None = None

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""

    def __reduce__(self) -> tuple[Any, ...]:
        attributes = dict(self.__dict__)
        if isinstance(self, OSError):
            attributes |= {"errno": self.errno, "strerror": self.strerror, "filename": self.filename}
        return (_rebuild, (type(self), self.args, attributes))


def _rebuild(kind: type[Error], args: tuple[Any, ...], attributes: dict[str, Any]) -> Error:
    error = kind(*args)
    for name, value in attributes.items():
        setattr(error, name, value)
    return error


class OutOfMemoryError(Error, MemoryError):
    """Memory could not be allocated."""


class InvalidError(Error, ValueError):
    """An argument is not valid."""


class RangeError(Error, IndexError):
    """A position, step or size is out of range."""


class FileError(Error, OSError):
    """The system refused a read, write, map, sync or rename; ``errno`` says why."""


class MissingFileError(Error, FileNotFoundError):
    """No such file or folder."""


class MissingNameError(Error, KeyError):
    """No such field, class or record."""


class ExistsError(Error, FileExistsError):
    """The target exists and overwriting was not asked for."""


class BusyError(Error, OSError):
    """Another process writes this target."""


class FormatError(Error, ValueError):
    """Not a format that leat reads, or a version that this library does not know."""


class CorruptError(Error, ValueError):
    """Bytes at rest differ from those written."""


class UnfinishedError(Error, ValueError):
    """The file was never finished: resume or write it again."""


class ChangedError(Error, OSError):
    """The source changed since it was opened or since the pack that is resumed began."""


class ProgramError(Error, TypeError):
    """The operators of an output do not fit its data; the text names the operator and what would fit."""


class BrokenSampleError(Error, ValueError):
    """A sample's bytes do not decode, or a function of the user's failed on them."""


class BudgetError(Error, ValueError):
    """``budget_bytes`` is too small; the text says how much is needed."""


class HeldError(Error, MemoryError):
    """More batches are held than ``max_held_bytes`` allows."""


class StateError(Error, ValueError):
    """A saved state does not belong to this data set, order or version."""


class NoStateError(StateError, InvalidError, TypeError):
    """A value that is no state at all: of another type, or damaged. Versions before had the other two names for it."""


class ForkedError(Error, RuntimeError):
    """A loader was used in a process that did not open it."""


class ClosedError(Error, RuntimeError):
    """The object was closed, or a newer iteration began, or a state was loaded since."""


class CancelledError(Error, RuntimeError):
    """Interrupted by request."""


class WaitTimeoutError(Error, TimeoutError):
    """The time given has passed; calling again goes on."""


class UnsupportedError(Error, NotImplementedError):
    """A feature that this build or machine lacks."""


# By the numbers of enum leat_status.
_CLASSES: dict[int, type[Error]] = {
    -1: OutOfMemoryError,
    -2: InvalidError,
    -3: RangeError,
    -4: FileError,
    -6: ExistsError,
    -7: BusyError,
    -8: FormatError,
    -9: CorruptError,
    -10: UnfinishedError,
    -11: ChangedError,
    -12: ProgramError,
    -13: BrokenSampleError,
    -14: BudgetError,
    -15: HeldError,
    -16: StateError,
    -17: ForkedError,
    -18: ClosedError,
    -19: CancelledError,
    -20: WaitTimeoutError,
    -22: UnsupportedError,
    -23: BrokenSampleError,
}
_NOT_FOUND = -5


def from_status(code: int, sys_errno: int, sample: int, offset: int, file: str, field: str, message: str) -> Error:
    """The exception that belongs to an error of the library; called by the extension module."""
    from . import _leat

    kind = _CLASSES.get(code, Error)
    if code == _NOT_FOUND:
        kind = MissingFileError if file and not field else MissingNameError
    if kind is ExistsError:  # which only writers raise: the library names no argument of a language
        message = message.replace("or overwrite it", "or give overwrite=True to replace it")
    error = kind(_with_place(message, sample, offset, file, field))
    error.code = _leat.status_name(code)
    error.file = file or None
    error.field = field or None
    error.sample = sample if sample >= 0 else None
    error.offset = offset if offset >= 0 else None
    if isinstance(error, OSError):
        error.errno = sys_errno or None
        error.strerror = str(error.args[0])
        error.filename = file or None
    return error


def _with_place(message: str, sample: int, offset: int, file: str, field: str) -> str:
    """The message, with the parts of its place that it lacks."""
    from . import _leat

    said = set(re.findall(r"\w+", message))  # whole words: "2" is not said by "428"
    place = [f"sample {sample}"] if sample >= 0 and not {"sample", str(sample)} <= said else []
    place += [f"field {field!r}"] if field and field not in message else []
    place += [f"byte {offset}"] if offset >= 0 and str(offset) not in said else []
    shown = _leat.escape(file)
    place += [shown] if file and shown not in message else []
    return f"{message} ({', '.join(place)})" if place else message
