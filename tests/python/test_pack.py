"""leat.pack and `leat pack --dataset`: Python data sets as files of leat."""

from __future__ import annotations

import collections
import dataclasses
import gzip
import io
import json
import os
import random
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_support import PYTHON, Started, command, jpeg, make_folder, real_data, stopped
from cli_support import leat as run

import leat

Image = pytest.importorskip("PIL.Image")


class Squares:
    """A data set whose samples draw random numbers."""

    def __init__(self, n: int = 100, bad: tuple[int, ...] = ()) -> None:
        self.n, self.bad = n, bad

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> dict[str, Any]:
        if i in self.bad:
            raise OSError(f"no file {i}")
        return {
            "square": i * i,
            "half": i / 2,
            "big": i > 50,
            "name": f"sample {i}",
            "vec": np.full(3, i, np.float32),
            "tokens": np.arange(i % 7, dtype=np.uint16),
            "point": [i, i + 1],
            "words": list(range(i % 3)),
            "about": {"i": i, "tags": ["a"] * (i % 2)},
            "raw": bytes([i % 256] * (i % 5)),
            "drawn": [random.random(), float(np.random.rand())],
        }


FIELDS = {
    "square": leat.field("int64"),
    "half": leat.field("float64"),
    "big": leat.field("bool"),
    "name": leat.field("str"),
    "vec": leat.field("float32", (3,)),
    "tokens": leat.field("uint16", (None,)),
    "point": leat.field("int64", (2,)),
    "words": leat.field("int64", (None,)),
    "about": leat.field("json"),
    "raw": leat.field("bytes"),
    "drawn": leat.field("float64", (2,)),
}


def test_fields_are_as_the_first_samples_say_and_values_come_back(tmp_path: Path) -> None:
    made = leat.pack(Squares(), tmp_path / "a.leat", workers=0)
    ds = made.open()
    assert ds.schema == FIELDS and (made.samples, made.skipped, made.broken) == (100, 0, 0)
    for i in (0, 13, 99):
        one, wanted = ds[i], Squares()[i]
        for name in FIELDS:
            if name != "drawn":
                np.testing.assert_equal(one[name], wanted[name])


def test_the_bytes_are_the_same_for_any_number_of_workers(tmp_path: Path) -> None:
    random.seed(1)
    before = random.getstate()
    for workers in (0, 1, 3):
        leat.pack(Squares(), tmp_path / f"{workers}.leat", workers=workers)
    assert (tmp_path / "0.leat").read_bytes() == (tmp_path / "1.leat").read_bytes()
    assert (tmp_path / "0.leat").read_bytes() == (tmp_path / "3.leat").read_bytes()
    drawn = leat.open(tmp_path / "0.leat").column("drawn")
    assert len(np.unique(drawn)) == 200
    assert random.getstate() == before


