"""Writers: what they take, what they refuse, and that nothing half-done looks finished."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from drawn_support import examples
from dtypes import DTYPES
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import leat


def write(path: Path, schema: dict[str, Any], *samples: dict[str, Any], **options: Any) -> leat.Dataset:
    with leat.Writer(path, schema, overwrite=True, **options) as w:
        for sample in samples:
            w.write(sample)
    return leat.open(path)


def test_add_returns_running_ids(tmp_path: Path) -> None:
    with leat.Writer(tmp_path / "a.leat", {"n": "int64"}) as w:
        assert [w.add(n=i) for i in range(3)] == [0, 1, 2]
        assert len(w) == 3


@pytest.mark.parametrize("dtype", DTYPES)
@examples(4)
@given(data=st.data())
def test_arrays_of_every_dtype_come_back_bit_for_bit(
    tmp_path_factory: pytest.TempPathFactory, dtype: str, data: st.DataObject
) -> None:
    array = data.draw(hnp.arrays(dtype, st.tuples(st.integers(0, 5), st.just(2), st.just(3))))
    path = tmp_path_factory.mktemp("w") / "a.leat"
    sample = write(path, {"v": leat.field(dtype, (None, 2, 3))}, {"v": array})[0]
    assert (
        sample["v"].dtype == array.dtype
        and sample["v"].tobytes() == array.tobytes()
        and sample["v"].shape == array.shape
    )


@examples(15)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda x: st.lists(x) | st.dictionaries(st.text(), x),
        max_leaves=8,
    )
)
def test_json_comes_back_as_it_was(tmp_path_factory: pytest.TempPathFactory, value: Any) -> None:
    path = tmp_path_factory.mktemp("w") / "a.leat"
    try:
        ds = write(path, {"v": "json"}, {"v": value})
    except UnicodeEncodeError:
        return  # a lone surrogate is not text
    assert ds[0]["v"] == value


@pytest.mark.parametrize("value", [b"abc", bytearray(b"abc"), memoryview(b"abc"), np.frombuffer(b"abc", np.uint8)])
def test_bytes_are_taken_from_anything_with_a_buffer(tmp_path: Path, value: Any) -> None:
    assert write(tmp_path / "a.leat", {"v": "bytes"}, {"v": value})[0]["v"] == b"abc"


def test_tensors_are_taken(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    t = torch.arange(6, dtype=torch.float32).view(3, 2).t()
    ds = write(
        tmp_path / "a.leat",
        {"v": leat.field("float32", (2, 3)), "h": leat.field("bfloat16", (2,))},
        {"v": t, "h": torch.tensor([1.5, -2], dtype=torch.bfloat16)},
    )
    assert ds[0]["v"].tolist() == t.tolist() and ds[0]["h"].tolist() == [1.5, -2.0]


def test_strided_arrays_are_taken(tmp_path: Path) -> None:
    a = np.arange(12, dtype=np.int32).reshape(3, 4)
    assert (
        write(tmp_path / "a.leat", {"v": leat.field("int32", (2, 3))}, {"v": a[:, ::2].T})[0]["v"].tolist()
        == a[:, ::2].T.tolist()
    )


def test_numbers_are_converted_if_they_fit(tmp_path: Path) -> None:
    ds = write(tmp_path / "a.leat", {"a": "uint8", "b": "float32", "c": "int32"}, {"a": 255, "b": 3, "c": np.int64(-7)})
    assert ds[0] == {"a": 255, "b": 3.0, "c": -7}
    ds = write(tmp_path / "b.leat", {"a": "float16"}, {"a": float("-inf")}, {"a": 65504}, {"a": 1e-30})
    assert ds.column("a").tolist() == [float("-inf"), 65504, 0]


def test_a_number_in_the_middle_of_two_of_bfloat16_becomes_the_even_one(tmp_path: Path) -> None:
    given = [1 + 1 / 256, 1 + 3 / 256, -(1 + 1 / 256), 1 + 1 / 256 + 2**-20]
    ds = write(tmp_path / "a.leat", {"v": leat.field("bfloat16", (4,))}, {"v": given})
    assert ds[0]["v"].tolist() == [1, 1 + 4 / 256, -1, 1 + 2 / 256]


def test_arrays_of_float32_that_bfloat16_holds_are_taken(tmp_path: Path) -> None:
    value = torch.tensor([[1.5, -0.0], [3e38, float("-inf")]], dtype=torch.bfloat16)
    schema = {"v": leat.field("bfloat16", (None, 2))}
    ds = write(tmp_path / "a.leat", schema, {"v": value})
    again = write(tmp_path / "b.leat", schema, ds[0])
    assert again.fingerprint == ds.fingerprint and repr(again[0]["v"]) == repr(value.float().numpy())
    with pytest.raises(TypeError, match="'v' takes bfloat16, which numpy lacks"):
        write(tmp_path / "c.leat", schema, {"v": np.full((1, 2), 1.1, np.float32)})


@pytest.mark.parametrize(
    ("dtype", "shape", "value"),
    [
        ("uint8", (), 256),
        ("uint8", (), -1),
        ("int64", (), 0.5),
        ("int64", (), "3"),
        ("int64", (), None),
        ("int64", (), [1]),
        ("bool", (), 1),
        ("float32", (), 1e40),
        ("float16", (), 70000),
        ("float16", (None,), [1.0, -1e5]),
        ("bfloat16", (), -1e39),
        ("float32", (3,), [1, 2]),
        ("float32", (3,), np.zeros(3, np.float64)),
        ("int32", (2,), np.zeros(2, np.int64)),
        ("float32", (None, 4), np.zeros((3, 5), np.float32)),
        ("float32", (None, 4), np.zeros(4, np.float32)),
        ("bytes", (), "text"),
        ("bytes", (), np.zeros(3, np.uint16)),
        ("str", (), b"bytes"),
        ("json", (), {1, 2}),
        ("json", (), float("nan")),
        ("image", (), 3),
        ("float32", (2, 2), torch.eye(2).to_sparse()),
    ],
)
def test_a_value_that_does_not_fit_is_an_error_that_names_its_field(
    tmp_path: Path, dtype: str, shape: Any, value: Any
) -> None:
    with leat.Writer(tmp_path / "a.leat", {"strange": leat.field(dtype, shape)}) as w:
        with pytest.raises((TypeError, ValueError), match="'strange'"):
            w.add(strange=value)
        assert len(w) == 0


def test_the_writer_goes_on_after_a_value_that_was_refused(tmp_path: Path) -> None:
    with leat.Writer(tmp_path / "a.leat", {"n": "int64"}) as w:
        with pytest.raises(TypeError):
            w.add(n="no")
        w.add(n=1)
    assert leat.open(tmp_path / "a.leat")[0]["n"] == 1


def test_tensors_that_are_views_by_sign_are_taken(tmp_path: Path) -> None:
    value = torch.tensor([1 + 2j, 3 - 4j]).conj().imag
    assert write(tmp_path / "a.leat", {"v": leat.field("float32", (2,))}, {"v": value})[0]["v"].tolist() == [-2, 4]


def test_a_file_is_written_again_by_its_own_schema(tmp_path: Path, jpeg: Callable[..., bytes]) -> None:
    sample = {"image": jpeg(8, 8), "label": 3}
    ds = write(tmp_path / "a.leat", {"image": "image", "label": "int64"}, sample)
    with leat.Writer(tmp_path / "b.leat", ds.schema) as w:
        w.write({**ds[0], "label": 4})
        w.write_batch({name: [value] for name, value in ds[0].items()})
        w.write_dataset(ds)
    again = leat.open(tmp_path / "b.leat")
    assert again.schema == ds.schema
    with pytest.raises(ValueError, match="named 'image.width', which leat derives of a photo: leave it out"):
        leat.Writer(tmp_path / "c.leat", {"image": "image", "image.width": "uint32"})
    assert [(s["image"], s["label"]) for s in again] == [(sample["image"], label) for label in (4, 3, 3)]


def test_wrong_metadata_are_named_and_leave_the_writer_as_it_is(tmp_path: Path) -> None:
    for wrong in ({"n": np.int64(1)}, {"n": float("nan")}, [1], "text"):
        with pytest.raises((TypeError, ValueError), match="^metadata"):
            leat.Writer(tmp_path / "a.leat", {"n": "int64"}, metadata=wrong)  # type: ignore[arg-type]
    w = leat.Writer(tmp_path / "a.leat", {"n": "int64"})
    w.add(n=1)
    with pytest.raises(TypeError, match="^metadata takes what json.dumps takes"):
        w.close({"n": np.int64(1)})
    w.close({"n": 1})
    assert leat.open(tmp_path / "a.leat").metadata == {"n": 1}


@pytest.mark.parametrize("values", [{}, {"n": 1, "m": 2}, {"m": 2}])
def test_missing_and_unknown_fields_are_named(tmp_path: Path, values: dict[str, Any]) -> None:
    with leat.Writer(tmp_path / "a.leat", {"n": "int64"}) as w, pytest.raises(ValueError, match="'[nm]'"):
        w.add(**values)


def test_columns_of_fixed_size_are_written_at_once(tmp_path: Path) -> None:
    x = np.arange(2000, dtype=np.float32).reshape(1000, 2)
    with leat.Writer(tmp_path / "a.leat", {"x": leat.field("float32", (2,)), "n": "int64"}) as w:
        w.write_batch({"n": list(range(1000)), "x": x})
        w.write_batch({"n": np.arange(5), "x": np.zeros((5, 2), np.float32)})
        assert len(w) == 1005
    ds = leat.open(tmp_path / "a.leat")
    assert ds.column("x")[:1000].tobytes() == x.tobytes() and ds.column("n").sum() == 499500 + 10


def test_columns_of_varying_size_are_written_row_by_row(tmp_path: Path) -> None:
    with leat.Writer(tmp_path / "a.leat", {"s": "str", "v": leat.field("int64", (None,))}) as w:
        w.write_batch({"s": ["a", "b"], "v": [np.arange(2), np.arange(3)]})
    assert [s["v"].tolist() for s in leat.open(tmp_path / "a.leat")] == [[0, 1], [0, 1, 2]]


def test_columns_of_different_lengths_are_an_error(tmp_path: Path) -> None:
    with (
        leat.Writer(tmp_path / "a.leat", {"a": "int64", "b": "int64"}) as w,
        pytest.raises(ValueError, match="a has 2, b has 3"),
    ):
        w.write_batch({"a": [1, 2], "b": [1, 2, 3]})


def test_an_exception_leaves_no_finished_file(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), leat.Writer(tmp_path / "a.leat", {"n": "int64"}) as w:
        w.add(n=1)
        raise KeyboardInterrupt
    assert not (tmp_path / "a.leat").exists()


def test_an_existing_file_is_kept_unless_overwriting_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "a.leat"
    write(path, {"n": "int64"}, {"n": 1})
    with pytest.raises(FileExistsError, match="a.leat"):
        leat.Writer(path, {"n": "int64"})
    assert leat.open(path)[0]["n"] == 1
    assert write(path, {"n": "int64"}, {"n": 2})[0]["n"] == 2


def test_an_interrupted_file_resumes_after_what_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.leat"
    w = leat.Writer(path, {"v": "bytes"})
    for i in range(1000):
        w.add(v=bytes([i % 256]) * 1000)
    w.abort()
    with leat.Writer(path, {"v": "bytes"}, resume=True) as w:
        whole = len(w)
        assert 0 <= whole <= 1000
        for i in range(whole, 1200):
            w.add(v=bytes([i % 256]) * 1000)
    ds = leat.open(path)
    assert len(ds) == 1200 and all(ds[i]["v"] == bytes([i % 256]) * 1000 for i in (0, 500, 999, 1000, 1199))


def test_one_file_takes_the_place_of_shards_and_leaves_those_of_others(tmp_path: Path) -> None:
    def names() -> list[str]:
        return sorted(path.name for path in tmp_path.iterdir())

    for name in ("a", "b"):
        with leat.Writer(tmp_path / f"{name}.leat", {"x": leat.field("uint8", (1 << 20,))}, shard_bytes=1) as w:
            w.write_batch({"x": np.zeros((20, 1 << 20), np.uint8)})
    before = names()
    (tmp_path / "c.leat").write_bytes((tmp_path / "b.leat").read_bytes())  # names shards of b
    for other in ("c.00000.leat", "d.00000.leat"):
        (tmp_path / other).write_bytes(b"no shard that the file replaced has named")
    for name in "acd":
        with leat.Writer(tmp_path / f"{name}.leat", {"n": "int64"}, overwrite=True) as w:
            w.add(n=1)
            assert len(names()) >= len(before)
    with leat.Writer(tmp_path / "d.leat", {"n": "int64"}, overwrite=True) as w:
        w.add(n=1)
    kept = [name for name in before if name.startswith("b")]
    assert names() == sorted(["a.leat", *kept, "c.00000.leat", "c.leat", "d.00000.leat", "d.leat"])
    assert len(leat.open(tmp_path / "b.leat")) == 20


def test_two_writers_of_one_file_exclude_each_other(tmp_path: Path) -> None:
    w = leat.Writer(tmp_path / "a.leat", {"n": "int64"})
    with pytest.raises(leat.BusyError):
        leat.Writer(tmp_path / "a.leat", {"n": "int64"})
    w.abort()


def test_masked_values_are_no_values(tmp_path: Path) -> None:
    """NumPy would give the numbers that lie under the mask."""
    masked = np.ma.array([1.0, 2.0], mask=[False, True])
    schema = {"x": "float64", "y": leat.field("float64", (2,)), "z": leat.field("float64", (None,))}
    store = leat.Store(tmp_path / "m.store", {"m": "float64"})

    class Source:
        fields = {"x": leat.field("float64")}

        def __len__(self) -> int:
            return 2

        def read(self, positions: Any) -> Any:
            return {"x": masked[list(positions)]}

    with leat.Writer(tmp_path / "m.leat", schema) as w:
        good = {"x": 1.0, "y": [1, 2], "z": [1]}
        for refused in (
            lambda: w.add(**good | {"x": masked[1]}),
            lambda: w.add(**good | {"y": masked}),
            lambda: w.add(**good | {"z": masked}),
            lambda: w.write_batch({"x": masked, "y": [[1, 2]] * 2, "z": [[1]] * 2}),
            lambda: store.__setitem__([0, 1], masked),
            lambda: list(leat.Loader(leat.from_source(Source()), 2)),
        ):
            with pytest.raises((ValueError, leat.Error), match="masked"):
                refused()
        whole = np.ma.array([1.0, 2.0], mask=False)
        assert w.add(**good | {"y": whole}) == 0
    assert leat.open(tmp_path / "m.leat")[0]["y"].tolist() == [1, 2]


def test_a_closed_writer_says_so(tmp_path: Path) -> None:
    w = leat.Writer(tmp_path / "a.leat", {"n": "int64"})
    w.close()
    w.close()
    with pytest.raises(leat.ClosedError):
        w.add(n=1)


def test_a_writer_that_nobody_closed_warns(tmp_path: Path) -> None:
    with pytest.warns(ResourceWarning, match="never closed"):
        leat.Writer(tmp_path / "a.leat", {"n": "int64"})


def test_a_writer_that_is_open_when_the_program_ends_is_quiet(tmp_path: Path) -> None:
    code = "import sys, leat, torch; w = leat.Writer(sys.argv[1], {'n': 'int64'})"
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "a.leat"], capture_output=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("options", [{"photos": "quick"}, {"photos": 1}, {"num_threads": 0}, {"shard_bytes": 0}])
def test_options_that_are_not_there_are_refused(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        leat.Writer(tmp_path / "a.leat", {"n": "int64"}, **options)


@pytest.mark.parametrize(
    "options",
    [{"num_threads": "all"}, {"shard_bytes": 0.5}, {"schema": [("n", "int64")]}, {"classes": {"cat", "dog"}}],
    ids=["num_threads", "shard_bytes", "schema", "classes"],
)
def test_options_of_another_type_are_a_type_error_that_names_them(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=next(iter(options))):
        leat.Writer(tmp_path / "a.leat", **{"schema": {"n": "int64"}, **options})


def test_broken_photos_are_listed_and_keep_their_ids(tmp_path: Path, jpeg: Callable[..., bytes]) -> None:
    w = leat.Writer(tmp_path / "a.leat", {"image": "image"})
    w.add(image=jpeg(20, 20))
    w.add(image=jpeg(200, 200)[:600])
    w.close()
    assert [b[0] for b in w.broken] == [1]
    assert len(leat.open(tmp_path / "a.leat")) == 2


@pytest.mark.parametrize(
    ("dtype", "shape", "layout"),
    [
        ("float33", (), None),
        (None, (), None),
        ("int64", (2, None), None),
        ("int64", (0,), None),
        ("image", (3,), None),
        ("uint8", (3, 3), "HWC"),
        ("uint8", (3, 3, 3), "WHC"),
        ("int8", (1,) * 9, None),
    ],
)
def test_a_field_that_cannot_be_is_a_value_error(dtype: str, shape: Any, layout: Any) -> None:
    with pytest.raises(ValueError):
        leat.field(dtype, shape, layout=layout)


# ---- photos ----------------------------------------------------------------------------------------------------------


PHOTOS = ("original", "fast", "raw")


@pytest.fixture(scope="module")
def photos(
    tmp_path_factory: pytest.TempPathFactory, jpeg: Callable[..., bytes]
) -> tuple[list[bytes], dict[str, leat.Dataset]]:
    """Some photos, and a data set of them in each form: JPEGs, a gray one, a progressive one, a PNG, a broken one."""
    import io

    from PIL import Image

    png = io.BytesIO()
    Image.fromarray(np.arange(30 * 20 * 3, dtype=np.uint8).reshape(20, 30, 3)).save(png, "PNG")
    files = [
        jpeg(300, 200, 1),
        jpeg(90, 120, 2),
        jpeg(64, 48, 3, "L"),
        jpeg(80, 80, 4, progressive=True),
        png.getvalue(),
    ]
    files.append(files[0][: len(files[0]) // 2])
    folder = tmp_path_factory.mktemp("photos")
    schema = {"image": "image", "n": "int64"}
    return files, {
        form: write(
            folder / f"{form}.leat", schema, *({"image": file, "n": i} for i, file in enumerate(files)), photos=form
        )
        for form in PHOTOS
    }


@pytest.mark.parametrize("form", ["original", "fast"])
def test_what_came_comes_back_byte_for_byte(photos: Any, form: str) -> None:
    files, sets = photos
    assert [sets[form][i]["image"] for i in range(len(files))] == files


def test_a_photo_packed_as_pixels_is_an_array_of_them(photos: Any) -> None:
    import io

    from PIL import Image

    files, sets = photos
    for i, file in enumerate(files[:5]):
        pixels = sets["raw"][i]["image"]
        want = np.asarray(Image.open(io.BytesIO(file)))
        assert pixels.dtype == np.uint8 and pixels.flags.writeable
        np.testing.assert_array_equal(pixels.squeeze(), want)
        assert pixels.shape == (*want.shape[:2], 1 if want.ndim == 2 else 3)
    assert sets["raw"][5]["image"] == files[5], "broken: as it came"


def test_pixels_are_not_taken_for_a_photo(photos: Any, tmp_path: Path) -> None:
    _, sets = photos
    with leat.Writer(tmp_path / "a.leat", {"image": "image", "pixels": leat.field("uint8", (None, 3))}) as w:
        with pytest.raises(TypeError, match=r"encoded photo .* not pixels: this is an array of shape \("):
            w.add(image=sets["raw"][0]["image"], pixels=np.zeros((1, 3), np.uint8))
        w.add(image=np.frombuffer(sets["original"][0]["image"], np.uint8), pixels=np.zeros((1, 3), np.uint8))
    assert not w.broken


@pytest.mark.parametrize("form", ["original", "fast"])
def test_a_loader_that_does_not_decode_gives_what_came(photos: Any, form: str) -> None:
    files, sets = photos
    (batch,) = leat.Loader(sets[form], 6, outputs={"image": []}, framework="numpy")
    assert [bytes(row) for row in batch["image"].unbind()] == files


@pytest.mark.parametrize("form", PHOTOS)
def test_functions_behind_an_image_of_open_size_get_the_same_pixels(photos: Any, form: str) -> None:
    files, sets = photos

    def mean(image: Any) -> np.ndarray[Any, Any]:
        return np.asarray(image, np.float64).mean((0, 1))[:1]

    outputs = {"image": [leat.ops.Decode(exif=True), leat.ops.Map(mean)]}
    good = sets[form].select(range(5))
    (batch,) = leat.Loader(good, 5, outputs=outputs, framework="numpy")
    (want,) = leat.Loader(sets["original"].select(range(5)), 5, outputs=outputs, framework="numpy")
    assert batch["image"].tobytes() == want["image"].tobytes()


def test_the_writer_says_why_photos_stay_as_they_came(photos: Any, tmp_path: Path) -> None:
    files, _ = photos
    for form, count in (("original", 0), ("fast", 2), ("raw", 0)):
        with leat.Writer(tmp_path / f"{form}.leat", {"image": "image"}, photos=form) as w:
            for file in [*files, files[4]]:
                w.add(image=file)
        assert sum(w.as_came.values()) == count
        assert all("PNG" in reason for reason in w.as_came)
        assert [index for index, *_ in w.broken] == [5]


@pytest.mark.parametrize("name", ["cls", "class_labels", "category_id", "class_ids"])
def test_classes_by_the_names_of_other_libraries_are_one_per_box(tmp_path: Path, name: str) -> None:
    with leat.Writer(tmp_path / "a.leat", {"boxes": leat.boxes(), name: leat.field("int64", (None,))}) as w:
        w.add(**{"boxes": np.ones((1, 4), np.float32), name: np.array([1])})
        with pytest.raises(ValueError, match=rf"field '{name}' has 3 rows and 'boxes' 1: one per box is needed"):
            w.add(**{"boxes": np.ones((1, 4), np.float32), name: np.array([1, 2, 3])})


def test_pixels_of_a_mask_are_told_to_be_a_png(tmp_path: Path) -> None:
    with leat.Writer(tmp_path / "a.leat", {"mask": leat.mask(), "image": "image"}) as w:
        with pytest.raises(TypeError, match="encode it as PNG, .*; a field of a dtype would not move with the image"):
            w.add(mask=np.zeros((4, 4), np.uint8), image=b"")
        with pytest.raises(TypeError, match="encode it, or give it a dtype field"):
            w.add(mask=b"", image=np.zeros((4, 4, 3), np.uint8))


def test_half_of_a_surrogate_pair_names_its_field_and_what_to_do(tmp_path: Path) -> None:
    """200 drawn values, in JSON at any depth, and in texts."""
    rnd = random.Random(1)

    def nested(depth: int) -> Any:
        text = "".join(rnd.choices(["a", "é", "\U0001f600"], k=rnd.randrange(30)))
        half = text[: (at := rnd.randrange(len(text) + 1))] + chr(rnd.randrange(0xD800, 0xE000)) + text[at:]
        if depth == 0:
            return half
        inside = nested(depth - 1)
        return rnd.choice([[1, inside], {"k": inside, "m": None}, {half: 2}, (inside, text), [{"x": [inside]}]])

    kinds: dict[str, Any] = {"plain": "str", "meta": "json"}
    with leat.Writer(tmp_path / "a.leat", kinds) as w:
        for _ in range(100):
            with pytest.raises(ValueError, match=r"field 'meta': the JSON .* half of a surrogate pair .*leave it out"):
                w.add(plain="x", meta=nested(rnd.randrange(4)))
            with pytest.raises(ValueError, match=r"field 'plain': the text .* half of a surrogate pair .*replace"):
                w.write_batch({"plain": ["ok", nested(0)], "meta": [1, 2]})
        w.add(plain="x", meta={"\U0001f600": "é"})
    assert leat.open(tmp_path / "a.leat")[0] == {"plain": "x", "meta": {"\U0001f600": "é"}}


def test_names_that_utf8_cannot_say_are_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"the name of a field: 'a\\ud83d' has half"):
        leat.Writer(tmp_path / "a.leat", {"a\ud83d": "str"})
    with pytest.raises(ValueError, match="a name of classes: .* has half"):
        leat.Writer(tmp_path / "a.leat", {"a": "str"}, classes=["cat", "d\udc00"])
    with pytest.raises(ValueError, match="the name of a field has a NUL"):
        leat.Store(tmp_path / "a.store", {"a\0": "float32"}, key="id")
    assert not list(tmp_path.iterdir())


def test_json_that_is_nested_too_deeply_names_its_field(tmp_path: Path) -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with leat.Writer(tmp_path / "a.leat", {"meta": "json"}) as w:
        with pytest.raises(ValueError, match="field 'meta' .*nested too deeply"):
            w.add(meta=deep)
        w.add(meta=1)


NOTHING = [[], (), np.array([]), np.array([], np.float32), np.array([], np.int8), np.array([], object)]


@pytest.mark.parametrize("nothing", NOTHING, ids=[f"{type(n).__name__}-{getattr(n, 'dtype', '')}" for n in NOTHING])
def test_no_boxes_are_any_empty_list(nothing: Any, tmp_path: Path) -> None:
    fields = {"boxes": leat.boxes(), "points": leat.keypoints(3), "label": leat.field("int64", (None,))}
    fields |= {"half": leat.field("bfloat16", (None, 2)), "flags": leat.field("bool", (None, 5))}
    with leat.Writer(tmp_path / "a.leat", fields) as w:
        w.add(**dict.fromkeys(fields, nothing))
        w.write_batch(dict.fromkeys(fields, [nothing, nothing]))
    for sample in leat.open(tmp_path / "a.leat"):
        assert [v.shape for v in sample.values()] == [(0, 4), (0, 3, 3), (0,), (0, 2), (0, 5)]


@pytest.mark.parametrize("shape", [(0, 3), (0, 0), (1, 0), (0, 4, 1)])
def test_no_boxes_of_another_shape_are_an_error(shape: tuple[int, ...], tmp_path: Path) -> None:
    with leat.Writer(tmp_path / "a.leat", {"boxes": leat.boxes()}) as w:
        with pytest.raises(ValueError, match=r"field 'boxes' has shape \(any, 4\)"):
            w.add(boxes=np.zeros(shape, np.float32))
        w.add(boxes=[])


def test_no_boxes_of_a_source_and_of_a_store_are_an_empty_list(tmp_path: Path) -> None:
    class Source:
        fields: ClassVar[dict[str, Any]] = {"boxes": leat.boxes(), "label": leat.field("int64", (None,))}

        def __len__(self) -> int:
            return 2

        def read(self, positions: Any) -> dict[str, Any]:
            boxes = [np.array([], np.float32), np.ones((1, 4), np.float32)]
            return {"boxes": [boxes[i] for i in positions], "label": [[np.array([]), [7]][i] for i in positions]}

    ds = leat.from_source(Source())
    assert [ds[i]["boxes"].shape for i in (0, 1)] == [(0, 4), (1, 4)] and ds[1]["label"].tolist() == [7]
    with leat.Store(tmp_path / "a.store", {"boxes": leat.field("float32", (None, 4))}, key="id") as store:
        store[[1, 2]] = [np.array([], np.float32), np.ones((2, 4), np.float32)]
        store.flush()
        assert np.diff(store.gather([1, 2])[0].offsets).tolist() == [0, 2]


def test_a_device_or_a_pipe_is_not_replaced_by_a_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for overwrite in (False, True):
        with pytest.raises(leat.Error, match="no regular file"):
            leat.Writer(tmp_path / "pipe", {"x": "int64"}, overwrite=overwrite)
    assert (tmp_path / "pipe").is_fifo()
