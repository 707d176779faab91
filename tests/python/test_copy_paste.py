"""CopyPaste: objects of another sample on a row's own image, and what is left of those below.

Each sample has three rectangles, of colors that name sample and object, on a ground of a color that names the sample.
So a row is read off its pixels, and the reference makes it again from the definition.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gather_support import (
    OPTIONS,
    Array,
    check_that_batches_come_again,
    check_that_nothing_changes_rows,
    extent,
    rows,
)
from photo_support import png

import leat
from leat import ops

N, SIDE, OBJECTS = 30, 48, 3
NAMES = ("image", "boxes", "masks", "label", "points", "ids", "number")
GOLDEN = [[63, 64, 65, 79, 80], [48, 49, 50, 10, 11], [60, 61, 62, 82, 83]]


def rectangles(i: int) -> Array:
    rng = np.random.default_rng(100 + i)
    corners = rng.integers(0, SIDE - 18, (OBJECTS, 2))
    return np.concatenate([corners, corners + rng.integers(6, 18, (OBJECTS, 2))], 1)


def sample(i: int) -> tuple[Array, list[Array]]:
    """The color 2 + number of the object, 150 + i the ground; masks of the objects, later ones on top."""
    image, masks = np.full((SIDE, SIDE), 150 + i, np.uint8), []
    for k, (x0, y0, x1, y1) in enumerate(rectangles(i)):
        image[y0:y1, x0:x1] = 2 + i * OBJECTS + k
        masks.append(np.zeros((SIDE, SIDE), np.uint8))
        masks[-1][y0:y1, x0:x1] = 1
    return image, masks


def write(path: Path, broken: tuple[int, ...] = (), n: int = N) -> leat.Dataset:
    fields = {
        "image": "image",
        "boxes": leat.boxes("xyxy"),
        "masks": leat.masks(),
        "label": leat.field("int64", (None,)),
        "points": leat.keypoints(1),
        "ids": leat.mask(),
        "number": leat.field("int64"),
    }
    with leat.Writer(path, fields) as w:
        for i in range(n):
            image, masks = sample(i)
            boxes = rectangles(i).astype(np.float32)
            points = np.concatenate([boxes[:, :2], np.full((OBJECTS, 1), 2, np.float32)], 1)[:, None]
            shapes = [np.zeros((3, 4), np.uint8)] * OBJECTS if i in broken else masks
            w.add(
                image=png(np.stack([image] * 3, 2)),
                boxes=boxes,
                masks=shapes,
                label=i * OBJECTS + np.arange(OBJECTS),
                points=points,
                ids=png(image),
                number=i,
            )
    return leat.open(path)


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> leat.Dataset:
    return write(tmp_path_factory.mktemp("paste") / "a.leat")


def loader(photos: leat.Dataset, *more: Any, op: Any = None, before: Any = (), **options: Any) -> leat.Loader:
    chain = [ops.Decode(), ops.Resize((SIDE, SIDE)), *before, op or ops.CopyPaste(), *more]
    return leat.Loader(photos, outputs={NAMES: chain}, **OPTIONS | options)


def reference(own: int, chosen: list[int], min_area: int = 1) -> tuple[Array, list[Array], list[list[int]], list[int]]:
    """Image, masks, boxes and labels of a row, of whose other sample the objects with these labels are pasted."""
    image, masks = sample(own)
    cover = np.zeros((SIDE, SIDE), bool)
    pasted = []
    for label in chosen:
        mask = sample(label // OBJECTS)[1][label % OBJECTS]
        if mask.sum() >= min_area:
            pasted.append((label, mask))
            cover |= mask > 0
            image = np.where(mask > 0, sample(label // OBJECTS)[0], image)
    made = []
    for k, mask in enumerate(masks):
        left = np.where(cover, 0, mask)
        if (left == mask).all():
            made.append((own * OBJECTS + k, mask, rectangles(own)[k].tolist()))
        elif left.sum() >= min_area:
            made.append((own * OBJECTS + k, left, extent(left)))
    made += [(label, mask, rectangles(label // OBJECTS)[label % OBJECTS].tolist()) for label, mask in pasted]
    return image, [m for _, m, _ in made], [b for _, _, b in made], [label for label, _, _ in made]


class TestPicture:
    @pytest.mark.parametrize("min_area", [1, 60])
    def test_rows_are_what_the_definition_makes(self, photos: leat.Dataset, min_area: int) -> None:
        covered = hidden = 0
        for epoch in range(3):
            for batch in [loader(photos, op=ops.CopyPaste(min_area=min_area)).batch_at(epoch, s) for s in range(6)]:
                for r, own in enumerate(batch.ids.tolist()):
                    labels = batch["label"][r].tolist()
                    chosen = [label for label in labels if label // OBJECTS != own]
                    image, masks, boxes, want = reference(own, chosen, min_area)
                    assert len({label // OBJECTS for label in chosen}) <= 1 and batch["number"][r] == own
                    assert labels == want
                    for plane in batch["image"][r]:
                        np.testing.assert_array_equal(plane, image)
                    np.testing.assert_array_equal(batch["ids"][r], image)
                    np.testing.assert_array_equal(batch["masks"][r], np.array(masks))
                    np.testing.assert_array_equal(batch["boxes"][r], np.array(boxes, np.float32))
                    corners = [rectangles(label // OBJECTS)[label % OBJECTS][:2] for label in labels]
                    np.testing.assert_array_equal(batch["points"][r][:, 0, :2], np.array(corners, np.float32))
                    hidden += OBJECTS - sum(label // OBJECTS == own for label in labels)
                    covered += (
                        np.array(masks).sum((1, 2))
                        < [
                            np.prod(c[2:] - c[:2])
                            for c in [rectangles(label // OBJECTS)[label % OBJECTS] for label in labels]
                        ]
                    ).sum()
        assert covered > 10 and (min_area == 1 or hidden > 3)

    def test_objects_are_chosen_as_n_draws_with_returns_choose_them(self, photos: leat.Dataset) -> None:
        sizes, which = np.zeros(OBJECTS + 1), np.zeros(OBJECTS)
        for epoch in range(20):
            batch = loader(photos, batch_size=N).batch_at(epoch, 0)
            for own, labels in zip(batch.ids.tolist(), batch["label"], strict=True):
                chosen = [int(v) for v in labels if v // OBJECTS != own]
                sizes[len(chosen)] += 1
                which[[v % OBJECTS for v in chosen]] += 1
        assert sizes[0] == 0
        # one of three alike: 3 in 27; two: 18 in 27; three: 6 in 27
        expected = np.array([3, 18, 6]) / 27 * sizes.sum()
        assert ((sizes[1:] - expected) ** 2 / expected).sum() < 16
        assert ((which - which.mean()) ** 2 / which.mean()).sum() < 16

    def test_how_often(self, photos: leat.Dataset) -> None:
        pasted = plain = 0
        for epoch in range(10):
            batch = loader(photos, op=ops.CopyPaste(0.3), batch_size=N).batch_at(epoch, 0)
            for r, own in enumerate(batch.ids.tolist()):
                other = any(v // OBJECTS != own for v in batch["label"][r].tolist())
                pasted += other
                if not other:
                    plain += 1
                    np.testing.assert_array_equal(batch["image"][r][0], sample(own)[0])
                    np.testing.assert_array_equal(batch["boxes"][r], rectangles(own))
        assert 60 < pasted < 120 and plain == 10 * N - pasted

    def test_blending_blurs_the_edges_of_what_is_pasted_and_no_mask(self, photos: leat.Dataset) -> None:
        hard = loader(photos, batch_size=N).batch_at(0, 0)
        soft = loader(photos, op=ops.CopyPaste(blending=True), batch_size=N).batch_at(0, 0)
        for name in NAMES[1:]:
            assert all(np.array_equal(a, b) for a, b in zip(hard[name], soft[name], strict=True))
        weights = np.exp(-(np.arange(-2, 3) ** 2) / 8.0)
        weights /= weights.sum()
        for r, own in enumerate(hard.ids.tolist()):
            chosen = [v for v in hard["label"][r].tolist() if v // OBJECTS != own]
            other = chosen[0] // OBJECTS
            cover = np.max([sample(other)[1][v % OBJECTS] for v in chosen], 0).astype(float)
            alpha = np.pad(cover, 2, "reflect")
            alpha = sum(w * alpha[:, k : k + SIDE] for k, w in enumerate(weights))
            alpha = sum(w * alpha[k : k + SIDE] for k, w in enumerate(weights))
            want = sample(own)[0] * (1 - alpha) + sample(other)[0] * alpha
            assert abs(soft["image"][r][0] - want).max() <= 2
        assert (hard["image"] != soft["image"]).any((1, 2, 3)).all()

    def test_operators_before_draw_for_each_and_those_behind_move_all(self, photos: leat.Dataset) -> None:
        flip, crop = ops.RandomHorizontalFlip(), ops.RandomCrop(40)
        made = loader(photos, ops.RandomVerticalFlip(1.0), before=[flip, crop], batch_size=N)
        mixed = 0
        for batch in [made.batch_at(epoch, 0) for epoch in range(3)]:
            for r, own in enumerate(batch.ids.tolist()):
                shown = batch["image"][r][0]
                for mask, label, box in zip(
                    batch["masks"][r], batch["label"][r].tolist(), batch["boxes"][r], strict=True
                ):
                    if not mask.any():
                        continue
                    # its color, or that of an object of its sample that lies above it
                    above = [2 + v for v in range(label + 1, (label // OBJECTS + 1) * OBJECTS)]
                    assert np.isin(shown[mask > 0], [2 + label, *above]).all()
                    assert abs(np.array(extent(mask)) - box).max() <= 1
                ground = set(np.unique(shown)) & set(range(150, 150 + N))
                assert ground <= {150 + own, *(150 + v // OBJECTS for v in batch["label"][r].tolist())}
                mixed += len({v // OBJECTS for v in batch["label"][r].tolist()}) == 2
        assert mixed > 60

    def test_a_stack_of_masks_and_padded_ones(self, photos: leat.Dataset) -> None:
        chain = [ops.Decode(), ops.Resize((SIDE, SIDE)), ops.CopyPaste()]
        plain = loader(photos).batch_at(0, 0)
        options = {"shuffle": True, "seed": 7, "framework": "numpy"}
        out = {NAMES: leat.Out(NAMES, chain, stack="list")}
        listed = leat.Loader(photos, 5, outputs=out, **options).batch_at(0, 0)
        padded = loader(photos, ops.PadTo(8)).batch_at(0, 0)
        for r in range(5):
            np.testing.assert_array_equal(listed["masks"][r], plain["masks"][r])
            n = len(plain["masks"][r])
            np.testing.assert_array_equal(padded["masks"][r][:n], plain["masks"][r])
            assert not padded["masks"][r][n:].any()


class TestPromises:
    def test_rows_are_the_same_for_any_threads_order_and_ranks(self, photos: leat.Dataset) -> None:
        before = [ops.RandomHorizontalFlip(), ops.RandomCrop(40)]
        check_that_nothing_changes_rows(lambda **options: loader(photos, before=before, **options), NAMES, N)

    def test_which_objects_is_settled_for_good(self, photos: leat.Dataset) -> None:
        batch = loader(photos, batch_size=3).batch_at(0, 0)
        assert [row.tolist() for row in batch["label"]] == GOLDEN

    def test_batch_at_and_resume_are_exact(self, photos: leat.Dataset) -> None:
        check_that_batches_come_again(lambda: loader(photos), NAMES)

    def test_a_broken_mask_of_either_sample_breaks_the_row_and_is_named(self, tmp_path: Path) -> None:
        photos = write(tmp_path / "broken.leat", broken=(11,))
        with pytest.raises(leat.BrokenSampleError, match="sample 11"):
            list(loader(photos))
        good, clean = (
            rows(made, NAMES) for made in (loader(photos, on_error="skip"), loader(write(tmp_path / "clean.leat")))
        )
        assert good == {i: row for i, row in clean.items() if i in good}
        assert 0 < len(good) < N - 1 and 11 not in good

    def test_samples_without_objects(self, tmp_path: Path) -> None:
        fields = {"image": "image", "boxes": leat.boxes(), "masks": leat.masks()}
        with leat.Writer(tmp_path / "a.leat", fields) as w:
            for i in range(8):
                masks = [np.ones((9, 9))] * (i % 2)
                boxes = np.array([[0, 0, 9, 9]] * (i % 2), np.float32).reshape(-1, 4)
                w.add(image=png(np.full((9, 9, 3), i, np.uint8)), boxes=boxes, masks=masks)
        outputs = {tuple(fields): [ops.Decode(), ops.Resize((9, 9)), ops.CopyPaste()]}
        for batch in leat.Loader(leat.open(tmp_path / "a.leat"), 3, outputs=outputs, framework="numpy"):
            for r, own in enumerate(batch.ids.tolist()):
                color = int(batch["image"][r][0, 0, 0])
                assert (batch["image"][r] == color).all() and len(batch["boxes"][r]) in (0, 1)
                assert color == own or color % 2 == 1
                assert len(batch["boxes"][r]) == len(batch["masks"][r]) == (color % 2)


class TestPrograms:
    def test_json(self, photos: leat.Dataset) -> None:
        chain = {NAMES: [ops.Decode(), ops.Resize((SIDE, SIDE)), ops.CopyPaste(0.5, 9, True)]}
        again = leat.program_from_json(leat.program_to_json(chain))
        a, b = (rows(leat.Loader(photos, outputs=made, **OPTIONS), NAMES) for made in (chain, again))
        assert a == b

    def test_it_can_end_before_the_last_epochs(self, photos: leat.Dataset) -> None:
        made = loader(photos, op=ops.CopyPaste().epochs(stop=2), batch_size=N)
        pasted = [sum(len(set(v // OBJECTS)) > 1 for v in made.batch_at(e, 0)["label"]) for e in range(4)]
        assert pasted == [N, N, 0, 0]

    def test_it_can_have_other_epochs_than_a_mosaic(self, photos: leat.Dataset) -> None:
        early, late = ops.Mosaic(SIDE).epochs(stop=1), ops.CopyPaste().epochs(1)
        chain = [ops.Decode(), early, ops.Resize((SIDE, SIDE)), late]
        made = leat.Loader(photos, outputs={NAMES: chain}, **OPTIONS)
        for epoch, most in ((0, 4), (1, 2), (2, 2)):
            kinds = [len(set(labels // OBJECTS)) for labels in made.batch_at(epoch, 0)["label"]]
            assert max(kinds) == most

    def test_a_crop_behind_it_is_drawn_by_the_boxes_of_both(self, photos: leat.Dataset) -> None:
        more = [ops.RandomIoUCrop(0.4), ops.SanitizeBoundingBoxes(), ops.Resize((SIDE, SIDE))]
        many = []
        for batch in loader(photos, *more, batch_size=N):
            for r in range(N):
                for label, mask, box in zip(batch["label"][r], batch["masks"][r], batch["boxes"][r], strict=True):
                    if mask.any():  # a mask that is covered in part may be seen in less than its box
                        x0, y0, x1, y1 = np.array(extent(mask)) - box
                        assert x0 > -2 and y0 > -2 and x1 < 2 and y1 < 2
                        assert (abs(batch["image"][r][0][mask > 0].astype(int) - (2 + label)) <= 1).mean() > 0.3
                many.append(len(batch["label"][r]))
        assert min(many) < max(many)

    @pytest.mark.parametrize(
        ("names", "chain", "why"),
        [
            (NAMES, [ops.Decode(), ops.CopyPaste()], "images of one size"),
            (NAMES, [ops.Decode(), ops.Resize((9, 9)), ops.CopyPaste(), ops.CopyPaste()], "twice"),
            (("image", "boxes", "label"), [ops.Decode(), ops.Resize((9, 9)), ops.CopyPaste()], r"leat.masks\(\)"),
            (("image", "masks", "label"), [ops.Decode(), ops.Resize((9, 9)), ops.CopyPaste()], "one field of boxes"),
            (
                NAMES,
                [ops.Decode(), ops.RandomIoUCrop(), ops.Resize((9, 9)), ops.CopyPaste()],
                r"RandomIoUCrop .* stands before CopyPaste.*RandomIoUCrop\(\).epochs\(stop=10\)",
            ),
            (
                NAMES,
                [ops.Decode(), ops.Mosaic(8), ops.CopyPaste()],
                r"CopyPaste .* cannot stand behind Mosaic.*Mosaic\(...\).epochs\(stop=10\)",
            ),
            (
                NAMES,
                [ops.Decode(), ops.Resize((9, 9)), ops.CopyPaste(), ops.Mosaic(8)],
                "cannot stand behind CopyPaste",
            ),
        ],
    )
    def test_what_does_not_fit_says_why(self, photos: leat.Dataset, names: Any, chain: Any, why: str) -> None:
        with pytest.raises(TypeError, match=why):
            leat.Loader(photos, 4, outputs={names: chain})

    def test_arguments(self) -> None:
        for wrong in (lambda: ops.CopyPaste(1.5), lambda: ops.CopyPaste(min_area=0)):
            with pytest.raises(ValueError):
                wrong()


def test_arguments_are_named_where_they_are_wrong() -> None:
    for make, said in (
        (lambda: ops.CopyPaste(min_area=1.5), "min_area is an integer, not 1.5"),  # type: ignore[arg-type]
        (lambda: ops.CopyPaste(blending="no"), "blending is True or False, not 'no'"),  # type: ignore[arg-type]
        (
            lambda: ops.Mosaic(64.0),  # type: ignore[arg-type]
            "size, the longer side of each image, is an integer, not 64.0",
        ),
        (
            lambda: ops.Mosaic((64, 64)),  # type: ignore[arg-type]
            r"size, the longer side of each image, is an integer, not \(64, 64\)",
        ),
    ):
        with pytest.raises(TypeError, match=said):
            make()
    for make in (lambda: ops.CopyPaste(min_area=0), lambda: ops.Mosaic(16384)):
        with pytest.raises(ValueError, match="is 1 or above and below"):
            make()
    for true in (True, np.True_, 1):
        assert ops.CopyPaste(blending=true) == ops.CopyPaste(blending=True)  # type: ignore[arg-type]
