"""leat serve and leat port: a loader in a process of its own, and what is said of it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_support import Started, make_folder, png
from cli_support import command as executable
from cli_support import leat as command

import leat

N = 120


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("serve") / "numbers.leat"
    with leat.Writer(target, {"x": leat.field("float32", (4,)), "y": "int64"}) as w:
        for i in range(N):
            w.add(x=np.full(4, i, np.float32), y=i)
    return target


def served(source: Path, *options: object, name: str = "numbers") -> Any:
    """The process, once others can attach to it."""
    words = [executable(), "serve", str(source), "--name", name, *map(str, options)]
    process = Started(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process.line = process.stdout.readline()
    if not process.line:
        _, said = process.communicate(timeout=120)
        pytest.fail(f"leat serve ended with {process.returncode}: {said}")
    return process


def rest(process: Any) -> tuple[int, str, str]:
    out, said = process.communicate(timeout=120)
    return process.returncode, out, said


def test_a_served_data_set_gives_what_a_loader_gives(numbers: Path, ports: Path) -> None:
    with served(numbers, "--batch-size", 16, "--shuffle", "--seed", 3) as process:
        assert process.line.startswith(f"serving {numbers} as numbers, 120 samples shuffled with seed 3, at {ports}/")
        with (
            leat.attach("numbers", start="beginning", framework="numpy") as reader,
            leat.Loader(leat.open(numbers), 16, shuffle=True, seed=3, framework="numpy") as own,
        ):
            for mine, theirs in zip(reader, own, strict=True):
                assert mine.ids.tolist() == theirs.ids.tolist()
                assert np.array_equal(mine["x"], theirs["x"]) and np.array_equal(mine["y"], theirs["y"])
        command("port", "stop", "numbers")
        assert rest(process) == (0, "", "")


def test_a_program_is_served_with_images_stacked_as_it_says(ports: Path, tmp_path: Path) -> None:
    with leat.Writer(tmp_path / "i.leat", {"i": "image"}) as w:
        for n in range(1, 9):
            w.add(i=png(8 + n, 5 + n * n % 7, n))
    for stack in ("list", "pad"):
        outputs: Any = {
            "i": leat.Out("i", [leat.ops.Decode(), leat.ops.RandomHorizontalFlip()], stack=stack),
            "last": leat.Out("i", [leat.ops.Decode(), leat.ops.ToLayout("NHWC")], stack=stack),
        }
        (tmp_path / "program.json").write_text(leat.program_to_json(outputs))
        with served(tmp_path / "i.leat", "--program", tmp_path / "program.json", "--batch-size", 4) as process:
            with (
                leat.attach("numbers", start="beginning", framework="numpy") as reader,
                leat.Loader(leat.open(tmp_path / "i.leat"), 4, outputs=outputs, framework="numpy") as own,
            ):
                for mine, theirs in zip(reader, own, strict=True):
                    assert list(mine) == list(theirs)
                    for name in mine:
                        assert all(np.array_equal(a, b) for a, b in zip(mine[name], theirs[name], strict=True))
            command("port", "stop", "numbers")
            assert rest(process)[0] == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_serving_and_leaves_nothing(numbers: Path, ports: Path, number: int) -> None:
    with served(numbers) as process:
        process.send_signal(number)
        assert rest(process) == (130, "", "")
        assert list(ports.iterdir()) == []


def test_broken_samples_are_left_out_where_that_is_asked_for(ports: Path, tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "photos", {"a": 6})
    (folder / "a" / "0002.png").write_bytes(png(40, 30)[:300])
    (tmp_path / "p.json").write_text(leat.program_to_json({"image": [leat.ops.Decode(), leat.ops.Resize((8, 8))]}))
    with served(folder, "--program", tmp_path / "p.json", "--on-error", "skip", "--batch-size", 6) as process:
        with leat.attach("numbers", start="beginning", framework="numpy") as reader:
            (batch,) = list(reader)
            assert batch.size == 5 and [e.planned for e in batch.errors] == [2]
        command("port", "stop", "numbers")
        assert rest(process)[0] == 0


def test_a_port_is_listed_while_it_is_open(numbers: Path, ports: Path) -> None:
    assert command("port", "ls").stdout == "no ports\n"
    assert json.loads(command("port", "ls", "--json").stdout) == []
    with served(numbers) as process:
        line = command("port", "ls").stdout
        assert line.startswith("numbers ") and f"process {process.pid} " in line and str(ports) in line
        (one,) = json.loads(command("port", "ls", "--json", "--dir", ports).stdout)
        assert (one["name"], one["pid"], one["alive"]) == ("numbers", process.pid, True)
        command("port", "stop", "numbers")
        rest(process)
    assert command("port", "ls").stdout == "no ports\n"


def test_stat_has_a_line_for_each_consumer(numbers: Path, ports: Path) -> None:
    with served(numbers, "--batch-size", 16) as process:
        assert "nobody is attached" in command("port", "stat", "numbers").stdout
        with (
            leat.attach("numbers", label="first one", framework="numpy") as first,
            leat.attach("numbers", 8, rank=1, world_size=2, label="second", framework="numpy") as second,
        ):
            held = next(iter(first))
            next(iter(second))
            text = command("port", "stat", "numbers").stdout.splitlines()
            found = json.loads(command("port", "stat", "numbers", "--json").stdout)
            del held
        assert text[0].startswith(f"port numbers: process {process.pid}, open for ")
        assert text[1].split() == [
            "consumer", "process", "batch", "epoch", "row", "rows", "behind", "held", "made", "again",
        ]  # fmt: skip
        lines = {line[:20].strip(): line[20:].split() for line in text[2:]}
        assert set(lines) == {"first one", "second"}
        assert lines["first one"][:4] == [str(os.getpid()), "16", "0", "16"]
        assert lines["second"][:3] == [str(os.getpid()), "8", "0"] and "rank 1 of 2" in "\n".join(text)
        assert {c["label"]: c["batches"] for c in found["consumers"]} == {"first one": 1, "second": 1}
        command("port", "stop", "numbers")
        rest(process)


def test_watching_ends_with_the_port_or_with_ctrl_c(numbers: Path, ports: Path) -> None:
    watching = [executable(), "port", "stat", "numbers", "--watch", "--seconds", "0.1"]
    with served(numbers) as process:
        with Started(watching, stdout=subprocess.PIPE, text=True) as first:
            assert "port numbers" in first.stdout.readline()
            first.send_signal(signal.SIGINT)
            out, _ = first.communicate(timeout=120)
            assert first.returncode == 130 and "\033" not in out  # no terminal
        with Started(watching, stdout=subprocess.PIPE, text=True) as second:
            assert "port numbers" in second.stdout.readline()
            command("port", "stop", "numbers")
            out, _ = second.communicate(timeout=120)
            assert second.returncode == 0 and out.endswith("port numbers has ended\n")
        assert rest(process)[0] == 0


def test_the_port_of_a_process_that_was_killed_is_shown_as_dead_and_replaced(numbers: Path, ports: Path) -> None:
    with served(numbers) as process:
        process.kill()
        process.wait(120)
    found = json.loads(command("port", "ls", "--json").stdout)
    assert [one["alive"] for one in found] in ([], [False])
    assert command("port", "stat", "numbers", code=2).stderr.startswith("leat port: ")
    with served(numbers) as process:
        (one,) = json.loads(command("port", "ls", "--json").stdout)
        assert one["pid"] == process.pid and one["alive"]
        command("port", "stop", "numbers")
        assert rest(process)[0] == 0


def test_the_unit_of_systemd_starts_what_is_meant(numbers: Path, ports: Path, tmp_path: Path) -> None:
    unit = (Path(__file__).resolve().parents[2] / "examples" / "leat-serve@.service").read_text()
    (line,) = re.findall(r"^ExecStart=(.*)$", unit, re.M)
    (tmp_path / "leat").symlink_to(executable())
    environment = {
        **os.environ,
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "SOURCE": str(numbers),
        "OPTIONS": "--batch-size 16 --shuffle --seed 3",
    }
    shell = ["sh", "-c", "exec " + line.replace("%i", "numbers")]
    with Started(shell, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout.readline().startswith(f"serving {numbers} as numbers, 120 samples shuffled with seed 3")
        process.send_signal(signal.SIGTERM)
        code, _, said = rest(process)
        assert (code, said) == (130, "") and f"SuccessExitStatus={code}\n" in unit


def failing(*words: object) -> str:
    done = command(*words, code=2)
    assert done.stdout == ""
    return done.stderr


def test_a_name_that_is_taken_is_refused_with_what_helps(numbers: Path, ports: Path) -> None:
    with served(numbers) as process:
        said = failing("serve", numbers, "--name", "numbers")
        assert "numbers" in said and "leat port stop" in said
        command("port", "stop", "numbers")
        rest(process)


def test_what_cannot_be_served_is_named(numbers: Path, ports: Path, tmp_path: Path) -> None:
    assert "missing" in failing("serve", tmp_path / "missing", "--name", "a")
    assert "missing.json" in failing("serve", numbers, "--name", "a", "--program", tmp_path / "missing.json")
    assert "name" in failing("serve", numbers, "--name", "a/b")
    assert "nosuchgroup" in failing("serve", numbers, "--name", "a", "--group", "nosuchgroup")
    (tmp_path / "p.json").write_text("{}")
    failing("serve", numbers, "--name", "a", "--program", tmp_path / "p.json")


def test_a_port_that_is_not_there_is_named(ports: Path) -> None:
    assert "nobody" in failing("port", "stat", "nobody")
    assert "nobody" in failing("port", "stop", "nobody")


def test_too_little_memory_is_said_of_the_option(numbers: Path, ports: Path) -> None:
    assert failing("serve", numbers, "--name", "a", "--memory", "1").startswith(
        "leat serve: --memory 1 is too small: one batch needs "
    )


def test_serving_may_hold_little_memory(numbers: Path, ports: Path) -> None:
    with served(numbers, "--memory", "1M", "--num-threads", 1) as process:
        with leat.attach("numbers", start="beginning", framework="numpy") as reader:
            assert sum(batch.size for batch in reader) == N
        command("port", "stop", "numbers")
        deadline = time.monotonic() + 120
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        assert process.returncode == 0


# ---- in the background -----------------------------------------------------------------------------------------------


def gone(folder: Path) -> bool:
    """Whether a folder has no port any more, within two minutes."""
    end = time.monotonic() + 120
    while leat.ports.ls(folder) and time.monotonic() < end:
        time.sleep(0.05)
    return not leat.ports.ls(folder) and not list(folder.glob("*.port"))


def test_a_detached_port_serves_until_nobody_has_been_attached_for_so_long(numbers: Path, tmp_path: Path) -> None:
    folder = tmp_path / "ports"
    reader = None
    while reader is None:  # on a busy machine, a port may have ended by now
        done = command("serve", numbers, "--name", "d", "--batch-size", 8, "--detach", "--linger", 2, "--dir", folder)
        assert done.returncode == 0 and "serving" in done.stdout
        with contextlib.suppress(leat.Error):
            reader = leat.attach("d", folder=folder, framework="numpy")
    with reader:
        time.sleep(3)  # longer than it lingers without readers
        assert sum(batch.size for batch in reader) == N
    assert gone(folder)


def test_a_detached_port_that_cannot_be_opened_says_so_and_leaves_no_process(tmp_path: Path) -> None:
    done = command("serve", tmp_path / "none.leat", "--name", "d", "--detach", "--dir", tmp_path / "ports", code=2)
    assert "none.leat" in done.stderr
    assert not leat.ports.ls(tmp_path / "ports")


def test_whichever_training_comes_first_starts_the_port(numbers: Path, tmp_path: Path) -> None:
    folder = tmp_path / "ports"
    outputs = {"y": [leat.ops.ToDtype("float32")]}
    options: dict[str, Any] = {"outputs": outputs, "batch_size": 8, "shuffle": True, "seed": 3, "linger": 30}
    with ThreadPoolExecutor(4) as several:
        started = list(several.map(lambda _: leat.ports.serve(numbers, "s", folder=folder, **options), range(4)))
    assert sorted(started) == [False, False, False, True]
    own = leat.Loader(leat.open(numbers), 8, shuffle=True, seed=3, framework="numpy", outputs=outputs)
    with leat.attach("s", folder=folder, framework="numpy") as reader, own:
        for got, wanted in zip(reader, own, strict=True):
            assert np.array_equal(got["y"], wanted["y"]) and got["y"].dtype == np.float32
    leat.ports.stop("s", folder)
    assert gone(folder)


def test_a_port_that_cannot_be_started_is_an_error_with_the_reason(numbers: Path, tmp_path: Path) -> None:
    with pytest.raises(leat.Error, match=r"none\.leat"):
        leat.ports.serve(tmp_path / "none.leat", "s", folder=tmp_path / "ports")
    with pytest.raises(leat.Error, match="z"):
        leat.ports.serve(numbers, "s", outputs={"z": []}, folder=tmp_path / "ports")
    with pytest.raises(leat.UnsupportedError, match="functions in Python"):
        leat.ports.serve(numbers, "s", outputs={"y": [leat.ops.Map(np.copy)]}, folder=tmp_path / "ports")
    for other in ([numbers], leat.open(numbers), bytes(numbers)):
        with pytest.raises(TypeError, match=r"^path is .*: leat.Port\(loader, name\) serves what leat.open gives"):
            leat.ports.serve(other, "s", folder=tmp_path / "ports")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="shuffle is True or False"):
        leat.ports.serve(numbers, "s", shuffle="no", folder=tmp_path / "ports")  # type: ignore[arg-type]


def test_names_that_look_like_options_are_served(
    numbers: Path, ports: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "--seed").write_bytes(numbers.read_bytes())
    assert leat.ports.serve("--seed", "--linger", num_threads="auto")
    try:
        with leat.attach("--linger", start="beginning", framework="numpy") as reader:
            assert sum(batch.size for batch in reader) == N
    finally:
        leat.ports.stop("--linger")
    assert gone(ports)
    assert not leat.ports.ls(tmp_path / "ports")
