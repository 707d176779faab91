"""COCO files for tests, beside a folder of four photos, and panoptic ones with the PNGs of their segments."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

DATA = Path(os.environ.get("LEAT_DATA", "/nonexistent"))
Json = dict[str, Any]


def annotation(image: int, category: int, bbox: Any, **more: Any) -> Json:
    return {"image_id": image, "category_id": category, "bbox": bbox, "area": 12.5, "iscrowd": 0, **more}


def small() -> Json:
    """Three photos in an order that is not that of their ids, categories with holes, an image without instances."""
    return {
        "info": {"description": 'quotes " and \\ and é'},
        "annotations": [
            annotation(9, 90, [1.5, 2.25, 10, 5]),
            annotation(4, 7, [0, 0, 3, 4]),
            annotation(9, 7, [30, 20, 20.5, 10], iscrowd=1),
        ],
        "images": [
            {"id": 9, "file_name": "c.png", "width": 40, "height": 30},
            {"id": 4, "file_name": "a.png", "width": 40, "height": 30},
            {"id": 12, "file_name": "sub/b.png", "width": 40, "height": 30},
        ],
        "categories": [{"id": 90, "name": "toothbrush"}, {"id": 7, "name": "train é"}],
    }


def four_photos(beside: Path) -> Path:
    folder = beside / "photos with a space"
    (folder / "sub").mkdir(parents=True)
    for i, name in enumerate(["a.png", "c.png", "sub/b.png", "not-listed.png"]):
        Image.fromarray(np.full((30, 40, 3), 20 * i, np.uint8)).save(folder / name)
    return folder


def write(photos: Path, coco: Json, **layout: Any) -> Path:
    path = photos.parent / "instances.json"
    path.write_text(json.dumps(coco, **layout))
    return path


def panoptic(photos: Path, ids: Any, segments: list[int]) -> Path:
    """A panoptic file whose image 9 has these segments, and the folder with the PNG of them."""
    coco = small()
    infos = [{"id": k, "category_id": 7, "bbox": [1, 2, 10, 5], "area": 30, "iscrowd": 0} for k in segments]
    coco["annotations"] = [{"image_id": 9, "segments_info": infos, "file_name": "deep/c.png"}]
    png = photos.parent / "instances/deep/c.png"
    png.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.stack([ids & 255, ids >> 8 & 255, ids >> 16], -1).astype(np.uint8)).save(png)
    return write(photos, coco)


def no_segment(photos: Path, ids: Any) -> Path:
    return panoptic(photos, ids, [3, 4])


def no_png(photos: Path, ids: Any) -> Path:
    path = panoptic(photos, ids, [3])
    (photos.parent / "instances/deep/c.png").unlink()
    return path


def small_png(photos: Path, ids: Any) -> Path:
    return panoptic(photos, ids[1:], [3])
