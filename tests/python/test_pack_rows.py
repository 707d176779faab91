"""Rows cut from documents: held against joining the documents of an epoch with NumPy and cutting them."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from drawn_support import examples
from http_support import Answer, Server
from hypothesis import given
from hypothesis import strategies as st
from process_support import PATIENCE
from test_order_reference import mix, permute

import leat

SEED = 5
P_ORDER, P_DOCUMENTS = 2**63 + 1, 2**63 + 3
FIELDS = ("tokens", "doc_ids", "positions", "loss_mask")


def write(path: Path, documents: list[np.ndarray[Any, Any]], dtype: str = "uint16") -> leat.Dataset:
    with leat.Writer(path, {"tokens": leat.field(dtype, (None,)), "n": "int64"}, overwrite=True) as w:
        for document in documents:
            w.add(tokens=document, n=len(document))
    return leat.open(path)


def reference(
    documents: list[np.ndarray[Any, Any]],
    length: int,
    epoch: int,
    shuffle: bool,
    bos: int | None,
    eos: int | None,
    fill: int,
    partial: bool,
) -> list[dict[str, Any]]:
    """The rows of an epoch in their order, the slow way."""
    key = mix(mix(mix(SEED, P_ORDER), 0), epoch)
    order = (
        list(map(permute(len(documents), mix(key, P_DOCUMENTS)), range(len(documents))))
        if shuffle and documents
        else range(len(documents))
    )
    tokens, ids = [], []
    for i in order:
        whole = ([] if bos is None else [bos]) + documents[i].tolist() + ([] if eos is None else [eos])
        whole = whole if len(documents[i]) else []
        tokens += whole
        ids += [i] * len(whole)
    rows = []
    for begin in range(0, len(tokens), length):
        t, d = tokens[begin : begin + length], ids[begin : begin + length]
        pad = length - len(t)
        if pad and not partial:
            break
        positions: list[int] = []
        for k, one in enumerate(d):
            positions.append(positions[-1] + 1 if k and d[k - 1] == one else 0)
        rows.append({"tokens": t + [fill] * pad, "doc_ids": d + [-1] * pad, "positions": positions + [0] * pad,
                     "loss_mask": [True] * len(t) + [False] * pad})  # fmt: skip
    if not shuffle or not rows:
        return rows
    return [rows[i] for i in map(permute(len(rows), key), range(len(rows)))]


def make(rng: np.random.Generator, n: int, longest: int) -> list[np.ndarray[Any, Any]]:
    return [rng.integers(0, 60000, rng.integers(0, longest + 1)).astype(np.uint16) for _ in range(n)]


def as_rows(batch: Any) -> list[dict[str, Any]]:
    values = {name: np.asarray(batch[name]).tolist() for name in batch}
    return [{name: v[i] for name, v in values.items()} for i in range(batch.size) if batch.valid[i]]


@examples(30)
@given(data=st.data())
def test_batches_are_the_cut_of_the_joined_documents_for_any_ranks_sizes_and_cut_points(
    tmp_path_factory: Any, data: Any
) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    documents = make(rng, data.draw(st.integers(1, 40)), data.draw(st.sampled_from([1, 5, 40])))
    length, world = data.draw(st.integers(1, 13)), data.draw(st.integers(1, 3))
    shuffle, drop, partial = data.draw(st.booleans()), data.draw(st.booleans()), True
    bos, eos = data.draw(st.sampled_from([None, 1])), data.draw(st.sampled_from([None, 2]))
    ds = write(tmp_path_factory.mktemp("pack") / "d.leat", documents)
    packed = leat.pack_rows(ds, "tokens", length, bos=bos, eos=eos, fill=7)
    size = data.draw(st.integers(1, 5))
    partial = not drop
    expected = reference(documents, length, 0, shuffle, bos, eos, 7, partial)
    if not expected:
        return
    options = dict(
        shuffle=shuffle, seed=SEED, framework="numpy", num_threads=data.draw(st.integers(1, 3)), drop_last=drop
    )
    loaders = [leat.Loader(packed, batch_size=size, rank=r, world_size=world, **options) for r in range(world)]
    stop = data.draw(st.integers(0, 3))
    found: list[dict[str, Any]] = []
    streams = [iter(loader) for loader in loaders]
    for _ in range(len(loaders[0])):
        if stop == 0:  # resumed by others, on the same number of ranks
            states = [loader.state_dict() for loader in loaders]
            loaders = [leat.Loader(packed, batch_size=size, rank=r, world_size=world, **options) for r in range(world)]
            for loader, state in zip(loaders, states, strict=True):
                loader.load_state_dict(state)
            streams = [iter(loader) for loader in loaders]
        stop -= 1
        for stream in streams:
            found += as_rows(next(stream))
    assert found == expected[: len(found)]
    whole = len(expected) // (size * world) * size * world if drop else len(expected)
    assert len(found) == whole


def test_the_next_epoch_cuts_other_rows_where_documents_are_shuffled(tmp_path: Path) -> None:
    documents = make(np.random.default_rng(1), 30, 20)
    packed = leat.pack_rows(write(tmp_path / "d.leat", documents), length=16)
    loader = leat.Loader(packed, batch_size=4, shuffle=True, seed=SEED, framework="numpy")
    for epoch in range(3):
        found = [row for batch in loader for row in as_rows(batch)]
        assert found == reference(documents, 16, epoch, True, None, None, 0, True)


@pytest.mark.parametrize("dtype", ["uint8", "int16", "uint32", "int64"])
def test_documents_of_any_integers_and_of_a_fixed_length(tmp_path: Path, dtype: str) -> None:
    rows = np.arange(60).reshape(12, 5).astype(dtype)
    with leat.Writer(tmp_path / "f.leat", {"tokens": leat.field(dtype, (5,))}) as w:
        w.write_batch({"tokens": rows})
    packed = leat.pack_rows(leat.open(tmp_path / "f.leat"), length=7, eos=1)
    expected = reference(list(rows), 7, 0, False, None, 1, 0, True)
    batches = list(leat.Loader(packed, batch_size=3, framework="numpy"))
    assert batches[0]["tokens"].dtype == dtype
    assert [row for b in batches for row in as_rows(b)] == expected


def test_operators_follow_and_only_what_is_named_is_made(tmp_path: Path) -> None:
    documents = make(np.random.default_rng(2), 10, 30)
    packed = leat.pack_rows(write(tmp_path / "d.leat", documents), length=8)
    loader = leat.Loader(packed, batch_size=2, framework="numpy", outputs={"tokens": [leat.ops.ToDtype("int64")]})
    found = [row for batch in loader for row in np.asarray(batch["tokens"]).tolist()][: len(packed)]
    assert batch_dtype(loader) == "int64"
    assert found == [row["tokens"] for row in reference(documents, 8, 0, False, None, None, 0, True)]


def batch_dtype(loader: leat.Loader) -> str:
    return str(next(iter(loader))["tokens"].dtype)


def test_as_a_data_set_it_has_the_rows_in_the_order_of_the_documents(tmp_path: Path) -> None:
    documents = make(np.random.default_rng(3), 10, 30)
    packed = leat.pack_rows(write(tmp_path / "d.leat", documents), length=8, bos=1, eos=2, fill=9)
    expected = reference(documents, 8, 0, False, 1, 2, 9, True)
    assert len(packed) == len(expected)
    assert list(packed.schema) == list(FIELDS)
    assert [{k: v.tolist() for k, v in packed[i].items()} for i in range(len(packed))] == expected
    assert packed.column("doc_ids").tolist() == [row["doc_ids"] for row in expected]
    again = pickle.loads(pickle.dumps(packed))
    assert again.fingerprint == packed.fingerprint != packed.documents.fingerprint
    assert again[1]["tokens"].tolist() == expected[1]["tokens"]


def test_a_part_of_the_documents_keeps_their_ids(tmp_path: Path) -> None:
    documents = make(np.random.default_rng(4), 10, 30)
    ds = write(tmp_path / "d.leat", documents)
    part = leat.pack_rows(ds[4:7], length=4)
    ids = {
        i
        for batch in leat.Loader(part, batch_size=2, framework="numpy")
        for i in np.asarray(batch["doc_ids"]).ravel().tolist()
    }
    assert ids - {-1} == {i for i in (4, 5, 6) if len(documents[i])}


@pytest.mark.parametrize(
    "use",
    [
        lambda rows: rows[1:2],
        lambda rows: rows.select([0]),
        lambda rows: rows.split([0.5]),
        lambda rows: leat.concat(rows, rows),
        lambda rows: leat.concat([rows.documents, rows]),
        lambda rows: leat.zip(a=rows, b=rows),
        lambda rows: leat.zip(a=leat.zip(b=rows)),
    ],
)
def test_rows_have_no_views_and_join_no_others(tmp_path: Path, use: Any) -> None:
    rows = leat.pack_rows(write(tmp_path / "d.leat", make(np.random.default_rng(4), 10, 30)), length=4)
    with pytest.raises(TypeError, match="select or split the documents"):
        use(rows)


def test_a_document_with_other_bytes_is_named(tmp_path: Path) -> None:
    documents = make(np.random.default_rng(5), 10, 300)
    ds = write(tmp_path / "d.leat", documents)
    raw = (tmp_path / "d.leat").read_bytes()
    at = raw.index(documents[3].tobytes())
    (tmp_path / "d.leat").write_bytes(raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :])
    packed = leat.pack_rows(leat.open(tmp_path / "d.leat"), length=16)
    with pytest.raises(leat.CorruptError, match="sample 3"):
        list(leat.Loader(packed, batch_size=2, framework="numpy"))
    skipped = leat.Loader(packed, batch_size=len(packed), framework="numpy", on_error="skip")
    rows = [row for batch in skipped for row in as_rows(batch)]
    assert rows == [row for row in reference(documents, 16, 0, False, None, None, 0, True) if 3 not in row["doc_ids"]]
    del ds


def test_what_is_no_field_of_tokens_is_refused(tmp_path: Path) -> None:
    ds = write(tmp_path / "d.leat", make(np.random.default_rng(6), 3, 5))
    with pytest.raises(TypeError, match="not a list of tokens"):
        leat.pack_rows(ds, "n")
    with pytest.raises(KeyError, match='no field "text"'):
        leat.pack_rows(ds, "text")
    with pytest.raises(ValueError, match="how is one of 'cut', 'best_fit', 'pad', 'ragged'"):
        leat.pack_rows(ds, how="sorted")
    with pytest.raises(ValueError, match="eos"):
        leat.pack_rows(ds, eos=70000)
    with pytest.raises(ValueError, match="length"):
        leat.pack_rows(ds, length=0)
    with pytest.raises(TypeError, match="documents"):
        leat.pack_rows(leat.pack_rows(ds))  # type: ignore[arg-type]


@pytest.mark.parametrize("recheck", ["always", "first"])
@pytest.mark.parametrize("zipped", [False, True])
def test_documents_that_change_between_epochs_are_compared_again(
    tmp_path: Path, zipped: bool, recheck: Literal["always", "first"]
) -> None:
    documents = make(np.random.default_rng(9), 300, 300)  # the next epoch's first rows may be made already
    path = tmp_path / "d.leat"
    write(path, documents)
    ds = leat.open(path, recheck=recheck)
    assert ds[290]["n"] == len(documents[290]) and len(ds[290]["tokens"])
    rows = leat.pack_rows(leat.zip(t=ds) if zipped else ds, "t.tokens" if zipped else "tokens", length=16)
    loader = leat.Loader(rows, batch_size=4, framework="numpy")
    assert sum(batch.size for batch in loader) >= len(rows)
    at, was = path.read_bytes().index(documents[290].tobytes()), path.stat().st_mtime_ns
    with path.open("r+b") as f:
        f.seek(at)
        f.write(bytes([documents[290].tobytes()[0] ^ 1]))
    os.utime(path, ns=(was + 10**9, was + 10**9))
    with pytest.raises(leat.CorruptError, match="sample 290"):
        list(loader)


class Growing:
    """Document i has 3 * i tokens, and `more` more of them later."""

    fields = {"tokens": leat.field("int32", (None,))}
    more = 0

    def __len__(self) -> int:
        return 50

    def read(self, positions: Any) -> dict[str, Any]:
        return {"tokens": [np.arange(max(3 * int(i) + self.more, 0), dtype=np.int32) for i in positions]}


@pytest.mark.parametrize("more", [-2, -1, 1, 1000])
def test_a_document_of_another_length_than_planned_is_named(more: int) -> None:
    source = Growing()
    loader = leat.Loader(leat.pack_rows(leat.from_source(source), length=8, eos=0), batch_size=4)
    source.more = more
    with pytest.raises(leat.ChangedError, match="when the loader was opened") as raised:
        list(loader)
    assert raised.value.field == "tokens"
    assert raised.value.sample == 1  # the first one is in no row


class Counted:
    """Documents that are computed; `asked` has the positions of each call."""

    fields = {"tokens": leat.field("uint16", (None,))}

    def __init__(self, documents: list[np.ndarray[Any, Any]]) -> None:
        self.documents, self.asked = documents, list[list[int]]()

    def __len__(self) -> int:
        return len(self.documents)

    def read(self, positions: Any) -> dict[str, Any]:
        self.asked.append([int(i) for i in positions])
        return {"tokens": [self.documents[i] for i in self.asked[-1]]}


@pytest.mark.parametrize("n,longest", [(4, 5000), (2000, 9)])
def test_documents_are_computed_once_for_rows_that_follow_each_other(n: int, longest: int) -> None:
    rng = np.random.default_rng(10)
    documents = [rng.integers(0, 60000, longest - i % 2).astype(np.uint16) for i in range(n)]
    source = Counted(documents)
    rows = leat.pack_rows(leat.from_source(source), length=100, eos=7)
    with leat.Loader(rows, batch_size=5, framework="numpy", num_threads=1, epochs=1) as loader:
        source.asked.clear()
        found = [row for batch in loader for row in as_rows(batch)]
    assert found == reference(documents, 100, 0, False, None, 7, 0, True)
    assert sum(map(len, source.asked)) < n + (4 * n if n < 10 else len(rows) * 3)
    assert len(source.asked) < 4 * n if n < 10 else len(source.asked) <= len(rows)


def test_closing_does_not_wait_for_a_server_that_hangs(tmp_path: Path) -> None:
    documents = make(np.random.default_rng(11), 3000, 3000)
    data = (write(tmp_path / "d.leat", documents), (tmp_path / "d.leat").read_bytes())[1]
    ended = []
    with Server({"d.leat": data}) as server:
        loader = leat.Loader(leat.pack_rows(leat.open(server.url("d.leat")), length=64), batch_size=4)
        server.behave = lambda n, path, asked, right: Answer(right.status, right.body, right.headers, cut=9, hang=True)

        def read() -> None:
            try:
                list(loader)
            except leat.ClosedError:
                ended.append(True)

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        while not server.hangs and reader.is_alive():
            time.sleep(0.01)
        loader.close()
        reader.join(PATIENCE)
    assert ended


def test_a_tuple_of_fields_is_refused(tmp_path: Path) -> None:
    rows = leat.pack_rows(write(tmp_path / "d.leat", make(np.random.default_rng(6), 3, 5)), length=4)
    for chain in ([], [leat.ops.PadTo(8)]):
        with pytest.raises(TypeError, match="tokens: .* takes one field"):
            leat.Loader(rows, batch_size=4, outputs={("tokens", "doc_ids"): chain})


def test_documents_may_be_a_field_of_several_data_sets(tmp_path: Path) -> None:
    documents = make(np.random.default_rng(8), 9, 30)
    one, other = (write(tmp_path / f"{name}.leat", documents) for name in "ab")
    rows = leat.pack_rows(leat.zip(t=one, u=other), "t.tokens", length=8, eos=2)
    found = [row for batch in leat.Loader(rows, batch_size=4, framework="numpy") for row in as_rows(batch)]
    expected = reference(documents, 8, 0, False, None, 2, 0, True)
    assert [row["t.tokens"] for row in found] == [row["tokens"] for row in expected]
    assert [row["doc_ids"] for row in found] == [row["doc_ids"] for row in expected]


LONG = 2048


def long_documents() -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(7)
    return [rng.integers(1, 60000, n).astype(np.uint16) for n in (135_000, 30, 0, 200_001)]


APART = """
import sys
import leat
rows = leat.pack_rows(leat.open(sys.argv[1]), length=2048)
for batch in leat.Loader(rows, batch_size=8, shuffle=True, seed=5, epochs=1, framework="numpy"):
    sys.stdout.buffer.write(batch["tokens"].tobytes())
