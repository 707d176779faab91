"""leat.join: photos and a table about them, by a key."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_support import jpeg, make_folder

import leat


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> leat.Dataset:
    return leat.open(make_folder(tmp_path_factory.mktemp("photos"), {"cat": 4, "dog": 4}, make=jpeg))


@pytest.fixture(scope="module")
def parquet(tmp_path_factory: pytest.TempPathFactory, photos: leat.Dataset) -> Path:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    path = tmp_path_factory.mktemp("join") / "about.parquet"
    names = [photos[i]["name"] for i in range(len(photos))]
    order = [5, 2, 7, 0, 1, 6, 4, 3]
    columns = {
        "name": [*(names[i] for i in order), "cat/0009.jpg"],
        "grade": [*order, -1],
        "caption": [*(f"photo {i}" for i in order), "gone"],
        "score": pa.array([*(i / 2 for i in order), 0], pa.float32()),
        "tags": [*([i] * i for i in order), []],
    }
    pyarrow.parquet.write_table(pa.table(columns), path, row_group_size=3)
    return path


def test_a_key_that_is_not_there_is_what_the_error_is_about() -> None:
    pa = pytest.importorskip("pyarrow")
    a, b = (leat.from_arrow(pa.table({"name": ["x"], "y": [1]})) for _ in range(2))
    for on in ("nam", ("nam", "name"), ("name", "nam")):
        with pytest.raises(KeyError, match='no field "nam": did you mean "name"'):
            leat.join(a, b, on=on)


def test_each_photo_has_the_fields_of_its_row(photos: leat.Dataset, parquet: Path) -> None:
    joined = leat.join(photos, leat.open(parquet), on="name")
    assert [n for n, f in joined.schema.items() if not f.derived] == [
        "image", "label", "grade", "caption", "score", "tags",
    ]  # fmt: skip
    assert len(joined) == len(photos) and joined.classes == ["cat", "dog"]
    for i in (0, 3, 7):
        one = joined[i]
        assert (one["name"], one["image"]) == (photos[i]["name"], photos[i]["image"])
        assert (one["grade"], one["caption"], one["score"]) == (i, f"photo {i}", i / 2)
        assert one["tags"].tolist() == [i] * i
    assert joined.column("grade").tolist() == list(range(8))
    assert joined.where("grade > 5").ids.tolist() == [6, 7]


def test_a_loader_of_joined_photos_goes_on_where_it_was_cut_off(photos: leat.Dataset, parquet: Path) -> None:
    joined = leat.join(photos, leat.open(parquet), on="name")

    def loader(ds: leat.Dataset) -> leat.Loader:
        outputs: Any = {"image": [leat.ops.Decode(), leat.ops.Resize((8, 8))], "grade": [], "caption": []}
        return leat.Loader(ds, batch_size=3, shuffle=True, seed=3, outputs=outputs, epochs=1, framework="numpy")

    whole = [(b.ids.tolist(), b["grade"].tolist(), b["caption"], b["image"].tobytes()) for b in loader(joined)]
    for ids, grades, captions, _ in whole:
        assert ids == grades and captions == [f"photo {i}" for i in ids]
    first = loader(joined)
    next(iter(first))
    again = loader(pickle.loads(pickle.dumps(joined)))
    again.load_state_dict(first.state_dict())
    rest = [(b.ids.tolist(), b["grade"].tolist(), b["caption"], b["image"].tobytes()) for b in again]
    assert rest == whole[1:]


def test_the_fingerprint_follows_from_both_and_from_the_rows(photos: leat.Dataset, parquet: Path) -> None:
    table = leat.open(parquet)
    joined = leat.join(photos, table, on="name")
    assert joined.fingerprint == leat.join(photos, leat.open(parquet), on="name").fingerprint
    others = [
        leat.join(photos[::-1], table, on="name"),
        leat.join(photos, table, on="name", fields=["grade"]),
        leat.join(photos, table, on="name", prefix="about"),
        leat.join(photos, table, on="name", how="left"),
    ]
    assert len({joined.fingerprint, *(o.fingerprint for o in others)}) == 5


def test_a_photo_without_a_row_is_an_error_that_names_it(photos: leat.Dataset, parquet: Path) -> None:
    table = leat.open(parquet).where("grade NOT IN (2, 5)")
    text = (
        r"2 of 8 photos have no row in the table, by 'name': "
        r"'cat/0002.jpg' \(sample 2\), 'dog/0001.jpg' \(sample 5\)\. how="
    )
    with pytest.raises(ValueError, match=text):
        leat.join(photos, table, on="name")


def test_a_key_in_several_rows_is_an_error_that_names_it(photos: leat.Dataset, parquet: Path) -> None:
    table = leat.open(parquet)
    twice = leat.concat(table, table[3:4], table[0:1])
    for how in ("strict", "left"):
        with pytest.raises(
            ValueError, match=r"2 keys stand in several rows .* 'cat/0000.jpg' \(rows 3, 9\), 'dog/0001.jpg'"
        ):
            leat.join(photos, twice, on="name", how=how)


def test_a_left_join_keeps_photos_without_a_row_and_says_which(photos: leat.Dataset, parquet: Path) -> None:
    table = leat.open(parquet).where("grade NOT IN (2, 5)")
    joined = leat.join(photos, table, on="name", how="left", fill={"grade": -7})
    assert joined.column("grade").tolist() == [0, 1, -7, 3, 4, -7, 6, 7]
    assert "grade.valid" not in joined.schema
    assert joined.column("caption.valid").tolist() == [i not in (2, 5) for i in range(8)]
    lacking = joined[2]
    assert (lacking["name"], lacking["caption"], lacking["tags"].tolist()) == ("cat/0002.jpg", "", [])
    assert np.isnan(lacking["score"]) and joined[3]["score"] == 1.5
    assert joined.where("score IS NULL").ids.tolist() == [2, 5]
    assert joined.where("caption IS NULL").ids.tolist() == [2, 5]
    assert pickle.loads(pickle.dumps(joined)).fingerprint == joined.fingerprint
    complete = leat.join(photos, leat.open(parquet), on="name", how="left")
    assert complete.column("caption.valid").all()


KINDS: dict[str, tuple[Any, Any, Any]] = {
    "image": ("image", None, b""),
    "raw": ("bytes", b"abc", b""),
    "about": ("json", {"a": 1}, None),
    "flag": ("bool", True, False),
    "vec": (leat.field("float16", (2,)), [1, 2], [np.nan, np.nan]),
    "half": ("bfloat16", 1.5, np.nan),
    "boxes": (leat.boxes(), [[0, 0, 1, 1]], np.empty((0, 4))),
    "masks": (leat.masks(), [{"size": [2, 2], "counts": [0, 4]}], None),
    "genes": (leat.sparse("float32", 9), leat.Sparse(np.ones(1, "f4"), np.array([3], "i4"), np.array([0, 1]), 9), None),
}


def test_each_kind_of_field_may_be_without_a_value(tmp_path: Path) -> None:
    with leat.Writer(tmp_path / "t.leat", {"key": "int64", **{n: k[0] for n, k in KINDS.items()}}) as w:
        w.add(key=5, **{n: jpeg(8, 8) if n == "image" else k[1] for n, k in KINDS.items()})
    left = leat.from_arrays(key=np.array([4, 5]))
    joined = leat.join(left, leat.open(tmp_path / "t.leat"), on="key", how="left")
    lacking = joined[0]
    for name, (_, _, value) in KINDS.items():
        assert joined.column(f"{name}.valid").tolist() == [False, True], name
        if name == "genes":
            assert len(lacking[name].values) == 0 and joined[1][name].columns.tolist() == [3]
        elif name == "masks":
            assert leat.draw_masks(lacking[name], 2, 2).shape[0] == 0
        elif isinstance(value, bytes | None):
            assert lacking[name] == value
        else:
            np.testing.assert_array_equal(lacking[name], np.asarray(value))


@pytest.mark.parametrize("ours", ["int64", "uint8", "uint64"])
@pytest.mark.parametrize("theirs", ["int32", "uint64"])
def test_integers_are_keys_whatever_their_types(ours: str, theirs: str) -> None:
    left = leat.from_arrays(id=np.array([9, 4, 9], ours))
    right = leat.from_arrays(key=np.array([4, 7, 9], theirs), y=np.arange(3))
    joined = leat.join(left, right, on=("id", "key"))
    assert joined.column("y").tolist() == [2, 0, 2] and list(joined.schema) == ["id", "y"]


def test_keys_beyond_int64_and_below_zero_are_told_apart() -> None:
    left = leat.from_arrays(id=np.array([2**64 - 1, 1], "uint64"))
    right = leat.from_arrays(id=np.array([-1, 1], "int64"), y=np.arange(2))
    assert leat.join(left, right, on="id", how="left").column("y.valid").tolist() == [False, True]


def test_keys_that_a_double_cannot_tell_apart_are_told_apart() -> None:
    left = leat.from_arrays(id=np.array([2**63, 2**63 + 2], "uint64"))
    right = leat.from_arrays(id=np.array([2**63 + 2, 2**63 + 1], "uint64"), y=np.arange(2))
    joined = leat.join(left, right, on="id", how="left")
    assert joined.column("y.valid").tolist() == [False, True] and joined.column("y").tolist() == [0, 0]
    with pytest.raises(ValueError, match=r"by 'id': 9223372036854775808 \(sample 0\)\."):
        leat.join(left, right, on="id")


@pytest.fixture
def lacking(tmp_path: Path) -> leat.Dataset:
    """A table with missing values, and keys, which are 0 then."""
    records = ({"id": 0, "y": 1}, {"id": 5, "y": None}, {"id": None, "y": 3}, {"y": 4})
    (tmp_path / "table.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))
    return leat.open(tmp_path / "table.jsonl")


def test_what_the_table_lacks_is_missing_in_the_join_too(lacking: leat.Dataset) -> None:
    photos = leat.from_arrays(id=np.array([5, 0, 7]))
    strict = leat.join(photos[:2], lacking, on="id")
    assert strict.column("y.valid").tolist() == [False, True] and strict.where("y IS NULL").ids.tolist() == [0]
    assert leat.join(photos[:2], lacking, on="id", fields=["y", "y.valid"]).schema == strict.schema
    left = leat.join(photos, lacking, on="id", how="left")
    assert left.column("y.valid").tolist() == [False, True, False]
    filled = leat.join(photos, lacking, on="id", how="left", fill={"y": -1})
    assert filled.column("y").tolist() == [0, 1, -1] and filled.column("y.valid").tolist() == [False, True, True]
    again = leat.join(photos, left, on="id", how="left", prefix="t")
    assert list(again.schema) == ["id", "t.y", "t.y.valid"]
    assert again.column("t.y.valid").tolist() == [False, True, False]
    with pytest.raises(ValueError, match="'y.valid' of the table is derived"):
        leat.join(photos, lacking, on="id", how="left", fields=["y.valid"])


def test_a_key_that_is_missing_is_none(lacking: leat.Dataset) -> None:
    assert leat.join(leat.from_arrays(id=np.array([0])), lacking, on="id").column("y").tolist() == [1]
    table = leat.from_arrays(id=np.array([0, 5]), z=np.array([70, 75]))
    assert leat.join(lacking, table, on="id", how="left").column("z.valid").tolist() == [True, True, False, False]
    with pytest.raises(ValueError, match="2 of 4 photos have no row"):
        leat.join(lacking, table, on="id")


def test_keys_of_two_kinds_are_an_error() -> None:
    left = leat.from_arrays(id=np.arange(2))
    with pytest.raises(TypeError, match="'id', is field.'int64'., and 'id' of the table is field.'str'"):
        leat.join(left, _texts(["0", "1"]), on="id")
    with pytest.raises(TypeError, match="joined by texts or integers"):
        leat.join(leat.from_arrays(id=np.zeros(2)), _texts(["0"]), on="id")


def _texts(texts: list[str]) -> leat.Dataset:
    values = np.frombuffer("".join(texts).encode(), np.uint8)
    offsets = np.cumsum([0, *(len(t.encode()) for t in texts)])
    return leat.from_arrays({"id": leat.field("str")}, id=leat.Ragged(values, offsets), y=np.arange(len(texts)))


def test_fields_of_one_name_are_an_error_that_says_what_to_do(photos: leat.Dataset) -> None:
    table = leat.from_arrays(key=np.arange(2), label=np.array([8, 9]), more=np.zeros(2))
    with pytest.raises(ValueError, match="both have the field 'label': .*prefix=.*'table.label'"):
        leat.join(photos, table, on=("label", "key"))
    joined = leat.join(photos, table, on=("label", "key"), prefix="table")
    assert joined.column("table.label").tolist() == [8] * 4 + [9] * 4
    assert "table.more" in joined.schema and "table.key" not in joined.schema
    assert "label" not in leat.join(photos, table, on=("label", "key"), fields=["more"]).schema["more"].kind


def test_arguments_that_make_no_sense_are_errors(photos: leat.Dataset) -> None:
    table = leat.from_arrays(key=np.arange(2), y=np.zeros(2))
    on = ("label", "key")
    with pytest.raises(TypeError, match="join takes two data sets"):
        leat.join(photos, {"key": []}, on=on)  # type: ignore[arg-type]
    with pytest.raises(KeyError, match='no field "nothing"'):
        leat.join(photos, table, on=("nothing", "key"))
    with pytest.raises(KeyError, match='no field "z"'):
        leat.join(photos, table, on=on, fields=["z"])
    with pytest.raises(TypeError, match="on is the name of the field"):
        leat.join(photos, table, on=["label", "key"])  # type: ignore[arg-type]
    for prefix in ("", 3):
        with pytest.raises(ValueError, match="prefix is a name for the table"):
            leat.join(photos, table, on=on, prefix=prefix)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match='how="left" keeps'):
        leat.join(photos, table, on=on, fill={"y": 1})
    with pytest.raises(KeyError, match="fill names 'z'"):
        leat.join(photos, table, on=on, how="left", fill={"z": 1})
    with pytest.raises(ValueError, match="no field but the key"):
        leat.join(photos, leat.from_arrays(key=np.arange(2)), on=on)
    with pytest.raises(TypeError, match="field 'y' takes float64"):
        leat.join(photos, table[:1], on=on, how="left", fill={"y": "text"})


def test_nothing_joins_with_nothing() -> None:
    table = leat.from_arrays(key=np.arange(3), y=np.arange(3))
    assert len(leat.join(leat.from_arrays(key=np.empty(0, int)), table, on="key")) == 0
    empty = leat.join(table, leat.from_arrays(key=np.empty(0, int), z=np.empty(0)), on="key", how="left")
    assert np.isnan(empty.column("z")).all()


def test_a_joined_data_set_packs(photos: leat.Dataset, parquet: Path, tmp_path: Path) -> None:
    joined = leat.join(photos, leat.open(parquet), on="name")
    fields = {n: f for n, f in joined.schema.items() if not f.derived}
    with leat.Writer(tmp_path / "joined.leat", fields, classes=joined.classes) as w:
        w.write_dataset(joined)
    packed = leat.open(tmp_path / "joined.leat")
    assert packed.column("grade").tolist() == list(range(8)) and packed[5]["caption"] == "photo 5"
