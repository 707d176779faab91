"""Starting a port as a process of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from .. import check
from ..errors import Error, MissingFileError
from ..program import Outputs
from ..sharing.known import Folder, ls, path_of, text_of
from .attached import program_of


def serve(
    path: str | os.PathLike[str],
    name: str,
    *,
    outputs: Outputs | None = None,
    batch_size: int = 64,
    shuffle: bool = False,
    seed: int = 0,
    on_error: Literal["raise", "skip", "substitute"] = "raise",
    num_threads: int | Literal["auto"] = "auto",
    memory: int | str | None = None,
    linger: int | None = 60,
    folder: Folder = None,
    group: str | int | None = None,
) -> bool:
    """Starts ``leat serve`` in the background, unless a port of that name is open, and returns when others can attach.

    It is for several trainings of which each may be the first to come: all call this, and attach. The process is not a
    child of this one: it goes on when this one ends.

    Args:
        path: a file, a folder or a pattern, as :func:`leat.open` takes it.
        name: of the port.
        outputs: as of a :class:`leat.Loader`, without functions. None: every field as stored.
        batch_size, shuffle, seed, on_error, num_threads: as of a :class:`leat.Loader`.
        memory: bytes of batches that readers may hold between them, a number or such as ``"4G"``.
        linger: the port ends once nobody has been attached for so many seconds. None: it goes on until it is stopped.
        folder, group: as of :class:`leat.Port`.

    Returns:
        Whether it was started; False: a port of that name is open already, and may be of other data.

    Raises:
        leat.Error: why it could not be started.
        leat.MissingFileError, FileNotFoundError: the command ``leat`` is not installed beside this package.

    >>> leat.ports.serve(path, "served", batch_size=8, linger=30, folder=tmp / "ports")
    True
    >>> with leat.attach("served", folder=tmp / "ports") as training:
    ...     next(iter(training)).size
    8
    >>> leat.ports.stop("served", folder=tmp / "ports")
    """
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(
            f"path is that of a file, a folder or a pattern, not {type(path).__name__}: leat.Port(loader, name) "
            "serves what leat.open gives"
        )
    threads = check.threads(num_threads)
    options: Mapping[str, Any] = {
        "name": text_of(name),
        "batch-size": batch_size,
        "seed": seed,
        "on-error": on_error,
        "num-threads": threads or None,
        "memory": memory,
        "linger": linger,
        "dir": path_of(folder),
        "group": group,
        "program": None if outputs is None else "/dev/stdin",
    }
    command = [_command(), "serve", "--detach", *(["--shuffle"] if check.flag("shuffle", shuffle) else [])]
    command += [f"--{option}={value}" for option, value in options.items() if value is not None]
    command += ["--", os.fspath(path)]
    text = "" if outputs is None else program_of(outputs)
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if not done.returncode:
        return True
    if any(port["name"] == name and port["alive"] for port in ls(folder)):
        return False
    raise Error(done.stderr.strip().removeprefix("leat serve: ") or f"leat serve ended with {done.returncode}")


def _command() -> str:
    """The command line tool that was installed with this package."""
    beside = Path(sysconfig.get_path("scripts")) / "leat"
    found = str(beside) if beside.exists() else shutil.which("leat")
    if found is None:
        raise MissingFileError(f"the command leat is neither {beside} nor on the PATH")
    return found
