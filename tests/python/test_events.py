"""Files of events: who met whom, and when."""

from __future__ import annotations

import gzip
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leat

JODIE = "user_id,item_id,timestamp,state_label,comma_separated_list_of_features\n"
TGN = ",u,i,ts,label,idx\n"


def made(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def opened(path: Path, text: str, **options: Any) -> leat.Dataset:
    return leat.open(made(path, text), **{"format": "events", **options})


def drawn(n: int, nodes: int, seed: int) -> dict[str, np.ndarray[Any, Any]]:
    """Events in order of time, many at equal times."""
    rng = np.random.default_rng(seed)
    src, dst = rng.integers(0, nodes, (2, n))
    return {"src": src, "dst": dst, "t": np.sort(rng.integers(0, n // 2, n))}


# ---- reading


def test_a_line_is_an_event_whatever_stands_between_its_numbers(tmp_path: Path) -> None:
    text = "# who met whom\nsrc,dst,time\n1 2 5\n3\t4\t7\n\n % a comment\n5, 6 ,7\r\n 7 8 9"
    ds = opened(tmp_path / "a.txt", text)
    assert ds.column("src").tolist() == [1, 3, 5, 7]
    assert ds.column("dst").tolist() == [2, 4, 6, 8]
    assert ds.column("t").tolist() == [5, 7, 7, 9]
    assert [f.dtype for f in ds.schema.values()] == ["int64"] * 3
    assert ds.metadata == {"nodes": 9}
    assert ds.about["format"] == "events"


def test_columns_are_those_that_numpy_reads_and_a_pack_has_their_fingerprint(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = np.column_stack((rng.integers(0, 2**31, (300, 2)), np.sort(rng.normal(0, 1e9, 300)), rng.normal(size=300)))
    path = tmp_path / "a.txt"
    np.savetxt(path, rows, fmt=("%d", "%d", "%.17g", "%.17g"))
    ds = leat.open(path, format="events")
    assert np.array_equal(ds.column("src"), rows[:, 0].astype(np.int64))
    assert np.array_equal(ds.column("t"), rows[:, 2])
    assert np.array_equal(ds.column("feat"), rows[:, 3:].astype(np.float32))
    arrays = {name: ds.column(name) for name in ds.schema}
    assert leat.from_arrays(**arrays).fingerprint == ds.fingerprint
    with leat.Writer(tmp_path / "a.leat", ds.schema) as writer:
        writer.write_dataset(ds)
    assert leat.open(tmp_path / "a.leat").fingerprint == ds.fingerprint


def test_a_compressed_file_is_the_plain_one_and_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = opened(tmp_path / "a.txt", "1 2 3\n3 4 5\n")
    packed = tmp_path / "b.txt.gz"
    packed.write_bytes(gzip.compress(b"1 2 3\n3 4 5\n"))
    index = tmp_path / "index"
    for _ in range(2):
        ds = leat.open(packed, format="events", index_dir=index)
        assert ds.fingerprint == plain.fingerprint
    assert [p.name.endswith(".leat-index") for p in index.iterdir()] == [True]
    assert not (tmp_path / "b.txt.gz.leat-index").exists()


def test_jodie_numbers_items_behind_users(tmp_path: Path) -> None:
    ds = leat.open(made(tmp_path / "a.csv", JODIE + "3,0,0.0,0,0.5,1\n1,2,36.5,1,-1,2\n"))
    assert ds.about["format"] == "jodie"
    assert ds.column("src").tolist() == [3, 1]
    assert ds.column("dst").tolist() == [4, 6]
    assert ds.column("t").tolist() == [0.0, 36.5]
    assert ds.column("label").tolist() == [0, 1]
    assert ds.column("feat").tolist() == [[0.5, 1], [-1, 2]]
    assert ds.metadata == {"nodes": 7, "users": 4, "items": 3}


def test_tgn_takes_the_features_of_idx_beside_it(tmp_path: Path) -> None:
    path = made(tmp_path / "ml_a.csv", TGN + "0,4,5,0.0,0.0,1\n1,6,3,2.0,1.0,3\n2,6,3,2.0,0.0,2\n")
    without = leat.open(path)
    assert list(without.schema) == ["src", "dst", "t", "label", "idx"]
    features = np.arange(8.0).reshape(4, 2)
    np.save(tmp_path / "ml_a.npy", features)
    ds = leat.open(path)
    assert np.array_equal(ds.column("feat"), features[[1, 3, 2]])
    assert ds.schema["feat"].dtype == "float64"
    assert ds.fingerprint != without.fingerprint
    assert np.array_equal(leat.open(path).column("feat"), features[[1, 3, 2]])


@pytest.mark.parametrize("text", [JODIE + "1,2,3,0,0.5\n", ",u,i,ts,label,idx\n0,1,2,3,0,1\n"])
def test_a_first_line_is_known_behind_a_mark_of_byte_order(text: str, tmp_path: Path) -> None:
    plain, marked = (leat.open(made(tmp_path / f"{i}.csv", "\ufeff" * i + text)) for i in range(2))
    assert marked.fingerprint == plain.fingerprint and marked[0] == plain[0]


def test_rows_of_an_array_go_with_their_lines_and_a_loader_delivers_them(tmp_path: Path) -> None:
    features = np.random.default_rng(0).normal(size=(5, 2, 3)).astype("float16")
    np.save(tmp_path / "f.npy", features)
    text, order = "0 1 5\n1 1 7\n2 1 6\n3 1 7\n4 1 5\n", [0, 4, 2, 1, 3]
    ds = opened(tmp_path / "a.txt", text, features=tmp_path / "f.npy", sort=True)
    assert ds.column("src").tolist() == order
    assert np.array_equal(ds.column("feat"), features[order])
    assert np.array_equal(ds[1:3][0]["feat"], features[4])
    again = pickle.loads(pickle.dumps(ds[1:]))
    assert again.fingerprint == ds[1:].fingerprint
    assert np.array_equal(again.column("feat"), features[order][1:])
    with leat.Loader(ds, 5, framework="numpy", epochs=1) as loader:
        batch = next(iter(loader))
        assert np.array_equal(batch["feat"], features[order])
        assert batch["t"].dtype == np.int64


# ---- what is wrong


def test_events_out_of_order_are_an_error_that_names_the_line_and_sort_is_stable(tmp_path: Path) -> None:
    path, text = tmp_path / "a.txt", "1 2 5\n3 4 7\n5 6 6\n7 8 7\n9 9 5\n"
    for _ in range(2):  # read from the text, then from what was kept of it
        with pytest.raises(leat.CorruptError, match=r"a\.txt, line 3: time 6 comes after 7.*sort=True.*\(byte 12\)"):
            opened(path, text)
        ds = opened(path, text, sort=True)
        assert ds.column("src").tolist() == [1, 9, 5, 3, 7]
        assert ds.column("t").tolist() == [5, 5, 6, 7, 7]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("1 2 3\n-1 2 3\n", r"line 2: src is a whole number from 0 to 2147483647, not \"-1 2 3\".*\(byte 6\)"),
        ("1 2147483648 3\n", r"line 1: dst is a whole number from 0 to 2147483647"),
        ("1 2 nan\n", r"line 1: a time is a finite number, not \"nan\".*\(byte 4\)"),
        ("1 2\n", r"line 1: a line is src, dst and time"),
        ("1 2 3 4\n1 2 3\n", r"line 2 has 0 features, and the lines before have 1"),
        ("", r"has no event"),
        ("# nothing\n", r"has no event"),
    ],
)
def test_what_is_no_event_names_file_line_and_byte(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ValueError, match=rf"a\.txt.*{says}"):
        opened(tmp_path / "a.txt", text)


def test_features_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "f.npy", np.zeros((3, 2), "float32"))
    with pytest.raises(
        leat.CorruptError, match=r"f\.npy has 3 rows, and .*a\.txt has 2 events: there is a row for each"
    ):
        opened(tmp_path / "a.txt", "1 2 3\n1 2 3\n", features=tmp_path / "f.npy")
    np.save(tmp_path / "o.npy", np.array([None, {}], object), allow_pickle=True)
    with pytest.raises(leat.FormatError, match="it holds objects, which are pickles"):
        opened(tmp_path / "a.txt", "1 2 3\n1 2 3\n", features=tmp_path / "o.npy")
    with pytest.raises(ValueError, match="have 1 features: leave features="):
        opened(tmp_path / "a.txt", "1 2 3 4\n", features=tmp_path / "f.npy")


def test_options_of_events_are_no_options_of_others(tmp_path: Path) -> None:
    path = made(tmp_path / "a.jsonl", '{"x": 1}\n')
    with pytest.raises(ValueError, match="sort is about files of events"):
        leat.open(path, sort=True)
    with pytest.raises(ValueError, match="features is about files of events"):
        leat.open(path, features="f.npy")
    with pytest.raises(TypeError, match=r"features is the path of a file of numpy.save, not ndarray: numpy.save\(path"):
        leat.open(tmp_path / "a.txt", format="events", features=np.ones((1, 2)))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="sort is for files of events"):
        leat.open(tmp_path / "a.parquet", sort=True)
    for others in ({"block": 8}, {"classes": ["a"]}, {"annotations": "a.json"}, {"masks": "m"}, {"documents": "file"}):
        with pytest.raises(ValueError, match=f"is of parquet, and {next(iter(others))} does nothing there"):
            leat.open(tmp_path / "a.parquet", **others)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="sort is True or False"):
        leat.open(path, sort="no")  # type: ignore[arg-type]


