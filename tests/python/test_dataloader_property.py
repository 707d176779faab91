"""leat.DataLoader against PyTorch's, in configurations and programs that are drawn at random.

Each example is a `Case` (property_cases.py): a data set, a sampler, a loader's arguments and a program that uses them.
PyTorch's loader and leat's run it from the same seeds, and batches, errors and generators have to be the same all the
way; in the areas that resume, a loader continues from a state in a world with other seeds, or goes back to it after
further epochs, and has to give the rest.

property_draws.py says which examples are looked at.
"""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
from property_cases import Case, Resume  # noqa: E402
from property_draws import EXAMPLES, Numbers  # noqa: E402
from property_play import fault, look  # noqa: E402

#: area -> how many examples are looked at first: those with workers take a hundred times as long as others
AREAS = {
    "in process": 300,
    "workers": 25,
    "streams": 25,
    "resume in process": 200,
    "resume workers": 25,
    "resume streams": 40,
}


# Above 2 s where there are workers: each example starts a dozen, for PyTorch's loader and for leat's.
@EXAMPLES
@pytest.mark.parametrize("area", AREAS)
def test_a_program_runs_as_with_pytorchs_loader_and_as_without_an_interruption(area: str, numbers: Numbers) -> None:
    look(area, numbers(AREAS[area]))


TWICE = (("epoch",), ("epoch",))


@pytest.mark.parametrize(
    "case",
    [
        Case(order=("at once", "numpy", 27, 9, True), resume=Resume(op=0, at=1, workers=2)),
        Case(n=9, order=("shuffle",), batch_size=3, generator=True, program=TWICE, resume=Resume(op=0, at=3)),
        Case(n=16, order=("random", 98), program=TWICE, resume=Resume(op=0, at=8)),
        Case(order=("stateful draws", "numpy", 95, 9, False), batch_size=10, program=TWICE, resume=Resume(op=0, at=1)),
        Case(order=("stateful draws", "numpy", 91, 5, False), workers=1, resume=Resume(op=0, at=0, workers=1)),
        Case(order=("cut", ("distributed", 74), 3, "order"), batched=True, program=(("set_epoch", 1), ("epoch",)),
             resume=Resume(op=1, at=0)),
        Case(order=("told", "numpy", 12, 7, False),
             program=(("set_epoch", 1), ("epoch",), ("set_epoch", 2), ("epoch",)),
             resume=Resume(op=1, at="end")),
        Case(order=("batches", ("random", None), 4, False), batched=True, resume=Resume(op=0, at=0)),
        Case(n=9, order=("shuffle",), batch_size=3, workers=3, generator=True, program=TWICE * 2,
             resume=Resume(op=1, at=2, workers=3)),
        Case(data=("failing stream", 5), collate="text", program=TWICE, resume=Resume(op=0, at=3)),
        Case(n=16, order=("told", "torch", 97, 16, False), program=(("epoch",), ("set_epoch", 2), ("epoch",)),
             resume=Resume(op=0, at=8)),
        Case(order=("shuffle",), program=(("zip", 3), ("late", 5))),
        Case(order=("counts at end", "own Random", 41, 14, False), batch_size=17,
             program=(("epoch",), ("break", 0), ("epoch",)), resume=Resume(op=0, at=1)),
        Case(order=("episodes", "own RandomState", 18, None, False, 1), batched=True,
             resume=Resume(op=0, at="before", back=())),
        Case(order=("counts at end", "torch", 18, 8, False), resume=Resume(op=0, at="before", back=(("epoch",),))),
        Case(data=("own iterator",), resume=Resume(op=0, at="before", back=())),
        Case(order=("counts in iter", "torch", 5, 8, True), workers=1, persistent=True, program=TWICE),
    ],
    ids=lambda case: " ".join(map(str, case.order or case.data)),
)  # fmt: skip
def test_examples_that_failed_once_pass(case: Case) -> None:
    assert (why := fault(case)) is None, why