def test_tensors_and_draws_of_torch(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")

    class Tensors(torch.utils.data.Dataset):  # type: ignore[misc, name-defined]
        def __len__(self) -> int:
            return 40

        def __getitem__(self, i: int) -> Any:
            return torch.full((2,), i, dtype=torch.bfloat16), torch.tensor(i), torch.rand(3)

    for workers in (0, 2):
        leat.pack(Tensors(), tmp_path / f"{workers}.leat", fields=["x", "y", "drawn"], workers=workers)
    assert (tmp_path / "0.leat").read_bytes() == (tmp_path / "2.leat").read_bytes()
    ds = leat.open(tmp_path / "0.leat")
    assert [str(f.dtype) for f in ds.schema.values()] == ["bfloat16", "int64", "float32"]
    assert ds[7]["y"] == 7 and ds[7]["x"].tolist() == [7, 7]


def test_photos_of_pillow_are_the_files_they_were_opened_from_unless_they_changed(tmp_path: Path) -> None:
    data = jpeg(20, 10)
    (tmp_path / "a.jpg").write_bytes(data)

    def changed() -> Any:
        photo = Image.open(tmp_path / "a.jpg")
        photo.paste((0, 0, 0), (0, 0, 5, 5))
        return photo

    def loaded() -> Any:
        photo = Image.open(tmp_path / "a.jpg")
        photo.load()
        return photo

    photos = [
        Image.open(tmp_path / "a.jpg"),
        loaded(),
        Image.open(io.BytesIO(data)),
        changed(),
        Image.open(tmp_path / "a.jpg").convert("L"),
        Image.fromarray(np.zeros((4, 6, 4), np.uint8)),
    ]
    ds = leat.pack([{"photo": p} for p in photos], tmp_path / "a.leat", workers=0).open()
    assert ds.schema["photo"].kind == "image"
    assert [ds[i]["photo"] == data for i in range(6)] == [True, True, True, False, False, False]
    for i in range(3, 6):
        with Image.open(io.BytesIO(ds[i]["photo"])) as found:
            assert found.format == "PNG" and found.mode == photos[i].mode and found.tobytes() == photos[i].tobytes()
    with pytest.raises(ValueError, match="sample 0: a photo of mode 'CMYK' has no PNG: convert it"):
        leat.pack([Image.new("CMYK", (3, 3))], tmp_path / "b.leat", workers=0)


def _opened(data: bytes) -> Any:
    return Image.open(io.BytesIO(data))


class Broken:
    """Photos of Pillow, of which some cannot be decoded: a file that leat stores as it is, and one that it does not."""

    def __init__(self, *cut: bytes) -> None:
        self.cut = cut

    def __len__(self) -> int:
        return 2 + len(self.cut)

    def __getitem__(self, i: int) -> Any:
        return _opened(self.cut[i - 1] if 0 < i <= len(self.cut) else jpeg(40, 30, i))


def test_photos_of_pillow_that_are_broken_are_as_other_broken_photos(tmp_path: Path) -> None:
    cut = jpeg(400, 300, 1)[:-900]
    made = leat.pack(Broken(cut), tmp_path / "a.leat", workers=0)
    assert (made.samples, made.broken) == (3, 1) and made.open()[1]["image"] == cut
    made = leat.pack(Broken(cut), tmp_path / "b.leat", workers=0, on_error="skip")
    assert (made.samples, made.skipped) == (2, 1)
    with pytest.raises(leat.BrokenSampleError, match="sample 1"):
        leat.pack(Broken(cut), tmp_path / "c.leat", workers=0, on_error="raise")
    out = io.BytesIO()
    _opened(jpeg(40, 30, 1)).save(out, "BMP")
    bitmap = out.getvalue()[:-500]
    made = leat.pack(Broken(cut, bitmap, cut), tmp_path / "d.leat", workers=0, on_error="skip")
    assert (made.samples, made.skipped) == (2, 3)
    lines = [json.loads(line) for line in (tmp_path / "d.leat.bad.jsonl").read_text().splitlines()]
    assert [(line["index"], line["skipped"]) for line in lines] == [(1, True), (2, True), (3, True)]
    assert lines[0]["reason"].startswith("JPEG") and "cannot be decoded" in lines[1]["reason"]
    with pytest.raises(leat.BrokenSampleError, match="sample 1 of the data set raised a photo cannot be decoded"):
        leat.pack(Broken(bitmap), tmp_path / "e.leat", workers=0)


def test_arrays_within_dicts_are_lists(tmp_path: Path) -> None:
    target = {"boxes": np.ones((2, 4), np.float32), "id": np.int64(3), "more": [np.arange(2), np.arange(3)]}
    made = leat.pack([{"target": target, "ragged": [np.arange(1), np.arange(2)]}] * 3, tmp_path / "a.leat", workers=0)
    assert made.open()[1] == {
        "target": {"boxes": [[1.0] * 4] * 2, "id": 3, "more": [[0, 1], [0, 1, 2]]}, "ragged": [[0], [0, 1]],
    }  # fmt: skip
    torch = pytest.importorskip("torch")
    made = leat.pack([{"t": {"x": torch.ones(2)}}] * 2, tmp_path / "b.leat", workers=0)
    assert made.open()[0] == {"t": {"x": [1.0, 1.0]}}


@pytest.mark.parametrize("workers", [0, 2])
def test_rows_of_scipy_are_sparse(workers: int, tmp_path: Path) -> None:
    scipy = pytest.importorskip("scipy.sparse")
    rows = [{"x": scipy.csr_matrix(np.eye(3, dtype=np.float32)[i % 3 : i % 3 + 1])} for i in range(5)]
    made = leat.pack(rows, tmp_path / "a.leat", workers=workers).open()
    assert made.schema["x"] == leat.sparse("float32", 3) and made[4]["x"].columns.tolist() == [1]
    again = leat.pack([made[i] for i in range(5)], tmp_path / "b.leat", workers=workers).open()
    assert again.schema == made.schema and again.fingerprint == made.fingerprint


def test_names_that_become_one_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="sample 0: 'a b' and 'a/b' are one name of a field, 'a_b'"):
        leat.pack([{"a b": 1, "a/b": 2}], tmp_path / "a.leat", workers=0)
    made = leat.pack([{"a b": 1, "a": 2}], tmp_path / "b.leat", workers=0, fields=["a b"])
    assert made.open()[0] == {"a_b": 1}


