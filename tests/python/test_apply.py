"""leat.apply: a program on samples in memory gives what a loader gives for rows with the same keys."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import leat
from leat import ops

N = 24
CROP = {"image": [ops.Decode(), ops.RandomResizedCrop(20), ops.RandomHorizontalFlip()]}


@pytest.fixture(scope="module")
def pictures(jpeg: Callable[..., bytes]) -> list[bytes]:
    return [jpeg(40 + 3 * i, 60 - i, seed=i) for i in range(N)]


@pytest.fixture(scope="module")
def targets(tmp_path_factory: pytest.TempPathFactory, pictures: list[bytes]) -> dict[str, list[Any]]:
    """Samples of each kind of value; boxes of sample i are i % 4."""
    rng = np.random.default_rng(4)
    corners = [np.sort(rng.uniform(0, 36, (i % 4, 2, 2)).astype("float32"), axis=1).reshape(-1, 4) for i in range(N)]
    return {
        "image": pictures,
        "boxes": corners,
        "label": list(range(N)),
        "tokens": [rng.integers(0, 900, 1 + i % 7).astype("uint16") for i in range(N)],
        "text": [f"größe {i}" for i in range(N)],
        "meta": [{"i": i} for i in range(N)],
        "vector": list(rng.normal(size=(N, 5)).astype("float32")),
    }


SCHEMA = {
    "image": "image",
    "boxes": leat.boxes("xyxy"),
    "label": "int64",
    "tokens": leat.field("uint16", (None,)),
    "text": "str",
    "meta": "json",
    "vector": leat.field("float32", (5,)),
}


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory, targets: dict[str, list[Any]]) -> leat.Dataset:
    path = tmp_path_factory.mktemp("apply") / "all.leat"
    with leat.Writer(path, SCHEMA) as w:
        for i in range(N):
            w.add(**{name: values[i] for name, values in targets.items()})
    return leat.open(path)


def plain(value: Any) -> Any:
    if isinstance(value, leat.Ragged):
        return (value.values.tolist(), value.offsets.tolist())
    if isinstance(value, list):
        return [plain(each) for each in value]
    return (value.tolist(), str(value.dtype), value.shape) if isinstance(value, np.ndarray) else value


def doubled(x: Any) -> Any:
    return 2 * x + leat.rng().integers(100)


PROGRAMS: dict[str, Mapping[Any, Any]] = {
    "photos": CROP,
    "photos, normalised, and stored values": {
        "image": [ops.Decode(), ops.RandomResizedCrop(16), ops.Normalize((0.5,) * 3, (0.2,) * 3)],
        "label": [],
        "vector": [ops.ToDtype("float16")],
    },
    "two of one photo": {"a": leat.Out("image", CROP["image"]), "b": leat.Out("image", CROP["image"])},
    "ragged, text and json": {"tokens": [ops.ToDtype("int64")], "text": [], "meta": []},
    "photos with boxes": {
        ("image", "boxes"): [
            ops.Decode(),
            ops.RandomResizedCrop(24),
            ops.SanitizeBoundingBoxes(),
            ops.RandomHorizontalFlip(),
        ]
    },
    "images of open size": {"image": leat.Out("image", [ops.Decode(), ops.RandomSizeCrop(8, 30)], stack="list")},
    "padded images": {"image": leat.Out("image", [ops.Decode()], stack="pad")},
    "the batch as a whole": {
        ("image", "label"): [ops.Decode(), ops.Resize((16, 16)), ops.ToDtype("float32"), ops.MixUp(num_classes=N)]
    },
    "functions": {"vector": [ops.Map(doubled)]},
}


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("num_threads", [1, 3])
def test_its_values_are_those_of_a_loader(
    program: str, num_threads: int, packed: leat.Dataset, targets: dict[str, list[Any]]
) -> None:
    outputs = PROGRAMS[program]
    loader = leat.Loader(packed, 7, shuffle=True, seed=5, outputs=outputs, framework="numpy", tail="uneven")
    for _ in range(2):
        for batch in loader:
            samples = {name: [values[i] for i in batch.ids] for name, values in targets.items()}
            rows = leat.apply(outputs, samples, batch.row_keys, schema=SCHEMA, num_threads=num_threads)
            assert list(rows) == list(batch)
            assert {name: plain(value) for name, value in rows.items()} == {name: plain(batch[name]) for name in batch}
            assert rows.ids.tolist() == list(range(batch.size)) and rows.errors == []


def test_values_of_many_types_are_samples(targets: dict[str, list[Any]]) -> None:
    torch = pytest.importorskip("torch")
    whole = {"image": [ops.Decode(), ops.CenterCrop(16)]}
    wanted = leat.apply(whole, {"image": targets["image"]})["image"]
    for given in (
        [bytearray(data) for data in targets["image"]],
        [memoryview(data) for data in targets["image"]],
        [np.frombuffer(data, np.uint8) for data in targets["image"]],
        np.array(targets["image"], object),
    ):
        assert (leat.apply(whole, {"image": given}, schema={"image": "image"})["image"] == wanted).all()
    vectors = np.stack(targets["vector"])
    for vector in (vectors, torch.from_numpy(vectors), targets["vector"], np.asfortranarray(vectors)):
        assert (
            leat.apply({"vector": []}, {"vector": vector}, schema={"vector": SCHEMA["vector"]})["vector"] == vectors
        ).all()
    ragged = leat.Ragged(np.concatenate(targets["tokens"]), np.cumsum([0, *map(len, targets["tokens"])]))
    one, two = (leat.apply({"tokens": []}, {"tokens": tokens})["tokens"] for tokens in (ragged, targets["tokens"]))
    assert plain(one) == plain(two) == plain(ragged)
    assert leat.apply({"x": []}, {"x": [1, 2, 3]})["x"].tolist() == [1, 2, 3]


def test_without_keys_rows_are_the_first_of_a_loader_without_a_seed(
    packed: leat.Dataset, pictures: list[bytes]
) -> None:
    batch = next(iter(leat.Loader(packed, N, outputs=CROP, framework="numpy")))
    assert (leat.apply(CROP, {"image": pictures})["image"] == batch["image"]).all()


def test_the_values_are_the_callers_own(pictures: list[bytes]) -> None:
    first = leat.apply(CROP, {"image": pictures})["image"]
    kept = first.copy()
    first[:] = 7
    assert (leat.apply(CROP, {"image": pictures})["image"] == kept).all()
    assert (first == 7).all()


@pytest.mark.parametrize("broken", [b"no photo at all", b""])
def test_broken_samples_go_by_the_policy(broken: bytes, pictures: list[bytes]) -> None:
    samples = {"image": [pictures[0], broken, pictures[2], pictures[3][:-200]], "label": [10, 11, 12, 13]}
    outputs = {**CROP, "label": []}
    for _ in range(2):  # the program of a call that failed is not kept
        with pytest.raises(leat.BrokenSampleError, match=r"apply\(on_error=.*sample 1, field 'image'"):
            leat.apply(outputs, samples)
    rows = leat.apply(outputs, samples, on_error="skip")
    assert rows["label"].tolist() == [10, 12] and rows.ids.tolist() == [0, 2] and rows["image"].shape[0] == 2
    assert [(e.row, e.planned, e.delivered) for e in rows.errors] == [(1, 1, None), (3, 3, None)]
    keys = np.arange(50, 54)
    rows = leat.apply(outputs, samples, keys, on_error="substitute")
    assert rows["label"].tolist() == [10 + i for i in rows.ids] and set(rows.ids.tolist()) <= {0, 2}
    assert rows.ids[[0, 2]].tolist() == [0, 2]
    again = leat.apply(outputs, samples, keys, on_error="substitute")
    assert again.ids.tolist() == rows.ids.tolist() and (again["image"] == rows["image"]).all()
    alone = leat.apply(outputs, {name: values[1:2] for name, values in samples.items()}, on_error="skip")
    assert alone["image"].shape[0] == 0 and len(alone.errors) == 1


def test_damage_behind_the_crop_is_found_though_a_good_photo_was_seen(pictures: list[bytes]) -> None:
    """Each photo is decoded to its end once: a photo is known by all of its bytes."""
    small = {"image": [ops.Decode(), ops.CenterCrop(8)]}
    leat.apply(small, {"image": pictures})
    cut = [data if i % 2 else data[: len(data) * 3 // 4] for i, data in enumerate(pictures)]
    rows = leat.apply(small, {"image": cut}, on_error="skip")
    assert rows.ids.tolist() == list(range(1, N, 2)) and [e.row for e in rows.errors] == list(range(0, N, 2))


def test_threads_call_at_the_same_time(pictures: list[bytes]) -> None:
    wanted = {n: leat.apply(CROP, {"image": pictures[:n]}, np.arange(n))["image"] for n in (3, 11, N)}
    right: list[int] = []

    def call(n: int) -> None:
        for _ in range(20):
            rows = leat.apply(CROP, {"image": pictures[:n]}, np.arange(n))
            right.append(int((rows["image"] == wanted[n]).all()))

    threads = [threading.Thread(target=call, args=(n,)) for n in (3, 11, N, 3, 11)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(right) == len(right) == 100


def test_a_forked_child_applies_too(pictures: list[bytes]) -> None:
    wanted = leat.apply(CROP, {"image": pictures})["image"]
    if not (pid := os.fork()):
        code = 1
        try:
            code = 0 if (leat.apply(CROP, {"image": pictures})["image"] == wanted).all() else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_functions_of_one_name_are_not_taken_for_each_other() -> None:
    def made(k: int) -> Callable[[Any], Any]:
        def scaled(x: Any) -> Any:
            return x * k

        return scaled

    for k in (2, 3, 2):
        rows = leat.apply(
            {"x": [ops.Map(made(k), returns=leat.field("int64", (2,)))]}, {"x": np.array([[1, 2], [3, 4]])}
        )
        assert rows["x"].tolist() == [[k, 2 * k], [3 * k, 4 * k]]


@pytest.mark.parametrize(
    ("samples", "keys", "error", "text"),
    [
        ({"label": [1]}, None, ValueError, "outputs take 'image', and the samples have 'label'"),
        ({"image": []}, None, ValueError, "there are no samples"),
        ({"image": b"bytes"}, None, TypeError, "'image' is a list of values, one of each sample, not bytes"),
        ({"image": [b"", None]}, None, TypeError, "'image' of sample 1 is NoneType"),
        ({"image": np.array([b"ab"])}, None, TypeError, "lose their last zeros"),
        ([b""], None, TypeError, "samples is a dict"),
        ({"image": [b""]}, [1, 2], ValueError, "2 keys for 1 samples"),
        ({"image": [b""]}, [0.5], TypeError, "keys are 1 integers"),
        ({"image": np.zeros((2, 8, 8), "uint8")}, None, leat.ProgramError, "image"),
    ],
)
def test_what_is_no_sample_is_refused(samples: Any, keys: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        leat.apply(CROP, samples, keys)


def test_values_that_do_not_fit_their_field_are_refused(pictures: list[bytes]) -> None:
    with pytest.raises(TypeError, match=r"'x' of sample 1 is float32 of shape \(3,\), and the others are"):
        leat.apply({"x": []}, {"x": [np.zeros(2), np.zeros(3, "float32")]})
    with pytest.raises(leat.InvalidError, match="field 't': the value is not UTF-8 text from its byte 1 on.*sample 1"):
        leat.apply({"t": []}, {"t": [b"ok", b"a\xff"]}, schema={"t": "str"})
    with pytest.raises(ValueError, match="'image' has 24 values, and 'label' has 2"):
        leat.apply({**CROP, "label": []}, {"image": pictures, "label": [1, 2]})


@pytest.mark.parametrize(
    "chain",
    [
        [ops.Decode(), ops.RandomResizedCrop(leat.PerBatch([16, 24]))],
        [ops.Decode(), ops.Resize((16, 16)), ops.RandomHorizontalFlip(p=1.0).epochs(stop=1)],
    ],
    ids=["sizes per batch", "an operator of the first epoch"],
)
def test_programs_that_follow_a_loaders_position_are_refused(chain: list[Any], pictures: list[bytes]) -> None:
    with pytest.raises(leat.UnsupportedError, match="drawn per batch, or changes with the epoch"):
        leat.apply({"image": chain}, {"image": pictures})


def test_numbers_are_taken_as_they_are_or_refused() -> None:
    assert leat.apply({"x": []}, {"x": [1, 2.5]})["x"].tolist() == [1, 2.5]
    assert leat.apply({"x": []}, {"x": [np.uint8(1), 300]})["x"].tolist() == [1, 300]
    assert leat.apply({"x": []}, {"x": [1, 2]}, schema={"x": "int16"})["x"].dtype == np.int16
    for values in ([1, 2.5], [1, 70000]):
        with pytest.raises(TypeError, match="'x' of sample 1 is .* which is no int16"):
            leat.apply({"x": []}, {"x": values}, schema={"x": "int16"})
    with pytest.raises(TypeError, match="a number first"):
        leat.apply({"x": []}, {"x": [1, [2]]})
    with pytest.raises(ValueError, match="offsets that descend"):
        leat.apply({"x": []}, {"x": leat.Ragged(np.arange(5), np.array([0, 3, 1, 5]))})
    with pytest.raises(ValueError, match="schema has 'y', and the samples have 'x'"):
        leat.apply({"x": []}, {"x": [1]}, schema={"y": "int64"})


def test_keys_are_64_bits_however_they_come() -> None:
    noise = {"x": [ops.Map(lambda x: x + leat.rng().integers(1 << 30), returns=leat.field("int64"))]}
    wanted = leat.apply(noise, {"x": [1, 2]}, np.array([2**64 - 1, 2], np.uint64))["x"].tolist()
    for keys in ([2**64 - 1, 2], [-1, 2], (np.uint64(2**64 - 1), 2), np.array([-1, 2])):
        assert leat.apply(noise, {"x": [1, 2]}, keys)["x"].tolist() == wanted


def test_what_functions_return_is_learned_for_each_shape_of_samples() -> None:
    outputs = {"x": [ops.Map(doubled)]}
    for n in (3, 4, 3):
        assert leat.apply(outputs, {"x": [np.zeros(n, "int64")] * 2})["x"].shape == (2, n)


def test_it_needs_no_process_group_and_counts_as_no_loader(
    monkeypatch: pytest.MonkeyPatch, pictures: list[bytes]
) -> None:
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert leat.apply({"image": [ops.Decode(), ops.Resize((12, 12))]}, {"image": pictures})["image"].shape[0] == N
