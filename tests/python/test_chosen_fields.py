"""`fields=` of formats whose fields are fixed: folders, annotations, IDX, text, sequences, events, leat's own files."""

from __future__ import annotations

import functools
import json
import pickle
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_support import leat as shell
from coco_made import four_photos, small, write
from conftest import jpeg
from PIL import Image

import leat

Made = tuple[Any, dict[str, Any]]


def photo_folder(tmp: Path) -> Made:
    for i in range(6):
        (tmp / "photos" / "ab"[i % 2]).mkdir(parents=True, exist_ok=True)
        (tmp / "photos" / "ab"[i % 2] / f"{i}.jpg").write_bytes(jpeg(8 + i, 9, i))
    return tmp / "photos", {}


def of_coco(tmp: Path) -> Made:
    photos = four_photos(tmp)
    return photos, {"annotations": write(photos, small())}


def of_yolo(tmp: Path) -> Made:
    photos = four_photos(tmp)
    (tmp / "labels").mkdir()
    for photo in photos.rglob("*.png"):
        label = tmp / "labels" / photo.relative_to(photos).with_suffix(".txt")
        label.parent.mkdir(exist_ok=True)
        label.write_text("1 0.5 0.5 0.25 0.5\n0 0.25 0.5 0.5 0.5\n")
    return photos, {"annotations": tmp / "labels", "format": "yolo"}


def of_masks(tmp: Path) -> Made:
    (tmp / "images").mkdir()
    (tmp / "masks").mkdir()
    for i in range(4):
        (tmp / "images" / f"{i}.jpg").write_bytes(jpeg(8, 6, i))
        Image.fromarray(np.full((6, 8), i, np.uint8)).save(tmp / "masks" / f"{i}.png")
    return tmp / "images", {"masks": tmp / "masks"}


def of_idx(tmp: Path) -> Made:
    head = bytes([0, 0, 8, 3]) + b"".join(n.to_bytes(4, "big") for n in (5, 2, 3))
    (tmp / "x-idx3-ubyte").write_bytes(head + bytes(range(30)))
    return tmp / "x-idx3-ubyte", {}


def of_text(tmp: Path) -> Made:
    (tmp / "x.txt").write_text("one\ntwo\n\nthree\n")
    return tmp / "x.txt", {"format": "text"}


def of_fasta(tmp: Path) -> Made:
    (tmp / "x.fasta").write_text(">a first\nACGT\nAC\n>b\nGGTTA\n>c\nT\n")
    return tmp / "x.fasta", {}


def of_fastq(tmp: Path) -> Made:
    (tmp / "x.fastq").write_text("@a\nACGT\n+\nIIII\n@b\nGG\n+\n!~\n")
    return tmp / "x.fastq", {}


def of_events(tmp: Path) -> Made:
    (tmp / "x.txt").write_text("1 2 10\n2 3 11\n1 3 12\n")
    return tmp / "x.txt", {"format": "events"}


def own(tmp: Path) -> Made:
    schema = {"image": leat.field("image"), "word": leat.field("str"), "x": leat.field("float32", (3,))}
    with leat.Writer(tmp / "own.leat", schema) as writer:
        for i in range(20):
            writer.add(image=jpeg(8 + i, 9, i), word="ab"[i % 2] * 3, x=[i] * 3)
    return tmp / "own.leat", {}


def shards(tmp: Path) -> Made:
    with leat.Writer(tmp / "own.leat", {"x": leat.field("float32", (3,)), "word": "str"}, shard_bytes=4096) as writer:
        for i in range(400):
            writer.add(x=[i] * 3, word=str(i) * 9)
    return tmp / "own.leat", {}


OF = (photo_folder, of_coco, of_yolo, of_masks, of_idx, of_text, of_fasta, of_fastq, of_events, own, shards)
of_each = pytest.mark.parametrize("make", OF, ids=lambda f: f.__name__)


def same(a: Any, b: Any) -> bool:
    return bool(np.array_equal(a, b)) if isinstance(a, np.ndarray) else bool(a == b)


