"""recipes/glc.py: an ordered clean scan fills a bank by id, a shuffled stream trains with it; both resume exactly."""

from __future__ import annotations

import io
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from recipes_support import recipe, table

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.shard("whole")


@pytest.fixture
def glc(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The recipe where there is no real data."""
    monkeypatch.delenv("LEAT_DATA", raising=False)
    return recipe("glc")


def test_known_and_unknown_digits_are_told_apart_better_than_before_the_adaptation(tmp_path: Path) -> None:
    recipe("glc")  # skipped where a package is missing
    lines = table("glc", tmp_path)  # on real digits where there are any
    rows = {line[:12].strip(): [float(x) for x in line[12:].split()] for line in lines[1:]}
    known, unknown, h_score, auroc = rows["GLC"]
    assert h_score == pytest.approx(2 * known * unknown / (known + unknown), abs=2e-3)
    assert h_score > rows["source only"][2]
    assert auroc > rows["source only"][3]


def begun(glc: ModuleType) -> Any:
    torch.manual_seed(0)
    return glc.GLC(glc.network(), glc.domains(700)[1])


def saved(run: Any) -> bytes:
    file = io.BytesIO()
    torch.save({name: part.state_dict() for name, part in run.parts().items()}, file)
    return file.getvalue()


def test_an_epoch_is_one_clean_scan_in_order_and_then_one_shuffled_pass_over_the_same_samples(glc: ModuleType) -> None:
    run = begun(glc)
    n, passes = len(run.bank.weight), list[list[int]]()
    scans = -(-n // 256)
    ids = [batch.ids.tolist() for batch in run.batches(2)]
    each = scans + n // 64
    assert len(ids) == 2 * each
    for epoch in (ids[:each], ids[each:]):
        scanned = sum(epoch[:scans], [])
        streamed = sum(epoch[scans:], [])
        assert scanned == list(range(n))
        assert len(set(streamed)) == len(streamed) == n // 64 * 64
        passes.append(streamed)
    assert passes[0] != passes[1]


def test_the_bank_holds_at_the_row_of_each_id_what_the_net_of_the_epochs_start_makes_of_that_sample(
    glc: ModuleType,
) -> None:
    run = begun(glc)
    n = len(run.bank.weight)
    batches = run.batches(2)
    for _ in range(-(-n // 256) + n // 64):  # the first epoch, so that the bank is not of a net at its start
        next(batches)
    net = [p.detach().clone() for p in run.net.parameters()]
    for _ in range(-(-n // 256)):
        next(batches)
    assert all(torch.equal(p, q) for p, q in zip(net, run.net.parameters()))
    data = run.scan.dataset if hasattr(run.scan, "dataset") else glc.domains(700)[1]
    images = np.stack([np.asarray(data[i]["image"]).reshape(1, 28, 28) for i in range(n)])
    seen = glc.look(run.net, (torch.tensor(images).float() / 255 - 0.13) / 0.31)
    assert torch.allclose(seen, run.bank.weight, atol=1e-5)


def test_a_run_that_is_resumed_in_either_pass_has_the_same_bank_labels_and_weights_at_each_later_batch(
    glc: ModuleType,
) -> None:
    torch.set_num_threads(1)
    run = begun(glc)
    n = len(run.bank.weight)
    scans, each = -(-n // 256), -(-n // 256) + n // 64
    points = (1, scans - 1, scans, scans + 2, each, each + 1, each + scans + 1)  # inside and at the ends of passes
    states, after = dict[int, bytes](), list[tuple[list[int], bytes]]()
    for i, batch in enumerate(run.batches(2), 1):
        after.append((batch.ids.tolist(), run.bank.weight.numpy().tobytes()))
        if i in points:
            states[i] = saved(run)
    end = saved(run)
    for i, state in states.items():
        again = begun(glc)
        parts = torch.load(io.BytesIO(state), weights_only=True)
        for name, part in again.parts().items():
            part.load_state_dict(parts[name])
        for j, batch in enumerate(again.batches(2), i):
            assert (batch.ids.tolist(), again.bank.weight.numpy().tobytes()) == after[j]
        assert j == len(after) - 1
        for name in ("net", "bank"):
            whole = torch.load(io.BytesIO(end), weights_only=True)[name]
            assert all(torch.equal(v, again.parts()[name].state_dict()[k]) for k, v in whole.items())


def test_samples_far_from_all_surest_ones_are_unknown_and_the_others_get_their_class(glc: ModuleType) -> None:
    angle = torch.tensor([0.0, 2.0, 4.0]).repeat_interleave(60) + torch.linspace(0, 0.3, 60).repeat(3)
    features = torch.stack([angle.cos(), angle.sin()], 1)
    shares = torch.full((180, 2), 0.5)
    shares[:60] = torch.tensor([0.95, 0.05])
    shares[60:120] = torch.tensor([0.05, 0.95])
    labels = glc.one_against_all(features, shares, n_classes=3, others=4)
    assert labels[:60].tolist() == [[1, 0]] * 60
    assert labels[60:120].tolist() == [[0, 1]] * 60
    assert labels[120:].tolist() == [[0.5, 0.5]] * 60
