"""One photo at a time: what a chain that begins with Decode makes of its bytes."""

from __future__ import annotations

import atexit
import functools
import io
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leat


def noise(*shape: int, dtype: Any = np.uint8) -> Any:
    return np.random.default_rng(sum(shape)).integers(0, np.iinfo(dtype).max + 1, shape, dtype)


def save(pixels: Any, kind: str, **options: Any) -> bytes:
    """The file that Pillow writes of an array (H, W), (H, W, 1), HWC, or of an image of its own."""
    from PIL import Image

    if isinstance(pixels, np.ndarray):
        pixels = Image.fromarray(pixels[:, :, 0] if pixels.ndim == 3 and pixels.shape[2] == 1 else pixels)
    out = io.BytesIO()
    pixels.save(out, kind, **options)
    return out.getvalue()


def png(pixels: Any) -> bytes:
    return save(pixels, "PNG")


def decode(data: bytes, *behind: leat.ops.Operator, **options: Any) -> Any:
    """All of the photo as an array HWC; `options` are those of Decode."""
    return decode_all([data], *behind, **options)[0]


def decode_all(photos: Sequence[bytes], *behind: leat.ops.Operator, **options: Any) -> list[Any]:
    """Of each photo all of it as an array HWC, or the words of the error."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "photos.leat"
        with leat.Writer(path, {"image": "image"}, check=False) as w:
            for data in photos:
                w.add(image=data)
        ds = leat.open(path)
        width, height = ds.column("image.width"), ds.column("image.height")
        return [_one(ds, i, (int(height[i]), int(width[i])), behind, options) for i in range(len(photos))]


def _one(ds: Any, i: int, size: tuple[int, int], behind: Sequence[Any], options: dict[str, Any]) -> Any:
    whole = leat.ops.CenterCrop(size if min(size) else (1, 1))
    outputs = {"image": [leat.ops.Decode(**options), whole, *behind, leat.ops.ToLayout("NHWC")]}
    try:
        return leat.Loader(ds, 1, outputs=outputs, framework="numpy", num_threads=1).batch_at(0, i)["image"][0].copy()
    except leat.BrokenSampleError as e:
        return str(e)


def folder_and_pack(data: bytes, extension: str, about: list[int], folder: Path) -> None:
    """A photo is the same in a folder, whatever the case of its extension, and packed in each form; `about` are its
    width, height, channels and kind."""
    photos = folder / "photos"
    photos.mkdir()
    for name in (f"a.{extension}", f"b.{extension.upper()}"):
        (photos / name).write_bytes(data)
    outputs = {"image": leat.Out("image", [leat.ops.Decode()], stack="list")}
    row = leat.Loader(leat.open(photos), 2, outputs=outputs, framework="numpy").batch_at(0, 0)
    assert np.array_equal(row["image"][1], np.moveaxis(decode(data), 2, 0))
    for form in ("original", "raw"):
        with leat.Writer(folder / f"{form}.leat", {"image": "image"}, photos=form) as w:
            w.add(image=data)
        ds = leat.open(folder / f"{form}.leat")
        assert [int(ds.column(f"image.{f}")[0]) for f in ("width", "height", "channels", "kind")] == about
        found = ds[0]["image"]
        assert found == data if form == "original" else np.array_equal(found, decode(data))


# ---- libjpeg-turbo 3: Pillow's wheel has one, and the same ABI -----------------------------------

PROGRAM = """
import pickle, sys
from photo_support import decode_all
while True:
    try:
        photos, options = pickle.load(sys.stdin.buffer)
    except EOFError:
        break
    pickle.dump(decode_all(photos, **options), sys.stdout.buffer)
    sys.stdout.flush()
"""


@functools.cache
def _process_with_3() -> Any:
    """A process that finds libjpeg-turbo 3, and answers as long as this one goes on."""
    pillow = Path(pytest.importorskip("PIL.Image").__file__).parent.parent
    libraries = sorted((pillow / "pillow.libs").glob("libjpeg-*.so.62*"))
    if not libraries or b"jpeg12_read_scanlines" not in libraries[0].read_bytes():
        return None
    if "/libjpeg.so.62" not in Path("/proc/self/maps").read_text():  # Ubuntu's has the interface of libjpeg 8
        return None
    folder = tempfile.TemporaryDirectory()
    (Path(folder.name) / "libjpeg.so.62").symlink_to(libraries[0])
    paths = os.pathsep.join([str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    env = {**os.environ, "LD_LIBRARY_PATH": folder.name, "PYTHONPATH": paths}
    started = subprocess.Popen([sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env)
    atexit.register(folder.cleanup)
    atexit.register(started.communicate)
    return started


def decode_by_3(photos: Sequence[bytes], **options: Any) -> list[Any]:
    """What leat decodes with libjpeg-turbo 3."""
    process = _process_with_3()
    if not process:
        pytest.skip("this Pillow has no libjpeg-turbo 3 of its own, or one of another interface than leat's libjpeg")
    process.stdin.write(pickle.dumps((list(photos), options)))
    process.stdin.flush()
    return list(pickle.load(process.stdout))