def test_no_samples_are_a_file_if_their_fields_are_said(tmp_path: Path) -> None:
    assert leat.pack([], tmp_path / "a.leat", fields={"x": "int64"}).samples == 0


def test_the_callers_random_numbers_stay_as_they_are(tmp_path: Path) -> None:
    for name, data in (("a", [1, 2]), ("b", iter([1, 2]))):
        random.seed(3)
        np.random.seed(3)
        leat.pack(data, tmp_path / f"{name}.leat", workers=0)
        found = random.random(), np.random.rand()
        random.seed(3)
        np.random.seed(3)
        assert found == (random.random(), np.random.rand()), name


def test_options_that_it_does_not_have_are_errors(tmp_path: Path) -> None:
    for option in ("on_bad", "source_id", "nothing"):
        with pytest.raises(TypeError, match=f"no option '{option}': it takes .* quality"):
            leat.pack([1], tmp_path / "a.leat", **{option: "skip"})


def test_bytes_are_photos_if_they_begin_as_such(tmp_path: Path) -> None:
    ds = leat.pack([{"a": jpeg(8, 8), "b": jpeg(8, 8)}, {"a": jpeg(9, 9), "b": b"text"}], tmp_path / "a.leat").open()
    assert (ds.schema["a"].kind, ds.schema["b"].kind) == ("image", "bytes")


Named = collections.namedtuple("Named", "x y")


@dataclasses.dataclass
class Record:
    x: int
    y: str


@pytest.mark.parametrize(
    ("samples", "names"),
    [
        ([(jpeg(8, 8), 3)], ["image", "label"]),
        ([(np.zeros((3, 4, 4)), 3)], ["image", "label"]),
        ([jpeg(8, 8)], ["image"]),
        ([1, 2], ["item"]),
        ([(1, 2.0, "c")], ["item0", "item1", "item2"]),
        ([Named(1, 2)], ["x", "y"]),
        ([Record(1, "a")], ["x", "y"]),
        ([{"a b": 1, "2": 2, "c/d": 3}], ["a_b", "_2", "c_d"]),
    ],
)
def test_names_of_fields(samples: list[Any], names: list[str], tmp_path: Path) -> None:
    ds = leat.pack(samples, tmp_path / "a.leat", workers=0).open()
    assert [n for n, f in ds.schema.items() if not f.derived] == names


def test_fields_choose_name_and_say_what_values_are(tmp_path: Path) -> None:
    ds = leat.pack(Squares(), tmp_path / "a.leat", fields=["name", "square"], workers=0).open()
    assert list(ds.schema) == ["name", "square"]
    said = {"square": "int32", "vec": leat.field("float64", (None,)), "name": None}
    ds = leat.pack(Squares(), tmp_path / "b.leat", fields=said, workers=2).open()
    assert [f.dtype for f in ds.schema.values()] == ["int32", "float64", "uint8"] and ds[9]["vec"].tolist() == [9] * 3
    pairs = [(i, [[0, 0, 1, i]]) for i in range(3)]
    ds = leat.pack(pairs, tmp_path / "c.leat", fields={"n": None, "boxes": leat.boxes()}, workers=0).open()
    assert ds[2]["boxes"].tolist() == [[0, 0, 1, 2]] and ds.schema["boxes"].role == "boxes:xyxy"
    with pytest.raises(ValueError, match="sample 0: it has 2 values, for the fields a: name each"):
        leat.pack(pairs, tmp_path / "d.leat", fields={"a": "int64"}, workers=0)
    with pytest.raises(ValueError, match="sample 0: it has no 'z': it has 'square'"):
        leat.pack(Squares(), tmp_path / "d.leat", fields={"z": "int64"}, workers=0)


