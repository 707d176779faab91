"""The way from a model's boxes back to the photo, as docs/targets.md shows it: boxes that went forth come back."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import leat
from leat import ops

torch = pytest.importorskip("torch")
PAGE = Path(__file__).resolve().parents[2] / "docs" / "targets.md"
NAMES = ("image", "boxes", "label")
SIZES = [(640, 427), (333, 500), (97, 31), (48, 48)]


@pytest.fixture(scope="module")
def to_photo() -> Callable[..., Any]:
    """The function of the page."""
    section = PAGE.read_text().partition("\n## Back to the photo\n")[2]
    text = re.search(r"^def to_photo\(.*?^    return .*?$", section, re.M | re.S)
    assert text
    given: dict[str, Any] = {"torch": torch}
    exec(text[0], given)
    return given["to_photo"]


@pytest.fixture(scope="module")
def coco(tmp_path_factory: pytest.TempPathFactory) -> leat.Dataset:
    """Photos of odd sizes with boxes inside, image ids and category ids with holes."""
    root, rng = tmp_path_factory.mktemp("coco"), np.random.default_rng(0)
    images, annotations = [], []
    for i, (width, height) in enumerate(SIZES):
        out = io.BytesIO()
        Image.new("RGB", (width, height), (20 * i, 90, 40)).save(out, "JPEG")
        (root / f"{i}.jpg").write_bytes(out.getvalue())
        images.append({"id": 100 - 7 * i, "file_name": f"{i}.jpg", "width": width, "height": height})
        for _ in range(3 * (i != 1)):  # one without any
            w, h = (float(v) for v in rng.uniform(5, [width / 2, height / 2]))
            x, y = (float(v) for v in rng.uniform(0, [width - w, height - h]))
            box = {"id": len(annotations) + 1, "image_id": 100 - 7 * i, "category_id": 90 - i, "bbox": [x, y, w, h]}
            annotations.append(box)
    categories = [{"id": 90 - i, "name": f"c{i}"} for i in range(len(SIZES))]
    (root / "a.json").write_text(json.dumps({"images": images, "annotations": annotations, "categories": categories}))
    return leat.open(root, annotations=root / "a.json")


CHAINS: dict[str, list[ops.Operator]] = {
    "letterbox": [ops.Letterbox((160, 224))],
    "letterbox in the corner": [ops.Letterbox(200, center=False)],
    "resize": [ops.Resize((96, 180))],
    "short side": [ops.Resize(64), ops.CenterCrop((64, 90))],
    "crop": [ops.RandomCrop(128, pad_if_needed=True), ops.RandomHorizontalFlip(), ops.RandomVerticalFlip()],
    "crop in a mirror": [
        *(ops.RandomHorizontalFlip(1.0), ops.RandomVerticalFlip(1.0)),
        ops.RandomCrop(128, pad_if_needed=True),
    ],
    "zoom": [ops.RandomZoomOut(), ops.RandomHorizontalFlip(), ops.Resize((256, 200))],
    "resized crop": [ops.RandomResizedCrop(96), ops.RandomVerticalFlip(1.0)],
    "size per batch": [ops.Letterbox(leat.PerBatch([(96, 96), (160, 160)]))],
}


@pytest.mark.parametrize("share", [False, True])
@pytest.mark.parametrize("name", CHAINS)
def test_boxes_come_back_to_where_they_were(
    name: str, share: bool, coco: leat.Dataset, to_photo: Callable[..., Any]
) -> None:
    chain = [ops.Decode(), *CHAINS[name], *([ops.ConvertBoundingBoxFormat("xyxy", normalized=True)] if share else [])]
    outputs = {NAMES: leat.Out(NAMES, chain, geometry=True), "image_id": []}
    stored = {s["image_id"]: s["boxes"] for s in coco}
    compared = 0
    for epoch in range(3):
        loader = leat.Loader(coco, 2, outputs=outputs, seed=epoch, framework="torch")
        for batch in loader:
            height, width = (1, 1) if share else batch["image"].shape[2:]
            for i, boxes in enumerate(batch["boxes"].unbind()):
                there = stored[int(batch["image_id"][i])]
                inside = ((boxes > 0) & (boxes < torch.tensor([width, height, width, height]))).all(1).numpy()
                back = to_photo(boxes, batch["image.geometry"][i], height, width).numpy()
                np.testing.assert_allclose(back[inside], there[inside], atol=2e-3)
                compared += int(inside.sum())
    assert compared >= (3 if "crop" in name else 15)


@pytest.mark.parametrize("stack", ["list", "pad"])
def test_boxes_of_images_of_open_size_come_back(stack: Any, coco: leat.Dataset, to_photo: Callable[..., Any]) -> None:
    chain = [ops.Decode(), ops.RandomShortestSize([50, 70]), ops.ConvertBoundingBoxFormat("xyxy", normalized=True)]
    outputs = {NAMES: leat.Out(NAMES, chain, geometry=True, stack=stack)}
    batch = leat.Loader(coco, len(coco), outputs=outputs, framework="torch").batch_at(0, 0)
    for i, boxes in enumerate(batch["boxes"].unbind()):
        back = to_photo(boxes, batch["image.geometry"][i], 1, 1)
        np.testing.assert_allclose(back.numpy(), coco[i]["boxes"], atol=2e-3)
        if stack == "list":
            height, width = batch["image"][i].shape[1:]
        else:
            inside = ~batch["image.mask"][i]
            height, width = inside[:, 0].sum(), inside[0].sum()
        if len(boxes):
            pixels = boxes * torch.tensor([width, height, width, height])
            back = to_photo(pixels, batch["image.geometry"][i], height, width)
            np.testing.assert_allclose(back.numpy(), coco[i]["boxes"], atol=2e-3)


def test_a_row_says_which_image_and_category_of_coco_it_has(coco: leat.Dataset) -> None:
    batch = leat.Loader(coco, 4, outputs={"image_id": [], "label": [], "name": []}).batch_at(0, 0)
    assert [int(v) for v in batch["image_id"]] == [79, 86, 93, 100]
    assert batch["name"] == ["3.jpg", "2.jpg", "1.jpg", "0.jpg"]
    labels = batch["label"].unbind()[3]
    assert [coco.metadata["category_ids"][int(c)] for c in labels] == [90, 90, 90]
