"""Manual pages and completion: they have what the command has, and the programs that they are for take them."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from cli_support import COMMANDS, leat


def options(command: str) -> list[str]:
    return re.findall(r"^  (--[a-z-]+)", leat(command, "--help").stdout.partition("Options:")[2], re.M)


def completed(script: Path, *words: str) -> list[str]:
    """What bash offers for the last word."""
    line = " ".join(f"'{w}'" for w in words)
    code = f'source {script}; COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _leat; echo "${{COMPREPLY[@]}}"'
    done = subprocess.run(["bash", "-c", code], capture_output=True, text=True, timeout=120, check=True)
    return done.stdout.split()


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("completion") / "leat"
    path.write_text(leat("completion", "bash").stdout)
    return path


def test_bash_completes_commands(script: Path) -> None:
    assert completed(script, "leat", "ve") == ["verify"]
    assert set(COMMANDS) <= set(completed(script, "leat", ""))


@pytest.mark.parametrize("command", COMMANDS)
def test_bash_completes_the_options_of_a_command(script: Path, command: str) -> None:
    assert set(completed(script, "leat", command, "--")) == set(options(command))


def test_bash_completes_the_words_that_an_option_takes(script: Path) -> None:
    assert completed(script, "leat", "pack", "--on-error", "") == ["mark", "skip", "raise"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_finds_its_script_right(shell: str, tmp_path: Path) -> None:
    program = shutil.which(shell)
    if not program:
        pytest.skip(f"no {shell}")
    (tmp_path / "script").write_text(leat("completion", shell).stdout)
    done = subprocess.run([program, "-n", tmp_path / "script"], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_a_script_names_each_option(shell: str) -> None:
    text = leat("completion", shell).stdout
    for command in COMMANDS:
        for option in options(command):
            assert (option if shell == "zsh" else option.removeprefix("--")) in text or option == "--help"


@pytest.mark.parametrize("command", COMMANDS)
def test_a_manual_page_has_each_option_of_its_command(command: str) -> None:
    text = leat("--man", command).stdout
    assert text.startswith(f'.TH "LEAT-{command.upper()}" 1')
    for option in options(command):
        assert option.replace("-", "\\-") in text


def test_the_manual_page_names_each_command() -> None:
    text = leat("--man").stdout
    assert all(f".BR leat\\-{command} (1)" in text for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_roff_is_formatted_without_a_complaint(command: str) -> None:
    groff = shutil.which("groff")
    if not groff:
        pytest.skip("no groff")
    page = leat("--man", command).stdout
    done = subprocess.run(
        [groff, "-man", "-Tascii", "-P-cbou", "-ww"], input=page, capture_output=True, text=True, timeout=120
    )
    assert done.stderr == "" and "OPTIONS" in done.stdout