def test_the_metadata_of_a_data_set_of_leat_come_along(tmp_path: Path) -> None:
    with leat.Writer(tmp_path / "a.leat", {"x": "int64"}, metadata={"tokenizer": {"hash": "a"}}) as w:
        w.add(x=1)
    ds = leat.open(tmp_path / "a.leat")
    assert leat.pack(ds, tmp_path / "b.leat").open().metadata == ds.metadata
    assert leat.pack(ds, tmp_path / "c.leat", metadata={}).open().metadata == {}


def test_classes_come_along(tmp_path: Path) -> None:
    class Classed(Squares):
        classes = ("cat", "dog")

        def __getitem__(self, i: int) -> Any:
            return {"label": i % 2}

    assert leat.pack(Classed(), tmp_path / "a.leat", workers=0).open().classes == ["cat", "dog"]
    assert leat.pack(Classed(), tmp_path / "b.leat", workers=0, classes=["x", "y"]).open().classes == ["x", "y"]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_sample_that_raises_is_an_error_with_its_number_and_traceback(workers: int, tmp_path: Path) -> None:
    with pytest.raises(leat.BrokenSampleError, match=r"sample 41 of the data set raised OSError: no file 41") as e:
        leat.pack(Squares(bad=(41, 43)), tmp_path / "a.leat", workers=workers)
    assert "Traceback" in str(e.value) and "test_pack.py" in str(e.value) and "packs/pack.py" not in str(e.value)
    assert not (tmp_path / "a.leat").exists()


@pytest.mark.parametrize("workers", [0, 2])
def test_samples_that_raise_are_left_out_if_wanted(workers: int, tmp_path: Path) -> None:
    bad = (0, 41, 43, 99)
    made = leat.pack(Squares(bad=bad), tmp_path / "a.leat", workers=workers, on_error="skip")
    assert (made.samples, made.skipped) == (96, 4)
    assert made.open().column("square").tolist() == [i * i for i in range(100) if i not in bad]
    lines = [json.loads(line) for line in (tmp_path / "a.leat.bad.jsonl").read_text().splitlines()]
    assert [(one["index"], one["reason"]) for one in lines] == [(i, f"OSError: no file {i}") for i in bad]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.leat", "a.leat.bad.jsonl"]


def test_broken_photos_are_marked_or_left_out(tmp_path: Path) -> None:
    samples = [{"image": jpeg(16, 16, i) if i != 2 else jpeg(16, 16)[:200]} for i in range(4)]
    made = leat.pack(samples, tmp_path / "a.leat", workers=0)
    assert (made.samples, made.broken, made.skipped) == (4, 1, 0)
    made = leat.pack(samples, tmp_path / "b.leat", workers=0, on_error="skip")
    assert (made.samples, made.broken, made.skipped) == (3, 0, 1)


class Dying(Squares):
    def __getitem__(self, i: int) -> dict[str, Any]:
        if i == 57:
            os._exit(9)
        return super().__getitem__(i)


def test_a_sample_that_ends_its_worker_is_an_error(tmp_path: Path) -> None:
    with pytest.raises((RuntimeError, leat.Error), match="exit code 9"):
        leat.pack(Dying(), tmp_path / "a.leat", fields=list(FIELDS), workers=2)


@pytest.mark.parametrize(
    ("samples", "text"),
    [
        ([{"x": None}], "field 'x' of sample 0 is None, which leat cannot store"),
        ([{"x": object()}], "field 'x' of sample 0 is a object"),
        ([{"x": 1}, {"y": 2}], "sample 0 has the fields x, and sample 1 y"),
        ([{"x": 1}, {"x": "a"}], "field 'x' is .*int64.* in sample 0 and .*str.* in sample 1"),
        ([{"x": np.zeros((2, 3))}, {"x": np.zeros((2, 4))}], "is .*2, 3.* in sample 0 and .*2, 4.* in sample 1"),
        ([{"x": []}], "field 'x' is empty in the first samples: say what it is"),
        ([], "has no samples"),
        ([{"x": np.array(["a"])}], "field 'x' of sample 0"),
    ],
)
def test_what_cannot_be_stored_is_an_error_that_names_it(samples: list[Any], text: str, tmp_path: Path) -> None:
    with pytest.raises((TypeError, ValueError), match=text):
        leat.pack(samples, tmp_path / "a.leat", workers=0)
    assert not list(tmp_path.iterdir())


