"""Data sets: values, views, columns, identity."""

from __future__ import annotations

import ctypes
import ctypes.util
import pickle
from pathlib import Path
from typing import Any

import cli_support
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import leat


def test_a_sample_is_a_dict_of_what_was_written(mixed: Path) -> None:
    sample = leat.open(mixed)[3]
    assert sample["number"] == 0.75 and isinstance(sample["number"], float)
    assert sample["flag"] is False
    assert sample["vector"].dtype == np.int16 and sample["vector"].tolist() == [[3, -3], [1, 2]]
    assert sample["boxes"].shape == (3, 4) and sample["boxes"].flags.writeable
    assert sample["raw"] == b"\0\1\2" and sample["text"] == "äää" and sample["meta"] == {"i": [3, None, "x"]}
    assert sample["image"][:2] == b"\xff\xd8"


def test_a_value_of_length_zero_comes_back_empty(mixed: Path) -> None:
    sample = leat.open(mixed)[0]
    assert sample["boxes"].shape == (0, 4) and sample["raw"] == b"" and sample["text"] == ""


def test_the_fields_of_a_data_set_are_found_by_other_names(mixed: Path) -> None:
    ds = leat.open(mixed)
    with pytest.raises(AttributeError, match="no attribute 'fields': its fields are in .schema"):
        ds.fields  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(AttributeError, match="no attribute 'shuffle': leat.Loader"):
        ds.shuffle(seed=1)  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="'Dataset' object has no attribute 'clases'") as e:
        ds.clases  # type: ignore[attr-defined]  # noqa: B018
    assert e.value.obj is ds and not hasattr(ds, "__array__")


def test_the_schema_names_types_and_shapes(mixed: Path) -> None:
    schema = leat.open(mixed).schema
    assert schema["boxes"] == leat.field("float32", (None, 4))
    assert schema["image"] == leat.field("image")
    assert schema["image.width"].derived and not schema["image"].derived


def test_sizes_of_photos_are_columns(photos: Path) -> None:
    ds = leat.open(photos)
    assert ds.column("image.width").tolist() == [60 + 3 * i for i in range(24)]


def test_metadata_and_classes_come_back(records: Path, photos: Path) -> None:
    assert leat.open(records).metadata == {"made": "by a test"}
    assert leat.open(photos).classes == ["even", "odd"]
    assert leat.open(records).classes == []


def test_negative_positions_count_from_the_end(records: Path) -> None:
    assert leat.open(records)[-1]["x"].tolist() == [99, 99, 99]


@pytest.mark.parametrize("position", [100, -101, 1 << 70])
def test_a_position_out_of_range_is_an_index_error(records: Path, position: int) -> None:
    with pytest.raises(IndexError, match="100 samples"):
        leat.open(records)[position]


@pytest.mark.parametrize("key", [True, np.True_, torch.tensor(True), 7.0, None, [0.5], {1, 2}])
def test_what_is_neither_position_nor_mask_is_a_type_error(records: Path, key: Any) -> None:
    with pytest.raises(TypeError):
        leat.open(records)[key]


@pytest.mark.parametrize("position", [1 << 63, -101, 100])
def test_a_list_with_a_position_out_of_range_names_it(records: Path, position: int) -> None:
    with pytest.raises(IndexError, match=f"{position} is out of range"):
        leat.open(records)[[position]]


def test_a_name_as_index_points_to_column(records: Path) -> None:
    ds: Any = leat.open(records)
    with pytest.raises(TypeError, match="column"):
        ds["label"]


def test_iterating_gives_every_sample_once(records: Path) -> None:
    assert [int(s["x"][0]) for s in leat.open(records)] == list(range(100))


@given(data=st.data())
def test_views_of_views_are_what_numpy_indexing_is(records: Path, data: st.DataObject) -> None:
    ds, ids = leat.open(records), np.arange(100)
    for _ in range(data.draw(st.integers(1, 3))):
        kind = data.draw(st.sampled_from(["slice", "mask", "list"]))
        if kind == "slice":
            key: Any = data.draw(st.slices(len(ids)))
        elif kind == "mask":
            key = np.array(data.draw(st.lists(st.booleans(), min_size=len(ids), max_size=len(ids))), bool)
        else:
            key = data.draw(st.lists(st.integers(-len(ids), len(ids) - 1), max_size=50)) if len(ids) else []
            key = np.array(key, np.int64)
        ds, ids = ds[key], ids[key]
        assert ds.ids.tolist() == ids.tolist()
    assert [int(s["x"][0]) for s in ds] == ids.tolist()


