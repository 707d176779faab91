"""A system that refuses calls, as sandboxes, containers and some file systems do: `refused(error, calls) + code`."""

from __future__ import annotations

CALLS = {"clone": 56, "flock": 73, "link": 86, "linkat": 265, "pidfd_open": 434, "clone3": 435}  # x86-64

FILTER = """
import ctypes, os, struct
_allow, _words = 0x7FFF0000, [(0x20, 0, 0, 0)]  # seccomp's programs: load the number of the call; compare; return
for _number in {numbers}:
    _words += [(0x15, 0, 1, _number), (0x06, 0, 0, 0x50000 | {error})]
_code = b"".join(struct.pack("HBBI", *word) for word in [*_words, (0x06, 0, 0, _allow)])
_kept = ctypes.create_string_buffer(_code, len(_code))
_program = struct.pack("HxxxxxxQ", len(_code) // 8, ctypes.addressof(_kept))
_libc = ctypes.CDLL(None, use_errno=True)
if _libc.prctl(38, 1, 0, 0, 0) or _libc.prctl(22, 2, ctypes.c_char_p(_program), 0, 0):
    os._exit(77)
"""


def refused(error: int, *calls: str) -> str:
    """The beginning of a script in which these calls fail with this number; it ends with 77 if that cannot be done."""
    return FILTER.format(numbers=[CALLS[call] for call in calls], error=error)
