"""leat info, verify, cat, replay and bench, on small files made here."""

from __future__ import annotations

import gzip
import json
import os
import pty
import re
import signal
import struct
import subprocess
import time
from pathlib import Path

import pytest
from cli_support import PYTHON, Started, command, golden, leat, leat_bytes, make_folder

import leat as package

PROGRAM = {
    "operators": {
        "a": {"type": "Decode", "mode": "RGB"},
        "b": {"type": "Resize", "size": [16, 16]},
        "c": {"type": "ToDtype", "dtype": "float32"},
    },
    "outputs": {
        "image": {"field": "image", "chain": ["a", "b"]},
        "small": {"field": "image", "chain": ["a", "b", "c"]},
        "label": {"field": "label", "chain": []},
    },
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_folder(tmp_path_factory.mktemp("read") / "photos", {"ant": 12, "bee": 20})


@pytest.fixture(scope="module")
def packed(folder: Path) -> Path:
    leat("pack", folder, folder.parent / "p.leat", "--quiet", "--metadata", '{"licence": "CC0"}')
    return folder.parent / "p.leat"


def test_info_prints_what_is_in_a_file(packed: Path) -> None:
    golden("info/photos.txt", leat("info", "p.leat", cwd=packed.parent).stdout)


def test_info_of_a_folder_prints_the_same_samples(folder: Path, packed: Path) -> None:
    one, two = (json.loads(leat("info", "--json", p).stdout) for p in (folder, packed))
    for key in ("count", "classes", "fingerprint"):
        assert one[key] == two[key]
    assert one["format"] == "folder" and two["format"] == "leat" and two["format_version"] == 1
    assert two["bytes"] == packed.stat().st_size and two["broken"] == 0 and two["metadata"] == {"licence": "CC0"}


@pytest.mark.parametrize("name", [b"caf\xe9", b"new\nline", b"red\x1b[31m"])
def test_names_that_no_terminal_and_no_json_can_hold_are_escaped(folder: Path, tmp_path: Path, name: bytes) -> None:
    made, shown = os.fsdecode(name + b".leat"), repr(name)[2:-1].replace("\\n", "\\x0a")
    packed = leat("pack", folder, made, cwd=tmp_path).stdout
    for line in (["info"], ["stats"], ["view", "--out", made + ".png"], ["trace", "--out", made + ".json"]):
        packed += leat(*line, made, cwd=tmp_path).stdout
        if line[0] in ("info", "stats"):
            told = json.loads(leat(*line, made, "--json", cwd=tmp_path).stdout)["path"]
            assert told == (shown if name == b"caf\xe9" else name.decode()) + ".leat"
    assert packed.count(shown + ".leat") == 5 and os.fsdecode(name) not in packed


@pytest.mark.parametrize(
    "line",
    [
        ["cat", "--id", "0", "--field", "image", "--out"],
        ["cat", "--id", "0", "--decode", "--out"],
        ["view", "--out"],
        ["trace", "--out"],
        ["stats", "--plot"],
        ["bench", "--photos", "--plot"],
        ["mix", "show", "--out"],
        ["trace", "x.leat", "--program", "q.leat", "--out"],
    ],
    ids=" ".join,
)
def test_no_output_replaces_what_is_read(packed: Path, tmp_path: Path, line: list[str]) -> None:
    (tmp_path / "q.leat").write_bytes(packed.read_bytes())
    (tmp_path / "link").symlink_to("q.leat")
    for out in ("./q.leat", "link"):
        words = [*line, out, *([] if "x.leat" in line else ["q.leat"])]
        assert f"would replace {out}, which is read" in leat(*words, cwd=tmp_path, code=2).stderr
    assert (tmp_path / "q.leat").read_bytes() == packed.read_bytes()


@pytest.mark.parametrize("data", ["q-*.leat", "q-{0..1}.leat", ".", "there"], ids=["star", "range", "folder", "link"])
def test_no_output_replaces_what_a_pattern_or_a_folder_stands_for(packed: Path, tmp_path: Path, data: str) -> None:
    (tmp_path / "q-0.leat").write_bytes(packed.read_bytes())
    (tmp_path / "q-1.leat").symlink_to("q-0.leat")
    (tmp_path / "there").symlink_to(tmp_path)
    for out in ("q-0.leat", "q-1.leat", "../" + tmp_path.name + "/q-0.leat"):
        for line in (["cat", "--id", "0", "--field", "image"], ["view"], ["trace"]):
            said = leat(*line, data, "--out", out, cwd=tmp_path, code=2).stderr
            assert f"would replace {out}, which is read as a part of {data}: " in said
    assert (tmp_path / "q-0.leat").read_bytes() == packed.read_bytes()
    leat("cat", "--id", "0", "--field", "image", "q-*.leat", "--out", "q.jpg", cwd=tmp_path)
    leat("cat", "--id", "1", "--field", "image", "q-*.leat", "--out", "q.jpg", cwd=tmp_path)


def test_no_value_replaces_a_shard_of_the_manifest_that_it_is_read_of(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text('{"text": "hello"}\n' * 20)
    leat("convert", "t.jsonl", "t.leat", "--shard-bytes", "1K", cwd=tmp_path)
    shard, before = tmp_path / "t.00000.leat", (tmp_path / "t.00000.leat").read_bytes()
    said = leat("cat", "t.leat", "--id", "0", "--field", "text", "--out", shard, cwd=tmp_path, code=2).stderr
    assert f"would replace {shard}, which is read" in said and shard.read_bytes() == before
    (tmp_path / "there").symlink_to(tmp_path)
    for data in ("t.leat", "t*.leat", "there/t.leat", "there"):
        said = leat("view", data, "--out", "t.00000.leat", cwd=tmp_path, code=2).stderr
        assert "would replace t.00000.leat, which is read" in said and shard.read_bytes() == before


def test_no_picture_replaces_one_of_a_folder_of_masks(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "masks").mkdir()
    (tmp_path / "masks" / "a.png").write_bytes(b"kept")
    said = leat("view", folder, "--masks", "masks", "--out", "masks/a.png", cwd=tmp_path, code=2).stderr
    assert "--out would replace masks/a.png, which is read as a part of masks" in said
    assert (tmp_path / "masks" / "a.png").read_bytes() == b"kept"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (json.dumps(json.dumps(PROGRAM)), "p.json holds a program as a text within JSON: write leat.program_to_json"),
        ("[1]", "p.json is no program: it is no JSON object. Save leat.program_to_json"),
        ("{'outputs': {}}", "p.json is no JSON (line 1: "),
        ("", "p.json is no JSON (line 1: "),
    ],
)
def test_a_file_that_is_no_program_is_named(packed: Path, tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "p.json").write_text(text)
    for line in (["trace", "--out", "t.json"], ["view", "--out", "s.png"], ["bench"]):
        done = leat(*line, packed, "--program", "p.json", cwd=tmp_path, code=2)
        assert done.stderr.startswith(f"leat {line[0]}: {said}")