# ---- parts by time


@pytest.mark.parametrize("real", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_parts_by_time_have_the_borders_of_quantiles(seed: int, real: bool) -> None:
    arrays = drawn(997, 60, seed)
    if real:
        arrays["t"] = arrays["t"] / 7
    ds = leat.from_arrays(**arrays)
    t = arrays["t"]
    train, val, test = parts = ds.split_time([0.7, 0.15, 0.15])
    at_val, at_test = np.quantile(t, [0.7, 0.85])
    assert np.array_equal(train.ids, np.flatnonzero(t <= at_val))
    assert np.array_equal(val.ids, np.flatnonzero((t > at_val) & (t <= at_test)))
    assert np.array_equal(test.ids, np.flatnonzero(t > at_test))
    assert parts.borders.dtype == t.dtype
    assert parts.borders.tolist() == [train.column("t")[-1], val.column("t")[-1], t[-1]]
    assert parts.new_nodes.tolist() == []
    known = set(train.column("src")) | set(train.column("dst"))
    for part, unseen in zip((val, test), parts.unseen, strict=True):
        wanted = [i for i in part.ids if not {arrays["src"][i], arrays["dst"][i]} <= known]
        assert unseen.ids.tolist() == wanted


def test_new_nodes_leave_the_first_part_alone() -> None:
    arrays = drawn(997, 60, 0)
    ds = leat.from_arrays(**arrays)
    plain, parts = ds.split_time([0.7, 0.15, 0.15]), ds.split_time([0.7, 0.15, 0.15], new_nodes=0.1, seed=5)
    new = parts.new_nodes
    nodes = np.union1d(arrays["src"], arrays["dst"])
    assert new.dtype == np.int64
    assert len(new) == len(nodes) // 10
    assert (np.diff(new) > 0).all()
    assert [p.fingerprint for p in parts[1:]] == [p.fingerprint for p in plain[1:]]
    touched = np.isin(arrays["src"], new) | np.isin(arrays["dst"], new)
    assert np.array_equal(parts[0].ids, plain[0].ids[~touched[plain[0].ids]])
    for part, unseen in zip(parts[1:], parts.unseen, strict=True):
        assert np.isin(part.ids[touched[part.ids]], unseen.ids).all()
    again = ds.split_time([0.7, 0.15, 0.15], new_nodes=0.1, seed=5)
    assert np.array_equal(again.new_nodes, new)
    assert not np.array_equal(ds.split_time([0.7, 0.15, 0.15], new_nodes=0.1, seed=6).new_nodes, new)
    copy = pickle.loads(pickle.dumps(parts))
    assert [p.fingerprint for p in copy] == [p.fingerprint for p in parts]
    assert np.array_equal(copy.new_nodes, new)
    assert [p.fingerprint for p in copy.unseen] == [p.fingerprint for p in parts.unseen]


def test_events_of_equal_time_are_in_one_part_and_views_keep_their_ids() -> None:
    ds = leat.from_arrays(t=np.array([1, 2, 2, 2, 3, 3]))
    half, rest = ds.split_time([0.5, 0.5])
    assert [half.ids.tolist(), rest.ids.tolist()] == [[0, 1, 2, 3], [4, 5]]
    assert [p.ids.tolist() for p in ds[2:].split_time([0.5, 0.5])] == [[2, 3], [4, 5]]
    assert [len(p) for p in ds.split_time([0.1, 0.1])] == [1, 3]
    assert [len(p) for p in ds.split_time([0.1] * 10)] == [1, 3, 0, 0, 0, 0, 0, 2, 0, 0]
    assert ds.split_time([1.0]).unseen == []


def test_times_that_fall_or_are_no_times_are_refused_with_their_position() -> None:
    with pytest.raises(ValueError, match=r"position 2: t 1 comes after 2"):
        leat.from_arrays(t=np.array([1, 2, 1])).split_time([1])
    for times, at in (([np.nan, 1.0], 0), ([0.0, np.nan, 1.0], 1)):
        with pytest.raises(ValueError, match=f"position {at}: t nan"):
            leat.from_arrays(t=np.array(times)).split_time([1])
    with pytest.raises(TypeError, match="float32 rounds unix times"):
        leat.from_arrays(t=np.zeros(3, "float32")).split_time([1])
    with pytest.raises(KeyError, match="events have a field 't'"):
        leat.from_arrays(x=np.zeros(3)).split_time([1])
    ds = leat.from_arrays(t=np.arange(3))
    with pytest.raises(KeyError, match="new_nodes draws nodes"):
        ds.split_time([0.5, 0.5], new_nodes=0.1)
    for shares in ([], [0.7, 0.7], [-0.1], 0.5):
        with pytest.raises(ValueError, match="shares is a list of numbers"):
            ds.split_time(shares)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="new_nodes is a share"):
        ds.split_time([1], new_nodes=2)
    few = leat.from_arrays(src=np.array([1, 2, 3]), dst=np.array([4, 5, 6]), t=np.arange(3))
    with pytest.raises(ValueError, match=r"new_nodes=0\.9 is 5 nodes, and 2 occur after the first part"):
        few.split_time([0.7, 0.3], new_nodes=0.9)


