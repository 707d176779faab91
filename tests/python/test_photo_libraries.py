"""Where the library of a format is missing, its photos are broken, and the error says what to install."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
from jp2_made import SIGNED
from photo_support import decode

AVIF = b"\0\0\0\x1cftypavif\0\0\0\0avifmif1miaf" + bytes(64)
JXL = b"\xff\x0a" + bytes(64)
FILES = [
    *(f"libavif.so.{n}" for n in (15, 16)),
    *(f"libjxl.so.0.{n}" for n in range(7, 13)),
    "libopenjp2.so.7",
]
PROGRAM = """
import pickle, sys
from photo_support import decode_all
pickle.dump(decode_all(pickle.load(sys.stdin.buffer)), sys.stdout.buffer)
"""


def test_the_error_names_the_library_and_how_to_install_it(tmp_path: Path) -> None:
    found = decode(SIGNED, mode="GRAY")
    if isinstance(found, str):
        assert "libopenjp2" in found
    else:
        assert np.array_equal(found[..., 0], np.broadcast_to(7 * np.arange(16) + 78, (12, 16)))
    for name in FILES:  # no library, and found first
        (tmp_path / name).write_text("no library")
    paths = os.pathsep.join([str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    env = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path), "PYTHONPATH": paths}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=pickle.dumps([AVIF, JXL, SIGNED]),
        stdout=subprocess.PIPE,
        env=env,
        check=True,
        timeout=300,
    )
    for words, (name, package) in zip(
        pickle.loads(done.stdout),
        [("AVIF", "libavif"), ("JPEG XL", "libjxl"), ("JPEG 2000", "libopenjp2")],
        strict=True,
    ):
        assert words.startswith(f"{name}: {package}") or "built without the headers" in words, words
        assert "install" in words and "convert the photo to PNG" in words
