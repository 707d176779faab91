"""Data sets of Hugging Face, and what they write: classes, photos by path, formats."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leat
from leat.data.features import Features

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
datasets = pytest.importorskip("datasets")
Image = pytest.importorskip("PIL.Image")


@pytest.fixture
def photos(tmp_path: Path) -> list[str]:
    paths = [str(tmp_path / f"{k}.png") for k in range(4)]
    for k, path in enumerate(paths):
        Image.new("RGB", (4 + k, 3), (9, k, 0)).save(path)
    return paths


def read(path: str) -> bytes:
    return Path(path).read_bytes()


def labelled(photos: list[str]) -> Any:
    names = datasets.ClassLabel(names=["cat", "dog"])
    given = {"image": photos, "label": [0, 1, 1, 0]}
    return datasets.Dataset.from_dict(given, features=datasets.Features({"image": datasets.Image(), "label": names}))


# ---- photos ----------------------------------------------------------------------------------------------------------


def test_an_image_column_of_paths_holds_the_photos(photos: list[str]) -> None:
    ds = leat.from_arrow(labelled(photos))
    assert ds.schema["image"].kind == "image" and ds.classes == ["cat", "dog"]
    assert [s["image"] for s in ds] == [read(p) for p in photos] and ds.column("label").tolist() == [0, 1, 1, 0]
    assert pickle.loads(pickle.dumps(ds))[3]["image"] == read(photos[3])
    batch = next(iter(leat.Loader(ds, 4, outputs={"image": [leat.ops.Decode(), leat.ops.Resize((3, 4))], "label": []},
                                  framework="numpy")))  # fmt: skip
    assert batch["image"][:, 0, 0, 1].tolist() == [0, 1, 2, 3] or batch["image"][:, 1, 0, 0].tolist() == [0, 1, 2, 3]


def test_bytes_and_paths_may_be_mixed(photos: list[str]) -> None:
    given = [{"bytes": read(p), "path": None} if k % 2 else {"bytes": None, "path": p} for k, p in enumerate(photos)]
    theirs = datasets.Dataset.from_dict({"image": given}).cast_column("image", datasets.Image())
    assert [s["image"] for s in leat.from_arrow(theirs)] == [read(p) for p in photos]
    both = [{"bytes": read(photos[0]), "path": "a name of old.png"}] * 2
    theirs = datasets.Dataset.from_dict({"image": both}).cast_column("image", datasets.Image())
    assert [s["image"] for s in leat.from_arrow(theirs)] == [read(photos[0])] * 2


def test_a_selection_of_photos_by_path_is_theirs(photos: list[str]) -> None:
    theirs = labelled(photos).select([3, 1])
    assert [s["image"] for s in leat.from_arrow(theirs)] == [read(photos[3]), read(photos[1])]
    assert [s["image"] for s in leat.from_arrow(labelled(photos).shard(2, 1))] == [read(p) for p in photos[2:]]


def test_a_photo_that_is_not_there_breaks_its_sample(photos: list[str]) -> None:
    theirs = labelled([*photos[:3], photos[3] + ".none"])
    ds = leat.from_arrow(theirs)
    assert ds[0]["image"] == read(photos[0])
    with pytest.raises(leat.BrokenSampleError, match=r"row 3: column 'image' names a file that cannot be read.*none"):
        ds[3]
    far = labelled([*photos[:3], "https://host/a.png"])
    with pytest.raises(
        leat.BrokenSampleError, match="row 3: of column 'image' the file is at https://host/a.png.*embed"
    ):
        leat.from_arrow(far)[3]


def test_a_file_that_a_table_names_meets_it_as_other_names_do(tmp_path: Path) -> None:
    """The case of an extension does not count; another form of Unicode is said. As labels meet photos."""
    for name in ("a.JPG", "b.png", "b.PNG", "caf\u00e9.png", "C.png"):
        (tmp_path / name).write_bytes(name.encode())
    given = ["a.jpg", ".//a.Jpg", "b.png", "b.Png", "cafe\u0301.PNG", "c.png", "caf\u00e9.PNG"]
    pq.write_table(pa.table({"file": [f"{tmp_path}/{name}" for name in given]}), tmp_path / "t.parquet")
    for ds in (
        leat.open(tmp_path / "t.parquet", fields={"file": "image"}),
        leat.from_arrow(pq.read_table(tmp_path / "t.parquet"), fields={"file": "image"}),
    ):
        found = [ds[i]["file"].decode() for i in (0, 1, 2, 3, 6)]
        assert found == ["a.JPG", "a.JPG", "b.png", "b.PNG", "caf\u00e9.png"]
        said = r'"cafe\\u0301.PNG" and "caf\\u00e9.png" are one name in two forms of Unicode'
        with pytest.raises(leat.BrokenSampleError, match=said):
            ds[4]
        with pytest.raises(leat.BrokenSampleError, match="No such file"):
            ds[5]
    first = leat.from_arrow(pa.table({"file": [f"{tmp_path}/a.jpg"]}), fields={"file": "image"}).fingerprint
    (tmp_path / "a.JPG").write_bytes(b"another photo")
    assert leat.from_arrow(pa.table({"file": [f"{tmp_path}/a.jpg"]}), fields={"file": "image"}).fingerprint != first


def test_a_photo_without_bytes_and_path_is_missing(photos: list[str]) -> None:
    theirs = labelled([*photos[:2], None, photos[3]])
    with pytest.raises(leat.InvalidError, match="column 'image' has 1 missing values, the first in row 2"):
        leat.from_arrow(theirs)
    ds = leat.from_arrow(theirs, fill={"image": read(photos[2])})
    assert [s["image"] for s in ds] == [read(p) for p in photos]


def test_paths_are_those_of_the_folder_that_was_present(photos: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(os.path.dirname(photos[0]))
    ds = leat.from_arrow(labelled([os.path.basename(p) for p in photos]))
    monkeypatch.chdir("/")
    assert [s["image"] for s in ds] == [read(p) for p in photos]


@pytest.mark.parametrize("way", ["struct", "asked for"])
def test_paths_in_files_are_those_of_the_folder_that_was_present(
    photos: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    names, fields = [os.path.basename(p) for p in photos], None if way == "struct" else {"image": "image"}
    theirs = pa.table({"image": names}) if fields else labelled(names).data.table
    (tmp_path / "tables").mkdir()
    pq.write_table(theirs, tmp_path / "tables" / "a.parquet", row_group_size=2)
    monkeypatch.chdir(tmp_path)
    ds = leat.open("tables/a.parquet", fields=fields)
    monkeypatch.chdir("/")
    assert [s["image"] for s in ds] == [read(p) for p in photos]
    sent = pickle.dumps(ds)
    monkeypatch.chdir(tmp_path / "tables")
    assert [s["image"] for s in pickle.loads(sent)] == [read(p) for p in photos]


def test_photos_within_a_struct_are_images(photos: list[str]) -> None:
    features = datasets.Features({"pair": {"a": datasets.Image(), "n": datasets.Value("int64")}, "b": datasets.Image()})
    given = {"pair": [{"a": p, "n": 1} for p in photos], "b": photos}
    ds = leat.from_arrow(datasets.Dataset.from_dict(given, features=features))
    assert {n: f.kind for n, f in ds.schema.items() if not f.derived} == {
        "pair.a": "image",
        "pair.n": "array",
        "b": "image",
    }
    assert ds[1]["pair.a"] == ds[1]["b"] == read(photos[1])


@pytest.mark.parametrize("way", ["parquet", "read", "arrow", "plain paths"])
def test_files_that_hugging_face_writes_have_images_and_classes(photos: list[str], tmp_path: Path, way: str) -> None:
    theirs, path = labelled(photos), tmp_path / "a.parquet"
    if way == "arrow":
        theirs.save_to_disk(str(tmp_path / "saved"))
        ds = leat.open(next((tmp_path / "saved").glob("*.arrow")))
    elif way == "plain paths":
        table = pa.table({"image": photos, "label": [0, 1, 1, 0]})
        pq.write_table(table.replace_schema_metadata(theirs.data.schema.metadata), path)
        ds = leat.open(path)
    else:
        theirs.to_parquet(str(path))
        ds = leat.open(path) if way == "parquet" else leat.from_arrow(pq.read_table(path))
    assert ds.schema["image"].kind == "image" and ds.classes == ["cat", "dog"]
    assert [s["image"] for s in ds] == [read(p) for p in photos]
    assert pickle.loads(pickle.dumps(ds)).classes == ["cat", "dog"]


def test_bytes_stay_bytes_where_that_is_asked_for(photos: list[str], tmp_path: Path) -> None:
    labelled(photos).to_parquet(str(tmp_path / "a.parquet"))
    ds = leat.open(tmp_path / "a.parquet", fields={"image": "bytes"})
    assert ds.schema["image"].kind == "bytes" and ds.classes == [] and ds[2]["image"] == read(photos[2])
    assert leat.open(tmp_path / "a.parquet", fields=["image"]).schema["image"].kind == "image"


def test_a_column_of_paths_may_be_taken_as_photos(photos: list[str]) -> None:
    ds = leat.from_arrow(pa.table({"file": photos, "n": [0, 1, 2, 3]}), fields={"file": "image", "n": None})
    assert ds.schema["file"].kind == "image" and [s["file"] for s in ds] == [read(p) for p in photos]


def test_the_fingerprint_of_files_says_when_they_change(photos: list[str]) -> None:
    table = pa.table({"file": photos})
    first = leat.from_arrow(table, fields={"file": "image"}).fingerprint
    assert leat.from_arrow(table, fields={"file": "image"}).fingerprint == first
    Image.new("RGB", (50, 3)).save(photos[0])
    assert leat.from_arrow(table, fields={"file": "image"}).fingerprint != first


# ---- classes ---------------------------------------------------------------------------------------------------------


def of(**features: Any) -> list[str]:
    rows = {n: [[0], [1]] if not isinstance(f, datasets.ClassLabel) else [0, 1] for n, f in features.items()}
    ds = leat.from_arrow(datasets.Dataset.from_dict(rows, features=datasets.Features(features)))
    return ds.classes


def test_classes_are_those_of_label_or_of_the_only_column_that_has_some() -> None:
    a, b = datasets.ClassLabel(names=["x", "y"]), datasets.ClassLabel(names=["p", "q", "r"])
    assert of(label=a, fine=b) == ["x", "y"] and of(labels=b) == ["p", "q", "r"] and of(fine=a, coarse=b) == []
    assert of(fine=a, coarse=a) == ["x", "y"] and of(categories=datasets.Sequence(a)) == ["x", "y"]


def test_classes_reach_views_and_joined_data_sets_and_packs(photos: list[str], tmp_path: Path) -> None:
    ds = leat.from_arrow(labelled(photos))
    again = leat.from_arrow(labelled(photos).select([1]))
    none = leat.from_arrow(labelled(photos).cast_column("label", datasets.Value("int64")))
    joined = [leat.concat(ds, again), leat.concat(ds, none), leat.concat(none, ds), leat.zip(a=ds)]
    for found in (ds[1:], ds.where("label = 1"), again, *joined, ds.split([0.5])[0]):
        assert found.classes == ["cat", "dog"]
    other = labelled(photos).cast_column("label", datasets.ClassLabel(names=["dog", "cat"]))
    with pytest.raises(leat.InvalidError, match="equal labels would mean different things"):
        leat.concat(ds, leat.from_arrow(other))


def test_names_of_classes_are_no_part_of_the_fingerprint(tmp_path: Path, photos: list[str]) -> None:
    """So that states of before they were known load."""
    theirs = labelled(photos)
    plain = leat.from_arrow(theirs.data.table.replace_schema_metadata(None), version="1", fields={"label": None})
    assert leat.from_arrow(theirs, version="1", fields={"label": None}).fingerprint == plain.fingerprint


def test_files_of_other_names_of_classes_are_not_joined(tmp_path: Path) -> None:
    for name, names in (("a", ["x", "y"]), ("b", ["y", "x"])):
        features = datasets.Features({"label": datasets.ClassLabel(names=names)})
        datasets.Dataset.from_dict({"label": [0, 1]}, features=features).to_parquet(str(tmp_path / f"{name}.parquet"))
    with pytest.raises(leat.FormatError, match="b.parquet has other names of classes in column 'label'"):
        leat.open([tmp_path / "a.parquet", tmp_path / "b.parquet"])


def test_metadata_of_any_form_opens(tmp_path: Path) -> None:
    """300 damaged pieces of metadata: a file opens, with its columns as they are."""
    rng = np.random.default_rng(0)
    features = {"image": {"_type": "Image"}, "label": {"names": ["a", "b"], "_type": "ClassLabel"}}
    boxes = {"feature": {"names": ["c"], "_type": "ClassLabel"}, "_type": "List"}
    good = json.dumps({"info": {"features": {**features, "boxes": boxes}}}).encode()
    table = pa.table({"image": [b"1", b"2"], "label": [0, 1], "boxes": [[0], [0]]})
    for k in range(300):
        text = bytearray(good)
        for _ in range(int(rng.integers(1, 8))):
            at = int(rng.integers(len(text)))
            how = int(rng.integers(3))
            if how == 0:
                text[at] = int(rng.choice(list(b'{}[]",:01n\\\xff\x00')))
            elif how == 1:
                del text[at : at + int(rng.integers(1, 30))]
            else:
                text[at:at] = bytes(rng.choice(list(b'{}[]",:null1'), int(rng.integers(1, 6))).astype(np.uint8))
        ds = leat.from_arrow(table.replace_schema_metadata({b"huggingface": bytes(text)}))
        assert ds[1]["label"] == 1 and ds[1]["image"] == b"2", (k, text)
        assert all(isinstance(c, str) for c in ds.classes)
    deep = '{"info": {"features": ' + '{"a": ' * 5000 + "1" + "}" * 5000 + "}}"
    assert len(leat.from_arrow(table.replace_schema_metadata({b"huggingface": deep.encode()}))) == 2


def test_strange_features_say_nothing() -> None:
    for given in (None, 3, [], {"_type": "Image"}, {"a": None}, {"a": {"_type": 3}}, {"a": {"_type": "ClassLabel"}},
                  {"a": {"_type": "ClassLabel", "names": "ab"}}, {"a": {"_type": "ClassLabel", "names": ["a", 1]}},
                  {"a": {"_type": "ClassLabel", "names": ["a\0b"]}},
                  {"a": {"_type": "ClassLabel", "names": ["\ud800"]}}, {"a": [{"_type": "Image"}]}):  # fmt: skip
        found = Features(given)
        assert not found.images and not found.labels and found.classes({"a": 1}) == []


# ---- formats ---------------------------------------------------------------------------------------------------------


def numbers() -> Any:
    return datasets.Dataset.from_dict({"x": [1, 2, 3], "y": [4, 5, 6]})


def test_a_transform_is_refused() -> None:
    for theirs in (numbers().with_transform(lambda b: b), numbers().with_format("custom", transform=lambda b: b),
                   numbers().with_transform(lambda b: b, columns=["x"], output_all_columns=True),
                   numbers().with_transform(lambda b: b).select([0])):  # fmt: skip
        with pytest.raises(
            leat.UnsupportedError, match=r"has a transform .*leat.DataLoader\(dataset.*dataset.map.*leat.ops.Map"
        ):
            leat.from_arrow(theirs)
        with pytest.raises(leat.UnsupportedError, match="has a transform"):
            leat.from_arrow(theirs, fields=["x"])
    changed = numbers()
    changed.set_transform(lambda b: b)
    with pytest.raises(leat.UnsupportedError, match="has a transform"):
        leat.from_arrow(changed)
    assert leat.from_arrow(changed.with_format(None))[0] == {"x": 1, "y": 4}


def test_columns_of_a_format_are_asked_for() -> None:
    theirs = numbers().with_format("numpy", columns=["x"])
    with pytest.raises(leat.InvalidError, match=r"leaves out 'y', and from_arrow takes all.*fields=\['x'\]\)"):
        leat.from_arrow(theirs)
    assert leat.from_arrow(theirs, fields=["x"])[0] == {"x": 1}
    all_of_them = [numbers().with_format("torch"), numbers().with_format("numpy", columns=["y", "x"])]
    all_of_them += [numbers().with_format("numpy", columns=["x"], output_all_columns=True)]
    for whole in (*all_of_them, numbers().with_format("arrow")):
        assert leat.from_arrow(whole)[0] == {"x": 1, "y": 4}


def test_a_dtype_of_a_format_is_refused() -> None:
    with pytest.raises(leat.UnsupportedError, match="a format with dtype=.*ToDtype"):
        leat.from_arrow(numbers().with_format("numpy", dtype=np.float32))


def test_a_mode_of_photos_is_refused(photos: list[str], tmp_path: Path) -> None:
    theirs = labelled(photos).cast_column("image", datasets.Image(mode="L"))
    theirs.to_parquet(str(tmp_path / "a.parquet"))
    said = r"'image' is an Image\(mode='L'\).*fields=\{'image': 'image', 'label': None\}.*Decode\('GRAY'\)"
    for take in (lambda fields: leat.from_arrow(theirs, fields=fields),
                 lambda fields: leat.open(tmp_path / "a.parquet", fields=fields)):  # fmt: skip
        with pytest.raises(leat.UnsupportedError, match=said):
            take(None)
        with pytest.raises(leat.UnsupportedError, match="Image"):
            take(["image"])
        assert take(["label"])[1] == {"label": 1}
        assert take({"image": "image", "label": None})[1]["image"] == read(photos[1])
    odd = theirs.cast_column("image", datasets.Image(mode="CMYK"))
    with pytest.raises(leat.UnsupportedError, match=r"leat.ops.Map\(function\)"):
        leat.from_arrow(odd)


@pytest.mark.parametrize("name", ["__getitem__", "__getitems__", "_getitem"])
def test_a_subclass_that_gives_other_samples_is_refused(name: str) -> None:
    own = type("Own", (datasets.Dataset,), {name: lambda self, key, **more: {"x": 0}})
    theirs = numbers()
    theirs.__class__ = type("Further", (own,), {})
    with pytest.raises(leat.UnsupportedError, match=rf"Own has a {name} of its own.*leat.DataLoader\(dataset"):
        leat.from_arrow(theirs)
    theirs.__class__ = type("Named", (datasets.Dataset,), {"name": "numbers"})
    assert leat.from_arrow(theirs)[0] == {"x": 1, "y": 4}


def test_subclasses_are_data_sets_of_hugging_face() -> None:
    class Own(datasets.Dataset):
        pass

    theirs = numbers().with_transform(lambda b: b)
    theirs.__class__ = Own
    with pytest.raises(leat.UnsupportedError, match="has a transform"):
        leat.from_arrow(theirs)


def test_arrays_of_several_dimensions_are_arrays(tmp_path: Path) -> None:
    kinds = {
        "a": datasets.Array2D((2, 3), "float32"),
        "b": datasets.Array3D((None, 2, 2), "int32"),
        "c": datasets.Array2D((1, 2), "bool"),
    }
    rows: dict[str, list[Any]] = {
        "a": [(np.arange(6, dtype=np.float32).reshape(2, 3) + i).tolist() for i in range(7)],
        "b": [np.arange(4 * (i % 3)).reshape(-1, 2, 2).tolist() for i in range(7)],
        "c": [[[True, False]]] * 7,
    }
    rows["a"][4][1][2] = None
    made = datasets.Dataset.from_dict(rows, features=datasets.Features(kinds))
    made.save_to_disk(tmp_path / "saved")
    made.to_parquet(tmp_path / "a.parquet", batch_size=3)
    rows["a"][4][1][2] = np.nan
    for ds in (leat.open(tmp_path / "saved"), leat.open(tmp_path / "a.parquet"), leat.from_arrow(made.data.table)):
        assert ds.schema["a"] == leat.field("float32", (2, 3)) and ds.schema["b"] == leat.field("int32", (None, 2, 2))
        assert ds.schema["c"].kind == "json"
        for i in range(7):
            assert np.array_equal(ds[i]["a"], np.array(rows["a"][i], np.float32), equal_nan=True)
            assert np.array_equal(ds[i]["b"], np.array(rows["b"][i], np.int32).reshape(-1, 2, 2))
    assert leat.open(tmp_path / "a.parquet", fields={"b": "json"})[4]["b"] == rows["b"][4]
    batch = next(iter(leat.Loader(leat.open(tmp_path / "a.parquet"), 7, framework="numpy")))
    assert batch["a"].shape == (7, 2, 3) and np.array_equal(batch["a"], np.array(rows["a"]), equal_nan=True)


def test_arrays_may_be_filled_and_others_than_their_shape_are_an_error() -> None:
    column = pa.chunked_array([pa.array([[[1, 2], [3, 4]], None, [[5, 6], [7, 8]]])])
    about = {b"ARROW:extension:name": b"datasets.features.features.Array2DExtensionType"}

    def named(shape: object) -> Any:
        more = about | {b"ARROW:extension:metadata": json.dumps([shape, "int64"]).encode()}
        kind = pa.field("a", pa.list_(pa.list_(pa.int64())), metadata=more)
        return pa.table([column], schema=pa.schema([kind]))

    ds = leat.from_arrow(named([2, 2]), fill={"a": [[0, 0], [0, 0]]})
    assert [ds[i]["a"].tolist() for i in range(3)] == [[[1, 2], [3, 4]], [[0, 0], [0, 0]], [[5, 6], [7, 8]]]
    assert [one["a"].tolist() for one in [ds[2], ds[0]]] == [[[5, 6], [7, 8]], [[1, 2], [3, 4]]]
    for wrong in ([2, 3], [1, 2]):
        with pytest.raises(ValueError, match="column 'a' has lists that are not as its shape"):
            leat.from_arrow(named(wrong))[0]
    for none in ("x", [], [2], [2, -1], [2, "2"], [1 << 70, 1]):
        assert leat.from_arrow(named(none)).schema["a"].kind == "json"