def test_a_damaged_file_is_told_from_one_that_cannot_be_opened(packed: Path, tmp_path: Path) -> None:
    data = bytearray(packed.read_bytes())
    data[-10] ^= 1
    (tmp_path / "q.leat").write_bytes(data)
    assert "q.leat" in leat("info", tmp_path / "q.leat", code=1).stderr


def test_info_refuses_what_is_no_data_set(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("hello")
    done = leat("info", tmp_path / "x.txt", code=2)
    assert "x.txt" in done.stderr and done.stdout == ""


# ---- the log ---------------------------------------------------------------------------------------------------------


def test_a_level_of_the_log_that_there_is_not_is_said_once(packed: Path) -> None:
    said = leat("info", packed, env={**os.environ, "LEAT_LOG": "loud"}).stderr
    assert said == "leat: LEAT_LOG=loud is not known: it is error, warning, info or debug; nothing is logged\n"


def test_a_file_of_the_log_that_cannot_be_opened_is_said(packed: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "LEAT_LOG": "error", "LEAT_LOG_FILE": str(tmp_path / "none" / "log")}
    said = leat("info", packed, env=environment).stderr
    assert said.startswith(f"leat: LEAT_LOG_FILE={tmp_path}/none/log cannot be opened: No such file or directory; ")


@pytest.mark.parametrize("value", ["10GB", "-5", "1e9", " 7"])
def test_a_variable_that_is_no_number_is_said_and_the_default_is_taken(tmp_path: Path, value: str) -> None:
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(b'{"n": 1}\n'))
    told = f"leat: LEAT_CACHE_BYTES={value} is no whole number; the default is taken\n"
    for there, said in ((value, told), ("9", "")):
        done = leat("cat", "a.jsonl.gz", "--id", 0, cwd=tmp_path, env={**os.environ, "LEAT_CACHE_BYTES": there})
        assert (done.stdout, done.stderr) == ("1\n", said)


