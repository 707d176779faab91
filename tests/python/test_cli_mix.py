"""leat mix show: what a SPEC may be, and what is said of one that is wrong."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cli_support import PYTHON, leat, leat_here

import leat as package

SCRIPT = """
import leat, numpy as np
ds = leat.from_arrays(x=np.arange(1000))
mix = leat.Mix({"a": (ds[:250], 0.5), "b": (ds[250:], 0.5)}, exhausted="repeat")
number = 3
class here:
    schedule = leat.Schedule([(0, mix), (50, mix.with_weights({"a": 1}))])
def made():
    loader = leat.Loader(mix, global_batch_size=10)
    loader.set_mixture({"a": 0.1, "b": 0.9}, at=(0, 50))
    return loader
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(SCRIPT)
    return tmp_path / "train.py"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, n in (("a", 100), ("b", 300)):
        with package.Writer(tmp_path / f"{name}.leat", {"x": "int64"}) as w:
            for i in range(n):
                w.add(x=i)
    return tmp_path


def shown(*words: object) -> dict[str, object]:
    return json.loads(leat_here("mix", "show", *words, "--json").stdout)  # type: ignore[no-any-return]


def test_a_mix_of_a_file_of_python_is_shown(script: Path) -> None:
    out = leat_here("mix", "show", f"{script}:mix", "--batch-size", 10).stdout
    assert "2 sources, shares of rows: 1,500 rows, 150 steps, 1 epoch" in out
    assert "again from step 49" in out


def test_a_module_is_found_in_the_current_folder(script: Path) -> None:
    out = leat("mix", "show", "train:mix", "--rows", 100, env=PYTHON, cwd=script.parent).stdout
    assert "2 sources, shares of rows: 100 rows" in out


def test_a_schedule_and_what_a_function_gives_are_shown(script: Path) -> None:
    assert shown(f"{script}:here.schedule", "--batch-size", 10)["changes"][0]["step"] == 50  # type: ignore[index]
    made = shown(f"{script}:made", "--steps", 100)
    assert made["over"]["asked"]["a"][-1] == pytest.approx(0.1)  # type: ignore[index]


def test_a_log_and_a_state_are_shown_with_their_decisions(script: Path, tmp_path: Path) -> None:
    sys.path.insert(0, str(tmp_path))
    try:
        import train
    finally:
        sys.path.remove(str(tmp_path))
        sys.modules.pop("train", None)
    loader = train.made()
    batches = iter(loader)
    for _ in range(80):
        next(batches)
    (tmp_path / "log.json").write_text(json.dumps(loader.log))
    (tmp_path / "state.json").write_text(json.dumps(loader.state_dict()))
    whole = shown(f"{script}:mix", "--log", tmp_path / "log.json")
    assert whole["rows"] == 1500 and whole["title"] == "2 sources, 1 decision of a log"
    state = shown(tmp_path / "state.json")
    assert state["rows"] == 800 and state["steps"] == 80  # up to where the state is
    assert [s["rows"] for s in state["sources"]] == [280, 520]  # type: ignore[attr-defined]
    longer = shown(tmp_path / "state.json", "--epochs", 1)
    assert longer["sources"] == whole["sources"]


def test_a_state_with_many_decisions_is_shown_whole(script: Path, tmp_path: Path) -> None:
    ds = package.from_arrays(x=np.arange(1000))
    mix = package.Mix({"a": (ds[:250], 0.5), "b": (ds[250:], 0.5)}, exhausted="repeat", epoch_rows=1000)
    loader = package.Loader(mix, global_batch_size=10)
    batches = iter(loader)
    for i in range(90):
        next(batches)
        loader.set_mixture({"a": 0.2 + i / 200, "b": 0.8 - i / 200})
    (tmp_path / "state.json").write_text(json.dumps(loader.state_dict()))
    state = shown(tmp_path / "state.json")
    assert state["rows"] == 900 and len(state["changes"]) in (89, 90)  # type: ignore[arg-type]
    assert state["sources"] == [
        vars(s) | {"through": s.through and vars(s.through)} for s in mix.show(log=loader.log, rows=900).sources
    ]


