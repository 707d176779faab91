"""Ranks of torch.distributed (gloo, two processes) that share one loader train as those that have one each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from frameworks_support import run_ranks  # noqa: E402


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("p")
    folder.chmod(0o700)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LEAT_RUNTIME_DIR", str(folder))
        found = run_ranks("share_job.py", folder)
    for rank in found:
        rank["folder"] = folder
    return found


def test_ranks_that_share_a_loader_train_on_the_rows_of_loaders_of_their_own(ranks: list[dict[str, Any]]) -> None:
    for rank in ranks:
        assert rank["job"] == rank["own"]
    for epoch in range(3):
        steps = [ids for rank in ranks for ids in rank["job"][0][21 * epoch : 21 * epoch + 21]]
        assert sorted(i for ids in steps for i in ids) == list(range(210))


def test_one_process_opens_the_port_that_both_read(ranks: list[dict[str, Any]]) -> None:
    first, second = [rank["shared"] for rank in ranks]
    assert (first["leads"], second["leads"]) == (True, False)
    assert (first["port"], first["pid"]) == (second["port"], second["pid"])
    assert first["batches"] == 63


def test_ranks_that_would_share_different_loaders_are_told_so(ranks: list[dict[str, Any]]) -> None:
    assert all("the ranks differ in seed" in rank["error"] for rank in ranks)


def test_nothing_is_left_in_the_runtime_folder(ranks: list[dict[str, Any]]) -> None:
    assert all(rank["left"] == [] for rank in ranks)
    assert list(Path(ranks[0]["folder"]).iterdir()) == []