def test_a_later_value_that_does_not_fit_is_an_error_even_if_samples_may_be_left_out(tmp_path: Path) -> None:
    class Later(Squares):
        def __getitem__(self, i: int) -> Any:
            return {"x": np.zeros(4 if i == 41 else 3, np.float32)}

    for workers in (0, 2):
        with pytest.raises(ValueError, match=r"sample 41: field 'x' has shape \(3,\), the value has \(4,\) \(fields="):
            leat.pack(Later(), tmp_path / "a.leat", workers=workers, on_error="skip", overwrite=True)


def test_iterables_are_packed_and_gone_on_with(tmp_path: Path) -> None:
    def stream(n: int, stop: int | None = None) -> Iterator[dict[str, Any]]:
        for i in range(n):
            if i == stop:
                raise RuntimeError("the stream is cut off")
            yield {"i": i, "data": bytes(100_000)}

    assert leat.pack(stream(5), tmp_path / "a.leat").open().column("i").tolist() == [0, 1, 2, 3, 4]
    leat.pack(stream(400), tmp_path / "whole.leat")
    with pytest.raises(leat.BrokenSampleError, match="sample 300 of the data set raised RuntimeError: the stream"):
        leat.pack(stream(400, 300), tmp_path / "b.leat")
    with pytest.raises(FileExistsError, match="samples of an unfinished target are here"):
        leat.pack(stream(400), tmp_path / "b.leat")
    leat.pack(stream(400), tmp_path / "b.leat", resume=True)
    assert (tmp_path / "b.leat").read_bytes() == (tmp_path / "whole.leat").read_bytes()


@pytest.mark.parametrize("listed", [True, False])
def test_a_run_does_not_go_on_with_other_samples_of_the_same_class_and_number(tmp_path: Path, listed: bool) -> None:
    class Data:
        def __init__(self, first: int, last: int, stop: int | None = None) -> None:
            self.ends, self.stop = {0: first, 399: last}, stop

        def __len__(self) -> int:
            return 400

        def __getitem__(self, i: int) -> Any:
            if i == self.stop:
                raise RuntimeError("it is cut off")
            return {"i": self.ends.get(i, i), "data": bytes(100_000)}

    def of(first: int, last: int, stop: int | None = None) -> Any:
        data = Data(first, last, stop)
        return data if listed else (data[i] for i in range(400))

    with pytest.raises(leat.BrokenSampleError, match="it is cut off"):
        leat.pack(of(0, 399, 300), tmp_path / "a.leat", workers=0, on_error="raise")
    for other in [of(1, 399)] + [of(0, 398)] * listed:
        with pytest.raises(leat.ChangedError, match="the data set changed since this was begun"):
            leat.pack(other, tmp_path / "a.leat", workers=0, on_error="raise", resume=True)
    leat.pack(of(0, 399), tmp_path / "a.leat", workers=0, on_error="raise", resume=True)
    assert leat.open(tmp_path / "a.leat").column("i").tolist() == list(range(400))


