"""MixUp and CutMix: batches equal a slow reference in NumPy, for any threads, ranks and cut points."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import leat
from leat import ops

F = np.float32
N, CLASSES = 37, 5
OUT = ("image", "label")
Array = np.ndarray[Any, Any]


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> leat.Dataset:
    path = tmp_path_factory.mktemp("mix") / "a.leat"
    rng = np.random.default_rng(1)
    fields: dict[str, Any] = {
        "image": "image",
        "pixels": leat.field("uint8", (6, 10, 3), layout="HWC"),
        "label": "int64",
        "soft": leat.field("float32", (CLASSES,)),
        "other": "int32",
    }
    with leat.Writer(path, fields) as w:
        for i in range(N):
            out, pixels = io.BytesIO(), rng.integers(0, 256, (6, 10, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(out, "PNG")
            soft = rng.random(CLASSES, F)
            w.add(image=out.getvalue(), pixels=pixels, label=i % CLASSES, soft=soft, other=i)
    return leat.open(path)


def plain(*last: ops.Operator, layout: str | None = None) -> list[ops.Operator]:
    end: list[ops.Operator] = [ops.ToLayout(layout)] if layout else []
    return [ops.Decode(), ops.Resize((6, 10)), ops.ToDtype("float32"), ops.RandomHorizontalFlip(), *end, *last]


def before(rows: Array) -> Array:
    return np.roll(rows, 1, 0)


def blend(rows: Array, share: float, rest: float | None = None) -> Array:
    """As torch computes ``rows.roll(1, 0) * (1 - share) + rows * share`` in float32."""
    made: Array = before(rows) * F(1 - share if rest is None else rest) + rows * F(share)
    return made


def one_hot(labels: Array) -> Array:
    made: Array = np.eye(CLASSES, dtype=F)[labels]
    return made


def share_of(labels: Array, mixed: Array) -> tuple[float, float]:
    """The share by which labels were mixed, and what is left of 1, as a row of two classes has them."""
    differs = next(i for i in range(len(labels)) if labels[i] != labels[i - 1])
    return float(mixed[differs, labels[differs]]), float(mixed[differs, labels[differs - 1]])


def batches(
    ds: leat.Dataset, chain: list[ops.Operator], fields: tuple[str, ...] = OUT, size: int = 8, **options: Any
) -> list[Any]:
    run = leat.Loader(ds, size, outputs={fields: chain}, framework="numpy", **{"seed": 5, "shuffle": True, **options})
    return list(run)


@pytest.mark.parametrize("alpha", [0.2, 1.0, 4.0])
def test_each_row_is_mixed_with_the_one_before_it(stored: leat.Dataset, alpha: float) -> None:
    shares = []
    for a, b in zip(
        batches(stored, plain()), batches(stored, plain(ops.MixUp(alpha=alpha, num_classes=CLASSES))), strict=True
    ):
        share = share_of(a["label"], b["label"])
        shares.append(share)
        assert 0 <= share[0] <= 1 and b["label"].dtype == np.float32
        np.testing.assert_array_equal(b["image"], blend(a["image"], *share))
        np.testing.assert_allclose(b["label"], blend(one_hot(a["label"]), *share), atol=1e-7)
        assert (a.ids == b.ids).all()
    assert len(set(shares)) == len(shares)


def test_cutmix_puts_a_box_of_the_row_before_it_into_each_row(stored: leat.Dataset) -> None:
    areas = set()
    for layout in ("NCHW", "NHWC", "channels_last"):
        for epoch in range(4):
            chains = (plain(layout=layout), plain(ops.CutMix(num_classes=CLASSES), layout=layout))
            for a, b in zip(*(batches(stored, chain, seed=epoch) for chain in chains), strict=True):
                old, new = (x["image"] if layout != "NHWC" else x["image"].transpose(0, 3, 1, 2) for x in (a, b))
                moved = (new != old).any((0, 1))
                if moved.any():
                    rows, columns = np.flatnonzero(moved.any(1)), np.flatnonzero(moved.any(0))
                    box = (slice(None), slice(None), slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1))
                    np.testing.assert_array_equal(new[box], before(old)[box])
                    area = len(range(*box[2].indices(6))) * len(range(*box[3].indices(10)))
                else:
                    area = 0
                areas.add(area)
                np.testing.assert_allclose(b["label"], blend(one_hot(a["label"]), 1 - area / 60), atol=1e-6)
    assert len(areas) > 10


def cut_shares(alpha: float, n: int) -> Array:
    """What a box leaves of an image of 6 x 10, as torchvision draws it."""
    rng = np.random.default_rng(0)
    x, y, half = rng.integers(0, 10, n), rng.integers(0, 6, n), 0.5 * np.sqrt(1 - rng.beta(alpha, alpha, n))
    wide, high = (half * 10).astype(int), (half * 6).astype(int)
    across = np.minimum(x + wide, 10) - np.maximum(x - wide, 0)
    down = np.minimum(y + high, 6) - np.maximum(y - high, 0)
    made: Array = 1 - across * down / 60
    return made


def test_boxes_of_cutmix_are_as_large_as_torchvisions(stored: leat.Dataset) -> None:
    chain = plain(ops.CutMix(alpha=0.7, num_classes=CLASSES))
    run = leat.Loader(stored, 4, outputs={("image", "label"): chain, "other": []}, framework="numpy", shuffle=True)
    shares = []
    while len(shares) < 900:
        for batch in run:
            labels = batch["other"] % CLASSES
            if len(set(labels.tolist())) > 1:
                shares.append(share_of(labels, batch["label"])[0])
    levels = np.sort(np.array(shares))

    def distance(alpha: float) -> float:
        """Kolmogorov's and Smirnov's, from a large sample."""
        want = np.sort(cut_shares(alpha, 200_000))
        at = np.linspace(0, 1, 200) + 1e-6
        gap = np.searchsorted(levels, at) / len(levels) - np.searchsorted(want, at) / len(want)
        return float(np.abs(gap).max() * np.sqrt(len(levels)))

    assert distance(0.7) < 1.63 < distance(3.0)


def test_integers_are_cut_and_not_blended(stored: leat.Dataset) -> None:
    chain = [ops.Decode(), ops.Resize((6, 10))]
    (cut,) = batches(stored, [*chain, ops.CutMix(num_classes=CLASSES)], size=N)
    assert cut["image"].dtype == np.uint8
    with pytest.raises(
        leat.ProgramError, match=r'MixUp .* mixes images as floats: put ToDtype\("float32"\) or Normalize'
    ):
        batches(stored, [*chain, ops.MixUp(num_classes=CLASSES)])


def test_mixed_batches_are_the_same_for_any_threads_and_cut_points(stored: leat.Dataset) -> None:
    chain = plain(ops.MixUp(num_classes=CLASSES), ops.CutMix(num_classes=CLASSES))
    wanted = batches(stored, chain, num_threads=1)
    for threads in (2, 4):
        for a, b in zip(batches(stored, chain, num_threads=threads), wanted, strict=True):
            assert all((a[name] == b[name]).all() for name in OUT)
    for cut in range(1, len(wanted)):
        run = leat.Loader(stored, 8, True, outputs={OUT: chain}, framework="numpy", seed=5)
        for _, _ in zip(range(cut), run, strict=False):
            pass
        again = leat.Loader(stored, 8, True, outputs={OUT: chain}, framework="numpy", seed=5)
        again.load_state_dict(run.state_dict())
        for a, b in zip(again, wanted[cut:], strict=True):
            assert all((a[name] == b[name]).all() for name in OUT)
        assert (run.batch_at(0, cut)["image"] == wanted[cut]["image"]).all()


def test_ranks_mix_their_own_rows_by_the_key_of_their_first(stored: leat.Dataset) -> None:
    chain = plain(ops.MixUp(num_classes=CLASSES))
    for rank in range(2):
        options: Any = {"rank": rank, "world_size": 2, "size": 4}
        for a, b in zip(batches(stored, plain(), **options), batches(stored, chain, **options), strict=True):
            np.testing.assert_array_equal(b["image"], blend(a["image"], *share_of(a["label"], b["label"])))
    whole, parts = batches(stored, chain, size=8), batches(stored, chain, size=4, rank=0, world_size=2)
    for a, b in zip(whole, parts, strict=True):  # rank 0's first row is the batch's: one share
        assert a.row_keys[0] == b.row_keys[0]
        np.testing.assert_array_equal(a["image"][1 : b.size], b["image"][1:])


def test_out_of_order_a_batch_is_mixed_as_it_is_handed_out(stored: leat.Dataset, tmp_path: Path) -> None:
    chain = plain(ops.MixUp(num_classes=CLASSES))
    rows = {int(i): row for b in batches(stored, plain(), size=N) for i, row in zip(b.ids, b["image"], strict=True)}
    labels = {
        int(i): int(row) for b in batches(stored, plain(), size=N) for i, row in zip(b.ids, b["label"], strict=True)
    }
    run = leat.Loader(
        stored, 6, True, outputs={OUT: chain}, framework="numpy", seed=5, in_order=False, log_dir=tmp_path / "log"
    )
    for step, b in enumerate(run):
        own = np.array([labels[int(i)] for i in b.ids])
        share = share_of(own, b["label"]) if len(set(own.tolist())) > 1 else None
        if share is not None:
            np.testing.assert_array_equal(b["image"], blend(np.stack([rows[int(i)] for i in b.ids]), *share))
        assert (run.batch_at(0, step)["image"] == b["image"]).all()


def test_rows_that_are_left_out_are_not_mixed(tmp_path: Path) -> None:
    with leat.Writer(
        tmp_path / "a.leat", {"pixels": leat.field("float32", (2, 2, 1), layout="HWC"), "label": "int64"}
    ) as w:
        for i in range(8):
            w.add(pixels=np.full((2, 2, 1), i, F), label=99 if i == 3 else i % 3)
    ds = leat.open(tmp_path / "a.leat")
    chain = [ops.MixUp(num_classes=3)]
    with pytest.raises(leat.BrokenSampleError, match="the label 99 is none of the 3 classes"):
        batches(ds, chain, ("pixels", "label"), shuffle=False)
    (b,) = batches(ds, chain, ("pixels", "label"), shuffle=False, on_error="skip")
    own = np.array([0, 1, 2, 4, 5, 6, 7])
    assert b.ids.tolist() == own.tolist()
    share = share_of(own % 3, b["label"])
    np.testing.assert_array_equal(b["pixels"][:, 0, 0, 0], blend(own.astype(F), *share))
    (b,) = batches(ds, chain, ("pixels", "label"), shuffle=False, on_error="substitute")
    assert len(b["label"]) == 8 and b.errors[0].planned == 3
    np.testing.assert_allclose(b["label"].sum(1), 1, atol=1e-6)


def test_labels_that_are_vectors_are_mixed_as_they_are(stored: leat.Dataset) -> None:
    fields = ("image", "soft", "other")
    for a, b in zip(
        batches(stored, plain(), fields), batches(stored, plain(ops.MixUp(labels_getter="soft")), fields), strict=True
    ):
        share = (b["image"].ravel()[0] - before(a["image"]).ravel()[0]) / (a["image"] - before(a["image"])).ravel()[0]
        np.testing.assert_allclose(b["soft"], blend(a["soft"], share), atol=2e-4)
        assert (a["other"] == b["other"]).all()


def test_a_stored_array_is_an_image_too(stored: leat.Dataset) -> None:
    chain: list[ops.Operator] = [ops.ToDtype("float32")]
    for a, b in zip(
        batches(stored, chain, ("pixels", "label")),
        batches(stored, [*chain, ops.MixUp(num_classes=CLASSES)], ("pixels", "label")),
        strict=True,
    ):
        np.testing.assert_array_equal(b["pixels"], blend(a["pixels"], *share_of(a["label"], b["label"])))


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_other_floats_are_mixed(stored: leat.Dataset, dtype: str) -> None:
    chain = [ops.Decode(), ops.Resize((6, 10)), ops.ToDtype(dtype)]
    for a, b in zip(batches(stored, chain), batches(stored, [*chain, ops.MixUp(num_classes=CLASSES)]), strict=True):
        share, _ = share_of(a["label"], b["label"])
        x = a["image"].astype(np.float64)
        assert b["image"].dtype == dtype
        np.testing.assert_allclose(
            b["image"], before(x) * (1 - share) + x * share, atol=1e-3 if dtype == "float16" else 1e-6
        )


@pytest.mark.parametrize(
    ("fields", "last", "words"),
    [
        (("image",), [ops.MixUp(num_classes=3)], "needs an image and a label"),
        (("image", "label"), [ops.MixUp()], "needs num_classes"),
        (("image", "soft"), [ops.MixUp(num_classes=3)], "another num_classes"),
        (("image", "label", "other"), [ops.MixUp(num_classes=3)], "several labels"),
        (("image", "label"), [ops.MixUp(num_classes=3), ops.ToLayout("NHWC")], "behind an operator on whole batches"),
    ],
)
def test_what_cannot_be_mixed_says_why(
    stored: leat.Dataset, fields: tuple[str, ...], last: list[ops.Operator], words: str
) -> None:
    with pytest.raises(leat.ProgramError, match=words):
        batches(stored, plain(*last), fields)


def test_the_label_can_be_named(stored: leat.Dataset) -> None:
    chain = plain(ops.MixUp(num_classes=CLASSES, labels_getter="label"))
    for a, b in zip(batches(stored, plain(), (*OUT, "other")), batches(stored, chain, (*OUT, "other")), strict=True):
        assert b["label"].shape == (a.size, CLASSES) and (a["other"] == b["other"]).all()