@pytest.mark.parametrize("level", ["", "error", "warning"])
def test_a_level_of_the_log_that_there_is_is_not_spoken_of(packed: Path, level: str) -> None:
    assert leat("info", packed, env={**os.environ, "LEAT_LOG": level}).stderr == ""


# ---- verify ----------------------------------------------------------------------------------------------------------


def test_a_whole_file_verifies(packed: Path) -> None:
    done = leat("verify", packed)
    assert "p.leat: whole; " in done.stdout
    assert leat("verify", packed, "--quiet").stdout == ""


def test_a_flipped_bit_in_a_photo_is_found_and_named(folder: Path, packed: Path, tmp_path: Path) -> None:
    data = bytearray(packed.read_bytes())
    photo = (folder / "bee" / "0007.png").read_bytes()
    at = data.index(photo) + len(photo) // 2
    data[at] ^= 4
    (tmp_path / "q.leat").write_bytes(data)
    done = leat("verify", tmp_path / "q.leat", code=1)
    faults = [line for line in done.stdout.splitlines() if "sample" in line]
    assert len(faults) == 1 and faults[0].startswith(f"{tmp_path}/q.leat: sample 19, field image, byte ")
    assert done.stdout.splitlines()[-1].endswith("1 fault found.")


def test_a_value_that_is_not_what_was_written_is_said_with_its_place_once(packed: Path, tmp_path: Path) -> None:
    data = bytearray(packed.read_bytes())
    data[len(data) // 2] ^= 1  # payloads make up nearly all of the file
    damaged = tmp_path / "damaged.leat"
    damaged.write_bytes(data)
    sample = leat("verify", damaged, code=1).stdout.partition("sample ")[2].partition(",")[0]
    said = leat("cat", damaged, "--id", sample, "--field", "image", code=1).stderr
    assert f"damaged.leat: sample {sample}, field image, byte " in said and "are not what was written" in said
    assert said.count("damaged.leat") == said.count("sample ") == said.count("field ") == 1


def test_any_flipped_bit_is_found(tmp_path: Path) -> None:
    """A bit in every 29th byte of a small file, and in some of the first and last 64."""
    small = make_folder(tmp_path / "photos", {"ant": 3, "bee": 5}, size=(12, 10))
    target = tmp_path / "q.leat"
    leat("pack", small, target, "--quiet", "--metadata", '{"licence": "CC0"}')
    whole = target.read_bytes()
    places = sorted({*range(0, len(whole), 29), *range(0, 64, 7), *range(len(whole) - 64, len(whole), 7)})
    assert len(places) > 150
    missed = []
    for at in places:
        data = bytearray(whole)
        data[at] ^= 1 << at % 8
        target.write_bytes(data)
        if leat("verify", target, "--quiet", code=None).returncode not in (1, 2):
            missed.append(at)
    assert missed == []


def test_a_cut_file_is_found(packed: Path, tmp_path: Path) -> None:
    whole = packed.read_bytes()
    for length in (len(whole) - 1, len(whole) // 2, 100, 1):
        (tmp_path / "q.leat").write_bytes(whole[:length])
        done = leat("verify", tmp_path / "q.leat", code=None)
        assert done.returncode in (1, 2) and "q.leat" in done.stdout + done.stderr, length


def test_the_files_of_a_folder_are_read(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "photos", {"a": 3})
    for _ in range(2):
        said = leat("verify", folder).stdout
        assert "every file was read" in said and "no checksums" in said and "whole" not in said
        (folder / "index.json").write_text("{}")  # which makes no MDS of it


# ---- cat -------------------------------------------------------------------------------------------------------------


def test_cat_gives_values_as_text_and_as_bytes(packed: Path) -> None:
    assert leat("cat", packed, "--id", 13, "--field", "label").stdout == "1\n"
    assert leat_bytes("cat", packed, "--id", 13, "--field", "label", "--raw") == struct.pack("<q", 1)
    assert leat("cat", packed, "--id", 13, "--field", "name").stdout == "bee/0001.png"


def test_cat_gives_numbers_that_readers_of_json_take(tmp_path: Path) -> None:
    given = [0.1, -0.0, float("nan"), float("inf"), -float("inf"), 5e-324, 1e22]
    with package.Writer(tmp_path / "n.leat", {"x": "float64", "v": package.field("float64", (None,))}) as w:
        for x in given:
            w.add(x=x, v=given)
    for i, x in enumerate(given):
        assert repr(json.loads(leat("cat", tmp_path / "n.leat", "--id", i, "--field", "x").stdout)) == repr(x)
    assert repr(json.loads(leat("cat", tmp_path / "n.leat", "--id", 0, "--field", "v").stdout)) == repr(given)


def test_cat_writes_to_a_path(folder: Path, packed: Path, tmp_path: Path) -> None:
    leat("cat", packed, "--id", 2, "--field", "image", "--out", tmp_path / "x.png")
    assert (tmp_path / "x.png").read_bytes() == (folder / "ant" / "0002.png").read_bytes()


def test_cat_reads_a_folder_too(folder: Path) -> None:
    assert leat_bytes("cat", folder, "--id", 2, "--field", "image") == (folder / "ant" / "0002.png").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--id", "32", "--field", "image"], "it has 32, numbered from 0"),
        (["--id", "0", "--field", "photo"], 'has no field "photo": it has image, label, name'),
        (["--id", "0"], "--field is missing"),
    ],
)
def test_cat_says_what_there_is(packed: Path, arguments: list[str], said: str) -> None:
    done = leat("cat", packed, *arguments, code=2)
    assert said in done.stderr and done.stdout == ""