@given(fractions=st.lists(st.floats(0.01, 1), min_size=1, max_size=5), seed=st.integers(0, 2**64 - 1))
def test_parts_of_a_split_are_disjoint_ascending_and_of_the_size_asked(
    records: Path, fractions: list[float], seed: int
) -> None:
    total = sum(fractions) * 1.001
    parts = leat.open(records).split([f / total for f in fractions], seed=seed)
    seen = [i for part in parts for i in part.ids.tolist()]
    assert len(seen) == len(set(seen))
    for part, fraction in zip(parts, fractions, strict=True):
        assert part.ids.tolist() == sorted(part.ids.tolist())
        assert abs(len(part) - 100 * fraction / total) <= 1


def test_a_list_of_paths_opens_as_one(records: Path) -> None:
    assert len(leat.open([records, records])) == 200


def test_a_column_is_read_only_and_a_copy_is_not(records: Path) -> None:
    ds = leat.open(records)
    column = ds.column("x")
    assert column.shape == (100, 3) and column[7].tolist() == [7, 7, 7]
    with pytest.raises(ValueError):
        column[0] = 1
    copy = ds.column("x", copy=True)
    copy[0] = 5
    assert ds.column("x")[0].tolist() == [0, 0, 0]


def test_a_column_of_a_view_is_that_of_its_samples(records: Path) -> None:
    ds = leat.open(records)
    assert ds[20:40:3].column("label").tolist() == (np.arange(20, 40, 3) % 10).tolist()


def test_a_column_outlives_its_data_set(records: Path) -> None:
    column = leat.open(records).column("label")
    assert column.sum() == 450


def test_a_column_of_varying_size_is_a_type_error(mixed: Path) -> None:
    with pytest.raises(TypeError, match="'boxes'"):
        leat.open(mixed).column("boxes")


def test_a_column_that_is_not_there_is_a_key_error(records: Path) -> None:
    with pytest.raises(KeyError, match="label"):
        leat.open(records).column("nothing")


def test_the_fingerprint_tells_contents_and_selections_apart(records: Path, photos: Path) -> None:
    ds = leat.open(records)
    prints = [ds.fingerprint, leat.open(photos).fingerprint, ds[1:].fingerprint, ds.select([0]).fingerprint]
    assert len(set(prints)) == 4 and all(len(p) == 32 for p in prints)
    assert leat.open(records)[1:].fingerprint == prints[2]


@pytest.mark.parametrize("view", ["base", "slice", "select", "split", "concat", "nested"])
def test_a_data_set_pickles_with_its_selection(records: Path, view: str) -> None:
    ds = leat.open(records)
    made = {
        "base": ds,
        "slice": ds[5:90:7],
        "select": ds.select([9, -1, 9]),
        "split": ds.split([0.2, 0.3], seed=4)[1],
        "concat": leat.concat(ds[:3], ds),
        "nested": ds[10:][::2].select([3, 4]),
    }[view]
    again = pickle.loads(pickle.dumps(made))
    assert again.ids.tolist() == made.ids.tolist() and again.fingerprint == made.fingerprint
    assert again[1]["x"].tolist() == made[1]["x"].tolist()


@pytest.mark.parametrize("as_torch", [False, True])
def test_a_view_keeps_its_positions_if_those_of_the_caller_change(records: Path, as_torch: bool) -> None:
    ds, order = leat.open(records), np.arange(100)
    given = pytest.importorskip("torch").from_numpy(order) if as_torch else order
    views = [ds.select(given[:80]), ds[given[80:]]]  # a fold, and then the next one
    order[:] = order[::-1].copy()
    again = pickle.loads(pickle.dumps(views))
    assert [view.ids.tolist() for view in again] == [list(range(80)), list(range(80, 100))]
    assert [view.fingerprint for view in again] == [view.fingerprint for view in views]


def test_groups_and_prompts_keep_what_they_are_made_of_if_it_changes() -> None:
    ds = leat.from_arrays(tokens=leat.Ragged(np.arange(12, dtype=np.int32) % 3, np.arange(0, 13, 3)))
    members, decode = np.array([0, 1, 2, 3]), np.arange(4, dtype=np.uint32)
    groups = leat.one_of(ds, leat.Ragged(members, np.array([0, 2, 4])))
    prompts = leat.group_prompts(ds, "tokens", decode=decode)
    own = prompts.own_tokens().tolist()
    members[:], decode[:] = 0, 9
    assert [groups.members(i).tolist() for i in range(2)] == [[0, 1], [2, 3]]
    assert prompts.own_tokens().tolist() == pickle.loads(pickle.dumps(prompts)).own_tokens().tolist() == own