def test_an_iterable_data_set_of_torch_is_iterated_over(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")

    class Stream(torch.utils.data.IterableDataset):  # type: ignore[misc, name-defined]
        def __iter__(self) -> Iterator[int]:
            return iter(range(9))

    assert leat.pack(Stream(), tmp_path / "a.leat", workers=2).open().column("item").tolist() == list(range(9))


def test_data_sets_of_leat_are_packed(tmp_path: Path) -> None:
    ds = leat.from_arrays(x=np.arange(5), y=np.zeros((5, 2)))
    made = leat.pack(ds, tmp_path / "a.leat").open()
    assert made.fingerprint == ds.fingerprint
    assert list(leat.pack(ds[::2], tmp_path / "b.leat", fields=["x"]).open().schema) == ["x"]
    photos = leat.open(make_folder(tmp_path / "photos", {"cat": 2}, make=jpeg))
    made = leat.pack(photos, tmp_path / "c.leat").open()
    assert made.schema["name"].derived and [s["name"] for s in (made[0], made[1])] == ["cat/0000.jpg", "cat/0001.jpg"]
    names = leat.pack(photos, tmp_path / "d.leat", fields=["name"]).open()
    other = leat.pack(photos[::-1], tmp_path / "e.leat", fields=["name"]).open()
    assert not names.schema["name"].derived and names.fingerprint != other.fingerprint


def test_photos_that_are_pixels_stay_so(tmp_path: Path) -> None:
    src = real_data("formats-peers") / "beton" / "raw.beton.gz"
    (tmp_path / "raw.beton").write_bytes(gzip.decompress(src.read_bytes()))
    ds = leat.open(tmp_path / "raw.beton")
    made = leat.pack(ds, tmp_path / "a.leat")
    assert (made.broken, made.open().fingerprint) == (0, ds.fingerprint)


def test_what_is_no_data_set_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="from_arrays"):
        leat.pack({"x": [1]}, tmp_path / "a.leat")
    with pytest.raises(TypeError, match="an iterable, not int"):
        leat.pack(7, tmp_path / "a.leat")
    for name in ("photos", b"photos", Path("photos")):  # a text gave a sample for each of its letters
        with pytest.raises(TypeError, match=r"not its path: leat.pack\(leat.open\(b?'photos'\), path\)"):
            leat.pack(name, tmp_path / "a.leat")
    assert not os.path.exists(tmp_path / "a.leat")
    with pytest.raises(TypeError, match="fields is a list"):
        leat.pack([1], tmp_path / "a.leat", fields="x")


# ---- killed, and from the shell --------------------------------------------------------------------------------------

MODULE = """
import random
import numpy as np

class Slow:
    classes = ["even", "odd"]
    def __len__(self): return {n}
    def __getitem__(self, i):
        if i in {bad}: raise ValueError(f"sample {{i}} is bad")
        return {{"label": i % 2, "drawn": random.random(), "data": np.random.bytes(60_000), "tokens": np.arange(i % 5)}}

made = Slow()
"""


def module(folder: Path, n: int = 400, bad: tuple[int, ...] = ()) -> Path:
    (folder / "slow.py").write_text(MODULE.format(n=n, bad=bad))
    return folder / "slow.py"


@pytest.mark.parametrize("bad", [(), (3, 250, 399)])
def test_a_killed_run_goes_on_to_the_same_file(bad: tuple[int, ...], tmp_path: Path) -> None:
    spec, out = f"{module(tmp_path, bad=bad)}:Slow", tmp_path / "out.leat"
    policy = ["--on-error", "skip"] if bad else []
    line = [command(), "pack", "--dataset", spec, out, "--workers", 2, *policy]
    assert stopped(line, tmp_path / "out.leat", signal.SIGKILL, 10 << 20).returncode == -signal.SIGKILL
    kept = run("pack", "--dataset", spec, out, *policy, code=2, env=PYTHON).stderr
    assert "samples of an unfinished target are here, --resume continues, --overwrite starts again" in kept
    module(tmp_path, 401, bad)
    changed = run("pack", "--dataset", spec, out, *policy, "--resume", code=2, env=PYTHON).stderr
    assert "the data set changed since this was begun" in changed
    module(tmp_path, bad=bad)
    done = run("pack", "--dataset", spec, out, *policy, "--resume", "--workers", 1, env=PYTHON)
    assert f"{400 - len(bad)} samples" in done.stdout and (f"{len(bad)} left out" in done.stdout) == bool(bad)
    run("pack", "--dataset", spec, tmp_path / "whole.leat", *policy, "--workers", 0, "--quiet", env=PYTHON)
    assert out.read_bytes() == (tmp_path / "whole.leat").read_bytes()
    assert leat.open(out).classes == ["even", "odd"]
    assert not (tmp_path / "out.leat.packing").exists() and not (tmp_path / "out.leat.partial").exists()


