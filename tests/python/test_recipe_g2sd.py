"""recipes/g2sd.py: teacher and student see the same patches by the rows' keys; later epochs read what it made."""

from __future__ import annotations

import copy
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from recipes_support import recipe, table

import leat

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.shard("whole")


@pytest.fixture
def g2sd(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The recipe where there is no real data."""
    monkeypatch.delenv("LEAT_DATA", raising=False)
    torch.set_num_threads(1)
    return recipe("g2sd")


def store(g2sd: ModuleType, path: Path) -> leat.Store:
    return leat.Store(path, {"states": leat.field("float16", (g2sd.TEACHER, 7, 7))}, key=("id", "key"))


def rows(batch: leat.Batch) -> list[tuple[int, int]]:
    return list(zip(batch.ids.tolist(), batch.row_keys.numpy().tolist()))


def test_a_student_with_a_teacher_is_above_the_same_one_without(tmp_path: Path) -> None:
    recipe("g2sd")  # skipped where a package is missing
    lines = table("g2sd", tmp_path)  # on real digits where there are any
    right = {line[:20].strip(): float(line[20:].split()[0]) for line in lines[1:-1]}
    assert right["generic, specific"] > right["masked, labels"]
    words = lines[-1].split()
    assert (int(words[4]), int(words[6])) == (2 * 800, 2 * 800)  # 4 epochs, of which 2 have keys of their own


def test_masks_follow_from_the_key_of_a_row_and_are_the_same_in_any_batch_and_for_teacher_and_student(
    g2sd: ModuleType,
) -> None:
    data = g2sd.digits(60)
    masks = dict[tuple[int, int], Any]()
    for batch in g2sd.loader(data, 20):
        seen = g2sd.seen(batch)
        assert seen.shape == (20, 1, 7, 7)
        assert (seen.sum((1, 2, 3)) == g2sd.SEEN).all()
        assert torch.equal(seen, g2sd.seen(batch))
        masks |= {pair: m for pair, m in zip(rows(batch), seen)}
    assert len({m.numpy().tobytes() for m in masks.values()}) > 50
    for batch in g2sd.loader(data, 7):  # other batches, the same rows
        for pair, m in zip(rows(batch), g2sd.seen(batch)):
            assert torch.equal(m, masks[pair])


def test_what_is_read_from_the_store_trains_the_same_student_as_a_teacher_that_runs_each_time(
    g2sd: ModuleType, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    data, teacher, student = g2sd.digits(230), g2sd.Autoencoder(g2sd.TEACHER), g2sd.Autoencoder(g2sd.STUDENT)
    runs = list[int]()
    states = teacher.states
    teacher.states = lambda batch: (runs.append(batch.size), states(batch))[1]
    with store(g2sd, tmp_path / "s") as kept:
        cached = g2sd.Cached(teacher, kept)
        reader = g2sd.pretrain(copy.deepcopy(student), data, 5, cached)
    assert sum(runs) == 2 * 230
    assert (cached.made, cached.read) == (2 * 230, 3 * 230)

    def running(batch: leat.Batch) -> Any:
        return states(batch).detach().half().float()

    other = g2sd.pretrain(copy.deepcopy(student), data, 5, running)
    assert all(torch.equal(a, b) for a, b in zip(reader.parameters(), other.parameters()))


def test_a_second_run_finds_the_states_of_the_first_one(g2sd: ModuleType, tmp_path: Path) -> None:
    torch.manual_seed(0)
    data, teacher = g2sd.digits(100), g2sd.Autoencoder(g2sd.TEACHER)
    counts = []
    for _ in range(2):
        with store(g2sd, tmp_path / "s") as kept:
            cached = g2sd.Cached(teacher, kept)
            g2sd.pretrain(g2sd.Autoencoder(g2sd.STUDENT), data, 2, cached)
        counts.append((cached.made, cached.read))
    assert counts == [(200, 0), (0, 200)]


def test_digits_without_labels_count_only_through_the_teacher(g2sd: ModuleType) -> None:
    torch.manual_seed(0)
    data, net = g2sd.digits(200), g2sd.Autoencoder(g2sd.STUDENT)
    hidden = leat.from_arrays(
        {"image": leat.field("uint8", (28, 28, 1), layout="HWC")},
        image=torch.stack([torch.as_tensor(data[i]["image"]).reshape(28, 28) for i in range(200)]).numpy(),
        label=torch.tensor([int(data[i]["label"]) if i < 50 else 7 for i in range(200)]).numpy(),
    )
    a, b = (g2sd.finetune(net, d, 50, 6, net) for d in (data, hidden))
    assert all(torch.equal(p, q) for p, q in zip(a.parameters(), b.parameters()))