"""


def test_a_piece_of_a_document_on_a_server_is_read_without_the_rest(tmp_path: Path) -> None:
    documents = long_documents()
    data = (write(tmp_path / "d.leat", documents), (tmp_path / "d.leat").read_bytes())[1]
    with Server({"d.leat": data}) as server:
        out = subprocess.run(
            [sys.executable, "-c", APART, server.url("d.leat")],
            env=os.environ | {"LEAT_CACHE_BYTES": "400000"},  # it does not have room for the file
            check=True,
            capture_output=True,
        ).stdout
        expected = [row["tokens"] for row in reference(documents, LONG, 0, True, None, None, 0, True)]
        assert sorted(out[i : i + 2 * LONG] for i in range(0, len(out), 2 * LONG)) == sorted(
            np.array(row, np.uint16).tobytes() for row in expected
        )
        sizes = [b + 1 - a for a, b in server.ranges]
        assert sum(size > 3 * 65536 for size in sizes) <= 8  # of opening
        assert sum(sizes) < len(expected) * 3 * 65536


# ---- documents without a token ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["cut", "best_fit", "pad", "ragged"])
def test_an_empty_document_has_no_place_whatever_is_put_around_documents(how: str) -> None:
    """36 drawn sets of documents for each way: with the empty ones left out, the rows are the same."""
    rng = np.random.default_rng(7)
    for k in range(36):
        lengths = rng.integers(0, 6, int(rng.integers(1, 30))) * (rng.random() < 0.9)
        lengths[int(rng.integers(len(lengths)))] = 0
        around = [{"eos": 99}, {"bos": 98}, {"bos": 98, "eos": 99}, {}][k % 4]
        values = np.arange(lengths.sum(), dtype=np.uint16) % 90
        mask = np.arange(lengths.sum()) % 3 > 0
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        ds = leat.from_arrays(tokens=leat.Ragged(values, offsets), loss_mask=leat.Ragged(mask, offsets))
        full = ds.select(np.flatnonzero(lengths))
        more = {"multiple": 2} if how in ("best_fit", "ragged") and k % 3 == 0 else {}
        rows, want = (leat.pack_rows(d, length=8, how=how, **around, **more) for d in (ds, full))
        assert len(rows) == len(want) and sum(int((r["positions"] == 0).sum()) for r in rows) >= len(rows)
        if how in ("cut", "pad"):  # best fit draws the order of documents of one length
            for one, other in zip(rows, want, strict=True):
                assert all(np.array_equal(one[n], other[n]) for n in one), (k, how)
        documents = [d for r in rows for d in np.unique(r["doc_ids"][r["doc_ids"] >= 0]).tolist()]
        assert set(documents) == set(np.flatnonzero(lengths).tolist())
        if how == "ragged" or not len(rows):
            continue
        with leat.Loader(rows, 3, framework="numpy", tail="uneven", epochs=1) as loader:
            made = np.concatenate([np.asarray(b["tokens"]) for b in loader])
        assert np.array_equal(made, np.stack([r["tokens"] for r in rows]))


def test_padding_without_a_token_is_refused() -> None:
    documents = leat.from_arrays(tokens=np.arange(6).reshape(2, 3))
    with pytest.raises(TypeError, match="fill is an integer, not None"):
        leat.pack_rows(documents, "tokens", 4, fill=None)  # type: ignore[arg-type]
