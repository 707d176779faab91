"""Programs in two parts: the head makes rows in pieces, anywhere; the tails make the batch of them. Together they give
the bytes of the whole program."""

from __future__ import annotations

import pickle
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from photo_support import png
from property_draws import EXAMPLES, Numbers, each

import leat
from leat.loading.batch import Batch, Form
from leat.loading.cutting import Cut, cut
from leat.program import entries, stacked
from leat.ray.parts import Assembling, made_of

ops = leat.ops
F = np.float32
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
SIZE = ops.RandomResizedCrop(16)
TUPLE = ("image", "boxes", "label", "mask")


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> leat.Dataset:
    path, rng = tmp_path_factory.mktemp("cut") / "a.leat", np.random.default_rng(0)
    fields = {"image": "image", "mask": leat.mask(), "boxes": leat.boxes(), "label": leat.field("int64", (None,))}
    fields |= {"y": "int64", "name": "str", "about": "json", "x": leat.field("bfloat16", (2,))}
    fields["tokens"] = leat.field("int32", (None,))
    torch = pytest.importorskip("torch")
    with leat.Writer(path, fields) as w:
        for i in range(23):
            h, wide, n = 20 + i % 5, 30 + i % 3, i % 4
            w.add(
                image=png(rng.integers(0, 256, (h, wide, 3)).astype(np.uint8)),
                mask=png(rng.integers(0, 9, (h, wide)).astype(np.uint8)),
                boxes=np.array([[1 + k, 2, 12 + k, 15] for k in range(n)], F).reshape(-1, 4),
                label=np.arange(n),
                y=i % 3,
                name="n" * (i % 4),
                about={"i": i},
                x=torch.tensor([i, -i], dtype=torch.bfloat16),
                tokens=np.arange(i, dtype=np.int32),
            )
    return leat.open(path)


def cut_batch(ds: leat.Dataset, outputs: Any, borders: list[int], step: int, framework: str, **options: Any) -> Batch:
    """A batch whose rows were made between these borders."""
    found: Cut = cut(outputs, ds.schema)
    loader = leat.Loader(ds, borders[-1], outputs=found.head, framework=framework, **options)
    parts = []
    for a, b in zip(borders, borders[1:]):
        made = leat.make_rows(loader.plan_rows(0, step, rows=(a, b)))
        parts.append(pickle.loads(pickle.dumps(made_of(made, b - a, "here"))))
    form = Form(framework)
    form.stacks = {} if outputs is None else stacked(outputs, ds.schema)
    assembled: Any = Assembling(found.tails, 1).batch(parts, 0, step)
    form.learn(assembled)
    return form.batch(assembled)


def flat(value: Any) -> Any:
    if isinstance(value, leat.Ragged):
        return [flat(value.values), flat(value.offsets)]
    if isinstance(value, list):
        return [flat(v) for v in value]
    if hasattr(value, "detach"):
        import torch

        bits = value.contiguous().view(torch.int16) if value.dtype is torch.bfloat16 else value
        return (str(value.dtype), value.stride(), bits.numpy().tobytes())
    if isinstance(value, np.ndarray):
        return (str(value.dtype), value.shape, value.strides, value.tobytes())
    return value


def assert_same(made: Batch, want: Batch, about: Any = "") -> None:
    assert list(made) == list(want), about
    assert made.errors == want.errors and (made.epoch, made.step, made.size) == (want.epoch, want.step, want.size)
    for name in ("ids", "row_keys", "valid", "domains"):
        assert flat(getattr(made, name)) == flat(getattr(want, name)), (name, about)
    for name in want:
        assert flat(made[name]) == flat(want[name]), f"output {name!r} of {about}"


