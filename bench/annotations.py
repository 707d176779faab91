"""How long it takes to open COCO annotations as large as those of COCO 2017's train split, and how much memory.

    python bench/annotations.py [IMAGES] [INSTANCES]

Writes a made-up instances.json (118,287 images and 860,001 instances with polygons, if nothing else is given) beside as
many empty photos, opens it in a process of its own, and reads it with Python's json for comparison.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

OPEN = """
import resource, sys, time, warnings
import leat
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
begin = time.process_time()
ds = leat.open(sys.argv[1], annotations=sys.argv[2])
used = time.process_time() - begin
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(f"{len(ds):,} samples in {used:.1f} s of CPU time; {(after - before) / 1024:.0f} MiB at most")
"""
JSON = """
import json, resource, sys, time
begin = time.process_time()
json.load(open(sys.argv[2]))
used = time.process_time() - begin
print(f"{used:.1f} s of CPU time; {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB at most")
"""


def make(folder: Path, images: int, instances: int) -> tuple[Path, Path]:
    draw = random.Random(1)
    photos, path = folder / "photos", folder / "instances.json"
    photos.mkdir()
    for i in range(images):
        os.close(os.open(photos / f"{i:012}.jpg", os.O_CREAT | os.O_WRONLY))
    with path.open("w") as out:
        out.write('{"info": {}, "licenses": [], "images": [')
        for i in range(images):
            image = {"license": 3, "file_name": f"{i:012}.jpg", "height": 480, "width": 640, "id": i}
            out.write((", " if i else "") + json.dumps(image))
        out.write('], "annotations": [')
        for i in range(instances):
            x, y = draw.uniform(0, 500), draw.uniform(0, 400)
            corners = range(draw.randint(4, 46))
            points = [round(v, 2) for _ in corners for v in (x + 140 * draw.random(), y + 80 * draw.random())]
            box = [round(x, 2), round(y, 2), 139.5, 79.5]
            one = {"segmentation": [points], "area": 702.1, "iscrowd": 0, "image_id": draw.randrange(images)}
            one |= {"bbox": box, "category_id": draw.randrange(1, 81), "id": i}
            out.write((", " if i else "") + json.dumps(one))
        categories = [{"supercategory": "thing", "id": c, "name": f"class {c}"} for c in range(1, 81)]
        out.write(f'], "categories": {json.dumps(categories)}}}')
    return photos, path


def main() -> None:
    images, instances = map(int, sys.argv[1:3] or (118287, 860001))
    with tempfile.TemporaryDirectory() as name:
        begin = time.perf_counter()
        photos, path = make(Path(name), images, instances)
        print(f"{path.stat().st_size / 2**20:.0f} MiB of JSON, made in {time.perf_counter() - begin:.0f} s")
        for what, code in (("leat.open", OPEN), ("json.load", JSON)):
            print(f"{what}: ", end="", flush=True)
            subprocess.run([sys.executable, "-c", code, str(photos), str(path)], check=True)


if __name__ == "__main__":
    main()
