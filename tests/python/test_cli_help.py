"""The command's own texts: help, version, and what it says to a mistyped line."""

from __future__ import annotations

import pytest
from cli_support import COMMANDS, golden, leat


def test_the_overview_is_the_golden_one() -> None:
    done = leat("--help")
    golden("help/leat.txt", done.stdout)
    assert done.stderr == ""


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_a_command_is_the_golden_one(command: str) -> None:
    done = leat(command, "--help")
    golden(f"help/{command}.txt", done.stdout)
    assert done.stderr == ""


@pytest.mark.parametrize("command", COMMANDS)
def test_help_fits_a_terminal(command: str) -> None:
    assert max(map(len, leat(command, "--help").stdout.splitlines())) <= 116


@pytest.mark.parametrize("command", COMMANDS)
def test_help_says_examples_and_exit_codes(command: str) -> None:
    text = leat("help", command).stdout
    assert "Examples:\n  leat " + command in text
    assert "Exit codes: 0 " in text


def test_the_version_is_printed() -> None:
    name, version = leat("--version").stdout.split()
    assert name == "leat" and version[0].isdigit()


def test_without_a_command_it_says_which_there_are() -> None:
    done = leat(code=2)
    assert done.stdout == ""
    every = "pack, convert, info, stats, view, verify, cat, mix, prompts, replay, bench, doctor, trace, top, serve, "
    every += "port or completion"
    assert every in done.stderr


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        (["pakc"], "did you mean pack?"),
        (["verfy", "x"], "did you mean verify?"),
        (["pack", "a", "b", "--threads", "3"], "did you mean --num-threads?"),
        (["pack", "a", "b", "--overwrit"], "did you mean --overwrite?"),
        (["cat", "x", "--idd", "3"], "did you mean --id?"),
        (["info", "x", "--labels", "fodlers"], "did you mean folders?"),
        (["pack", "a", "b", "--on-error", "skp"], "did you mean skip?"),
        (["--versoin"], "did you mean --version?"),
        (["--hlep"], "did you mean --help?"),
        (["inof", "x"], "did you mean info?"),
        (["PACK", "x", "y"], "did you mean pack?"),
        (["--jsn", "info", "x"], "options of a command stand behind it"),
    ],
)
def test_a_mistyped_word_is_answered_with_the_one_that_was_meant(line: list[str], meant: str) -> None:
    assert meant in leat(*line, code=2).stderr


@pytest.mark.parametrize(
    "line",
    [
        ["pakc"],
        ["pack"],
        ["pack", "a"],
        ["bench", "a", "b"],
        ["pack", "a", "b", "--quality"],
        ["pack", "a", "b", "--quality", "5"],
        ["pack", "a", "b", "--num-threads", "-1"],
        ["pack", "a", "b", "--num-threads", "0"],
        ["pack", "a", "b", "--shard-bytes", "4X"],
        ["pack", "a", "b", "--on-error", "ignore"],
        ["pack", "a", "b", "--resume=yes"],
        ["pack", "-q", "a", "b"],
        ["info"],
        ["verify"],
        ["cat", "x"],
        ["cat", "x", "--id", "1.5"],
        ["replay", "a", "b"],
        ["replay", "a", "b", "--out", "c", "--epoch", "1"],
        ["stats"],
        ["top"],
        ["top", "python"],
        ["serve"],
        ["serve", "x"],
        ["serve", "x", "--name", "y", "--on-error", "ignore"],
        ["port"],
        ["port", "list"],
        ["port", "ls", "x"],
        ["port", "stat"],
        ["port", "stop", "x", "--json"],
        ["completion"],
        ["completion", "tcsh"],
        ["doctor"],
        ["doctor", "x", "--step-ms", "fast"],
        ["trace", "x"],
        ["trace", "x", "--out", "y", "--step-ms", "0"],
        ["view"],
        ["view", "a", "--program", "b"],
        ["view", "a", "--out", "b", "--size", "1"],
        ["bench", "x", "--seconds", "0"],
        ["bench", "x", "--batch-size", "0"],
        ["bench", "x", "--order", "random"],
        ["info", ""],
        ["info", "-"],
        ["pack", "x", "-"],
        ["view", "x", "--out", ""],
        ["view", "x", "--out", "--size", "100"],
        ["pack", "--coco=", "x", "y"],
    ],
)
def test_a_wrong_line_is_answered_in_two_lines_and_exit_code_2(line: list[str]) -> None:
    done = leat(*line, code=2)
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert len(lines) == 2 and lines[0].startswith("leat") and lines[1].startswith("Help: leat ")


@pytest.mark.parametrize(
    ("value", "said"), [("4X", "such as 1000000, 512M or 4G"), ("", "such as"), ("99999999999G", "such as")]
)
def test_a_wrong_size_is_answered_with_what_would_be_right(value: str, said: str) -> None:
    assert said in leat("pack", "a", "b", f"--shard-bytes={value}", code=2).stderr


def test_a_time_that_is_too_long_is_answered_with_the_longest() -> None:
    assert "at most a day" in leat("bench", "x", "--seconds", "99999999", code=2).stderr


def test_a_value_that_looks_like_an_option_stands_behind_an_equals_sign() -> None:
    said = leat("mix", "show", "x:y", "--out=--rows", "--log", "--json", code=2).stderr
    assert said.startswith("leat mix: --log needs a value: --log FILE")


def test_options_may_stand_between_the_arguments_and_two_dashes_end_them() -> None:
    done = leat("bench", "a", "--seconds", "1", "--", "--overwrite", code=2)
    assert "there is one argument too many" in done.stderr
    assert "cannot open a: " in leat("pack", "--quiet", "a", "--resume", "b", "--", "--overwrite", code=2).stderr


@pytest.mark.parametrize("command", [["info"], ["verify"], ["cat", "--id", "0"], ["bench"], ["pack", "target.leat"]])
def test_a_file_that_is_not_there_is_named(command: list[str], tmp_path) -> None:  # type: ignore[no-untyped-def]
    missing = tmp_path / "missing"
    done = leat(command[0], missing, *command[1:], code=2, cwd=tmp_path)
    assert "missing" in done.stderr and done.stdout == ""
    assert not (tmp_path / "target.leat").exists()
