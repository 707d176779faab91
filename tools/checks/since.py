"""Which checks a change touches: the inner loop, `tools/check.py --since REF`.

A test in C is touched where one of its sources is changed, or includes a changed header, directly or not; where it
lies in the folder of a layer with a changed file; and where it includes the header that goes with a changed file
(`query_like.h` of `query_like.c`). Tests in Python are touched by the folder of the changed file, as PYTHON says: all
of them use the package, so that imports tell little. This is quick, not complete: `make test` is.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

from .builds import build
from .running import ROOT, run
from .shards import SHARDS

# A changed path (by its beginning): the tests in Python that it touches.
PYTHON = {
    "src/base": "row_random golden_draws",
    "src/kernels": "pixels row_random decode",
    "src/codec": "photo_formats photo_modes decode jpeg_rare pixels",
    "src/io": "http http_loader text dataset",
    "src/columns": "store store_copy store_failures writer",
    "src/format": "index_dir coco sidecars jsonl text",
    "src/store": "writer pack_whole dataset",
    "src/data": "dataset query views mix_ids",
    "src/plan": "order_reference mix select_within mixture_stream batch_size mesh",
    "src/op": "ops geometry colors pixels golden_draws token_ops",
    "src/engine": "loader unordered peek left_out consumers ragged",
    "src/device": "device*",
    "src/feedback": "feedback feedback_lists policies",
    "src/fit": "mixture_algorithms",
    "src/worker": "transport dataloader_workers dataloader_robust",
    "src/port": "port port_data port_hostile",
    "include": "loader native",
    "cli": "cli_*",
    "python/src": "loader batch writer dataset transport",
    "python/leat/sampling": "sampler_states dataloader_state dataloader_samplers",
    "python/leat/torch": "dataloader_state dataloader_samplers dataloader_workers dataloader_iterable dataloader_own",
    "python/leat/workers": "transport feed process dataloader_workers dataloader_robust",
    "python/leat/loading": "loader batch batch_size ragged thd buckets batch_cost mesh docs",
    "python/leat/device": "device*",
    "python/leat/feedback": "feedback* policies decisions",
    "python/leat/functions": "map map_tuples calls native",
    "python/leat/mixtures": "mixture* mix* adapt simulate cli_mix",
    "python/leat/ops": "ops policies branches geometry colors presets foreign_names token_ops sequence_ops",
    "python/leat/packs": "pack convert",
    "python/leat/ports": "port* cli_port",
    "python/leat/ray": "ray* on_ray*",
    "python/leat/sharing": "port port_folder port_jobs",
    "python/leat/commands": "cli_mix cli_pack cli_replay* cli_tokens convert",
    "python/leat/stores": "store*",
    "python/leat/privacy": "privacy",
    "python/leat/text": "text chat* tokenize cli_tokens",
    "python/leat/data": "dataset writer arrow made join mix masks html pack_rows",
    "python/leat/torch/collate.py": "dataloader_collate",
    "python/src/feedback.c": "feedback feedback_lists",
    "python/src/loader_options": "loader docs mix_core",
    "python/leat": "loader dataset",
    "tests/python/conftest.py": "loader checks",
    "tests/python/README.md": "theirs",
    "tests/golden": "order_reference golden_draws",
    "tools": "checks",
    "examples": "examples",
    "recipes": "recipe*",
    "docs": "docs",
    "README": "docs",
}
#: folders of C tests that a change touches by its path, whatever they include
C_TESTS = {
    "cli/": ("cli",),
    "examples/": ("examples",),
    "include/leat/columns": ("columns",),
    "include/leat/curves": ("fit",),
    "include/leat/device": ("device",),
    "include/leat/feedback": ("feedback",),
    "include/leat/mixtures": ("plan", "engine"),
    "include/leat/port": ("port",),
    "src/kernels/": ("op", "codec"),
    "tests/golden/": ("plan", "op"),
}
C_DATA = ("tests/golden/", "fuzz/corpus/")
#: files with no test that the gate runs
OTHER_SHARDS = ("test_frameworks_", "test_deepspeed_", "test_mesh_grids", "test_recipe", "test_examples")
IMPORT = re.compile(r"^(?:from|import) (\w+)", re.M)
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)


@dataclass
class Touched:
    files: list[str]
    c_tests: list[str] = field(default_factory=list)
    py_tests: list[str] = field(default_factory=list)

    def text(self) -> str:
        c, py = len(self.c_tests), len(self.py_tests)
        of = [name for name, shard in SHARDS.items() if any(re.search(shard.paths, f) for f in self.files)]
        return (
            f"{len(self.files)} files are changed: {c} test programs in C, {py} files of tests in Python\n"
            f"before it is done, these shards have to pass as well: {', '.join(of) or 'none'}"
        )

    def lanes(self) -> list[list[str]]:
        compiled = any(f.endswith((".c", ".h", ".def", ".map", "meson.build")) for f in self.files)
        c = ["asan"] if self.c_tests else []
        others = ["layers", "lint", "package"] + ["exports"] * compiled + ["python"] * bool(self.py_tests)
        return [c, others]


def touched(ref: str) -> Touched:
    names = run("git", "diff", "--name-only", run("git", "merge-base", ref, "HEAD").strip()).splitlines()
    names += run("git", "ls-files", "-o", "--exclude-standard").splitlines()
    found = Touched(sorted(set(names)))
    if any(f.endswith((".c", ".h", ".def", "meson.build")) or f.startswith(C_DATA) for f in found.files):
        found.c_tests = c_tests(found.files)
    found.py_tests = py_tests(found.files)
    return found


def includes(files: list[str]) -> dict[str, set[str]]:
    """Of each file, those of the tree that it includes itself."""
    known = set(files)
    graph = dict[str, set[str]]()
    for name in files:
        path = ROOT / name
        wanted = INCLUDE.findall(path.read_text(errors="replace")) if path.is_file() else []
        places = [Path(name).parent, Path("include"), Path("src"), Path("cli")]
        candidates = {str(place / header) for header in wanted for place in places}
        graph[name] = {str(Path(*_parts(c))) for c in candidates} & known
    return graph


def _parts(path: str) -> list[str]:
    """Without the `..` in it."""
    parts = list[str]()
    for part in Path(path).parts:
        if part == ".." and parts:
            parts.pop()
        else:
            parts.append(part)
    return parts


def reach(graph: dict[str, set[str]], changed: set[str]) -> set[str]:
    """What includes one of these, directly or not, and these themselves."""
    found = set(changed)
    while more := {name for name, headers in graph.items() if headers & found} - found:
        found |= more
    return found


def c_tests(files: list[str]) -> list[str]:
    sources = run("git", "ls-files", "-co", "--exclude-standard", "*.c", "*.h").split()
    graph = includes(sources)
    headers = {f for f in files if f.endswith(".h")}
    widely = {h for h in headers if h.startswith(("src/base/", "include/")) or h == "tests/c/test.h"}
    affected = set(files) | reach(graph, headers - widely)
    own = {str(Path(f).with_suffix(".h")) for f in files if f.endswith(".c") and f.startswith("src/")} & set(sources)
    of_tests = {name: seen for name, seen in graph.items() if name.startswith(("tests/", "fuzz/"))}
    affected |= reach(of_tests, {name for name, seen in of_tests.items() if seen & (own | widely)})
    layers = {f.split("/")[1] for f in files if f.startswith("src/") and f.count("/") > 1}
    layers |= {layer for path, of in C_TESTS.items() if any(f.startswith(path) for f in files) for layer in of}
    layers |= {f.split("/")[2] for f in files if f.startswith("tests/c/") and f.endswith("meson.build")}
    affected |= {f"fuzz/{f.split('/')[2]}.c" for f in files if f.startswith("fuzz/corpus/")}
    affected |= {"fuzz/fuzz_decode.c" for f in files if f.startswith("fuzz/corpus/fuzz_decode_")}
    everything = bool({"meson.build", "meson.options", "tests/meson.build", "tests/c/faulty.c"} & set(files))
    folder = build("asan", "build.ninja")
    tests = json.loads(run("meson", "introspect", "--tests", folder))
    targets = {t["filename"][0]: t for t in json.loads(run("meson", "introspect", "--targets", folder))}
    chosen = []
    for test in tests:
        target = targets.get(test["cmd"][0], {})
        of = {
            str(Path(s).relative_to(ROOT))
            for part in target.get("target_sources", [])
            for s in part.get("sources", [])
            if Path(s).is_relative_to(ROOT)
        }
        layer = next((Path(s).parts[2] for s in of if s.startswith("tests/c/")), "")
        if everything or of & affected or layer in layers:
            chosen.append(str(test["name"]))
    return sorted(chosen)


def py_tests(files: list[str]) -> list[str]:
    place = ROOT / "tests" / "python"
    chosen = {f for f in files if fnmatch(f, "tests/python/test_*.py") and (ROOT / f).is_file()}
    imports = {t.name: set(IMPORT.findall(t.read_text())) for t in place.glob("*.py")}
    supports = {f"{Path(f).stem}.py" for f in files if fnmatch(f, "tests/python/*.py") and f not in chosen}
    by_import = {name: {f"{stem}.py" for stem in seen} & imports.keys() for name, seen in imports.items()}
    chosen |= {f"tests/python/{name}" for name in reach(by_import, supports) if name.startswith("test_")}
    for name in files:
        if (place / f"test_{Path(name).stem}.py").is_file() and not name.startswith("tests/c/"):
            chosen.add(f"tests/python/test_{Path(name).stem}.py")
        of = max((key for key in PYTHON if name.startswith(key)), key=len, default=None)
        for pattern in PYTHON[of].split() if of else []:
            chosen |= {f"tests/python/{t.name}" for t in place.glob(f"test_{pattern}.py")}
    return sorted(f for f in chosen if not Path(f).name.startswith(OTHER_SHARDS))
