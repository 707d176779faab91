"""`leat convert`: data sets of any format as files of leat."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_support import PYTHON, command, jpeg, make_folder, real_data, stopped
from cli_support import leat as run

import leat
from leat.data.made import of_arrays

PHOTOS = [jpeg(40 + i, 30, i) for i in range(5)]


def _tar(path: Path) -> Path:
    with tarfile.open(path, "w") as tar:
        for i, photo in enumerate(PHOTOS):
            for name, data in ((f"{i:03d}.jpg", photo), (f"{i:03d}.cls", str(i).encode())):
                info = tarfile.TarInfo(name)
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    return path


def _jsonl(path: Path) -> Path:
    records = [{"text": f"one {i}", "n": i, "list": [1] * i, **({"x": 0.5} if i % 2 else {})} for i in range(9)]
    path.write_text("".join(json.dumps(r) + "\n" for r in records))
    return path


def _parquet(path: Path, rows: int = 50, group: int = 20, more: int = 0) -> Path:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    table = {
        "photo": [PHOTOS[i % 5] + bytes(more) for i in range(rows)],
        "n": list(range(rows)),
        "text": [f"text {i}" for i in range(rows)],
        "list": [[0.5] * (i % 4) for i in range(rows)],
    }
    pyarrow.parquet.write_table(pa.table(table), path, row_group_size=group)
    return path


def same(a: leat.Dataset, b: leat.Dataset) -> None:
    assert len(a) == len(b)
    assert [n for n, f in a.schema.items() if not f.derived] == [n for n, f in b.schema.items() if not f.derived]
    names = list(a.schema)
    assert all(name in b.schema for name in names)
    for i in range(len(a)):
        one, other = a[i], b[i]
        for name in names:
            np.testing.assert_equal(other[name], one[name])


@pytest.mark.parametrize("kind", ["tar", "folder", "leat", "several"])
def test_a_conversion_has_the_samples_and_the_fingerprint_of_its_source(kind: str, tmp_path: Path) -> None:
    sources = {
        "tar": lambda: [_tar(tmp_path / "a.tar")],
        "folder": lambda: [make_folder(tmp_path / "a", {"x": 3, "y": 2}, make=jpeg)],
        "several": lambda: [_tar(tmp_path / "a.tar"), _tar(tmp_path / "b.tar")],
    }
    if kind == "leat":
        src: Any = [tmp_path / "a.leat"]
        with leat.Writer(src[0], {"image": "image", "label": "int64"}, classes=["a", "b"]) as w:
            for i, photo in enumerate(PHOTOS):
                w.add(image=photo, label=i % 2)
    else:
        src = sources[kind]()
    done = run("convert", *src, tmp_path / "out.leat", "--photos", "fast")
    ds, made = leat.open(src if len(src) > 1 else src[0]), leat.open(tmp_path / "out.leat")
    assert made.fingerprint == ds.fingerprint and f"fingerprint {ds.fingerprint}, that of " in done.stdout
    assert made.classes == ds.classes
    same(ds, made)


def test_a_state_of_a_run_over_a_tar_goes_on_with_its_conversion(tmp_path: Path) -> None:
    run("convert", _tar(tmp_path / "a.tar"), tmp_path / "out.leat", "--shard-bytes", "9K")

    def loader(path: Path) -> leat.Loader:
        return leat.Loader(leat.open(path), 2, shuffle=True, seed=5, epochs=1, framework="numpy")

    first = loader(tmp_path / "a.tar")
    whole = [b.ids.tolist() for b in loader(tmp_path / "a.tar")]
    next(iter(first))
    again = loader(tmp_path / "out.leat")
    again.load_state_dict(first.state_dict())
    assert [b.ids.tolist() for b in again] == whole[1:]


def test_tars_of_others_convert(tmp_path: Path) -> None:
    folder = real_data("formats-peers")
    found = [p for p in sorted(folder.rglob("*.tar")) if p.is_file()]
    for path in found[:6]:
        try:
            ds = leat.open(path)
        except leat.Error:
            continue
        out = tmp_path / f"{path.stem}.leat"
        run("convert", path, out, "--overwrite")
        assert leat.open(out).fingerprint == ds.fingerprint
        same(ds, leat.open(out))


def _tables(tmp_path: Path) -> tuple[Path, Path, Path]:
    """Two files of tables, and the conversion of the first to shards."""
    one, other = _parquet(tmp_path / "a.parquet"), _parquet(tmp_path / "b.parquet", rows=30)
    run("convert", one, tmp_path / "out.leat", "--shard-bytes", "1K", env=PYTHON)
    return one, other, tmp_path / "out.leat"


def test_views_and_joins_of_a_conversion_have_the_fingerprints_of_those_of_its_source(tmp_path: Path) -> None:
    one, other, out = _tables(tmp_path)
    ds, made, more = leat.open(one), leat.open(out), leat.open(other)
    own = made.about["fingerprint_of_values"]
    assert made.fingerprint == ds.fingerprint != own and "fingerprint_of_values" not in ds.about
    run("pack", out, tmp_path / "packed.leat")
    assert leat.open(tmp_path / "packed.leat").fingerprint == own
    for take in (
        lambda d: d[7:30],
        lambda d: d.where("n % 3 = 1"),
        lambda d: leat.concat([d, more]),
        lambda d: leat.concat([more, d])[20:60],
        lambda d: leat.zip(a=d[:30], b=more),
    ):
        assert take(made).fingerprint == take(ds).fingerprint


def test_the_state_of_a_view_goes_on_over_the_same_view_of_the_conversion(tmp_path: Path) -> None:
    one, _, out = _tables(tmp_path)

    def loader(path: Path) -> leat.Loader:
        part = leat.open(path).where("n > 9")
        return leat.Loader(part, 7, shuffle=True, seed=5, epochs=1, framework="numpy", outputs={"n": []})

    whole = [b["n"].tolist() for b in loader(one)]
    for before, after in ((one, out), (out, one)):
        first = loader(before)
        next(iter(first))
        rest = loader(after)
        rest.load_state_dict(json.loads(json.dumps(first.state_dict())))
        assert [b["n"].tolist() for b in rest] == whole[1:]


@pytest.mark.parametrize("form", ["original", "fast", "raw"])
def test_photos_of_tables_are_those_of_the_source_in_any_form(form: str, tmp_path: Path) -> None:
    src, out = _parquet(tmp_path / "a.parquet"), tmp_path / "out.leat"
    run("convert", src, out, "--field", "photo=image", "--field", "n", "--photos", form, "--quiet", env=PYTHON)
    ds, made = leat.open(src, fields={"photo": "image", "n": None}), leat.open(out)
    assert made.fingerprint == ds.fingerprint and list(made.about["photos"]) == [form]

    def loader(one: leat.Dataset) -> leat.Loader:
        outputs = {"photo": [leat.ops.Decode(), leat.ops.RandomResizedCrop(8)], "n": []}
        return leat.Loader(one, 7, shuffle=True, seed=5, epochs=1, framework="numpy", outputs=outputs)

    whole = [(b["photo"].tobytes(), b["n"].tolist()) for b in loader(ds)]
    first = loader(ds)
    next(iter(first))
    rest = loader(made)
    rest.load_state_dict(first.state_dict())
    assert [(b["photo"].tobytes(), b["n"].tolist()) for b in rest] == whole[1:]


def test_some_fields_and_some_samples_are_other_data_sets(tmp_path: Path) -> None:
    src = _jsonl(tmp_path / "a.jsonl")
    told = run("convert", src, tmp_path / "some.leat", "--field", "text", "--field", "n").stdout
    assert "a.jsonl with these fields: states of runs over it fit" in told
    some = leat.open(tmp_path / "some.leat")
    assert some.fingerprint == leat.open(src, fields=["text", "n"]).fingerprint != leat.open(src).fingerprint
    told = run("convert", src, tmp_path / "where.leat", "--where", "n > 3").stdout
    assert "states of runs over it do not fit" in told
    assert "fingerprint_of_values" not in leat.open(tmp_path / "where.leat").about


def test_info_and_verify_tell_of_the_fingerprint_of_the_source(tmp_path: Path) -> None:
    src = _jsonl(tmp_path / "a.jsonl")
    run("convert", src, tmp_path / "b.leat", "--quiet")
    run("pack", src, tmp_path / "c.leat", "--quiet")
    ds, own = leat.open(src), leat.open(tmp_path / "c.leat").fingerprint
    told = run("info", tmp_path / "b.leat").stdout
    assert f"fingerprint    {ds.fingerprint}\n" in told
    assert f"of the data set that it was converted from; of its values: {own}\n" in told
    about = json.loads(run("info", tmp_path / "b.leat", "--json").stdout)
    assert (about["fingerprint"], about["fingerprint_of_values"]) == (ds.fingerprint, own)
    part = json.loads(run("info", tmp_path / "b.leat", "--json", "--where", "n > 3").stdout)
    assert "fingerprint_of_values" not in part
    told = run("verify", tmp_path / "b.leat", tmp_path / "c.leat").stdout
    assert told.count("converted from") == 1
    assert f"fingerprint {ds.fingerprint}, of the data set that it was converted from; of its values: {own}" in told


@pytest.mark.parametrize("ending", ["parquet", "feather", "h5ad", "h5", "zarr", "array_record", "tar"])
def test_a_file_of_leat_opens_whatever_its_name_ends_in(ending: str, tmp_path: Path) -> None:
    path, ds = tmp_path / f"b.{ending}", leat.open(_jsonl(tmp_path / "a.jsonl"))
    run("convert", tmp_path / "a.jsonl", path)
    for src in (path, [path], tmp_path / f"*.{ending}"):
        assert leat.open(src).fingerprint == ds.fingerprint
    assert json.loads(run("info", path, "--json").stdout)["format"] == "leat"
    assert run("cat", path, "--id", 1, "--field", "n").stdout == f"{ds[1]['n']}\n"
    run("convert", path, tmp_path / "c.leat")
    assert leat.open(tmp_path / "c.leat").fingerprint == ds.fingerprint


def test_a_table_is_converted_in_its_own_place(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pytest.importorskip("pyarrow.parquet").write_table(pytest.importorskip("pyarrow").table({"n": range(9)}), path)
    before = leat.open(path).fingerprint
    assert "states of runs over it fit" in run("convert", path, path, "--overwrite").stdout
    assert leat.open(path).fingerprint == before and leat.open(path).about["format"] == "leat"


def test_a_writer_makes_a_conversion_of_a_whole_data_set_and_of_nothing_else(tmp_path: Path) -> None:
    ds = leat.open(_jsonl(tmp_path / "a.jsonl"))
    schema = {n: f for n, f in ds.schema.items() if not f.derived or n == "x.valid"}
    with leat.Writer(tmp_path / "b.leat", schema) as w:
        w.write_dataset(ds, convert=True)
    made = leat.open(tmp_path / "b.leat")
    assert made.fingerprint == ds.fingerprint
    same(ds, made)
    with pytest.raises(ValueError, match="a view"), leat.Writer(tmp_path / "c.leat", schema) as w:
        w.write_dataset(ds[:4], convert=True)
    with pytest.raises(ValueError, match="has other fields"), leat.Writer(tmp_path / "c.leat", {"n": "int64"}) as w:
        w.write_dataset(ds, convert=True)
    with (
        pytest.raises(ValueError, match="10 samples, and the data set .* 9"),
        leat.Writer(tmp_path / "c.leat", schema) as w,
    ):
        w.write_dataset(ds, convert=True)
        w.write({n: made[0][n] for n in schema})
    assert not (tmp_path / "c.leat").exists()


def _numbers(version: str, n: int = 300) -> leat.Dataset:
    """Arrays whose fingerprint is made of a text, with classes that are no part of it."""
    x = np.arange(n, dtype=np.int64)
    return of_arrays({}, {"label": x % 2, "x": x}, version, ["cat", "dog"])


def test_a_conversion_has_the_rows_of_its_source_alone(tmp_path: Path) -> None:
    one, other = _numbers("one"), _numbers("two")

    def begun(**options: Any) -> leat.Writer:
        return leat.Writer(tmp_path / "c.leat", one.schema, classes=["cat", "dog"], overwrite=True, **options)

    with pytest.raises(ValueError, match="10 samples were added before"), begun() as w:
        for _ in range(10):
            w.add(label=0, x=999)
        w.write_dataset(one, convert=True)
    with pytest.raises(ValueError, match="300 samples were added before"), begun() as w:
        w.write_dataset(other)
        w.write_dataset(one, convert=True)
    with pytest.raises(ValueError, match="a conversion already"), begun() as w:
        w.write_dataset(one, convert=True)
        w.write_dataset(other, convert=True)
    assert not (tmp_path / "c.leat").exists()


@pytest.mark.parametrize("classes", [None, ["cat"], ["dog", "cat"]])
def test_a_conversion_has_the_classes_of_its_source(classes: list[str] | None, tmp_path: Path) -> None:
    ds = _numbers("one")
    with (
        pytest.raises(ValueError, match="other classes"),
        leat.Writer(tmp_path / "c.leat", ds.schema, classes=classes) as w,
    ):
        w.write_dataset(ds, convert=True)


def test_data_sets_that_follow_each_other_are_written_in_whole_and_resumed(tmp_path: Path) -> None:
    rows = np.zeros((10, 1 << 20), np.uint8)
    one, other = leat.from_arrays(x=rows + 1), leat.from_arrays(x=rows + 2)

    def write(path: Path, stop: int | None = None, **options: Any) -> leat.Writer:
        def said(done: int) -> None:
            if done == stop:
                raise KeyboardInterrupt

        with leat.Writer(path, one.schema, **options) as w:
            w.write_dataset(one, said)
            w.write_dataset(other, said)
        return w

    write(tmp_path / "a.leat")
    assert [int(s["x"][0]) for s in leat.open(tmp_path / "a.leat")] == [1] * 10 + [2] * 10
    for stop in (10, 20):
        with pytest.raises(KeyboardInterrupt):
            write(tmp_path / "b.leat", stop)
        write(tmp_path / "b.leat", resume=True)
        assert (tmp_path / "b.leat").read_bytes() == (tmp_path / "a.leat").read_bytes()
        (tmp_path / "b.leat").unlink()


def test_a_call_that_an_exception_ended_goes_on_with_the_next(tmp_path: Path) -> None:
    ds = _numbers("one", 5000)

    def stop(done: int) -> None:
        if done < 5000:
            raise KeyboardInterrupt

    for convert in (False, True):
        with leat.Writer(tmp_path / f"{convert}.leat", ds.schema, classes=["cat", "dog"]) as w:
            with pytest.raises(KeyboardInterrupt):
                w.write_dataset(ds, stop, convert=convert)
            assert len(w) == 4096
            w.write_dataset(ds, convert=convert)
        made = leat.open(tmp_path / f"{convert}.leat")
        assert [int(row["x"]) for row in made] == list(range(5000))
        assert (made.fingerprint == ds.fingerprint) is convert


@pytest.mark.parametrize("name", ["mine", "the other's", None])
def test_rows_of_another_data_set_are_not_resumed_as_those_of_a_conversion(name: str | None, tmp_path: Path) -> None:
    rows = np.zeros((10, 1 << 20), np.uint8)
    one, other = (of_arrays({}, {"x": rows + i}, f"version {i}") for i in range(2))
    options: dict[str, Any] = {"source_id": one.fingerprint if name == "the other's" else name}

    def stop(done: int) -> None:
        raise KeyboardInterrupt

    def write(ds: leat.Dataset, progress: Any = None, **more: Any) -> None:
        with leat.Writer(tmp_path / "c.leat", ds.schema, **options, **more) as w:
            w.write_dataset(ds, progress, convert=True)

    with pytest.raises(KeyboardInterrupt):
        write(one, stop)
    with pytest.raises(ValueError, match=f"a source_id that holds the fingerprint of its source, {other.fingerprint}"):
        write(other, resume=True)
    if name == "the other's":
        write(one, resume=True)
        assert leat.open(tmp_path / "c.leat").fingerprint == one.fingerprint
    assert (tmp_path / "c.leat").exists() is (name == "the other's")


def test_chosen_fields_of_a_conversion_have_one_fingerprint_in_a_file_in_shards_and_in_the_source(
    tmp_path: Path,
) -> None:
    sources = [_jsonl(tmp_path / "a.jsonl"), make_folder(tmp_path / "photos", {"x": 3, "y": 2}, make=jpeg)]
    with leat.Writer(tmp_path / "b.leat", {"n": "int64", "label": "int64"}, classes=["a", "b"]) as w:
        for i in range(9):
            w.add(n=i, label=i % 2)
    for i, src in enumerate([*sources, tmp_path / "b.leat"]):
        files = [tmp_path / f"{i}.leat", tmp_path / f"{i}s.leat"]
        run("convert", src, files[0], "--quiet")
        run("convert", src, files[1], "--quiet", "--shard-bytes", "1K")
        stored = [name for name, f in leat.open(src).schema.items() if not f.derived]
        for fields in (stored[:1], stored[1:2], stored[::-1], stored):
            prints = [leat.open(path, fields=fields).fingerprint for path in (src, *files)]
            assert len(set(prints)) == 1, (src, fields)
            assert (prints[0] == leat.open(src).fingerprint) is (fields == stored)


def test_a_join_says_the_fingerprint_of_its_values_if_all_of_them_are_known(tmp_path: Path) -> None:
    src = _jsonl(tmp_path / "a.jsonl")
    run("convert", src, tmp_path / "b.leat", "--quiet")
    made = leat.open(tmp_path / "b.leat")
    leat.pack(leat.concat([made, made]), tmp_path / "c.leat")
    said = leat.concat([made, made]).about["fingerprint_of_values"]
    assert said == leat.open(tmp_path / "c.leat").fingerprint
    for parts in ([made, leat.open(src)], [leat.open(src), made]):
        assert "fingerprint_of_values" not in leat.concat(parts).about
    assert "fingerprint_of_values" not in leat.open(tmp_path / "b.leat", fields=["n"]).about


def test_a_derived_field_that_the_file_would_lack_is_refused(tmp_path: Path) -> None:
    src, out = tmp_path / "a.leat", tmp_path / "o.leat"
    run("pack", make_folder(tmp_path / "photos", {"x": 3, "y": 2}, make=jpeg), src, "--quiet")
    for verb in ("convert", "pack"):
        told = run(verb, src, out, "--field", "label", "--field", "image.width", code=2).stderr
        assert "the field 'image.width' is derived of 'image', which is not written: add --field 'image'" in told
        assert not out.exists()
    run("convert", src, out, "--field", "image", "--field", "image.width", "--quiet")
    assert "image.width" in leat.open(out).schema


def test_what_is_missing_is_missing_in_the_conversion_too(tmp_path: Path) -> None:
    path = _jsonl(tmp_path / "a.jsonl")
    assert run("convert", path, tmp_path / "b.leat", "--quiet").returncode == 0
    assert run("convert", tmp_path / "b.leat", tmp_path / "c.leat", "--quiet").returncode == 0
    leat.pack(leat.open(path), tmp_path / "d.leat")
    for name in "bcd":
        made = leat.open(tmp_path / f"{name}.leat")
        assert made.schema["x.valid"].derived and made.where("x IS NULL").ids.tolist() == [0, 2, 4, 6, 8]
        same(leat.open(path), made)
    b, c, d = (leat.open(tmp_path / f"{name}.leat") for name in "bcd")
    assert b.fingerprint == c.fingerprint == leat.open(path).fingerprint
    assert d.fingerprint == b.about["fingerprint_of_values"]


def test_tables_convert_by_the_package(tmp_path: Path) -> None:
    src = _parquet(tmp_path / "a.parquet")
    done = run("convert", src, tmp_path / "out.leat", env=PYTHON)
    assert "50 samples" in done.stdout and "states of runs over it fit" in done.stdout
    same(leat.open(src), leat.open(tmp_path / "out.leat"))
    assert leat.open(tmp_path / "out.leat").fingerprint == leat.open(src).fingerprint
    fields = ("--field", "photo=image", "--field", "n", "--field", "list=float64:*")
    run("convert", src, tmp_path / "some.leat", *fields, "--photos", "fast", "--where", "n > 9", env=PYTHON)
    some = leat.open(tmp_path / "some.leat")
    assert list(some.schema)[:3] == ["photo", "n", "list"] and some.schema["photo"].kind == "image"
    assert len(some) == 40 and some.about["photos"]["fast"]["count"] == 40 and some[3]["photo"] == PHOTOS[3]


def test_errors_say_what_to_do_in_the_shell(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        tar.addfile(tarfile.TarInfo("0.pkl"), io.BytesIO())
    told = run("convert", tmp_path / "a.tar", tmp_path / "b.leat", code=2).stderr
    assert "pickles" in told and "--field NAME takes a field, --field NAME=KIND says what it is" in told
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    pyarrow.parquet.write_table(pa.table({"n": [1, None]}), tmp_path / "a.parquet")
    told = run("convert", tmp_path / "a.parquet", tmp_path / "b.leat", code=1, env=PYTHON).stderr
    assert "'n' has no value, and a field has one: --fill n=VALUE says what stands for it" in told


def test_broken_photos_of_tables_are_listed(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    pyarrow.parquet.write_table(pa.table({"photo": [PHOTOS[0], PHOTOS[1][:-90], PHOTOS[2]]}), tmp_path / "a.parquet")
    told = run("convert", tmp_path / "a.parquet", tmp_path / "b.leat", "--field", "photo=image", env=PYTHON).stdout
    assert f"1 broken photos: marked. All of them: {tmp_path / 'b.leat.bad.jsonl'}" in told
    (line,) = (json.loads(line) for line in (tmp_path / "b.leat.bad.jsonl").read_text().splitlines())
    assert (line["index"], line["skipped"]) == (1, False) and line["reason"].startswith("JPEG")


def test_what_is_converted_is_told_from_what_packing_alone_does(tmp_path: Path) -> None:
    src = _jsonl(tmp_path / "a.jsonl")
    for option in ("--max-side", "--on-error", "--tokenizer"):
        told = run("convert", src, tmp_path / "o.leat", option, "1", code=2).stderr
        assert f"there is no option {option}" in told or "no option" in told
    assert (
        "is not about such files"
        in run(
            "convert", _parquet(tmp_path / "a.parquet"), tmp_path / "o.leat", "--labels", "none", code=2, env=PYTHON
        ).stderr
    )


def test_a_killed_conversion_of_a_table_goes_on_to_the_same_file(tmp_path: Path) -> None:
    src, out = _parquet(tmp_path / "a.parquet", 400, 20, 60_000), tmp_path / "out.leat"
    line = [command(), "convert", src, out, "--num-threads", 1]
    assert stopped(line, out, signal.SIGKILL, 10 << 20).returncode == -signal.SIGKILL
    assert not out.exists()
    kept = run("convert", src, out, code=2, env=PYTHON).stderr
    assert "samples of an unfinished target are here, --resume continues, --overwrite starts again" in kept
    before = (tmp_path / "out.leat.partial").stat().st_size
    assert before >= 10 << 20
    other = _parquet(tmp_path / "b.parquet", 401, 20, 60_000)
    assert (
        "changed since the unfinished file was begun"
        in run("convert", other, out, "--resume", code=2, env=PYTHON).stderr
    )
    run("convert", src, out, "--resume", "--quiet", env=PYTHON)
    run("convert", src, tmp_path / "whole.leat", "--num-threads", 2, "--quiet", env=PYTHON)
    assert out.read_bytes() == (tmp_path / "whole.leat").read_bytes()
    assert sorted(p.name for p in tmp_path.glob("out*")) == ["out.leat"]


def test_an_interrupted_conversion_says_how_it_goes_on(tmp_path: Path) -> None:
    src, out = _parquet(tmp_path / "a b.parquet", 1500, 20, 60_000), tmp_path / "out.leat"
    line = [command(), "convert", src, out, "--field", "photo=image", "--field", "n", "--num-threads", "1"]
    done = stopped(line, out, signal.SIGINT, 10 << 20)
    assert done.returncode == 130, done.stderr
    words = done.stderr.split("To resume: leat ")[1].splitlines()[0]
    assert words.startswith("convert '") and "--field photo=image --field n" in words and words.endswith("--resume")
    subprocess.run(f"{command()} {words}", shell=True, check=True, env={**os.environ, "LEAT_PYTHON": sys.executable})
    assert len(leat.open(out)) == 1500
