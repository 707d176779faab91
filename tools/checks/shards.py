"""The two tiers: the gate, which every change passes, and the deep shards, of which each run on main takes one."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass

from .running import ROOT, run

# Lanes run side by side. What is built in one folder, or installed into .venv, is of one lane.
GATE = [["asan"], ["layers", "lint", "package", "exports", "python"]]


@dataclass(frozen=True)
class Shard:
    """
    Args:
        title: what it looks for.
        lanes: its steps.
        paths: a pattern of the files to which it belongs: before a change of these is called done, it has passed.
    """

    title: str
    lanes: list[list[str]]
    paths: str


CHECKS = r"^tools/(checks?[./]|setup\.sh)"  # what runs the shards themselves

SHARDS = {
    "tsan": Shard("races, by ThreadSanitizer", [["tsan"]], rf"^(src|include|tests/c)/|meson|{CHECKS}"),
    "draws": Shard(
        "new finds: the fuzzers and drawn tests, with seeds of their own",
        [["fuzz"], ["package", "drawn"]],
        rf"^(src|include|fuzz|python|tests)/|meson|{CHECKS}",
    ),
    "torch": Shard(
        "PyTorch's side of every comparison, and the frameworks",
        [["extras", "torch"]],
        r"^src/(engine|plan|worker)/|^python/leat/(torch|workers|loading|functions|accelerate|lightning|skipping)"
        rf"|^python/src/|^tests/(python|golden)/|{CHECKS}",
    ),
    "parallel": Shard(
        "trainings in parallel over more than data: DeepSpeed's pipelines, in an environment of their own",
        [["deepspeed", "parallel"]],
        r"^python/leat/(loading|feedback|ranks)|^tests/python/(test_(deepspeed|elastic|parallel|mesh)|deepspeed_support"
        rf"|frameworks)|{CHECKS}",
    ),
    "ray": Shard(
        "a Ray cluster of up to four nodes, in an environment of its own",
        [["cluster", "ray"]],
        rf"^python/leat/(ray|loading)|^tests/python/(test_on_ray|ray_)|^bench/ray|{CHECKS}",
    ),
    "whole": Shard(
        "whole uses: a dozen mutations, recipes, examples, the demo, the wheel in a fresh environment",
        [["mutations"], ["package", "whole", "demo", "wheel"]],
        r"^(src|include|cli|python|examples|recipes|docs|tools|tests)/|^(README|pyproject|Makefile)|meson",
    ),
    "isa": Shard(
        "C tests with gcc, optimised, on every instruction set and in full; clang-tidy",
        [["isa"], ["extras", "tidy"]],
        rf"^(src|include|cli|python/src|tests/c|tests/golden|examples)/|meson|clang-tidy|{CHECKS}",
    ),
}
STATE = ROOT / "build" / "passed.json"  # of --all: what has passed, and the files that it has seen


def of_commit(commit: str) -> str:
    """The shard that goes with a commit: each comes in its turn, by chance."""
    return list(SHARDS)[int(commit[:15], 16) % len(SHARDS)]


def seed_of(commit: str) -> int:
    return int(commit[:8], 16) % 10**6


def head() -> str:
    return run("git", "rev-parse", "HEAD").strip()


def files(paths: str) -> list[str]:
    listed = run("git", "ls-files", "-co", "--exclude-standard").splitlines()
    return sorted(f for f in listed if re.search(paths, f) and (ROOT / f).is_file())


def fingerprint(paths: str) -> str:
    found = hashlib.sha256()
    for name in files(paths):
        found.update(name.encode() + b"\0" + hashlib.sha256((ROOT / name).read_bytes()).digest())
    return found.hexdigest()


def passed(name: str, paths: str) -> bool:
    """Whether that shard has passed with these files as they are."""
    return bool(STATE.exists() and json.loads(STATE.read_text()).get(name) == fingerprint(paths))


def keep_passed(name: str, paths: str, began_with: str) -> None:
    """That shard has passed, if the files are still those that it began with (their `fingerprint`)."""
    if fingerprint(paths) != began_with:
        return
    known = json.loads(STATE.read_text()) if STATE.exists() else {}
    STATE.parent.mkdir(exist_ok=True)
    STATE.write_text(json.dumps(known | {name: began_with}, indent=1) + "\n")
