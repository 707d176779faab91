"""What the tests of the command line share: the command, and folders of photos made on the spot.

The executable is the one that LEAT_CLI names, else `leat` on the PATH.
"""

from __future__ import annotations

import contextlib
import io
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import time
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

COMMANDS = [
    "pack",
    "convert",
    "info",
    "stats",
    "view",
    "verify",
    "cat",
    "mix",
    "prompts",
    "replay",
    "bench",
    "doctor",
    "trace",
    "top",
    "serve",
    "port",
    "completion",
]
GOLDEN = Path(__file__).resolve().parent.parent / "cli" / "golden"


def command() -> str:
    found = os.environ.get("LEAT_CLI") or shutil.which("leat")
    if not found:
        pytest.skip("no command leat: LEAT_CLI names it, or it is on the PATH")
    return found


class Started(subprocess.Popen):  # type: ignore[type-arg]
    """A process that a test talks to. It ends with the `with` block, also where a wait inside runs out of time."""

    def __exit__(self, *error: object) -> None:
        self.kill()
        super().__exit__(*error)  # type: ignore[arg-type]


def leat(*arguments: object, code: int | None = 0, **options: object) -> subprocess.CompletedProcess[str]:
    """Runs the command; fails with everything that it said if it does not end with `code`."""
    done = subprocess.run(
        [command(), *map(str, arguments)], capture_output=True, text=True, errors="replace", timeout=120, **options
    )  # type: ignore[call-overload]
    if code is not None and done.returncode != code:
        pytest.fail(
            f"leat {' '.join(map(str, arguments))}\nended with {done.returncode}, not "
            f"{code}\n{done.stdout}\n{done.stderr}"
        )
    return done  # type: ignore[no-any-return]


def stopped(line: list[Any], target: Path, how: signal.Signals, least: int) -> subprocess.CompletedProcess[str]:
    """Starts a command, waits until `least` bytes are in the partial files of its target, sends the signal and gives
    what the command said. It steps back behind who waits for it, and begins again if it was through all the same.
    """
    for _ in range(20):
        with Started(
            list(map(str, line)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=PYTHON,
            preexec_fn=lambda: os.nice(5),
        ) as process:  # fmt: skip
            end = time.monotonic() + 300
            while process.poll() is None and time.monotonic() < end:
                with contextlib.suppress(FileNotFoundError):  # it has just become whole
                    if sum(p.stat().st_size for p in target.parent.glob(f"{target.stem}.*partial")) >= least:
                        break
            process.send_signal(how)
            out, err = process.communicate(timeout=300)
        if process.returncode != 0:
            return subprocess.CompletedProcess([], process.returncode, out, err)
        for made in target.parent.glob(f"{target.stem}*"):
            made.unlink()
    pytest.fail("the command was over each time before it could be stopped")


def leat_bytes(*arguments: object) -> bytes:
    done = subprocess.run([command(), *map(str, arguments)], capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


#: For commands that go on in Python: the one that runs the tests. A module that is written again within a second may
#: look like the one that was compiled.
PYTHON = {**os.environ, "LEAT_PYTHON": sys.executable, "PYTHONDONTWRITEBYTECODE": "1"}
WORDS = GOLDEN.parent / "words.sh"


def leat_here(*arguments: object, code: int = 0) -> subprocess.CompletedProcess[str]:
    """As leat(), of a command that goes on in Python: that part runs in this process, which has imported it already."""
    done = leat(*arguments, code=None, env={**os.environ, "LEAT_PYTHON": str(WORDS)})
    if done.returncode == 0:
        from leat.commands.main import main

        _, _, name, _, *pairs = done.stdout.split("\0")[:-1]
        out, err = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True), io.StringIO()
        with _unchanged_process(), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            done.returncode = main(name, dict(zip(pairs[::2], pairs[1::2], strict=True)))
        done.stdout, done.stderr = out.buffer.getvalue().decode(), err.getvalue()
    if done.returncode != code:
        words = " ".join(map(str, arguments))
        pytest.fail(f"leat {words}\nended with {done.returncode}, not {code}\n{done.stdout}\n{done.stderr}")
    return done


@contextlib.contextmanager
def _unchanged_process() -> Iterator[None]:
    """Undoes what a command sets for the process that it has for itself."""
    path, modules = list(sys.path), set(sys.modules)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        with warnings.catch_warnings():
            yield
    finally:
        sys.path[:] = path
        for name in set(sys.modules) - modules:  # scripts that it was given
            if not (getattr(sys.modules[name], "__file__", None) or sys.prefix).startswith(
                (sys.prefix, sys.base_prefix)
            ):
                del sys.modules[name]
        for number, handler in handlers.items():
            signal.signal(number, handler)


def golden(name: str, text: str) -> None:
    """Compares with tests/cli/golden/NAME; LEAT_GOLDEN=write writes it."""
    path = GOLDEN / name
    if os.environ.get("LEAT_GOLDEN") == "write":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()


def png(width: int, height: int, seed: int = 0) -> bytes:
    """An RGB photo of noise, which does not compress: about 3 * width * height bytes."""
    noise = random.Random(seed)

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + noise.randbytes(3 * width) for _ in range(height))
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
        + chunk(b"IDAT", zlib.compress(rows, 1))
        + chunk(b"IEND", b"")
    )


def jpeg(width: int, height: int, seed: int = 0) -> bytes:
    image = pytest.importorskip("PIL.Image", reason="Pillow makes the JPEGs")
    noise = random.Random(seed).randbytes(3 * (width // 8 + 1) * (height // 8 + 1))
    small = image.frombytes("RGB", (width // 8 + 1, height // 8 + 1), noise)
    out = io.BytesIO()
    small.resize((width, height)).save(out, "JPEG", quality=85)
    return out.getvalue()


def make_folder(root: Path, classes: dict[str, int], size: tuple[int, int] = (40, 30), make: Any = png) -> Path:
    """`classes`: photos per sub-folder. Each photo is another one."""
    seed = 0
    for name, count in classes.items():
        (root / name).mkdir(parents=True, exist_ok=True)
        for i in range(count):
            (root / name / f"{i:04d}{'.png' if make is png else '.jpg'}").write_bytes(make(*size, seed))
            seed += 1
    return root


def real_data(folder: str) -> Path:
    root = os.environ.get("LEAT_DATA")
    if not root or not (Path(root) / folder).is_dir():
        pytest.skip(f"real data: LEAT_DATA names no folder with {folder}")
    return Path(root) / folder
