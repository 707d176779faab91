"""Which ranks count as silent, from what they leave in the store, by clocks that the tests set."""

from __future__ import annotations

from typing import Any

import pytest

from leat.loading.group import Group, silent_after
from leat.loading.silence import Silence

LIMIT = 60.0


class Ranks:
    """Ranks 0 and 1 that leave a sign of life each five seconds, of which rank 0 looks at rank 1."""

    def __init__(self, *, all_open: bool = True) -> None:
        self.silence, self.all_open = Silence(0, LIMIT), all_open
        self.count, self.now = 0, 1000.0

    def look(self, mine: Any, theirs: Any, *, alive: bool = True, ended: bool = False) -> tuple[bool, str | None]:
        """Places by loader; None: that rank has left nothing."""
        self.now += 5
        self.count += alive
        self.silence.take(0, {"n": self.now, "at": mine, "ended": False}, self.now)
        beat = None if theirs is None else {"n": self.count, "at": theirs, "ended": ended}
        self.silence.take(1, beat, self.now)
        return self.silence.verdict(1, self.now, self.all_open)

    def looks(self, times: int, mine: Any, theirs: Any, **more: Any) -> list[str]:
        """The texts of so many looks."""
        return [text for _ in range(times) if (text := self.look(mine, theirs, **more)[1]) is not None]


def at(step: int, epoch: int = 0) -> dict[str, Any]:
    return {"1": [epoch, step]}


def test_a_rank_in_step_is_not_silent_however_long_all_pause() -> None:
    ranks = Ranks()
    assert ranks.looks(100, at(7), at(7)) == []
    assert ranks.look(at(7), at(7)) == (False, None)


def test_a_rank_whose_signs_end_is_named_once_with_its_place() -> None:
    ranks = Ranks()
    ranks.look(at(7), at(6))
    said = ranks.looks(50, at(7), at(6), alive=False)
    assert said == [
        "rank 1 has given no sign of life for 60 s: rank 1 is at epoch 0, step 6 of loader 1, and rank 0 is at epoch "
        "0, step 7 of loader 1"
    ]
    assert ranks.look(at(7), at(6), alive=False) == (True, None)


def test_a_rank_that_moves_again_is_silent_no_more_and_is_named_another_time() -> None:
    ranks = Ranks()
    ranks.looks(20, at(7), at(6), alive=False)
    assert ranks.look(at(8), at(7)) == (False, None)
    assert len(ranks.looks(50, at(8), at(7), alive=False)) == 1


def test_a_rank_that_takes_no_batch_is_named_if_the_other_is_a_hundred_steps_ahead_or_waits_ahead() -> None:
    near, far, waits = Ranks(), Ranks(), Ranks()
    assert near.looks(5, at(6), at(6)) == []
    assert [near.look(at(6 + i), at(6))[1] for i in range(99)] == [None] * 99
    assert "has taken no batch for 60 s" in "".join(far.looks(13, at(200), at(6)))
    assert far.looks(50, at(106), at(6)) == []  # once
    assert "has taken no batch for 60 s" in "".join(waits.looks(13, at(7), at(6)))


@pytest.mark.parametrize(("mine", "far"), [((0, 106), True), ((0, 105), False), ((1, 100), True), ((1, 99), False)])
def test_a_hundred_steps_are_counted_over_the_end_of_an_epoch(mine: tuple[int, int], far: bool) -> None:
    ranks = Ranks()
    for i in range(20):  # it moves, so that it does not wait
        _, text = ranks.look({"1": [mine[0], mine[1] - 19 + i], "2": [0, i]}, at(6))
    assert (text is not None) == far


def test_a_process_that_was_stopped_itself_blames_nobody() -> None:
    ranks = Ranks()
    ranks.look(at(7), at(6))
    ranks.now += 1000
    assert ranks.looks(6, at(7), at(6), alive=False) == []


def test_a_rank_that_has_ended_is_named_only_if_the_other_goes_on_far_beyond() -> None:
    ranks = Ranks()
    assert ranks.looks(50, at(7), at(6), alive=False, ended=True) == []
    (text,) = ranks.looks(50, at(500), at(6), alive=False, ended=True)
    assert text.startswith("rank 1 has ended, or closed its loaders, 250 s ago: rank 1 is at epoch 0, step 6")


@pytest.mark.parametrize(("all_open", "step", "named"), [(True, 500, 1), (True, 50, 0), (False, 500, 0)])
def test_a_rank_without_a_loader_is_named_if_it_should_have_one(all_open: bool, step: int, named: int) -> None:
    ranks = Ranks(all_open=all_open)
    said = ranks.looks(50, at(step), None)
    assert len(said) == named
    assert all(text.startswith("rank 1 has opened no loader") for text in said)
    assert ranks.look(at(step), None)[0]  # so that the one behind it is looked at, too


def test_a_loader_that_a_rank_has_not_begun_says_nothing() -> None:
    ranks = Ranks()
    assert ranks.looks(50, {"1": [9, 0], "2": None}, {"1": None, "2": None}) == []


def test_ranks_compare_the_same_ones_of_very_short_epochs_at_a_bounded_pace() -> None:
    class Alone:
        def get_rank(self) -> int:
            return 0

        def get_world_size(self) -> int:
            return 1

    def compared(begin: int) -> set[int]:
        group = Group(Alone(), Alone(), 1)
        group._second = float("inf")  # a second that lasts
        return {epoch for epoch in range(begin, begin + 5000) if group.has_time(epoch)}

    first, later = compared(0), compared(1700)
    assert len(first) <= 16 * 10 and len(later) <= 16 * 10
    assert {epoch for epoch in range(1700, 5000) if epoch % 512 == 0} <= first & later


def test_the_time_is_an_environment_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LEAT_SILENT_S", raising=False)
    assert silent_after() == 60
    monkeypatch.setenv("LEAT_SILENT_S", "2.5")
    assert silent_after() == 2.5
    for wrong in ("0", "-1", "nan", "soon"):
        monkeypatch.setenv("LEAT_SILENT_S", wrong)
        with pytest.raises(ValueError, match=f"LEAT_SILENT_S is '{wrong}'"):
            silent_after()