def test_a_run_that_ended_between_its_last_two_steps_is_finished(tmp_path: Path, monkeypatch: Any) -> None:
    from leat.text.notes import Notes

    def killed_there(self: Notes, broken: Any = ()) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Notes, "finish", killed_there)
    with pytest.raises(KeyboardInterrupt):
        leat.pack(Squares(bad=(3,)), tmp_path / "a.leat", workers=0, on_error="skip")
    monkeypatch.undo()
    assert (tmp_path / "a.leat.packing").exists() and (tmp_path / "a.leat").exists()
    made = leat.pack(Squares(bad=(3,)), tmp_path / "a.leat", workers=0, on_error="skip", resume=True)
    assert (made.samples, made.skipped) == (99, 1)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.leat", "a.leat.bad.jsonl"]


def test_the_shell_names_a_data_set_by_its_module(tmp_path: Path) -> None:
    module(tmp_path, 20)
    run(
        "pack",
        "--dataset",
        "slow:made",
        "a.leat",
        "--field",
        "label=int32",
        "--field",
        "tokens",
        env=PYTHON,
        cwd=tmp_path,
    )
    ds = leat.open(tmp_path / "a.leat")
    assert list(ds.schema) == ["label", "tokens"] and ds.schema["label"].dtype == "int32"
    run("verify", tmp_path / "a.leat")


def test_an_interrupt_before_the_first_sample_is_written_says_no_more(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(
        "import sys, time\nclass Slow:\n    def __len__(self): return 9\n    def __getitem__(self, i):\n"
        "        print('asked', flush=True)\n        time.sleep(60)\n"
    )
    (tmp_path / "a.leat").write_bytes(b"an older file")
    line = [command(), "pack", "--dataset", f"{tmp_path / 'slow.py'}:Slow", str(tmp_path / "a.leat"), "--overwrite"]
    with Started(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=PYTHON) as process:
        assert process.stdout is not None and process.stdout.readline() == "asked\n"
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=60)
    assert process.returncode == 130 and told == "leat pack: interrupted.\n"


def test_errors_of_the_shell_say_what_to_do(tmp_path: Path) -> None:
    spec, out = f"{module(tmp_path, 20, (7,))}:made", tmp_path / "a.leat"
    told = run("pack", "--dataset", spec, out, code=1, env=PYTHON).stderr
    assert "sample 7 of the data set raised ValueError: sample 7 is bad" in told and "slow.py" in told
    assert (
        "there is no 'nothing' in it"
        in run("pack", "--dataset", f"{tmp_path}/slow.py:nothing", out, code=2, env=PYTHON).stderr
    )
    assert "a data set is named module:attribute" in run("pack", "--dataset", "slow", out, code=2, env=PYTHON).stderr
    assert (
        "--coco is not about Python data sets"
        in run("pack", "--dataset", spec, out, "--coco", "a.json", code=2, env=PYTHON).stderr
    )
    assert "DST is missing" in run("pack", "--dataset", spec, code=2).stderr
    assert "one argument too many" in run("pack", "--dataset", spec, "a", "b", code=2).stderr
    assert "--workers needs --dataset" in run("pack", "a", "b", "--workers", "2", code=2).stderr
    assert "--dataset has none" in run("pack", "--dataset", spec, out, "--tokenizer", "t.json", code=2).stderr


class Lazy:
    """Opens its file when it is first read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file: Any = None

    def __len__(self) -> int:
        return 200

    def __getitem__(self, i: int) -> dict[str, Any]:
        if self.file is None:
            self.file = self.path.open("rb", buffering=0)
        self.file.seek(8 * i)
        return {"x": int.from_bytes(self.file.read(8), "little")}


@pytest.mark.parametrize("fields", [None, {"x": leat.field("int64")}])
def test_a_file_that_a_data_set_opens_when_it_is_read_is_opened_by_each_worker(tmp_path: Path, fields: Any) -> None:
    """Else all would read at one position of it, and the file of leat have others' values."""
    np.arange(200).astype("<i8").tofile(tmp_path / "numbers")
    data = Lazy(tmp_path / "numbers")
    leat.pack(data, tmp_path / "x.leat", workers=2, fields=fields, progress=False)
    assert data.file is None
    assert [leat.open(tmp_path / "x.leat")[i]["x"] for i in range(200)] == list(range(200))
    leat.pack(data, tmp_path / "y.leat", workers=0, fields=fields, progress=False)
    assert data.file is not None
