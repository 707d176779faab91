"""Writes the seeds of the targets of formats that Pillow encodes: `python fuzz/seed_formats.py fuzz/corpus`."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from PIL import Image

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "python"))
from gif_made import gif  # noqa: E402
from jpeg_made import with_dct  # noqa: E402
from jxl_made import encode  # noqa: E402

root = Path(sys.argv[1])
pixels = np.random.default_rng(0).integers(0, 256, (17, 19, 4), np.uint8)
colour, opaque = Image.fromarray(pixels), Image.fromarray(pixels[..., :3])
gray, palette = Image.fromarray(pixels[..., 0]), opaque.quantize(30)
deep = Image.fromarray(pixels[..., :2].copy().view(np.uint16)[..., 0])
MODES = {"gray": gray, "palette": palette, "rgb": opaque, "rgba": colour, "bits": gray.convert("1"), "deep": deep}


def write(target: str, name: str, image: Image.Image, kind: str, **options: object) -> None:
    for folder in (target, "fuzz_photo_probe"):
        (root / folder).mkdir(parents=True, exist_ok=True)
        image.save(root / folder / name, kind, **options)


for name in ("gray", "palette", "rgb", "rgba", "bits"):
    write("fuzz_decode_bmp", f"{name}.bmp", MODES[name], "BMP")
for name in ("gray", "rgb", "bits", "deep"):
    write("fuzz_decode_pnm", f"{name}.pnm", MODES[name], "PPM")
more = [palette.transpose(Image.Transpose.ROTATE_180), palette.transpose(Image.Transpose.FLIP_TOP_BOTTOM)]
for name in ("gray", "palette", "bits"):
    write("fuzz_decode_gif", f"{name}.gif", MODES[name], "GIF")
for disposal in (1, 2, 3):
    options = {"save_all": True, "append_images": more, "disposal": disposal, "transparency": disposal}
    write("fuzz_decode_gif", f"frames{disposal}.gif", palette, "GIF", **options)
outside = [(x, 2, pixels[:4, :8, x % 4] // 2) for x in (5, 6, 7)]
for folder in ("fuzz_decode_gif", "fuzz_photo_probe"):
    (root / folder / "outside.gif").write_bytes(gif(10, 6, (0, 0, pixels[:6, :10, 0] // 2), *outside))
for name, mode in {**MODES, "cmyk": opaque.convert("CMYK")}.items():
    for compression in ("raw", "tiff_lzw", "tiff_adobe_deflate", "packbits"):
        write("fuzz_decode_tiff", f"{name}.{compression}.tif", mode, "TIFF", compression=compression)
for compression in ("tiff_ccitt", "group3", "group4"):
    write("fuzz_decode_tiff", f"{compression}.tif", MODES["bits"], "TIFF", compression=compression)
for name in ("gray", "rgb"):
    write("fuzz_decode_tiff", f"{name}.jpeg.tif", MODES[name], "TIFF", compression="jpeg", quality=40)
write("fuzz_decode_tiff", "ycbcr.jpeg.tif", opaque.convert("YCbCr"), "TIFF", compression="jpeg", quality=40)
write("fuzz_decode_tiff", "pages.tif", gray, "TIFF", save_all=True, append_images=[opaque, palette])
for name in ("gray", "rgb", "rgba"):
    write("fuzz_decode_avif", f"{name}.avif", MODES[name], "AVIF", quality=60, speed=10)
    write("fuzz_decode_jp2", f"{name}.jp2", MODES[name], "JPEG2000")
write(
    "fuzz_decode_avif", "frames.avif", opaque, "AVIF", save_all=True, append_images=[more[0].convert("RGB")], speed=10
)
write("fuzz_decode_jp2", "tiles.j2k", opaque, "JPEG2000", no_jp2=True, tile_size=(8, 8), irreversible=True)
write("fuzz_decode_jp2", "deep.jp2", deep, "JPEG2000")

# Pillow writes neither JPEG XL nor JPEGs of any sampling: the tests do
SEEDS = {"gray": [pixels[..., :1]], "rgba": [pixels], "frames": [pixels[..., :3], pixels[..., 1:]]}
for name, frames in SEEDS.items():
    for folder in ("fuzz_decode_jxl", "fuzz_photo_probe"):
        (root / folder).mkdir(parents=True, exist_ok=True)
        lossy = encode(frames, lossless=name == "gray", container=name == "rgba", orientation=6)
        (root / folder / f"{name}.jxl").write_bytes(lossy)

none = Image.new("L", (8, 8))
numbers = Image.fromarray(np.arange(64, dtype=np.uint8).reshape(8, 8) // 20)  # class ids, and those of segments
for target, seed in (
    ("fuzz_masks", numbers),
    ("fuzz_panoptic", Image.merge("RGB", [numbers, none, none])),
):
    (root / target).mkdir(parents=True, exist_ok=True)
    seed.save(root / target / "seed.png", "PNG")

SAMPLINGS = {"across": [(3, 1), (2, 1), (1, 1)], "down": [(1, 3), (1, 2), (1, 1)]}
for name, sampling in SAMPLINGS.items():
    planes = [pixels[:, :, c] // 16 for c in range(3)]
    (root / "fuzz_decode_jpeg" / f"fraction_{name}.jpg").write_bytes(with_dct(planes, sampling, (17, 19)))
