"""recipes/pres.py: memories of nodes in a store, from whose copies a run goes on."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from recipes_support import REAL, recipe, table

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.shard("whole")


@pytest.fixture
def pres(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The recipe where there is no real data."""
    monkeypatch.delenv("LEAT_DATA", raising=False)
    return recipe("pres")


def begun(pres: ModuleType, kind: str) -> tuple[Any, Any, Any]:
    torch.manual_seed(0)
    model = pres.TGN(kind)
    return model, torch.optim.Adam(model.parameters(), 1e-3), pres.fresh(300)


@pytest.mark.parametrize("kind", ["plain", "paper", "code"])
def test_a_run_that_is_cut_in_mid_epoch_goes_on_from_a_copy_bit_by_bit(
    pres: ModuleType, kind: str, tmp_path: Path
) -> None:
    graph = pres.leat.temporal(pres.drawn(600), fill=300)

    def loader() -> Any:
        return pres.leat.Loader(graph, 100, seed=3, epochs=1, num_threads=1, framework="torch")

    model, optimizer, rows = begun(pres, kind)
    pres.go(model, rows, loader(), optimizer)
    other, second, cut = begun(pres, kind)
    first = loader()
    pres.go(other, cut, islice(first, 4), second)
    state = first.state_dict()
    with pres.leat.Store(tmp_path / "a.store", pres.FIELDS, framework="torch") as store:
        store[torch.arange(301)] = cut
        store.copy(tmp_path / "b.store")
        store[torch.arange(301)] = pres.fresh(300)
    rest = loader()
    rest.load_state_dict(state)
    with pres.leat.Store(tmp_path / "b.store", framework="torch") as copy:
        cut = copy[copy.ids]
    pres.go(other, cut, rest, second)
    assert all(torch.equal(p, q) for p, q in zip(model.parameters(), other.parameters(), strict=True))
    assert all(torch.equal(rows[name], cut[name]) for name in pres.FIELDS)


def test_a_run_that_is_started_again_goes_on_from_the_last_border(pres: ModuleType, tmp_path: Path) -> None:
    given = (pres.drawn(900), "event", 200, "paper", 1, 2, tmp_path / "r")
    made = pres.run(*given)
    trained = (tmp_path / "r.train").stat().st_mtime_ns
    for left in ("json", "test", "val"):
        (tmp_path / f"r.{left}").unlink()
    again = pres.run(*given)
    assert again == made and (tmp_path / "r.train").stat().st_mtime_ns == trained
    assert 0.5 < made["ap"] < 1


def test_only_what_the_paper_has_moves_its_gain_and_its_weights(pres: ModuleType) -> None:
    graph = pres.leat.temporal(pres.drawn(600), fill=300)
    for kind in ("plain", "paper", "code"):
        model, optimizer, rows = begun(pres, kind)
        pres.go(model, rows, pres.leat.Loader(graph, 100, epochs=1, num_threads=1, framework="torch"), optimizer)
        assert bool(model.gain) == (kind == "paper") and bool(model.mix.any()) == (kind == "paper")
        assert not any(rows[name][-1].any() for name in ("state", "message", "n", "rates"))
        assert bool(rows["n"][:, 1].any()) == (kind == "paper")


@pytest.mark.parametrize("real", [True, False])
def test_the_table_has_a_line_for_each_graph_batch_and_kind(real: bool, tmp_path: Path) -> None:
    if real and not REAL.is_dir():
        pytest.skip("LEAT_DATA names no folder")
    lines = table("pres", tmp_path, REAL if real else None)
    assert len(lines) == 1 + 6 * (3 if real else 1)
    assert (tmp_path / "CollegeMsg-event-200-plain-0.test").exists() == real


def test_large_batches_hide_conversations(pres: ModuleType, tmp_path: Path) -> None:
    small, large = (pres.run(pres.drawn(4000), "batch", b, "plain", 0, 10, tmp_path / f"{b}") for b in (200, 3200))
    assert small["ap"] > large["ap"] + 0.05 and small["pending"] < large["pending"]