PROGRAMS: dict[str, Any] = {
    "photos": {"image": [ops.Decode(), SIZE, ops.RandomHorizontalFlip(), ops.Normalize(MEAN, STD)], "y": []},
    "float16": {"image": [ops.Decode(), SIZE, ops.Normalize(MEAN, STD), ops.ToDtype("float16")]},
    "layout": {"image": [ops.Decode(), SIZE, ops.ToLayout("NHWC"), ops.Normalize(MEAN, STD)]},
    "layout early": {"image": [ops.Decode(), ops.ToLayout("NHWC"), SIZE, ops.Normalize(MEAN, STD)]},
    "channels last": {"image": [ops.Decode(), SIZE, ops.Normalize(MEAN, STD), ops.ToLayout("channels_last")]},
    "erasing": {"image": [ops.Decode(), ops.RandomErasing(), SIZE, ops.Normalize(MEAN, STD), ops.RandomErasing(0.7)]},
    "bytes": {"image": [ops.Decode(), SIZE], "y": [ops.ToDtype("float32")]},
    "geometry": {"image": leat.Out("image", [ops.Decode(), SIZE, ops.ToDtype("float32")], geometry=True)},
    "tuple": {TUPLE: [ops.Decode(), SIZE, ops.SanitizeBoundingBoxes(), ops.ToDtype("float32"), ops.PadTo(3)]},
    "tuple converted": {
        TUPLE: [ops.Decode(), SIZE, ops.ToDtype("float32"), ops.ConvertBoundingBoxFormat("cxcywh", normalized=True)]
    },
    "mixed": {("image", "y"): [ops.Decode(), SIZE, ops.Normalize(MEAN, STD), ops.MixUp(num_classes=3)]},
    "cut and mixed": {("image", "y"): [ops.Decode(), SIZE, ops.Normalize(MEAN, STD), ops.CutMix(num_classes=3)]},
    "open list": {"image": leat.Out("image", [ops.Decode(), ops.ToDtype("float32")], stack="list"), "name": []},
    "open padded": {"image": leat.Out("image", [ops.Decode(), ops.ToDtype("float32")], stack="pad")},
    "a size per batch": {
        "image": [ops.Decode(), ops.RandomResizedCrop(leat.PerBatch([(8, 8), (12, 12)])), ops.Normalize(MEAN, STD)]
    },
    "texts": {"name": [], "about": [], "tokens": [ops.ToDtype("int64")]},
    "tokens": {"tokens": [ops.ToDtype("int64"), ops.PadTo(30)]},
    "one crop for two": {
        "b": leat.Out("image", [ops.Decode(), SIZE, ops.Normalize(MEAN, STD)]),
        "a": leat.Out("image", [ops.Decode(), SIZE, ops.ToDtype("float32")]),
    },
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("framework", ["numpy", "torch"])
def test_a_cut_program_gives_the_bytes_of_the_whole_one(photos: leat.Dataset, name: str, framework: str) -> None:
    options = {"shuffle": True, "seed": 4}
    with leat.Loader(photos, 10, outputs=PROGRAMS[name], framework=framework, **options) as loader:
        for step, borders in ((0, [0, 10]), (1, [0, 1, 4, 10])):
            made = cut_batch(photos, PROGRAMS[name], borders, step, framework, **options)
            assert_same(made, loader.batch_at(0, step), name)


def test_every_field_travels_as_stored(photos: leat.Dataset) -> None:
    for framework in ("numpy", "torch"):
        ds = photos if framework == "torch" else photos
        names = [n for n in ds.schema if ds.schema[n].kind not in ("image",) and n != "mask"]
        outputs = {n: [] for n in names if framework == "torch" or n != "x"}
        with leat.Loader(ds, 7, outputs=outputs, framework=framework) as loader:
            assert_same(cut_batch(ds, outputs, [0, 3, 7], 1, framework), loader.batch_at(0, 1))


def test_what_travels_of_a_photo_is_bytes(photos: leat.Dataset) -> None:
    for name, dtype in (("photos", "uint8"), ("float16", "uint8"), ("tuple", "uint8"), ("mixed", "uint8")):
        found = cut(PROGRAMS[name], photos.schema)
        with leat.Loader(photos, 4, outputs=found.head, framework="numpy") as loader:
            batch = loader.batch_at(0, 0)
        assert batch["image"].dtype == dtype and batch["image"].shape == (4, 16, 16, 3)
        assert [type(op) for tail in found.tails for op in tail.chain][0] in (ops.Normalize, ops.ToDtype), name
    late_to_bytes = {"image": [ops.Decode(), SIZE, ops.ToDtype("float32"), ops.ToDtype("uint8")]}
    assert not cut(late_to_bytes, photos.schema).tails


@pytest.mark.parametrize("on_error", ["skip", "substitute"])
def test_rows_that_the_error_policy_touched_keep_their_places(tmp_path: Path, on_error: str) -> None:
    with leat.Writer(tmp_path / "a.leat", {"image": "image", "y": "int64"}, check=False) as w:
        for i in range(12):
            data = png(np.full((20, 20, 3), i, np.uint8))
            w.add(image=data[:60] if i in (1, 5, 6) else data, y=i % 3)
    ds = leat.open(tmp_path / "a.leat")
    for outputs in (PROGRAMS["photos"], PROGRAMS["mixed"]):
        with leat.Loader(ds, 12, outputs=outputs, framework="numpy", on_error=on_error) as loader:
            made = cut_batch(ds, outputs, [0, 3, 6, 12], 0, "numpy", on_error=on_error)
            assert_same(made, loader.batch_at(0, 0))
            assert len(made.errors) == 3
    if on_error == "skip":
        found = cut(PROGRAMS["photos"], ds.schema)
        with leat.Loader(ds, 12, outputs=found.head, framework="numpy", on_error=on_error) as loader:
            parts = [made_of(leat.make_rows(loader.plan_rows(0, 0, rows=(i, i + 1))), 1, "") for i in (5, 6)]
        none = Assembling(found.tails, 1).batch(parts, 0, 0)
        assert none.rows() == 0 and [error[:2] for error in none.errors()] == [(0, 5), (1, 6)]


def check_case(number: int, ds: leat.Dataset) -> None:
    rnd = random.Random(number)
    late: list[Any] = [
        ops.Normalize(MEAN, STD),
        ops.ToDtype(rnd.choice(["float32", "float16", "float64"])),
        ops.ToLayout(rnd.choice(["NHWC", "NCHW", "channels_last"])),
        ops.RandomErasing(rnd.choice([0.5, 1.0]), value=rnd.choice([0, "random"])),
        ops.RandomHorizontalFlip(),
        ops.ColorJitter(0.4),
        ops.PadTo(5),
        ops.SanitizeBoundingBoxes(),
    ]
    joint = rnd.random() < 0.5
    chain = [ops.Decode(), SIZE, *rnd.sample(late[: 8 if joint else 6], rnd.randrange(5))]
    outputs: Any = {("image", "boxes", "label") if joint else "image": chain}
    if rnd.random() < 0.3:
        outputs["second"] = leat.Out(
            "image", [ops.Decode(), *rnd.sample(chain[2:], len(chain) - 2), ops.Resize((9, 9))]
        )
    borders = sorted({0, 9, *rnd.sample(range(1, 9), rnd.randrange(4))})
    try:
        loader = leat.Loader(ds, 9, outputs=outputs, framework="numpy", seed=number)
        want = loader.batch_at(0, 0)
    except (leat.ProgramError, ValueError, leat.BrokenSampleError):
        return
    with loader:
        assert_same(cut_batch(ds, outputs, borders, 0, "numpy", seed=number), want, f"case {number}: {outputs}")
        assert entries(outputs)


@EXAMPLES
def test_any_end_of_a_chain_may_run_late(numbers: Numbers, photos: leat.Dataset) -> None:
    each(numbers(150), lambda number: check_case(number, photos))