def test_a_state_says_the_order_of_its_run_whatever_the_loader_says(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import leat, numpy as np\n"
        "lengths = np.arange(400) % 37\n"
        "tokens = leat.Ragged(np.zeros(lengths.sum(), np.uint16), np.append(0, lengths.cumsum()))\n"
        "rows = leat.from_arrays(tokens=tokens)\n"
        "mix = leat.Mix({'a': (rows[:100], 0.5), 'b': (rows[100:], 0.5)}, exhausted='repeat')\n"
        "def made(seed=3):\n    return leat.Loader(mix, global_batch_size=5, shuffle=True, seed=seed)\n"
        "def other():\n    return made(8)\n"
    )
    code = "import json, train; json.dump(train.made().state_dict(), open('state.json', 'w'))"
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    spec, log = f"{tmp_path}/train.py", ("--log", tmp_path / "state.json")

    def tokens(name: str, *more: object) -> object:
        return shown(f"{spec}:{name}", "--rows", 90, *more)["tokens"]

    made, other = tokens("made"), tokens("other")
    assert made != other
    assert tokens("mix", *log) == tokens("other", *log) == made
    assert tokens("mix", *log, "--seed", 8) == tokens("made", *log, "--seed", 8) == other


@pytest.mark.parametrize("ending", ["toml", "json"])
def test_a_file_names_sources_and_shares(folder: Path, ending: str) -> None:
    given = {
        "exhausted": {"a": ["repeat", 3], "b": "redistribute"},
        "sources": {"a": {"path": "a.leat", "share": 0.75}, "b": {"path": "b.leat", "share": 0.25, "where": "x < 200"}},
    }
    if ending == "json":
        (folder / "mix.json").write_text(json.dumps(given))
    else:
        (folder / "mix.toml").write_text(
            'exhausted = {a = ["repeat", 3], b = "redistribute"}\n[sources.a]\npath = "a.leat"\nshare = 0.75\n'
            '[sources.b]\npath = "b.leat"\nshare = 0.25\nwhere = "x < 200"\n'
        )
    found = shown(folder / f"mix.{ending}")
    assert [(s["rows"], s["size"]) for s in found["sources"]] == [(300, 100), (200, 200)]  # type: ignore[attr-defined]


