"""Four real ranks of torch.distributed (gloo) of which one is stopped, hangs, ends or is killed: the others say so."""

from __future__ import annotations

import re
import signal
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from process_support import Process, eventually, run_ranks  # noqa: E402

SILENT_S = "2"


@pytest.fixture(scope="module")
def still(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder: Path = tmp_path_factory.mktemp("still")

    def wake(ranks: list[Process]) -> None:
        eventually(lambda: all((folder / f"no sign of life.{rank}").exists() for rank in (0, 1, 3)))
        ranks[2].signal(signal.SIGCONT)

    return run_ranks("silent_ranks.py", "still", folder, world=4, beside=wake, LEAT_SILENT_S=SILENT_S)


@pytest.fixture(scope="module")
def ends(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return run_ranks("silent_ranks.py", "ends", tmp_path_factory.mktemp("ends"), world=4, LEAT_SILENT_S=SILENT_S)


def texts(told: list[dict[str, Any]], start: str, ranks: tuple[int, ...]) -> list[str]:
    """The one text of each of these ranks that begins so."""
    found = [[text for text in told[rank]["said"] if text.startswith(start)] for rank in ranks]
    assert [len(of) for of in found] == [1] * len(ranks), found
    return [of[0] for of in found]


def test_a_rank_that_hangs_while_others_are_far_ahead_is_named_with_its_place(still: list[dict[str, Any]]) -> None:
    for text in texts(still, "rank 2 has taken no batch", (0, 1, 3)):
        assert re.fullmatch(
            r"rank 2 has taken no batch for \d+ s: rank 2 is at epoch 0, step 149 of loader 1, and rank \d is at epoch "
            r"\d+, step \d+ of loader 1",
            text,
        ), text


def test_a_process_that_is_stopped_is_named_while_the_others_wait_for_it_and_the_run_goes_on(
    still: list[dict[str, Any]],
) -> None:
    for text in texts(still, "rank 2 has given no sign of life", (0, 1, 3)):
        place = re.search(r"for (\d+) s: rank 2 is at epoch 0, step (\d+) of loader 2, and rank", text)
        assert place and int(place[1]) >= int(SILENT_S) and int(place[2]) == 130, text
    assert [rank["steps"] for rank in still] == [300] * 4


def test_a_rank_that_ends_early_is_named(ends: list[dict[str, Any]]) -> None:
    for text in texts(ends, "rank 3 has ended", (0, 1, 2)):
        assert "s ago: rank 3 is at epoch 0, step 19 of loader 1, and rank" in text


def test_a_rank_that_opens_no_loader_is_named(ends: list[dict[str, Any]]) -> None:
    for text in texts(ends, "rank 3 has opened no loader", (0, 1, 2)):
        assert re.search(r"and rank \d is at epoch \d+, step \d+ of loader 1$", text)


def test_without_their_store_ranks_say_once_that_they_no_longer_compare_and_go_on(tmp_path: Path) -> None:
    told = run_ranks("silent_ranks.py", "store", tmp_path, world=4, codes={0: -signal.SIGKILL}, LEAT_SILENT_S=SILENT_S)
    for text in texts(told, "ranks no longer compare what they load, in the store of the process group: ", (1, 2, 3)):
        assert re.search(r"group: (\w+Error: |it has not answered for \d+ s)", text)
    assert [rank["steps"] for rank in told[1:]] == [500] * 3


def test_a_store_that_is_stopped_holds_up_nobody(tmp_path: Path) -> None:
    def wake(ranks: list[Process]) -> None:
        eventually(lambda: all((tmp_path / f"read on.{rank}").exists() for rank in (1, 2, 3)))
        ranks[0].signal(signal.SIGCONT)

    told = run_ranks("silent_ranks.py", "held", tmp_path, world=4, beside=wake, LEAT_SILENT_S=SILENT_S)
    for text in texts(told, "ranks no longer compare what they load, in the store of the process group: ", (1, 2, 3)):
        assert re.search(r"group: it has not answered for \d+ s$", text)
    assert [rank["steps"] for rank in told[1:]] == [500] * 3