def test_cat_keeps_binary_bytes_off_a_terminal(packed: Path) -> None:
    master, slave = pty.openpty()
    done = subprocess.run(
        [command(), "cat", packed, "--id", "0", "--field", "image"], stdout=slave, stderr=subprocess.PIPE, text=True
    )
    os.close(slave)
    os.close(master)
    assert done.returncode == 2 and "--out PATH, or --force" in done.stderr


@pytest.mark.parametrize(
    "line",
    [("info",), ("info", "--json"), ("cat", "--id", "0", "--field", "image"), ("cat", "--id", "0", "--field", "label")],
)
def test_output_that_cannot_be_written_is_a_failure_that_is_told_once(packed: Path, line: tuple[str, ...]) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("this system has no /dev/full")
    with open("/dev/full", "w") as full:
        done = subprocess.run([command(), *line, packed], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2
    assert done.stderr == f"leat {line[0]}: standard output could not be written: No space left on device.\n"


def test_a_part_in_python_says_that_output_could_not_be_written(packed: Path, tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text(json.dumps({"sources": {"a": {"path": str(packed), "share": 1}}}))
    line = [command(), "mix", "show", str(tmp_path / "m.json")]
    for into, why in ((">/dev/full", "No space left on device"), (">&-", "Bad file descriptor")):
        done = subprocess.run(["sh", "-c", f'"$@" {into}', "sh", *line], stderr=subprocess.PIPE, text=True, env=PYTHON)
        assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, done.stderr
        assert done.stderr.startswith(f"leat mix: standard output could not be written: {why}")


def test_ctrl_c_while_a_part_in_python_starts_leaves_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "leat").mkdir()
    (tmp_path / "leat" / "__init__.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    done = subprocess.run(
        [command(), "mix", "show", "x"], capture_output=True, text=True, env=PYTHON | {"PYTHONPATH": str(tmp_path)},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL), timeout=120,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "")


