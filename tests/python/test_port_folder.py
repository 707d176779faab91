"""Where ports are: the folder of their sockets, and what is wrong with one."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from port_support import Server, numbers

import leat

NOBODY = 65534  #: the number of a user that owns nothing


@pytest.fixture
def place() -> Iterator[Path]:
    """An empty folder, with a path that is short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="leat-") as folder:
        yield Path(folder)


def folder_of_a_port() -> Path:
    with leat.Port(numbers(64, 8), "p") as port:
        return Path(port.stat()["path"]).parent


def test_the_folder_is_that_of_the_environment_of_the_session_or_of_temporary_files(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "x").mkdir()
    for name, value in {"LEAT_RUNTIME_DIR": place / "l", "XDG_RUNTIME_DIR": place / "x", "TMPDIR": place}.items():
        monkeypatch.setenv(name, str(value))
    found = []
    for name in ("LEAT_RUNTIME_DIR", "XDG_RUNTIME_DIR", "TMPDIR"):
        found.append(folder_of_a_port())
        monkeypatch.delenv(name)
    assert found == [place / "l", place / "x" / "leat", place / f"leat-{os.geteuid()}"]
    assert [folder.stat().st_mode & 0o777 for folder in found] == [0o700] * 3
    assert [list(folder.iterdir()) for folder in found] == [[]] * 3


@pytest.mark.parametrize("runtime", ["", "relative", "/nonexistent/leat"])
def test_a_folder_of_the_session_that_cannot_be_used_is_passed_over(
    runtime: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEAT_RUNTIME_DIR", "")
    monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
    monkeypatch.setenv("TMPDIR", str(place))
    assert folder_of_a_port() == place / f"leat-{os.geteuid()}"


def test_listing_removes_the_sockets_of_the_dead_and_of_nobody_else(place: Path) -> None:
    folder = place / "l"
    dead = Server(folder, numbers, 64, 8)
    dead.kill()
    left = {path.name for path in folder.iterdir()}
    assert left == {"p.port", "p.lock"}
    with leat.Port(numbers(64, 8), "alive", folder=folder):
        (folder / "other.port").write_text("a file of somebody else")
        (folder / "other.lock").write_text("1")
        found = {port["name"]: port["alive"] for port in leat.ports.ls(folder)}
        assert found == {"alive": True, "other": False}
        assert {path.name for path in folder.iterdir()} == {"alive.port", "alive.lock", "other.port", "other.lock"}
        assert next(iter(leat.attach("alive", folder=folder, framework="numpy")))["x"].shape == (8, 8)


def as_nobody(rows: int, batch_size: int) -> leat.Loader:
    loader = numbers(rows, batch_size)
    os.setuid(NOBODY)
    return loader


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_a_port_of_another_user_is_attached_to_in_a_folder_that_was_named_alone(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever is first can make /tmp/leat-UID, and would serve what they like."""
    for name, value in {"LEAT_RUNTIME_DIR": "", "XDG_RUNTIME_DIR": "", "TMPDIR": str(place)}.items():
        monkeypatch.setenv(name, value)
    folder = place / f"leat-{os.geteuid()}"
    folder.mkdir()
    os.chown(folder, NOBODY, NOBODY)
    place.chmod(0o755)
    server = Server(folder, as_nobody, 64, 8)
    for asks in (leat.attach, leat.ports.stat, leat.ports.stop):
        with pytest.raises(OSError, match=f"belongs to another user \\({NOBODY}\\)"):
            asks("p")
    with leat.attach("p", folder=folder, framework="numpy") as reader:
        assert next(iter(reader))["x"].shape == (8, 8)
    server.end()