def stored(ds: leat.Dataset) -> list[str]:
    return [name for name, field in ds.schema.items() if not field.derived]


@of_each
def test_any_format_gives_the_fields_that_are_chosen_in_their_order(
    make: Callable[[Path], Made], tmp_path: Path
) -> None:
    path, options = make(tmp_path)
    whole = leat.open(path, **options)
    names = stored(whole)
    for chosen in ([names[-1]], names[::-1], names[:1], names):
        ds = leat.open(path, fields=chosen, **options)
        assert stored(ds) == chosen
        assert len(ds) == len(whole)
        for i in range(len(whole)):
            assert all(same(value, whole[i][name]) for name, value in ds[i].items())
        for derived in set(whole.schema) - set(names):
            assert (derived in ds.schema) == (derived.rpartition(".")[0] in ["", *chosen])
        assert ds.classes == (whole.classes if "label" in [*chosen, *({"label"} - set(names))] else [])
        assert (ds.fingerprint == whole.fingerprint) == (chosen == names)
        assert pickle.loads(pickle.dumps(ds)).fingerprint == ds.fingerprint


@of_each
def test_a_kind_may_be_said_if_it_is_the_one_that_a_field_has(make: Callable[[Path], Made], tmp_path: Path) -> None:
    path, options = make(tmp_path)
    whole = leat.open(path, **options)
    said = {name: whole.schema[name] for name in stored(whole)}
    assert leat.open(path, fields=said, **options).fingerprint == whole.fingerprint
    name = stored(whole)[-1]
    for other, words in (("json", "json"), (leat.field("float16", (7, 5)), r"float16 \(7, 5\)")):
        with pytest.raises(leat.Error, match=rf'"{name}" that it is {words}, and in .* it is \w'):
            leat.open(path, fields={name: other}, **options)
    with pytest.raises(leat.Error, match=rf'no field "other".* it has .*{name}'):
        leat.open(path, fields=["other"], **options)


@pytest.mark.parametrize("make", (photo_folder, of_coco, of_idx, of_fasta, own, shards), ids=lambda f: f.__name__)
def test_loaders_and_queries_read_chosen_fields(make: Callable[[Path], Made], tmp_path: Path) -> None:
    path, options = make(tmp_path)
    whole = leat.open(path, **options)
    ds = leat.open(path, fields=stored(whole)[::-1], **options)
    arrays = [n for n in stored(ds) if ds.schema[n].kind == "array"]
    outputs: dict[str, Any] = {n: [] for n in arrays}
    outputs |= {"image": [leat.ops.Decode(), leat.ops.RandomResizedCrop(4)]} if "image" in ds.schema else {}
    if not outputs:
        outputs = {stored(ds)[0]: []}
    how: dict[str, Any] = {"shuffle": True, "seed": 1, "framework": "numpy", "epochs": 1}
    pairs = zip(*(leat.Loader(d, 3, outputs=outputs, **how) for d in (whole, ds)), strict=True)
    for a, b in pairs:
        assert a.ids.tolist() == b.ids.tolist()
        for name in outputs:
            x, y = (v.values if isinstance(v, leat.Ragged) else np.asarray(v) for v in (a[name], b[name]))
            assert np.array_equal(x, y)
    if "word" in ds.schema:
        assert ds.where("word LIKE '%a%'").ids.tolist() == whole.where("word LIKE '%a%'").ids.tolist()
    for name in arrays:
        if None not in ds.schema[name].shape:
            assert np.array_equal(ds.column(name), whole.column(name))


def test_bytes_that_change_under_chosen_fields_are_noticed(tmp_path: Path) -> None:
    path, _ = own(tmp_path)
    ds = leat.open(path, fields=["word"])
    data = bytearray(path.read_bytes())
    at = data.index(b"bbb")
    data[at] = ord("a")
    path.write_bytes(bytes(data))
    with pytest.raises(leat.Error):
        [ds[i]["word"] for i in range(len(ds))]


