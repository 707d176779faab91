"""Mosaic: four samples in one image, with their targets.

Samples are photos of one colour each, whose box is the whole photo. So in a mosaic each box must lie exactly where its
colour is, and the colour says which sample it is of.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gather_support import (
    OPTIONS,
    check_that_batches_come_again,
    check_that_nothing_changes_rows,
    extent,
    rows,
)
from photo_support import png
from PIL import Image

import leat
from leat import ops

N, SIZE = 40, 48
GOLDEN = [[13, 34, 11, 1], [38, 4, 6, 6], [25, 36, 26, 39]]
NAMES = ("image", "boxes", "label", "points", "mask", "number")


def shape_of(i: int) -> tuple[int, int]:
    h, w = np.random.default_rng(i).integers(20, 100, 2)
    return int(h), int(w)


def write(path: Path, broken: tuple[int, ...] = ()) -> leat.Dataset:
    fields = {
        "image": "image",
        "boxes": leat.boxes("xyxy"),
        "label": leat.field("int64", (None,)),
        "points": leat.keypoints(1),
        "mask": leat.mask(),
        "number": leat.field("int32"),
    }
    with leat.Writer(path, fields, check=False) as w:
        for i in range(N):
            h, wide = shape_of(i)
            image, mask = png(np.full((h, wide, 3), i + 1, np.uint8)), png(np.full((h, wide), i + 1, np.uint8))
            image = image[:60] if i in broken else image
            boxes = np.array([[0, 0, wide, h]], np.float32)
            points = np.array([[[0, 0, 2]]], np.float32)
            w.add(image=image, boxes=boxes, label=np.array([i]), points=points, mask=mask, number=i)
    return leat.open(path)


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> leat.Dataset:
    return write(tmp_path_factory.mktemp("mosaic") / "colours.leat")


def outputs(*more: Any, p: float = 1.0) -> Any:
    return {NAMES: [ops.Decode(), ops.Mosaic(SIZE, p), *more]}


def loader(photos: leat.Dataset, made: Any = None, **more: Any) -> leat.Loader:
    return leat.Loader(photos, outputs=made or outputs(), **OPTIONS | more)


class TestPicture:
    def test_each_box_point_and_class_lies_where_its_sample_is_shown(self, photos: leat.Dataset) -> None:
        meets = []
        for batch in loader(photos):
            assert batch["image"].shape == (5, 3, 2 * SIZE, 2 * SIZE) and batch["mask"].shape[1:] == (96, 96)
            for r, own in enumerate(batch.ids.tolist()):
                image, mask, labels = batch["image"][r], batch["mask"][r], batch["label"][r].tolist()
                assert len(labels) == 4 and labels[0] == own and own not in labels[1:]
                assert batch["number"][r] == own
                assert (image == image[0]).all()
                np.testing.assert_array_equal(np.where(image[0] == 114, 0, image[0]), mask)
                if len(set(labels)) < 4:
                    continue
                for label, box, point in zip(labels, batch["boxes"][r], batch["points"][r], strict=True):
                    seen = extent(mask == label + 1)
                    np.testing.assert_allclose(box, seen, atol=1e-3)
                    assert (mask == label + 1)[seen[1] : seen[3], seen[0] : seen[2]].all()
                    x, y, v = point[0]
                    middle = SIZE / max(shape_of(label)) / 2 - 0.5  # of the first pixel, from the edge
                    for at, edge in ((x, seen[0]), (y, seen[1])):
                        assert v == 0 or edge == 0 or abs(at - edge - middle) < 0.05  # sides are whole pixels
                boxes = batch["boxes"][r]
                meets.append(boxes[0, 2:])
                np.testing.assert_allclose(boxes[0, 2:], boxes[3, :2], atol=1e-3)
                np.testing.assert_allclose(boxes[1, [0, 3]], boxes[2, [2, 1]], atol=1e-3)
        at = np.array(meets)
        assert (at >= SIZE // 2).all() and (at <= 3 * SIZE // 2).all()
        assert at.std(0).min() > SIZE / 6 and abs(at.mean() - SIZE) < SIZE / 4

    def test_longer_sides_become_the_size(self, photos: leat.Dataset) -> None:
        for batch in loader(photos, outputs(p=0.0)):
            for r, i in enumerate(batch.ids.tolist()):
                h, w = shape_of(i)
                x0, y0, x1, y1 = extent(batch["mask"][r] == i + 1)
                assert max(x1 - x0, y1 - y0) == SIZE
                assert abs(min(x1 - x0, y1 - y0) - min(h, w) * SIZE / max(h, w)) <= 0.5
                assert abs(x0 + x1 - 2 * SIZE) <= 1 and abs(y0 + y1 - 2 * SIZE) <= 1
                assert batch["label"][r].tolist() == [i]
                np.testing.assert_allclose(batch["boxes"][r], [[x0, y0, x1, y1]], atol=1e-3)

    def test_pixels_are_those_of_a_resize(self, tmp_path: Path) -> None:
        rng = np.random.default_rng(0)
        pixels = [np.kron(rng.integers(0, 256, (9, 13, 3)), np.ones((5, 5, 1))).astype(np.uint8) for _ in range(8)]
        with leat.Writer(tmp_path / "p.leat", {"image": "image"}) as w:
            for image in pixels:
                w.add(image=png(image))
        photos = leat.open(tmp_path / "p.leat")
        want = [np.asarray(Image.fromarray(p).resize((SIZE, 33), Image.Resampling.BILINEAR)) for p in pixels]
        chain = [ops.Decode(), ops.Mosaic(SIZE, 0.0), ops.ToLayout("NHWC")]
        for batch in leat.Loader(photos, 4, outputs={"image": chain}, framework="numpy"):
            for image, i in zip(batch["image"], batch.ids.tolist(), strict=True):
                inner = image[31 : 31 + 33, 24 : 24 + SIZE].astype(int)
                assert abs(inner - want[i]).max() <= 1
                assert (image[:31] == 114).all() and (image[64:] == 114).all() and (image[:, :24] == 114).all()

    def test_the_chain_goes_on_behind_it(self, photos: leat.Dataset) -> None:
        more = [
            ops.RandomHorizontalFlip(1.0),
            ops.CenterCrop(SIZE),
            ops.SanitizeBoundingBoxes(),
            ops.ToDtype("float32"),
        ]
        for batch in loader(photos, outputs(*more)):
            assert batch["image"].shape == (5, 3, SIZE, SIZE) and batch["image"].dtype == np.float32
            for r in range(5):
                mask, boxes, labels = batch["mask"][r], batch["boxes"][r], batch["label"][r].tolist()
                assert len(boxes) == len(labels) == len(batch["points"][r])
                assert set(np.unique(mask)) - {0} >= {i + 1 for i in labels}
                if len(set(labels)) == len(labels):
                    for box, label in zip(boxes, labels, strict=True):
                        assert abs(np.array(extent(mask == label + 1)) - box).max() <= 1.001

    @pytest.mark.parametrize(
        "fill", [114, (1, 2, 3), {"image": 9, "mask": 255}, {"image": (5, 6, 7), "mask": 200}, {"mask": 255}]
    )
    def test_the_canvas_is_filled_by_kind(self, photos: leat.Dataset, fill: Any) -> None:
        made = {("image", "mask"): [ops.Decode(), ops.Mosaic(SIZE, 0.0, fill), ops.ToLayout("NHWC")]}
        kinds = {"image": 114, **fill} if isinstance(fill, dict) else {"image": fill, "mask": 0}
        for batch in loader(photos, made):
            for image, mask, i in zip(batch["image"], batch["mask"], batch.ids.tolist(), strict=True):
                x0, y0, x1, y1 = extent(mask == i + 1)
                outside = np.ones_like(mask, bool)
                outside[y0:y1, x0:x1] = False
                assert (image[outside] == kinds["image"]).all() and (mask[outside] == kinds["mask"]).all()

    @pytest.mark.parametrize("p", [1.0, 0.5])
    def test_a_crop_behind_it_is_drawn_by_the_boxes_of_all(self, photos: leat.Dataset, p: float) -> None:
        crop = ops.RandomApply([ops.RandomIoUCrop(0.4)], 0.8)
        made = outputs(crop, ops.SanitizeBoundingBoxes(), ops.Resize((64, 80)), p=p)
        check_that_nothing_changes_rows(lambda **options: loader(photos, made, **options), NAMES, N)
        whole = cropped = 0
        for batch in loader(photos, made, batch_size=N):
            assert batch["image"].shape == (N, 3, 64, 80)
            for r in range(N):
                mask, labels = batch["mask"][r], batch["label"][r].tolist()
                middle = abs(batch["image"][r][0].astype(int) - np.where(mask, mask, 114)) <= 1
                assert middle.mean() > 0.85  # the image is resized with a filter, the mask by the nearest pixel
                assert len(labels) == len(batch["boxes"][r]) == len(batch["points"][r])
                whole += len(labels) == 4
                cropped += len(labels) < 4 and bool(labels)
                for label, box in zip(labels, batch["boxes"][r], strict=True):
                    x0, y0, x1, y1 = (box + [1, 1, -1, -1]).round().astype(int)
                    assert (mask[y0:y1, x0:x1] == label + 1).all()
        assert whole and cropped

    def test_operators_before_it_draw_for_each_sample(self, photos: leat.Dataset) -> None:
        chain = [ops.Decode(), ops.RandomHorizontalFlip(0.5), ops.Mosaic(SIZE)]
        sides = []
        for batch in loader(photos, {("image", "points", "boxes"): chain}, batch_size=N):
            for points, boxes in zip(batch["points"], batch["boxes"], strict=True):
                for point, box in zip(points[:, 0], boxes, strict=True):
                    if point[2]:
                        sides.append(abs(point[0] - box[0]) < 1)
        assert 0.2 < np.mean(sides) < 0.8

    def test_how_often(self, photos: leat.Dataset) -> None:
        made = {("image", "label"): [ops.Decode(), ops.Mosaic(8, 0.3)]}
        many = [
            len(label)
            for epoch in range(10)
            for label in loader(photos, made, batch_size=N).batch_at(epoch, 0)["label"]
        ]
        assert set(many) == {1, 4} and 0.2 < np.mean(np.array(many) == 4) < 0.4

    def test_padded_targets(self, photos: leat.Dataset) -> None:
        made = {("image", "label"): [ops.Decode(), ops.Mosaic(8, 0.5), ops.PadTo(6, fill=-1)]}
        for batch in loader(photos, made):
            n = (batch["label"] >= 0).sum(1)
            assert set(n.tolist()) <= {1, 4} and batch["label"].shape == (5, 6)


class TestPromises:
    def test_rows_are_the_same_for_any_threads_order_and_ranks(self, photos: leat.Dataset) -> None:
        check_that_nothing_changes_rows(lambda **options: loader(photos, **options), NAMES, N)

    def test_which_samples_is_settled_for_good(self, photos: leat.Dataset) -> None:
        batch = loader(photos, batch_size=3).batch_at(0, 0)
        assert [row.tolist() for row in batch["label"]] == GOLDEN

    def test_other_samples_are_drawn_anew_in_each_epoch(self, photos: leat.Dataset) -> None:
        both = [loader(photos, batch_size=N).batch_at(epoch, 0) for epoch in range(2)]
        others = [{i: tuple(b["label"][r][1:]) for r, i in enumerate(b.ids.tolist())} for b in both]
        assert sum(others[0][i] == others[1][i] for i in range(N)) < 3
        assert len({i for some in others for other in some.values() for i in other}) > N * 0.9

    def test_batch_at_and_resume_are_exact(self, photos: leat.Dataset) -> None:
        check_that_batches_come_again(lambda: loader(photos), NAMES)

    def test_the_plan_names_the_rows_own_sample(self, photos: leat.Dataset) -> None:
        made = loader(photos)
        for batch in made:
            assert list(made.plan(batch.epoch, batch.step)) == batch.ids.tolist()

    def test_a_broken_piece_breaks_the_row_and_is_named(self, tmp_path: Path) -> None:
        photos = write(tmp_path / "broken.leat", broken=(11,))
        made = {("image", "label"): [ops.Decode(), ops.Mosaic(8)]}
        with pytest.raises(leat.BrokenSampleError, match="sample 11"):
            list(loader(photos, made))
        good = rows_of_labels(loader(photos, made, on_error="skip"))
        clean = rows_of_labels(loader(write(tmp_path / "clean.leat"), made))
        assert good == {i: labels for i, labels in clean.items() if 11 not in labels}
        assert 0 < len(good) < N - 1

    def test_a_substitute_has_other_pieces(self, tmp_path: Path) -> None:
        photos = write(tmp_path / "broken.leat", broken=(3, 11))
        made = {("image", "label"): [ops.Decode(), ops.Mosaic(8), ops.PadTo(4)]}
        n = 0
        for batch in loader(photos, made, on_error="substitute"):
            n += batch.size
            assert not {3, 11} & set(batch["label"].ravel().tolist())
        assert n == N

    def test_data_sets_that_compute_their_values(self, photos: leat.Dataset) -> None:
        class Source:
            fields = {"image": "image", "boxes": leat.boxes("xyxy"), "label": leat.field("int64", (None,))}

            def __len__(self) -> int:
                return len(photos)

            def read(self, positions: Any) -> Any:
                return {name: [photos[int(i)][name] for i in positions] for name in self.fields}

        made = {("image", "boxes", "label"): [ops.Decode(), ops.Mosaic(8)]}
        a, b = (loader(d, made) for d in (photos, leat.from_source(Source())))
        for x, y in zip(a, b, strict=True):
            assert x.ids.tolist() == y.ids.tolist()
            np.testing.assert_array_equal(x["image"], y["image"])
            np.testing.assert_array_equal(x["boxes"].values, y["boxes"].values)
            np.testing.assert_array_equal(x["label"].values, y["label"].values)

    def test_a_folder_of_photos(self, tmp_path: Path) -> None:
        for i in range(6):
            (tmp_path / f"{i}.png").write_bytes(png(np.full((20, 30, 3), i + 1, np.uint8)))
        made = {"image": [ops.Decode(), ops.Mosaic(10)]}
        for batch in loader(leat.open(tmp_path), made, batch_size=3):
            for image in batch["image"]:
                assert len(set(np.unique(image)) - {114}) > 1


def rows_of_labels(batches: Any) -> dict[int, tuple[int, ...]]:
    return {i: tuple(b["label"][r].tolist()) for b in batches for r, i in enumerate(b.ids.tolist())}


class TestPrograms:
    def test_json(self, photos: leat.Dataset) -> None:
        again = leat.program_from_json(leat.program_to_json(outputs()))
        assert rows(loader(photos, again), NAMES) == rows(loader(photos), NAMES)

    @pytest.mark.parametrize(
        ("chain", "why"),
        [
            ([ops.Decode(), ops.Mosaic(8), ops.Mosaic(8)], "twice"),
            ([ops.Mosaic(8)], "Decode"),
            ([ops.Decode(), ops.ToDtype("float32"), ops.Mosaic(8)], "Mosaic"),
            ([ops.Decode(), ops.RandomIoUCrop(), ops.Mosaic(8)], "RandomIoUCrop .* stands before Mosaic"),
            ([ops.Decode(), ops.RandomApply([ops.RandomIoUCrop()]), ops.Mosaic(8)], "put it behind Mosaic"),
        ],
    )
    def test_what_does_not_fit_says_why(self, photos: leat.Dataset, chain: Any, why: str) -> None:
        with pytest.raises(TypeError, match=why):
            leat.Loader(photos, 4, outputs={("image", "boxes", "label"): chain})

    def test_arguments(self) -> None:
        for wrong in (lambda: ops.Mosaic(0), lambda: ops.Mosaic(8, 1.5), lambda: ops.Mosaic(20000)):
            with pytest.raises(ValueError):
                wrong()


@pytest.mark.parametrize("last", [[], [ops.SanitizeBoundingBoxes()]])
def test_it_can_end_before_the_last_epochs(photos: leat.Dataset, last: Any) -> None:
    chain = [ops.Decode(), ops.Mosaic(8).epochs(stop=2), ops.Resize((16, 16)), *last]
    made = loader(photos, {("image", "boxes", "label"): chain}, batch_size=N)
    most = [max(map(len, made.batch_at(epoch, 0)["label"])) for epoch in range(4)]
    assert most[:2] > [2, 2] and most[2:] == [1, 1]
    assert made.batch_at(3, 0)["image"].shape == (N, 3, 16, 16)
    labels = [b["label"][r].tolist() for b in made for r in range(b.size)]
    assert labels == [row.tolist() for row in made.batch_at(0, 0)["label"]]
