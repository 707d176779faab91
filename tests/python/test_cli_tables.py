"""The shell on tables, which Python reads: info, cat, verify, and what stands for missing values."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_support import Started, command
from cli_support import leat as shell

import leat

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    columns: dict[str, Any] = {
        "x": pa.array([None if i == 3 else i for i in range(50)]),
        "t": [f"text {i}" for i in range(50)],
        "j": [[{"a": i}] for i in range(50)],
    }
    pq.write_table(pa.table(columns), tmp_path / "a.parquet", row_group_size=20, write_page_checksum=True)
    return tmp_path / "a.parquet"


def test_info_of_a_table_says_what_its_files_say(table: Path) -> None:
    ds = leat.open(table)
    told = json.loads(shell("info", table, "--json").stdout)
    assert {f["name"]: f["kind"] for f in told["fields"]} == {"x": "array", "t": "str", "j": "json"}
    assert (told["format"], told["count"], told["bytes"]) == ("parquet", 50, table.stat().st_size)
    assert (told["fingerprint"], told["metadata"]) == (ds.fingerprint, {})
    text = shell("info", table).stdout
    assert "format         parquet\nsamples        50\n" in text
    part = json.loads(shell("info", table, "--json", "--field", "t", "--where", "t LIKE '%7'").stdout)
    assert (part["count"], part["of"], [f["name"] for f in part["fields"]]) == (5, 50, ["t"])
    filled = json.loads(shell("info", table, "--json", "--fill", "x=-1").stdout)
    assert filled["fingerprint"] == leat.open(table, fill={"x": -1}).fingerprint


def test_cat_gives_values_of_a_table(table: Path) -> None:
    assert shell("cat", table, "--id", 7, "--field", "t").stdout == "text 7"
    assert json.loads(shell("cat", table, "--id", 7, "--field", "j").stdout) == [{"a": 7}]
    assert shell("cat", table, "--where", "x > 47", "--field", "t").stdout == "text 48\ntext 49\n"
    missing = shell("cat", table, "--id", 3, "--field", "x", code=1).stderr
    assert "leat cat: " in missing and "row group 0, row 3" in missing and "--fill x=VALUE" in missing
    assert shell("cat", table, "--id", 3, "--field", "x", "--fill", "x=-1").stdout.strip() == "-1"
    beyond = shell("cat", table, "--id", 50, "--field", "t", code=2).stderr
    assert "has no sample 50; it has 50, numbered from 0" in beyond


def test_verify_reads_all_of_a_table_and_names_what_is_wrong(table: Path, tmp_path: Path) -> None:
    assert "a.parquet: every value was read" in shell("verify", table).stdout
    assert shell("verify", table, "--quiet").stdout == ""
    data = bytearray(table.read_bytes())
    at = pq.ParquetFile(table).metadata.row_group(1).column(1)
    data[at.data_page_offset + at.total_compressed_size // 2] ^= 1
    (tmp_path / "b.parquet").write_bytes(bytes(data))
    done = shell("verify", tmp_path / "b.parquet", table, code=1)
    assert "b.parquet, samples 20 to 39: " in done.stdout and "row group 1" in done.stdout
    assert "b.parquet: 1 fault found." in done.stdout and "a.parquet: every value was read" in done.stdout


@pytest.mark.parametrize("words", [["info"], ["verify"], ["cat", "--where", "x >= 0", "--field", "t"]])
def test_a_reader_that_has_gone_ends_a_command_as_it_ends_any_other(table: Path, words: list[str]) -> None:
    out, reader = os.pipe()[::-1]
    os.close(reader)
    done = subprocess.run([command(), words[0], table, *words[1:]], stdout=out, stderr=subprocess.PIPE, timeout=120)
    os.close(out)
    assert done.stderr == b"" and done.returncode in (-signal.SIGPIPE, 128 + signal.SIGPIPE)


def test_files_that_are_cut_are_faults(table: Path, tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = np.arange(12000)
    for path in (table, tmp_path / "a.h5"):
        path.write_bytes(path.read_bytes()[:-300])
        done = shell("verify", path, code=1)
        assert f"{path}: 1 fault found." in done.stdout and done.stdout.count(str(path)) == 2, done


def test_samples_of_one_damaged_chunk_are_one_fault(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=np.arange(400.0).reshape(100, 4), chunks=(10, 4), fletcher32=True)
    with h5py.File(path) as file:
        places = [file["x"].id.get_chunk_info(k).byte_offset for k in (3, 4, 7)]
    data = bytearray(path.read_bytes())
    for at in places:
        data[at + 5] ^= 1
    path.write_bytes(data)
    lines = shell("verify", path, code=1).stdout.splitlines()
    assert [one.split(": x: chunk ")[0] for one in lines[:3]] == [
        f"{path}, samples {first} to {first + 9}" for first in (30, 40, 70)
    ]
    assert lines[3:] == [f"{path}: 3 faults found."]


def test_errors_of_tables_name_no_class_of_leat(table: Path, tmp_path: Path) -> None:
    for words in (["convert", table, tmp_path / "b.leat"], ["cat", table, "--id", 3, "--field", "x"]):
        told = shell(*words, code=1).stderr
        assert "row group 0, row 3" in told and "Chunks" not in told and "Error" not in told, told


def test_values_that_cannot_be_made_are_faults_with_their_samples(tmp_path: Path) -> None:
    texts = ["[]"] * 30
    texts[4], texts[25] = "{", "no json"
    there = leat.open  # the columns as the shell finds them
    pq.write_table(pa.table({"j": texts}), tmp_path / "a.parquet", row_group_size=20)
    faults = list(there(tmp_path / "a.parquet", fields={"j": "json"})._recipe[1].faults())
    assert [one[:2] for one in faults] == [(4, 4), (25, 25)]


def test_what_stands_for_missing_values_is_said_in_the_shell(table: Path, tmp_path: Path) -> None:
    shell("convert", table, tmp_path / "b.leat", "--fill", "x=-7", "--quiet")
    assert leat.open(tmp_path / "b.leat").column("x").tolist() == [-7 if i == 3 else i for i in range(50)]
    told = shell("convert", table, tmp_path / "c.leat", code=1).stderr
    assert "--fill x=VALUE says what stands for it" in told
    assert json.loads(shell("stats", table, "--fill", "x=0", "--json").stdout)["count"] == 50
    assert "year=-1" in shell("info", table, "--fill", "x", code=2).stderr
    assert "--fill is for missing values" in shell("info", tmp_path / "b.leat", "--fill", "x=1", code=2).stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--coco", "a.json"], "--coco is not about such files"),
        (["--block", "8"], "--block is not about such files"),
        (["--on-bad", "skip"], "--on-bad is not about such files"),
        (["--field", "x="], "--field takes a name, or a name and what it is"),
        (["--field", "=int64"], "--field takes a name, or a name and what it is"),
        (["--field", "x", "--field", "x=int64"], "--field names 'x' twice"),
        (["--fill", "=1"], "such as year=-1, not '=1'"),
    ],
)
def test_options_that_say_nothing_of_a_table_are_refused(table: Path, words: list[str], said: str) -> None:
    assert said in shell("info", table, *words, code=2).stderr


def test_info_and_verify_of_files_of_arrays(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = np.arange(12).reshape(6, 2)
    told = json.loads(shell("info", tmp_path / "a.h5", "--json").stdout)
    assert (told["format"], told["count"], told["fingerprint"]) == ("hdf5", 6, leat.open(tmp_path / "a.h5").fingerprint)
    assert "a.h5: every value was read" in shell("verify", tmp_path / "a.h5").stdout
    assert shell("cat", tmp_path / "a.h5", "--id", 2).stdout.strip() == "[4, 5]"


def test_a_temporary_file_that_cannot_be_written_names_another_place(table: Path, tmp_path: Path) -> None:
    environment, into = dict(os.environ, TMPDIR=str(tmp_path / "t")), tmp_path / "t"
    done = shell("stats", table, code=2, env=environment)
    assert f"{into}: no folder for temporary files can be made there: No such file" in done.stderr
    into.mkdir()
    limit = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (1 << 10, 1 << 10))
    done = shell("stats", table, code=2, env=environment, preexec_fn=limit)
    assert "writing a temporary file failed: File too large: TMPDIR names another place" in done.stderr
    assert list(into.iterdir()) == []


def test_a_table_that_is_damaged_says_nothing_of_temporary_files(tmp_path: Path) -> None:
    numbers = np.random.default_rng(0).permutation(30_000)
    pq.write_table(pa.table({"n": numbers}), tmp_path / "a.parquet", row_group_size=10_000, compression="zstd")
    data = bytearray((tmp_path / "a.parquet").read_bytes())
    data[len(data) // 2 : len(data) // 2 + 2000] = b"\xff" * 2000
    (tmp_path / "a.parquet").write_bytes(data)
    said = shell("stats", tmp_path / "a.parquet", code=2).stderr
    assert "a.parquet row group 1: " in said and "TMPDIR" not in said


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_command_that_is_ended_ends_python_and_leaves_no_copy(number: signal.Signals, tmp_path: Path) -> None:
    """The command waits for Python, which writes the copy: neither outlives it. A signal that is ignored stays so."""

    def ignoring() -> None:
        for other in (signal.SIGINT, signal.SIGHUP):
            signal.signal(other, signal.SIG_DFL if other == number else signal.SIG_IGN)

    n = 2_000_000  # to be in the midst of it
    pq.write_table(pa.table({"n": range(n), "s": [f"text {i}" for i in range(n)]}), tmp_path / "large.parquet")
    (tmp_path / "made").mkdir()
    environment = os.environ | {"TMPDIR": str(tmp_path / "made")}
    words = [command(), "cat", tmp_path / "large.parquet", "--where", "n > 5"]
    with Started(words, stdout=subprocess.DEVNULL, env=environment, start_new_session=True, preexec_fn=ignoring) as run:
        while not list((tmp_path / "made").glob("*/table.leat*")):
            assert run.poll() is None
            time.sleep(0.01)
        for one in {signal.SIGINT, signal.SIGHUP} - {number}:
            run.send_signal(one)
        run.send_signal(number)
        assert run.wait(60) == -number
        assert not list((tmp_path / "made").iterdir())
        with pytest.raises(ProcessLookupError):
            os.killpg(run.pid, 0)


def test_python_that_is_told_twice_to_end_clears_away_what_it_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """As by Ctrl-C in a terminal: from there, and from the command that waits for it."""
    from leat.commands import main, verifying

    cleared = []

    def ended(options: Any) -> int:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)
            cleared.append(True)
        return 0

    monkeypatch.setattr(verifying, "main", ended)
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    assert main.main("verify", {}) == main.INTERRUPTED and cleared
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_statistics_leave_out_what_is_not_whole_and_take_no_samples(tmp_path: Path) -> None:
    bad = pa.array([b"a", b"\xff", "é".encode(), b"d"], pa.binary()).view(pa.string())
    pq.write_table(pa.table({"l": [[1], [2], [3, None], [4, 5]], "t": bad}), tmp_path / "a.parquet")
    done = shell("stats", tmp_path / "a.parquet")
    assert "2 of 4 samples are left out: they lack values, such as of 't'" in done.stderr
    assert "samples        2" in done.stdout
    assert "1 of 4" in shell("stats", tmp_path / "a.parquet", "--field", "l=json", "--field", "t").stderr
    said = shell("convert", tmp_path / "a.parquet", tmp_path / "a.leat", "--field", "l", code=1).stderr
    assert "row 2: column 'l' has a list with missing numbers in it: take it as JSON, --field l=json" in said
    pq.write_table(pa.table({"a": pa.array([], pa.int64())}), tmp_path / "none.parquet")
    assert "samples        0" in shell("stats", tmp_path / "none.parquet").stdout