def test_a_pack_of_chosen_fields_has_them_alone(tmp_path: Path) -> None:
    path, _ = photo_folder(tmp_path)
    leat.pack(leat.open(path, fields=["label"]), tmp_path / "labels.leat")
    packed = leat.open(tmp_path / "labels.leat")
    assert stored(packed) == ["label"]
    assert packed.classes == ["a", "b"]


def test_the_shell_chooses_fields_of_any_format(tmp_path: Path) -> None:
    path, _ = photo_folder(tmp_path)
    told = json.loads(shell("info", path, "--field", "label=int64", "--json").stdout)
    assert [f["name"] for f in told["fields"]] == ["label", "name"]
    done = shell("info", path, "--field", "label=str", code=2)
    assert 'fields says of "label" that it is str' in done.stderr


def test_an_array_of_fixed_format_takes_a_layout(tmp_path: Path) -> None:
    head = bytes([0, 0, 8, 4]) + b"".join(n.to_bytes(4, "big") for n in (2, 4, 4, 3))
    (tmp_path / "x").write_bytes(head + bytes(96))
    ds = leat.open(tmp_path / "x", format="idx", fields={"data": leat.field("uint8", (4, 4, 3), layout="HWC")})
    assert ds.schema["data"].layout == "HWC"


def test_formats_that_python_reads_say_the_same_of_fields_that_are_not_there(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    h5py = pytest.importorskip("h5py")
    import pyarrow.parquet

    table = arrow.table({"n": [1, 2], "s": ["a", "b"]})
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["n"], file["s"] = [1, 2], [3, 4]
    with leat.Writer(tmp_path / "a.leat", {"n": "int64", "s": "int64"}) as w:
        w.add(n=1, s=2)
    paths = [tmp_path / name for name in ("a.parquet", "a.h5", "a.leat")]
    opened: dict[str, Any] = {str(path): functools.partial(leat.open, path) for path in paths}
    opened["the table"] = functools.partial(leat.from_arrow, table)
    for name, make in opened.items():
        with pytest.raises(leat.InvalidError) as e:
            make(fields=["n", "zz"])
        assert f'{name} has no field "zz", which fields names: it has n, s' in str(e.value)
        with pytest.raises(leat.InvalidError, match='fields names "n" twice'):
            make(fields=["n", "s", "n"])
        with pytest.raises(leat.InvalidError, match="fields is empty"):
            make(fields=[])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.jsonl", '{"text": "a", "label": 1}\n{"text": "b", "label": 2}\n'),
        ("a.npz", ""),
        ("a.leat", ""),
        ("a.tar", ""),
    ],
)
def test_a_field_that_is_not_there_is_answered_with_the_one_that_is_meant(tmp_path: Path, name: str, text: str) -> None:
    """Wherever a field is named: the error has the file, the field that may be meant, and those that there are."""
    path = tmp_path / name
    path.write_text(text)
    if name == "a.npz":
        np.savez(path, text=np.zeros(2), label=np.arange(2), labelab=np.zeros(2))
    elif name == "a.leat":
        with leat.Writer(path, {"text": "str", "label": "int64"}, overwrite=True) as w:
            w.add(text="a", label=1)
    elif name == "a.tar":
        with tarfile.open(path, "w") as tar:
            for ending in ("text", "label"):
                tar.addfile(tarfile.TarInfo(f"0.{ending}"))
    with pytest.raises(leat.InvalidError) as e:
        leat.open(path, fields=["labell"])
    said = [str(e.value)]
    ds = leat.open(path)
    for call in (
        lambda: leat.Loader(ds, 1, outputs={"x": leat.Out("labell")}, framework="numpy"),
        lambda: ds.column("labell"),
        lambda: leat.Mix.by(ds, "labell", {1: 1.0}),
        lambda: leat.Loader(ds, batch_tokens=10, tokens_field="labell", outputs={"label": []}, framework="numpy"),
    ):
        with pytest.raises(KeyError) as missing:
            call()
        said.append(str(missing.value))
    for message in said:
        assert str(path) in message and 'did you mean "label"? It has ' in message, message
    assert "has text, label" in said[0]
    with pytest.raises(KeyError, match='no field "LABEL": did you mean "label"'):
        ds.column("LABEL")
