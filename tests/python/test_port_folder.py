"""Where ports are: the folder of their sockets, and what is wrong with one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from port_support import Server, numbers, seen, wanted

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


def test_a_relative_folder_is_where_it_was_when_the_working_directory_changes(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "elsewhere").mkdir()
    monkeypatch.chdir(place)
    first = leat.Port(numbers(64, 8), "p", folder="l")
    reader = leat.attach("p", folder="l", framework="numpy")
    monkeypatch.setenv("LEAT_RUNTIME_DIR", "l")
    other = leat.attach("p", framework="numpy")
    batches, others = iter(reader), iter(other)
    assert [seen(next(each)) for each in (batches, others)] == [wanted(64, 8, 1)[0]] * 2
    monkeypatch.chdir(place / "elsewhere")
    monkeypatch.setenv("LEAT_RUNTIME_DIR", str(place / "x"))
    first.close()
    assert list((place / "l").iterdir()) == []
    with leat.Port(numbers(64, 8), "p", folder=place / "l"):
        assert [seen(next(each)) for each in (batches, others)] == [wanted(64, 8, 1)[1]] * 2
    reader.close()
    other.close()


def test_a_relative_folder_may_be_in_one_whose_path_no_socket_can_have(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / ("long" * 30)).mkdir()
    monkeypatch.chdir(place / ("long" * 30))
    with leat.Port(numbers(64, 8), "p", folder="l"), leat.attach("p", folder="l", framework="numpy") as reader:
        assert next(iter(reader)).size == 8


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


# ---- folders that cannot be used -------------------------------------------------------------------------------------

ELSEWHERE = "; another folder is named by folder=, --dir or LEAT_RUNTIME_DIR"


def anyones(path: Path) -> None:
    path.mkdir()
    path.chmod(0o777)


def of_a_group(path: Path) -> None:
    path.mkdir()
    path.chmod(0o770)


@pytest.mark.parametrize(
    ("make", "within", "why"),
    [
        (lambda path: None, "missing/p", "cannot make the folder of ports: No such file"),
        (lambda path: path.write_text("x"), "", "the folder of ports is no folder"),
        (lambda path: path.write_text("x"), "p", "cannot make the folder of ports: Not a directory"),
        (lambda path: path.symlink_to(path.parent / "nowhere"), "", "cannot look at the folder of ports: No such file"),
        (anyones, "", "everybody may write to the folder of ports: chmod o-w"),
        (of_a_group, "", r"the members of a group \(\d+\) may write to the folder of ports: chmod g-w"),
    ],
)
def test_a_folder_that_cannot_be_used_is_named_with_the_reason(
    make: Callable[[Path], None], within: str, why: str, place: Path
) -> None:
    make(place / "f")
    with pytest.raises(leat.FileError, match=why) as caught, numbers(64, 8) as loader:
        leat.Port(loader, "p", folder=place / "f" / within)
    assert ELSEWHERE in str(caught.value) and str(place / "f" / within) in str(caught.value)


@pytest.mark.parametrize(("n", "why"), [(100, "a socket's path has at most 107 bytes"), (250, "has .* bytes, and may")])
def test_a_path_that_is_too_long_for_a_socket_is_refused(n: int, why: str, place: Path) -> None:
    folder = place / ("x" * n)
    with pytest.raises(ValueError, match=why + ".*; another folder"), numbers(64, 8) as loader:
        leat.Port(loader, "p", folder=folder)
    with pytest.raises(ValueError, match=why + ".*; another folder"):
        leat.attach("p", folder=folder, patience=0)
    assert not folder.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")
def test_a_folder_or_a_symbolic_link_of_another_user_is_not_served_from(place: Path) -> None:
    (place / "own").mkdir(mode=0o700)
    (place / "theirs").mkdir()
    os.chown(place / "theirs", NOBODY, NOBODY)
    (place / "link").symlink_to(place / "own")
    with leat.Port(numbers(64, 8), "p", folder=place / "link") as port:
        assert port.stat()["path"] == str(place / "link" / "p.port")
    os.lchown(place / "link", NOBODY, NOBODY)
    for name, why in {"theirs": "belongs to another user", "link": "is a symbolic link of another user"}.items():
        with pytest.raises(OSError, match=f"{why} \\({NOBODY}\\){ELSEWHERE}"), numbers(64, 8) as loader:
            leat.Port(loader, "p", folder=place / name)
        assert list((place / name).iterdir()) == []


@pytest.mark.parametrize("taken", ["p.port", "p.lock"])
def test_a_file_of_another_kind_in_the_place_of_a_port_is_left_alone(taken: str, place: Path) -> None:
    (place / taken).mkdir()
    with pytest.raises(leat.FileError, match=taken), numbers(64, 8) as loader:
        leat.Port(loader, "p", folder=place)
    assert [path.name for path in place.iterdir()] == [taken]


READ_ONLY = """
import os, sys
from port_support import numbers
import leat

