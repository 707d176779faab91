"""Four real ranks of torch.distributed (gloo): a difference is an error on each of them, which names rank and cause."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from process_support import run_ranks  # noqa: E402

import leat  # noqa: E402


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("ranks")
    for name, first in (("a", 0), ("b", 1)):
        with leat.Writer(folder / f"{name}.leat", {"x": leat.field("int64", ())}) as writer:
            writer.write_batch({"x": np.arange(first, first + 4000)})
    return run_ranks("agreement_ranks.py", folder, world=4)


def texts(told: list[dict[str, Any]], scenario: str) -> list[str]:
    found = [rank[scenario]["text"] for rank in told]
    for rank, text in enumerate(found):
        assert text, f"rank {rank} was told nothing"
    return found


def names(text: str, rank: int, what: str, turned: str | None = None) -> bool:
    """Whether a text says of a rank that it differs, from whichever other one: that may have been there first."""
    ranks = r"ranks? [\d, and]+"
    return bool(
        re.search(rf"rank {rank} differs from rank \d in {what}", text)
        or re.search(rf"{ranks} differ(s|) from rank {rank} in {turned or what}", text)
    )


def test_another_seed_on_one_rank_is_told_to_all_with_both_seeds(told: list[dict[str, Any]]) -> None:
    for text in texts(told, "seed"):
        assert names(text, 2, "seed: 5 is not 4", "seed: 4 is not 5"), text
        assert f"(loader 1 at epoch 0, step 0; leat {leat.__version__})" in text
    assert all(rank["seed"]["state"] for rank in told)


def test_a_decision_of_one_rank_alone_is_told_within_a_hundred_steps(told: list[dict[str, Any]]) -> None:
    for text in texts(told, "decision"):
        assert names(text, 2, "decisions: 1 of hash [0-9a-f]+ is not none", "decisions: none is not 1 of hash"), text
        assert "at epoch 0, step 200;" in text  # it holds from step 160 on


def test_a_decision_counts_from_the_step_on_from_which_it_holds(told: list[dict[str, Any]]) -> None:
    assert [rank["beyond"] for rank in told] == [{"rows": 16, "step": 350}] * 4


def test_a_loader_that_ranks_open_at_different_steps_is_no_difference(told: list[dict[str, Any]]) -> None:
    assert [rank["late"]["step"] for rank in told] == [350] * 4


def test_another_file_on_one_rank_is_told_with_both_files(told: list[dict[str, Any]]) -> None:
    for text in texts(told, "file"):
        found = re.search(r"loader 1 of ranks? ([\d, and]+) reads (.*), of ranks? ([\d, and]+) reads (.*) \(leat", text)
        assert found, text
        assert found[3] == "3" and found[2] != found[4]
        assert "a.leat, fingerprint" in found[2] and "b.leat, fingerprint" in found[4]


def test_another_log_on_one_rank_is_told(told: list[dict[str, Any]]) -> None:
    assert all(names(text, 1, "decisions: 1 of hash") for text in texts(told, "log"))


def test_an_older_state_on_one_rank_is_told_with_both_positions(told: list[dict[str, Any]]) -> None:
    for text in texts(told, "state"):
        older, newer = "the loaded state: epoch 0, row 672", "the loaded state: epoch 0, row 1312"
        assert names(text, 1, f"{older} is not {newer[18:]}", f"{newer} is not {older[18:]}"), text


def test_another_version_of_leat_is_a_cause_of_its_own(told: list[dict[str, Any]]) -> None:
    for text in texts(told, "version"):
        assert "in the version of leat: " in text and "9.9.9" in text, text
        assert "install the same version of leat" in text


def test_a_loader_that_one_rank_alone_has_opened_is_told_and_described(told: list[dict[str, Any]]) -> None:
    for text in texts(told, "some"):
        more, fewer = r"2, the last over <leat.Dataset of 40000 samples \(x: int64\)>, fingerprint [0-9a-f]+", "1"
        what = "the number of loaders opened so far: "
        assert names(text, 1, f"{what}{more} is not {fewer}", f"{what}{fewer}.* is not {more}"), text


def test_loaders_in_another_order_are_told_with_what_each_reads(told: list[dict[str, Any]]) -> None:
    for text in texts(told, "order"):
        found = re.findall(r"loader (\d) of ranks? ([\d, and]+) reads (.*?), of ranks? ([\d, and]+) reads", text)
        assert found and all(one[3] == "3" for one in found), text
        assert "all ranks open their loaders in the same order" in text


def test_readers_of_ports_are_compared_too(told: list[dict[str, Any]]) -> None:
    assert all(names(text, 2, "outputs and key: ", "outputs and key: ") for text in texts(told, "ports"))


def test_a_run_goes_on_from_the_last_good_batch_once_ranks_agree(told: list[dict[str, Any]]) -> None:
    assert all(texts(told, "mended"))
    assert [rank["mended"]["count"] for rank in told] == [250] * 4
    (epoch, step), begins = told[0]["mended"]["last"], told[0]["mended"]["from"]
    assert begins in ({"epoch": epoch, "row": 32 * (step + 1)}, {"epoch": epoch + 1, "row": 0})


def test_a_forked_child_has_no_part_in_it(told: list[dict[str, Any]]) -> None:
    assert [rank["forked"] for rank in told] == [{"code": 0, "steps": 250}] * 4


def test_the_thread_ends_with_the_last_loader_and_with_the_group(told: list[dict[str, Any]]) -> None:
    assert [rank["ended"]["threads"] for rank in told] == [[1, 1, 250]] * 4
