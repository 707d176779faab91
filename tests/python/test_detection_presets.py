"""The recipes of detectors on a small COCO data set: as docs/targets.md writes them, and as their errors say."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import leat

ops = leat.ops
ROOT = Path(__file__).resolve().parent.parent.parent
NAMES = ("image", "boxes", "label")
ROWS = re.findall(
    r'^\| `(\w+\((?:"\w+")?\))` \| (.+?) \| `(\{names: .+\})` \|$', (ROOT / "docs" / "targets.md").read_text(), re.M
)
OPEN = [call for call, shape, _ in ROWS if shape == "open"]


@pytest.fixture(scope="module")
def coco(tmp_path_factory: pytest.TempPathFactory) -> leat.Dataset:
    folder, rng = tmp_path_factory.mktemp("coco"), np.random.default_rng(3)
    images, annotations = [], []
    for i in range(6):
        width, height = (int(v) for v in rng.integers(60, 110, 2))
        Image.fromarray(rng.integers(0, 256, (height, width, 3), np.uint8)).save(folder / f"{i}.png")
        images.append({"id": i, "file_name": f"{i}.png", "width": width, "height": height})
        for _ in range(int(rng.integers(0, 4))):
            x, y = float(rng.uniform(0, width - 20)), float(rng.uniform(0, height - 20))
            box = [x, y, float(rng.uniform(5, width - x)), float(rng.uniform(5, height - y))]
            annotations.append({"image_id": i, "category_id": 1, "bbox": box, "area": box[2] * box[3], "iscrowd": 0})
    text = {"images": images, "annotations": annotations, "categories": [{"id": 1, "name": "thing"}]}
    (folder / "instances.json").write_text(json.dumps(text))
    return leat.open(folder, annotations=folder / "instances.json")


def loaded(coco: leat.Dataset, outputs: Any) -> leat.Batch:
    return leat.Loader(coco, 2, True, outputs=outputs, seed=1, framework="numpy").batch_at(0, 0)


def check(batch: leat.Batch) -> None:
    assert len(batch["image"]) == len(batch["boxes"]) == len(batch["label"]) == 2
    for image, boxes, labels in zip(batch["image"], batch["boxes"], batch["label"], strict=True):
        assert image.shape[0] == 3 and image.dtype == np.float32
        assert len(boxes) == len(labels)


def test_the_docs_list_every_preset_of_detectors() -> None:
    text = leat.presets.detection_train.__doc__
    assert text
    policies = re.findall(r'"(\w+)"', text.split("mean:")[0])
    wanted = {f'detection_train("{policy}")' for policy in policies if policy not in NAMES}
    assert {call for call, _, _ in ROWS} == wanted | {"dfine_train()", "detr_train()", "yolo_train()"}
    assert len(OPEN) == 5


@pytest.mark.parametrize(("call", "shape", "outputs"), ROWS)
def test_a_preset_as_the_docs_write_it_gives_batches(coco: leat.Dataset, call: str, shape: str, outputs: str) -> None:
    chain = eval(f"leat.presets.{call}")
    batch = loaded(coco, eval(outputs, {"leat": leat, "names": NAMES, "chain": chain}))
    check(batch)
    if shape != "open":
        assert str(tuple(batch["image"].shape)) == shape.replace("batch", "2")
    elif "pad" in outputs:
        assert batch["image.mask"].shape == batch["image"].shape[:1] + batch["image"].shape[2:]


def test_the_names_of_a_hint_are_those_of_the_outputs(coco: leat.Dataset) -> None:
    for outputs, hint in (
        ({"image": [ops.Decode()]}, 'outputs={"image": leat.Out("image", chain, stack="list")}'),
        ({"photo": leat.Out("image", [ops.Decode()])}, 'outputs={"photo": leat.Out("image", chain, stack="list")}'),
        (
            {("a", "b"): leat.Out(("image", "boxes"), [ops.Decode()])},
            'outputs={("a", "b"): leat.Out(("image", "boxes"), chain, stack="list")}',
        ),
    ):
        with pytest.raises(leat.ProgramError) as e:
            loaded(coco, outputs)
        assert hint in str(e.value)
        assert loaded(coco, eval(hint.removeprefix("outputs="), {"leat": leat, "chain": [ops.Decode()]})).size == 2


@pytest.mark.parametrize("call", OPEN)
def test_what_the_error_of_an_open_size_says_gives_batches(coco: leat.Dataset, call: str) -> None:
    chain = eval(f"leat.presets.{call}")
    with pytest.raises(leat.ProgramError, match="open size") as e:
        loaded(coco, {NAMES: chain})
    text = str(e.value)
    (hint,) = re.findall(r"outputs=(\{.*\}),", text)
    for how in ("list", "pad"):
        check(loaded(coco, eval(hint.replace("list", how), {"leat": leat, "chain": chain})))
    (where,) = re.findall(r"another crop after (\w+),", text)
    at = max(i for i, op in enumerate(chain) if type(op).__name__ == where) + 1
    for fixed in (ops.Resize([64, 80]), ops.CenterCrop([64, 80])):
        batch = loaded(coco, {NAMES: [*chain[:at], fixed, *chain[at:]]})
        check(batch)
        assert batch["image"].shape == (2, 3, 64, 80)


@pytest.mark.parametrize("call", OPEN)
def test_a_preset_for_an_image_alone_leads_to_the_tuple(coco: leat.Dataset, call: str) -> None:
    chain = eval(f"leat.presets.{call}")
    for outputs in ({"image": chain}, {"image": leat.Out("image", chain, stack="list")}):
        with pytest.raises(leat.ProgramError, match=r'\{\("image", "boxes", "label"\): '):
            loaded(coco, outputs)