def test_no_file_gets_the_number_of_a_stream_that_is_closed(packed: Path, tmp_path: Path) -> None:
    line = [command(), "serve", str(packed), "--name", "p", "--dir", str(tmp_path)]
    with Started(["sh", "-c", 'exec "$@" <&- 2>&-', "sh", *line], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline()
        assert [os.readlink(f"/proc/{process.pid}/fd/{n}") for n in (0, 2)] == ["/dev/null"] * 2


# ---- bench -----------------------------------------------------------------------------------------------------------


def catches(pid: int, number: signal.Signals) -> bool:
    """Whether the process has a handler of its own for that signal."""
    caught = re.search(r"^SigCgt:\s*([0-9a-f]+)", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return caught is not None and bool(int(caught[1], 16) >> (number - 1) & 1)


def test_bench_counts_samples_for_each_number_of_threads(packed: Path) -> None:
    report = json.loads(leat("bench", packed, "--json", "--seconds", 0.05, "--batch-size", 8).stdout)
    assert [run["threads"] for run in report["runs"]][0] == 1
    for run in report["runs"]:
        assert run["samples"] > 0 and run["samples_per_second"] > 0
        assert "reading" in run["thread_seconds"] and any("Decode" in name for name in run["thread_seconds"])


def test_bench_on_one_core_divides_no_more_than_all_of_the_time(tmp_path: Path) -> None:
    """There the consumer works beside the thread, and the clock of a step runs on while the other one has the core."""
    leat("pack", make_folder(tmp_path / "photos", {"a": 64}, (200, 150)), tmp_path / "p.leat", "--quiet")
    one = min(os.sched_getaffinity(0))
    for order in ("sequential", "shuffled"):
        done = leat(
            "bench",
            tmp_path / "p.leat",
            "--seconds",
            0.1,
            "--num-threads",
            1,
            "--order",
            order,
            preexec_fn=lambda: os.sched_setaffinity(0, [one]),
        )
        shares = [int(share) for share in re.findall(r" (\d+)%", done.stdout.splitlines()[-1])]
        assert len(shares) >= 3 and 100 - len(shares) <= sum(shares) <= 100 + len(shares)


def test_bench_says_that_it_was_interrupted(packed: Path) -> None:
    line = [command(), "bench", str(packed), "--seconds", "1000"]
    with Started(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        end = time.monotonic() + 120
        while not catches(process.pid, signal.SIGINT):
            assert time.monotonic() < end and process.poll() is None
            time.sleep(0.001)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=120)
    assert process.returncode == 130 and err == "leat bench: interrupted.\n"


def test_bench_runs_a_program_from_a_file(packed: Path, tmp_path: Path) -> None:
    (tmp_path / "program.json").write_text(json.dumps(PROGRAM))
    done = leat("bench", packed, "--seconds", 0.05, "--num-threads", 1, "--program", tmp_path / "program.json")
    assert "samples/s" in done.stdout and "Resize" in done.stdout


def test_bench_names_what_does_not_fit_in_a_program(packed: Path, tmp_path: Path) -> None:
    (tmp_path / "program.json").write_text('{"operators": {}, "outputs": {"x": {"field": "nothing", "chain": []}}}')
    assert "nothing" in leat("bench", packed, "--program", tmp_path / "program.json", code=2).stderr


@pytest.mark.parametrize("command_of", ["verify", "info"])
def test_hostile_names_are_printed_escaped(tmp_path: Path, command_of: str) -> None:
    folder = make_folder(tmp_path / "photos", {"ant\x1b[31m": 2, "bee\x9b\u202e": 1})
    packed = tmp_path / "x\x1b]0;title\x07.leat"
    leat("pack", folder, packed, "--quiet")
    for path in (packed, folder, tmp_path / "missing\x1b[2J.leat"):
        done = leat(command_of, path, code=None)
        bad = [
            c
            for c in done.stdout + done.stderr
            if (ord(c) < 32 and c != "\n") or 0x7F <= ord(c) < 0xA0 or c == "\u202e"
        ]
        assert bad == [], done


@pytest.mark.parametrize(
    "words",
    [
        ["info", "--where", "label = 0", "--where", "label = 1"],
        ["cat", "--id", "1", "--id", "2", "--field", "label"],
        ["cat", "--id", "1", "--field", "label", "--field", "image"],
        ["stats", "--samples=3", "--samples", "4"],
    ],
)
def test_an_option_that_is_given_twice_with_two_values_is_an_error(packed: Path, words: list[str]) -> None:
    """The second value would silently take the place of the first one."""
    assert " is given twice, as " in leat(words[0], packed, *words[1:], code=2).stderr
    leat("info", packed, "--where", "label = 0", "--where", "label = 0", "--json", "--json")


@pytest.mark.parametrize(
    ("words", "ending"),
    [
        (["stats", "p.leat", "--plot", "a.svg"], ".png"),
        (["view", "p.leat", "--out", "a.JPG"], ".png"),
        (["bench", "--photos", "photos", "--plot", "a.png"], ".svg"),
    ],
)
def test_a_picture_has_no_ending_of_another_kind(packed: Path, words: list[str], ending: str) -> None:
    said = leat(*words, cwd=packed.parent, code=2).stderr
    assert f"{words[-1]}: what is drawn there is a {ending}: name it so." in said
    assert not (packed.parent / words[-1]).exists()