def test_a_pickle_is_small(records: Path) -> None:
    assert len(pickle.dumps(leat.open(records)[:50])) < 1000


def test_unpickling_notices_that_the_file_was_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a.leat"
    for value in (1, 2):
        with leat.Writer(path, {"n": "int64"}, overwrite=True) as w:
            w.add(n=value)
        if value == 1:
            data = pickle.dumps(leat.open(path))
    with pytest.raises(leat.ChangedError, match="a.leat"):
        pickle.loads(data)


def test_a_file_that_is_not_there_is_file_not_found(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nothing.leat") as caught:
        leat.open(tmp_path / "nothing.leat")
    assert isinstance(caught.value, leat.Error) and caught.value.code == "LEAT_E_NOT_FOUND"


def test_a_file_of_something_else_is_a_format_error(tmp_path: Path) -> None:
    path = tmp_path / "a.leat"
    path.write_bytes(b"nothing that leat knows" * 10)
    with pytest.raises(ValueError, match="a.leat"):
        leat.open(path)


@pytest.mark.parametrize("arguments", [{"labels": "perhaps"}, {"recheck": "sometimes"}, {"format": "elf"}])
def test_an_unknown_option_is_a_value_error(records: Path, arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        leat.open(records, **arguments)


# ---- bytes that change under an open data set ------------------------------------------------------------------------


def damage(path: Path, old: bytes, new: bytes) -> None:
    """Changes bytes in place, as a program or a disk does: the file stays the one that is open."""
    raw = path.read_bytes()
    assert raw.count(old) == 1
    with path.open("r+b") as f:
        f.seek(raw.index(old))
        f.write(new)


@pytest.fixture
def changing(tmp_path: Path) -> Path:
    path = tmp_path / "changing.leat"
    with leat.Writer(path, {"raw": "bytes", "label": "int64"}) as w:
        for i in range(2000):
            w.add(raw=b"value %06d" % i, label=10**15 + i)
    return path


def epoch(loader: leat.Loader) -> list[int]:
    return sorted(int(x) for batch in loader for x in batch["label"])


@pytest.mark.parametrize("shuffle", [False, True])
def test_values_that_change_between_epochs_are_found(changing: Path, shuffle: bool) -> None:
    loader = leat.Loader(leat.open(changing), batch_size=64, shuffle=shuffle, epochs=1, framework="numpy")
    assert len(epoch(loader)) == 2000
    damage(changing, b"value 001234", b"value 00123x")
    with pytest.raises(leat.CorruptError, match="1234"):
        epoch(loader)


def test_labels_that_change_between_epochs_are_found(changing: Path) -> None:
    loader = leat.Loader(leat.open(changing), batch_size=64, epochs=1, framework="numpy")
    assert epoch(loader) == [10**15 + i for i in range(2000)]
    damage(changing, (10**15 + 1234).to_bytes(8, "little"), (7).to_bytes(8, "little"))
    with pytest.raises(leat.CorruptError, match="label"):
        epoch(loader)


def test_a_column_that_changed_is_found_when_it_is_asked_for_again(changing: Path) -> None:
    ds = leat.open(changing)
    assert ds.column("label", copy=True)[-1] == 10**15 + 1999
    damage(changing, (10**15 + 5).to_bytes(8, "little"), (7).to_bytes(8, "little"))
    with pytest.raises(leat.CorruptError, match="label"):
        ds.column("label", copy=True)


def test_a_file_that_was_only_touched_stays_good(changing: Path) -> None:
    loader = leat.Loader(leat.open(changing), batch_size=64, epochs=1, framework="numpy")
    first = epoch(loader)
    changing.touch()
    assert epoch(loader) == first


# ---- forged files ----------------------------------------------------------------------------------------------------


def forge(folder: Path, kind: str, value: bytes) -> Path:
    """A file whose checksums are all right, with a field of text that holds other bytes: those of a field "bytes",
    under the header of a file that has text there.
    """
    xxhash = ctypes.CDLL(ctypes.util.find_library("xxhash"))
    xxhash.XXH3_64bits.restype = ctypes.c_uint64
    raws = []
    for i, (k, v) in enumerate((("bytes", value), (kind, "{}" if kind == "json" else "ok"))):
        with leat.Writer(folder / f"{i}.leat", {"x": k}) as w:
            w.add(x=v if k != "json" else {})
        raws.append((folder / f"{i}.leat").read_bytes())
    n = int.from_bytes(raws[1][16:24], "little")  # of the header, whose last bytes are its checksum
    footer = bytearray(raws[0][-64:-8])
    footer[48:56] = raws[1][n - 8 : n]
    check = xxhash.XXH3_64bits(bytes(footer), ctypes.c_size_t(56))
    (folder / "forged.leat").write_bytes(raws[1][:n] + raws[0][n:-64] + footer + check.to_bytes(8, "little"))
    return folder / "forged.leat"


@pytest.mark.parametrize(
    ("kind", "value", "what"), [("str", b"abc\xff", "UTF-8"), ("json", b"{1}", "JSON"), ("json", b'"\xff"', "JSON")]
)
def test_text_that_is_none_under_right_checksums_is_a_clear_error(
    tmp_path: Path, kind: str, value: bytes, what: str
) -> None:
    ds = leat.open(forge(tmp_path, kind, value))
    with pytest.raises(leat.CorruptError, match=f'sample 0, field "x": the value is not {what}') as e:
        _ = ds[0]
    assert "forged.leat" in str(e.value)
    with pytest.raises(leat.CorruptError, match="not made by leat"):
        next(iter(leat.Loader(ds, batch_size=1, framework="numpy")))
    # Such a row is a broken sample like any other, and costs no other row.
    good = tmp_path / "good.leat"
    with leat.Writer(good, {"x": kind}) as w:
        w.add(x="ok")
    loader = leat.Loader(leat.concat([ds, leat.open(good)]), batch_size=2, framework="numpy", on_error="skip")
    for _epoch in range(2):
        (batch,) = loader
        assert [(e.planned, e.delivered) for e in batch.errors] == [(0, None)] and f"not {what}" in batch.errors[
            0
        ].reason
        assert list(batch["x"]) == ["ok"]


@pytest.mark.parametrize(("kind", "value"), [("str", b"abc\xff"), ("json", b"{1}")])
def test_verify_finds_text_that_is_none(tmp_path: Path, kind: str, value: bytes) -> None:
    said = cli_support.leat("verify", forge(tmp_path, kind, value), code=1).stdout
    assert "field x" in said and "not text, or not JSON" in said


HOSTILE = "a\x1b[31m\u202eb\x9b\n.leat"


def test_hostile_names_are_escaped_in_errors(tmp_path: Path) -> None:
    path = tmp_path / HOSTILE
    path.write_bytes(b"nothing")
    with pytest.raises(leat.CorruptError) as e:
        leat.open(path)
    text = str(e.value)
    assert not [c for c in text if ord(c) < 32 or 0x7F <= ord(c) < 0xA0 or c == "\u202e"]
    assert r"\x1b[31m" in text
    assert e.value.file == str(path)


def test_hostile_names_are_escaped_in_notes(tmp_path: Path, jpeg: Any) -> None:
    (tmp_path / "ok").mkdir()
    (tmp_path / "ok" / "1.jpg").write_bytes(jpeg(8, 8))
    (tmp_path / "empty\x1b]0;x\x07").mkdir()
    with pytest.warns(UserWarning, match=r"empty\\x1b\]0;x\\x07"):
        leat.open(tmp_path)


def test_files_that_are_no_photos_are_named_by_their_extensions(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/a.png").write_bytes(cli_support.png(8, 8))
    for name in ("sub/IMG_2.HEIC", "sub/IMG_1.heic", "sub/notes.txt", "README"):
        (tmp_path / name).write_bytes(b"")
    said = r"4 entries without the extension of a photo \(\.heic: 2, none: 1, \.txt: 1\), such as README"
    with pytest.warns(UserWarning, match=said):
        leat.open(tmp_path)
    (tmp_path / "sub/a.png").unlink()
    with pytest.raises(FileNotFoundError, match=said):
        leat.open(tmp_path)


def test_an_unknown_format_lists_those_that_there_are_and_names_of_elsewhere_say_what_they_are_here(
    tmp_path: Path,
) -> None:
    from leat.data import dataset, libraries

    (tmp_path / "odd").write_bytes(b"what is it\0")
    for wanted, kind in (("auto", leat.FormatError), ("nope", leat.InvalidError)):
        with pytest.raises(kind) as e:
            leat.open(tmp_path / "odd", format=wanted)
        for name in ("tar", "beton", "hf", *dataset._TABLES, *dataset._CELLS, *libraries.FORMATS):
            assert name in str(e.value)
    for name, here in (("webdataset", "tar"), ("FFCV", "beton"), ("streaming", "mds")):
        with pytest.raises(leat.InvalidError, match=f'here it is "{here}"'):
            leat.open(tmp_path / "odd", format=name)