def test_a_file_has_a_schedule(folder: Path) -> None:
    (folder / "mix.toml").write_text(
        'exhausted = "repeat"\ninterpolate = "linear"\n[sources]\na = {path = "a.leat"}\nb = {path = "b.leat"}\n'
        "[[schedule]]\nstep = 0\nshares = {a = 1}\n[[schedule]]\nstep = 40\nshares = {a = 0.5, b = 0.5}\n"
    )
    found = shown(folder / "mix.toml", "--batch-size", 10, "--steps", 60)
    assert found["sources"][0]["asked_last"] == 0.5 and found["steps"] == 60  # type: ignore[index]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[sources.a]\npath = "a.leat"\nshare = nan\n', "weight of 'a' is nan"),
        ('[sources.a]\npath = "a.leat"\nshares = 1\n', "has no key 'shares': did you mean 'share'?"),
        ('[sources.a]\npath = "a.leat"\n', "source 'a' has no share"),
        ('[sources.a]\npath = "none.leat"\nshare = 1\n', "none.leat"),
        ('[sources.a]\npath = "a.leat"\nshare = 0.4\n', "sum to 0.4"),
        ("sources = 3\n", "sources is a table"),
        ("= 3\n", "line 1"),
        ('[sources.a]\npath="a.leat"\n[[schedule]]\nshares = {a = 1}\n', "a step or a row"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(folder: Path, text: str, says: str) -> None:
    (folder / "mix.toml").write_text(text)
    error = leat_here("mix", "show", folder / "mix.toml", code=2).stderr
    assert says in error and ("mix.toml" in error or "none" in says) and "Traceback" not in error


def test_what_is_no_mixture_is_said(script: Path, tmp_path: Path) -> None:
    assert "is a int, not a leat.Mix" in leat_here("mix", "show", f"{script}:number", code=2).stderr
    assert "did you mean 'mix'?" in leat_here("mix", "show", f"{script}:mxi", code=2).stderr
    assert "module:attribute" in leat_here("mix", "show", "whatever", code=2).stderr
    for n, (code, says) in enumerate((
        ("def mix(:\n", "SyntaxError"),
        ("x = nothing\n", "NameError: name 'nothing' is not defined"),
        ("import sys\nsys.exit(0)\n", "SystemExit: 0"),
        ("import nowhere\n", "ModuleNotFoundError: No module named 'nowhere'"),
        ("def mix():\n    return 1 / 0\n", "ZeroDivisionError: division by zero"),
    )):  # fmt: skip
        broken = tmp_path / f"broken{n}.py"
        broken.write_text(code)
        told = leat_here("mix", "show", f"{broken}:mix", code=2).stderr
        assert told.startswith(f"leat mix: {broken}:mix raised {says}") and "commands" not in told
    assert "there is no module nowhere" in leat_here("mix", "show", "nowhere:mix", code=2).stderr
    assert "did you mean leat mix show" in leat_here("mix", "plot", "x", code=2).stderr
    (tmp_path / "state.json").write_text(json.dumps({"plan": 1, "log": [{}], "order": {"sources": [{"count": 3}]}}))
    assert "without a mixture" in leat_here("mix", "show", tmp_path / "state.json", code=2).stderr


def test_a_picture_is_drawn(script: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    out = leat_here("mix", "show", f"{script}:mix", "--out", tmp_path / "m.png").stdout
    assert "Drawn into" in out and (tmp_path / "m.png").stat().st_size > 10_000
    assert ".png, .pdf or .svg" in leat_here("mix", "show", "x:y", "--out", "a.gif", code=2).stderr


def test_a_state_of_many_sources_is_shown_and_repeated(tmp_path: Path) -> None:
    text = """
import leat, numpy as np
words = ["stop", "redistribute", ("repeat", 3)]
mix = leat.Mix({f"s{k}": (leat.from_arrays(x=np.arange(50 + k)), 1 / 40) for k in range(40)},
               exhausted={f"s{k}": words[k % 3] for k in range(40)})
"""
    (tmp_path / "many.py").write_text(text)
    found: dict[str, package.Mix] = {}
    exec(text, found)
    mix = found["mix"]
    loader = package.Loader(mix, global_batch_size=16, rank=0, world_size=1, shuffle=True, seed=5, framework="numpy")
    batches = iter(loader)
    for _ in range(10):
        next(batches)
    loader.set_mixture({f"s{k}": (k < 20) / 20 for k in range(40)})
    (tmp_path / "state.json").write_text(json.dumps(loader.state_dict()))
    by_state = shown(tmp_path / "state.json")
    assert [s["rows"] for s in by_state["sources"]] == np.bincount(  # type: ignore[attr-defined]
        np.concatenate([loader.batch_at(0, step).domains for step in range(10)]), minlength=40
    ).tolist()
    for what in (by_state, shown(f"{tmp_path / 'many.py'}:mix", "--log", tmp_path / "state.json", "--steps", 20)):
        assert what["title"] == "40 sources, 1 decision of a log"
    told = leat_here("replay", "--log", tmp_path / "state.json", "--steps", 2, f"{tmp_path / 'many.py'}:mix")
    digest = hashlib.sha256(loader.plan(0, 1).tobytes()).hexdigest()[:16]
    assert told.stdout.splitlines()[1] == f"epoch 0 step 1: 16 rows {digest}"


def test_a_file_that_is_not_there_is_named_without_numbers_of_the_system(tmp_path: Path) -> None:
    said = leat("mix", "show", "none.toml", cwd=tmp_path, code=2).stderr
    assert said.strip() == "leat mix: none.toml: No such file or directory"