for folder in (sys.argv[1], sys.argv[1] + "/new"):
    try:
        leat.Port(numbers(64, 8), "p", folder=folder)
    except leat.FileError as error:
        print(error)
os.environ["XDG_RUNTIME_DIR"] = sys.argv[1]
with leat.Port(numbers(64, 8), "p") as port:
    print(port.stat()["path"])
"""
MOUNT = 'mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" && exec "$2" -c "$3" "$1"'


def can_mount() -> bool:
    """In a namespace of mounts of its own, which ends with its process."""
    words = ["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"]
    return bool(shutil.which("unshare")) and not subprocess.run(words, capture_output=True, check=False).returncode


@pytest.mark.skipif(not can_mount(), reason="nothing can be mounted here")
def test_a_folder_that_is_read_only_is_named_and_one_of_the_session_is_passed_over(place: Path) -> None:
    folder = place / "ro"
    folder.mkdir()
    (place / "tmp").mkdir()
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent), "TMPDIR": str(place / "tmp")}
    environment["LEAT_RUNTIME_DIR"] = ""
    words = ["unshare", "-m", "sh", "-c", MOUNT, "sh", str(folder), sys.executable, READ_ONLY]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.splitlines() == [
        f"cannot make the lock of the port: Read-only file system{ELSEWHERE} ({folder}/p.lock)",
        f"cannot make the folder of ports: Read-only file system{ELSEWHERE} ({folder}/new)",
        f"{place}/tmp/leat-{os.geteuid()}/p.port",
    ], done.stderr
    assert list(folder.iterdir()) == []


def test_a_lock_without_a_holder_is_taken_over(place: Path) -> None:
    for text in ("", "999999\n", "x" * 99):
        (place / "p.lock").write_text(text)
        with pytest.raises(FileNotFoundError, match='there is no port "p"'):
            leat.attach("p", folder=place, patience=0)
        assert leat.ports.ls(place) == [] and (place / "p.lock").exists()
        with leat.Port(numbers(64, 8), "p", folder=place):
            assert [port["name"] for port in leat.ports.ls(place)] == ["p"]
        assert not list(place.iterdir())


def test_a_port_whose_socket_was_removed_names_the_process_that_has_its_name(place: Path) -> None:
    said = f'process {os.getpid()} has the name "p", and its port has no socket.*end that process.*p\\.lock'
    with leat.Port(numbers(64, 8), "p", folder=place):
        (place / "p.port").unlink()
        with pytest.raises(FileNotFoundError, match=said):
            leat.attach("p", folder=place, patience=0)
        with pytest.raises(FileNotFoundError, match=said):
            leat.ports.stop("p", folder=place)
        with pytest.raises(FileExistsError, match=said), numbers(64, 8) as loader:
            leat.Port(loader, "p", folder=place)
    assert not list(place.iterdir())
