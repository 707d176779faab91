"""Compiled functions of the user's, of a library, numba or ctypes: their addresses, which the engine's threads call."""

from __future__ import annotations

import ctypes
import os
import re
from _ctypes import CFuncPtr
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

FORMS = ("structure", "flat")


def get_include() -> str:
    """The folder for the compiler's ``-I``, with the header ``leat/leat.h``.

    >>> import os
    >>> os.path.exists(os.path.join(leat.get_include(), "leat", "leat.h"))
    True
    """
    package = Path(__file__).resolve().parents[1]
    installed = package / "include"
    return str(installed if installed.is_dir() else package.parents[1] / "include")


@dataclass(frozen=True)
class Function:
    """A function that can be called.

    Attributes:
        address: that of its code.
        flat: its form: the flat one, or the structure (``leat_native_flat_fn``, ``leat_native_fn`` in ``leat/leat.h``).
        source: its name in messages and in the program's hash.
        owner: an object that keeps the code loaded.
        takes, gives: dtypes of its input and its result, if its pointers say so.
    """

    address: int
    flat: bool
    source: str
    owner: object
    takes: str | None = None
    gives: str | None = None


def split(text: str) -> tuple[str, str]:
    """Splits ``"lib.so:symbol"`` into library and symbol."""
    library, colon, symbol = text.rpartition(":")
    if not colon or not library or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.$]*", symbol):
        raise ValueError(f"a function of a library is named 'path/to/lib.so:symbol', not {text!r}")
    return library, symbol


def find(function: Any, form: str | None) -> Function:
    """Finds a function: of a library, which is loaded now; of numba or ctypes; or at an address.

    Raises:
        TypeError: not a compiled function, or of another signature.
        OSError: the library cannot be loaded.
        ValueError: it has no such symbol.
    """
    if isinstance(function, str):
        return _of_library(*split(function), form)
    if isinstance(function, int) and not isinstance(function, bool):
        if form is None or function <= 0:
            raise TypeError("an address needs call='structure' or call='flat': it does not say how it is called")
        return Function(function, form == "flat", "address", None)
    pointer = getattr(function, "ctypes", function)  # numba.cfunc has one
    if not isinstance(pointer, CFuncPtr):
        if hasattr(function, "py_func"):
            raise TypeError(
                f"{function!r} is compiled for Python: compile it with numba.cfunc and the signature that "
                "leat.ops.Native documents"
            )
        if callable(function):
            raise TypeError(
                f"{function!r} is a Python function: leat.ops.Map runs those; Native takes 'lib.so:symbol', "
                "numba.cfunc or ctypes"
            )
        raise TypeError(
            f"Native takes 'lib.so:symbol', a numba.cfunc, a ctypes function or an address, not {function!r:.60}"
        )
    if any(type(kept).__name__ == "CThunkObject" for kept in (pointer._objects or {}).values()):
        raise TypeError(
            "a Python function behind a ctypes pointer needs the interpreter for each call: leat.ops.Map runs those"
        )
    return _of_pointer(function, pointer, form)


def _of_library(library: str, symbol: str, form: str | None) -> Function:
    try:
        loaded = ctypes.CDLL(library)
    except OSError as e:
        hint = "" if "/" in library else f"; a file of this folder is './{library}'"
        kind = FileNotFoundError if "/" in library and not os.path.exists(library) else OSError
        raise kind(f"the library of Native('{library}:{symbol}') cannot be loaded: {e}{hint}") from None
    try:
        found = getattr(loaded, symbol)
    except AttributeError:
        raise ValueError(
            f'{library} has no symbol {symbol!r}: it must be an exported C function (in C++: extern "C")'
        ) from None
    address = ctypes.cast(found, ctypes.c_void_p).value or 0
    return Function(address, form == "flat", f"{os.path.basename(library)}:{symbol}", loaded)


def _of_pointer(function: Any, pointer: Any, form: str | None) -> Function:
    """The function behind a pointer of ctypes, whose argument types say which form it has."""
    name = getattr(function, "__qualname__", None) or getattr(function, "__name__", None) or type(function).__name__
    arguments = pointer.argtypes
    takes = gives = None
    if arguments is None:
        if form is None:
            raise TypeError(
                f"{name} does not say how it is called: give call='structure' or call='flat', or set its argtypes and "
                "restype"
            )
        flat = form == "flat"
    else:
        flat = len(arguments) == 5
        wrong = not all(_is_pointer(a) for a in arguments[: 2 if flat else 1]) or (not flat and len(arguments) != 1)
        wrong = (
            wrong or (flat and not all(_is_integer(a, 8) for a in arguments[2:])) or not _is_integer(pointer.restype, 4)
        )
        if wrong or (form is not None and flat != (form == "flat")):
            raise TypeError(
                f"{name} takes ({', '.join(a.__name__ for a in arguments)}) and returns "
                f"{getattr(pointer.restype, '__name__', None)}: Native calls "
                "int32(pointer, pointer, int64, int64, uint64), or int32(pointer to struct leat_native_call)"
            )
        if flat:
            takes, gives = (_element(a) for a in arguments[:2])
    address = ctypes.cast(pointer, ctypes.c_void_p).value or 0
    if not address:
        raise TypeError(f"{name} is a null pointer")
    return Function(address, flat, str(name), (function, pointer), takes, gives)


def _is_pointer(kind: Any) -> bool:
    return (
        kind is ctypes.c_void_p
        or kind is ctypes.c_char_p
        or (isinstance(kind, type) and issubclass(kind, ctypes._Pointer))
    )


def _is_integer(kind: Any, size: int) -> bool:
    simple = isinstance(kind, type) and issubclass(kind, ctypes._SimpleCData)
    return simple and getattr(kind, "_type_", "") in tuple("iIlLqQ") and ctypes.sizeof(kind) == size


def _element(kind: Any) -> str | None:
    """The dtype of the value behind a pointer, if it says so."""
    inner = getattr(kind, "_type_", None)
    plain = isinstance(inner, type) and getattr(inner, "_type_", None) in tuple("bBhHiIlLqQfd?")
    return str(np.dtype(inner).name) if plain else None
