"""Values that lie on a card in the other layers, where there is a card."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from feedback_support import N, loss_of, opened, write

import leat

torch: Any = pytest.importorskip("torch")
pytestmark = pytest.mark.card
CARD = "cuda"


def test_a_report_of_values_on_a_card_is_that_of_the_same_values_on_the_host(tmp_path: Path) -> None:
    path, found = write(tmp_path / "a.leat"), []
    for device in ("cpu", CARD):
        with opened(path, framework="torch", feedback=lambda t, e: None) as loader:
            for batch in loader:
                losses = torch.from_numpy(loss_of(batch.ids, 0)).to(device)
                loader.report(batch, loss=losses, twice=losses * 2)
            found.append([np.asarray(loader.feedback[name].value) for name in ("loss", "twice")])
    assert np.array_equal(found[0], found[1]) and len(found[0][0]) == N


def test_values_that_change_on_the_card_after_a_report_do_not_change_it(tmp_path: Path) -> None:
    with opened(write(tmp_path / "a.leat"), framework="torch", feedback=lambda t, e: None) as loader:
        values = torch.empty(8, device=CARD)
        for batch in loader:
            values.copy_(torch.arange(8.0), non_blocking=True)
            loader.report(batch, loss=values[: batch.size])
            values.fill_(-1)
        assert loader.feedback["loss"].value.min() == 0


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "int64"])
def test_a_store_takes_values_from_a_card(dtype: str, tmp_path: Path) -> None:
    values = torch.arange(30).reshape(10, 3).to(getattr(torch, dtype))
    with leat.Store(tmp_path / "a.store", {"x": leat.field(dtype, (3,))}, framework="torch") as store:
        store[np.arange(10)] = values.to(CARD)
        store.flush()
        found, present = store.gather(np.arange(10))
    assert present.all() and torch.equal(found, values)


def test_energy_is_the_cards_or_the_reason_is_told(tmp_path: Path) -> None:
    with opened(write(tmp_path / "a.leat")) as loader:
        sum(batch.size for batch in loader)
        energy = loader.stats()["energy"]
    assert "nvml" in energy["source"] or "nvml" in energy["reason"]