# ---- real data


@pytest.fixture
def real(data_dir: Path) -> Path:
    folder = data_dir / "temporal-graph"
    if not folder.is_dir():
        pytest.skip(f"there is no {folder}")
    return folder


def test_real_events_are_those_that_numpy_reads(real: Path, tmp_path: Path) -> None:
    ds = leat.open(real / "CollegeMsg.txt", format="events", index_dir=tmp_path)
    rows: np.ndarray[Any, Any] = np.loadtxt(real / "CollegeMsg.txt", np.int64)
    for i, name in enumerate(("src", "dst", "t")):
        assert np.array_equal(ds.column(name), rows[:, i])
    tgn = leat.open(real / "ml_UCI-Msg.csv", index_dir=tmp_path)
    rows = np.loadtxt(real / "ml_UCI-Msg.csv", delimiter=",", skiprows=1)
    for i, name in enumerate(("src", "dst", "t", "label", "idx"), 1):
        assert np.array_equal(tgn.column(name), rows[:, i])
    jodie = leat.open(real / "uci_msg_20k.jodie.csv", index_dir=tmp_path)
    rows = np.loadtxt(real / "uci_msg_20k.jodie.csv", delimiter=",", skiprows=1)
    assert np.array_equal(jodie.column("src"), rows[:, 0])
    assert np.array_equal(jodie.column("dst"), rows[:, 1] + rows[:, 0].max() + 1)
    assert np.array_equal(jodie.column("t"), rows[:, 2])
    assert np.array_equal(jodie.column("feat"), rows[:, 4:].astype(np.float32))
