"""How facts of two ranks are compared, and what an error says of those that differ."""

from __future__ import annotations

from typing import Any

import leat
from leat.loading.differences import LOADERS, VERSION, Difference, differing, said, sent
from leat.mixtures.decisions import Decisions


def found(rank: int, other: int, what: dict[str, list[Any]], place: list[int] | None, loader: int = 1) -> Difference:
    return Difference(loader, 0, rank, other, place, what)


def test_short_values_are_compared_as_they_are_and_long_ones_by_their_hashes() -> None:
    mine, there = sent({"seed": "5", "outputs": "a" * 1000}), sent({"seed": "4", "outputs": "a" * 999})
    assert len(mine["outputs"]) < 40
    what = differing(mine, there)
    assert what["seed"] == ["5", "4"] and set(what) == {"seed", "outputs"}
    assert differing(mine, dict(mine)) == {}
    text = said([found(2, 0, what, [0, 100])])
    assert "rank 2 differs from rank 0 in seed: 5 is not 4 and outputs (loader 1 at epoch 0, step 100;" in text


def test_a_fact_that_one_rank_lacks_is_a_difference() -> None:
    mine = sent({"the mesh": "x"})
    assert differing(mine, sent({})) == {"the mesh": ["x", None]}
    assert "in the mesh: x is not none" in said([found(1, 0, {"the mesh": ["x", None]}, [0, 0])])


def test_another_version_is_the_only_difference() -> None:
    mine, there = sent({"seed": "5"}), {**sent({"seed": "4"}), VERSION: "9.9"}
    assert differing(mine, there) == {VERSION: [leat.__version__, "9.9"]}


def test_ranks_that_find_the_same_are_one_clause_and_of_two_the_lower_one_is_the_measure() -> None:
    what = {"seed": ["4", "5"]}
    assert "ranks 0, 1 and 3 differ from rank 2 in seed: 4 is not 5 (" in said(
        [found(rank, 2, what, [0, 0]) for rank in (3, 0, 1)]
    )
    assert "rank 2 differs from rank 0 in seed: 5 is not 4 (" in said([found(0, 2, what, [0, 0])])
    other = {"seed": ["7", "5"]}
    assert "rank 2 differs from rank 0 in seed: 5 is not 4; rank 3 differs from rank 2 in seed: 7 is not 5 (" in said(
        [found(0, 2, what, [0, 0]), found(3, 2, other, [0, 0])]
    )


def test_the_first_place_is_told() -> None:
    early, late = found(1, 0, {"seed": ["4", "5"]}, [0, 100]), found(1, 2, {"tail": ["pad", "drop"]}, [1, 0])
    assert "in seed" in said([late, early]) and "tail" not in said([late, early])


def test_loaders_that_are_not_the_same_explain_everything_else() -> None:
    reads = {"reads": ["B", "A"]}
    text = said([found(3, 0, {"seed": ["4", "5"]}, [0, 0]), found(3, 0, reads, None, 1), found(0, 3, reads, None, 2)])
    assert "the ranks differ: loader 1 of rank 0 reads A, of rank 3 reads B; loader 2 of rank 0 reads B, of" in text
    assert "seed" not in text and "all ranks open their loaders in the same order" in text
    assert LOADERS not in text


def test_decisions_are_told_up_to_a_step_whatever_was_decided_beyond() -> None:
    entries = [{"kind": "open", "epoch": 0, "row": 0, "global_batch": 4, "world_size": 1, "tail": "pad"}]
    entries += [{"kind": "decide", "epoch": 0, "row": 400, "global_batch": 8}]
    entries += [{"kind": "decide", "epoch": 2, "row": 80, "global_batch": 4}]
    one, two = Decisions(entries[:2], None, False), Decisions(entries, None, False)
    assert two.told((0, 99)) == "none"
    assert two.told((0, 100)) == two.told((2, 9)) == one.told() == one.told((2, 10)) != "none"
    assert two.told((2, 10)) == two.told() != one.told()
