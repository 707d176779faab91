"""Keras and Ignite, which take what can be iterated over, train on a leat.Loader and resume with the very next batch.
docs/frameworks.md says how.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import leat

torch = pytest.importorskip("torch")

from frameworks_support import needs  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # Keras's own

N = 64
STEPS = N // 8
X = np.random.default_rng(0).normal(size=(N, 8)).astype(np.float32)


def made() -> leat.Loader:
    data = leat.from_arrays(x=X, y=(X.sum(1) > 0).astype(np.int64), id=np.arange(N))
    return leat.Loader(data, 8, shuffle=True, seed=2)


def rest(state: dict[str, Any]) -> list[list[int]]:
    """The batches of an epoch from a state on."""
    loader = made()
    loader.load_state_dict(state)
    return [batch["id"].tolist() for batch in loader]


def behind(seen: list[list[int]], step: int) -> list[list[int]]:
    """Those that a run was trained on from a step to the end of its epoch."""
    return seen[step : (step // STEPS + 1) * STEPS]


@pytest.fixture
def keras(monkeypatch: pytest.MonkeyPatch) -> Any:
    needs("keras")
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    import keras

    assert keras.backend.backend() == os.environ["KERAS_BACKEND"]
    return keras


@pytest.mark.parametrize("step", [3, 8, 11])
def test_keras_takes_a_generator_over_a_loader(keras: Any, step: int) -> None:
    loader, seen, states = made(), [], {}

    def batches() -> Iterator[Any]:
        while True:
            for batch in loader:
                seen.append(batch["id"].tolist())
                yield batch["x"], batch["y"]

    def note(number: int, logs: Any) -> None:
        states[len(seen)] = loader.state_dict()

    model = keras.Sequential([keras.layers.Dense(2)])
    model.compile(optimizer="sgd", loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    saving = keras.callbacks.LambdaCallback(on_train_batch_end=note)
    model.fit(batches(), steps_per_epoch=len(loader), epochs=2, verbose=0, callbacks=[saving])
    assert len(seen) == 2 * STEPS
    assert sorted(i for ids in seen[:STEPS] for i in ids) == sorted(i for ids in seen[STEPS:] for i in ids)
    assert rest(states[step]) == behind(seen, step)


@pytest.mark.parametrize("step", [3, 8, 11])
def test_ignite_runs_over_a_loader_and_resumes(step: int) -> None:
    needs("ignite")
    from ignite.engine import Engine, Events

    def run(loader: leat.Loader, position: dict[str, Any] | None = None) -> tuple[list[list[int]], dict[str, Any]]:
        seen: list[list[int]] = []
        saved: dict[str, Any] = {}
        engine = Engine(lambda _, batch: seen.append(batch["id"].tolist()))

        @engine.on(Events.ITERATION_COMPLETED(once=step))
        def save(engine: Any) -> None:
            saved.update(loader=loader.state_dict(), engine=dict(engine.state_dict()))

        if position is not None:
            engine.load_state_dict(position)
        engine.run(loader, max_epochs=2)
        return seen, saved

    seen, saved = run(made())
    assert len(seen) == 2 * STEPS
    resumed = made()
    resumed.load_state_dict(saved["loader"])
    assert run(resumed, saved["engine"])[0] == seen[step:]
