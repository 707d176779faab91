"""Mixtures as the extension takes them: what leat.Mix is made of."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import leat
from leat import _leat

REDISTRIBUTE, REPEAT = 1, 2
SEQUENTIAL, SHUFFLED = 0, 1


def a_mix(sets: list[Any], shares: list[float], **changed: Any) -> dict[str, Any]:
    exhausted = changed.pop("exhausted", REPEAT)
    limit = changed.pop("limit", 0)
    packs = changed.pop("packs", [None] * len(sets))
    sources = [
        {"dataset": d._handle, "pack": p, "share": s, "exhausted": exhausted, "limit": limit}
        for d, p, s in zip(sets, packs, shares, strict=True)
    ]
    whole = {
        "sources": sources,
        "unit": "samples",
        "tokens_field": "tokens",
        "epoch_rows": 0,
        "schedule": [],
        "interpolate": "step",
    }
    return whole | changed


def opened(mix: dict[str, Any], **changed: Any) -> Any:
    options: dict[str, Any] = {"batch_size": 8, "order": SHUFFLED, "seed": 3, "mix": mix}
    return _leat.Loader.open(**(options | changed))


def rows_of(core: Any, until: int | None = None) -> tuple[list[int], list[int]]:
    """Ids and domains of the next epoch."""
    iteration, ids, domains = core.start(), [], []
    while (batch := core.next(iteration)) is not None:
        valid = np.asarray(batch.valid())
        ids += np.asarray(batch.ids())[valid].tolist()
        domains += np.asarray(batch.domains())[valid].tolist()
        if until is not None and len(ids) >= until:
            break
    return ids, domains


def arrays(*counts: int) -> list[Any]:
    return [leat.from_arrays(x=np.arange(n)) for n in counts]


def test_rows_come_from_the_sources_in_their_shares() -> None:
    core = opened(a_mix(arrays(100, 50, 10), [0.5, 0.3, 0.2], epoch_rows=1000))
    ids, domains = rows_of(core)
    counts = np.cumsum(np.eye(3)[domains], axis=0)
    ideal = np.outer(np.arange(1, 1001), [0.5, 0.3, 0.2])
    assert np.abs(counts - ideal).max() <= 1
    assert (np.searchsorted([100, 150], ids, side="right") == domains).all()
    core.close()


def documents(tmp_path: Any, name: str, lengths: list[int], first: int) -> Any:
    with leat.Writer(tmp_path / name, {"tokens": leat.field("uint16", (None,))}) as w:
        for n in lengths:
            w.add(tokens=np.full(n, first, np.uint16))
            first += 1
    return leat.open(tmp_path / name)


def test_packed_sources_are_cut_each_for_itself_with_its_own_bos(tmp_path: Any) -> None:
    sets = [documents(tmp_path, "a.leat", [5, 9, 2], 100), documents(tmp_path, "b.leat", [4, 4, 4, 4], 200)]
    packs = [("tokens", 4, 1, None, 0), ("tokens", 4, None, 2, 7)]
    core = opened(a_mix(sets, [0.5, 0.5], packs=packs), order=SEQUENTIAL, batch_size=20)
    batch = core.next(core.start())
    assert [name for name, *_ in batch.outputs()] == ["tokens", "doc_ids", "positions", "loss_mask"]
    tokens, domains = np.asarray(batch.memory(0)), np.asarray(batch.domains())
    assert tokens[domains == 0][:5].ravel().tolist() == [1, *[100] * 5, 1, *[101] * 9, 1, 102, 102, 0]
    assert tokens[domains == 1][:5].ravel().tolist() == [x for i in range(4) for x in [*[200 + i] * 4, 2]]
    ids = np.asarray(batch.ids())
    assert ids[domains == 0][:5].tolist() == [0, 1, 2, 3, 4]
    assert ids[domains == 1][:5].tolist() == [5, 6, 7, 8, 9]
    assert np.asarray(core.plan(0, 0)).tolist() == ids.tolist()
    assert set(np.asarray(batch.memory(1))[domains == 1].ravel().tolist()) == {3, 4, 5, 6}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"shares": [0.5, 0.4]}, r"the shares sum to 0\.9: they must sum to 1"),
        ({"shares": [1.5, -0.5]}, r"the share of source 1 is -0\.5"),
        ({"shares": [float("nan"), 1.0]}, "the share of source 0 is -?nan"),
        ({"counts": (4, 0)}, "source 1 is empty but has a share"),
        ({"unit": "bytes"}, "unit of a mixture"),
    ],
)
def test_a_mixture_that_cannot_be_is_refused(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        opened(a_mix(arrays(*changed.pop("counts", (4, 5))), changed.pop("shares", [0.5, 0.5]), **changed))


def test_shares_set_at_a_step_hold_from_there_on() -> None:
    core = opened(a_mix(arrays(100, 50), [0.5, 0.5], epoch_rows=160))
    core.set_shares(0, 10, [0.0, 1.0])
    _, domains = rows_of(core)
    assert domains[:80].count(0) == 40
    assert domains[80:] == [1] * 80
    with pytest.raises(ValueError, match="handed out"):
        core.set_shares(0, 2, [0.5, 0.5])
    with pytest.raises(ValueError, match=r"sum to 0\.5"):
        core.set_shares(-1, -1, [0.5, 0.0])
    core.set_shares(-1, -1, [1.0, 0.0])
    assert set(rows_of(core)[1]) == {0}


def test_a_schedule_changes_shares_at_its_rows() -> None:
    schedule = [[0, [1.0, 0.0]], [80, [0.0, 1.0]], [120, [0.5, 0.5]]]
    core = opened(a_mix(arrays(500, 500), [1.0, 0.0], schedule=schedule, epoch_rows=200))
    _, domains = rows_of(core)
    assert domains[:80] == [0] * 80
    assert domains[80:120] == [1] * 40
    assert domains[120:].count(0) == 40
    core = opened(a_mix(arrays(500, 500), [1.0, 0.0], schedule=schedule[:2], interpolate="linear", epoch_rows=200))
    _, domains = rows_of(core)
    first = np.cumsum([k == 0 for k in domains])
    line = np.cumsum([1 - (i + 0.5) / 80 if i < 80 else 0 for i in range(200)])
    assert np.abs(first - line).max() < 0.6


def test_batches_computed_again_and_a_second_consumer_have_the_same_domains() -> None:
    core = opened(a_mix(arrays(50, 30), [0.6, 0.4], exhausted=REDISTRIBUTE))
    other = core.consumer(5, True)
    first = core.start()
    batches = []
    while (batch := core.next(first)) is not None:
        batches.append(batch)
    domains = np.concatenate([np.asarray(b.domains()) for b in batches]).tolist()
    for step, batch in enumerate(batches):
        again = core.batch_at(0, step)
        assert np.asarray(again.domains()).tolist() == np.asarray(batch.domains()).tolist()
        assert np.asarray(core.plan(0, step)).tolist() == np.asarray(batch.ids()).tolist()
    iteration, theirs = other.start(), []
    while (batch := other.next(iteration)) is not None:
        theirs += np.asarray(batch.domains()).tolist()
    assert theirs[:80] == domains[:80]


def test_rows_out_of_order_keep_their_domains() -> None:
    core = opened(a_mix(arrays(100, 50), [0.5, 0.5], exhausted=REDISTRIBUTE), in_order=False)
    ids, domains = rows_of(core)
    assert sorted(ids) == list(range(150))
    assert [int(i >= 100) for i in ids] == domains
