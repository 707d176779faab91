"""recipes/lr_to_perceptron.py: normalised LR+GD stops within R^2/mu^2 steps, LR+GD does not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from recipes_support import REAL, recipe, table

optimize = pytest.importorskip("scipy.optimize")
torch = pytest.importorskip("torch")
pytestmark = pytest.mark.shard("whole")


@pytest.mark.parametrize("real", [True, False])
def test_only_normalised_steps_end_within_the_bound_on_every_pair_of_digits(real: bool, tmp_path: Path) -> None:
    recipe("lr_to_perceptron")  # skipped where a package is missing
    if real and not (REAL / "mnist-idx").is_dir():
        pytest.skip("LEAT_DATA names no folder with mnist-idx")
    lines = table("lr_to_perceptron", tmp_path, REAL if real else None)
    rows = [line[20:].split() for line in lines[1:] if " x " in line]
    assert len(rows) == 12
    for _, bound, *method, steps, errors, stops in rows:
        assert (stops == "yes") == (errors == "0")
        assert int(steps) <= float(bound)
        if method == ["normalised"]:
            assert stops == "yes"
    plain = {" ".join(method) for _, _, *method, _, _, stops in rows if stops == "no"}
    assert plain == {"LR+GD, 1/L", "LR+GD, large"}
    assert any("threads" in line and "the same bits" in line for line in lines)


def test_the_margin_is_that_of_another_solver_of_the_same_qp() -> None:
    lr = recipe("lr_to_perceptron")
    a = np.random.default_rng(3).normal(size=(40, 6)) + [2, 0, 0, 0, 0, 0]
    a[a[:, 0] < 0.1, 0] = 0.1  # separable by the first axis
    low, high = lr.margin(a)
    found = optimize.minimize(
        lambda w: w @ w / 2,
        np.eye(6)[0] * 20,
        jac=lambda w: w,
        constraints={"type": "ineq", "fun": lambda w: a @ w - 1, "jac": lambda w: a},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert low <= high * (1 + 1e-12)
    assert low == pytest.approx(high, rel=1e-9)
    assert low == pytest.approx(1 / np.linalg.norm(found.x), rel=1e-6)


def test_classes_that_no_plane_separates_are_refused() -> None:
    lr = recipe("lr_to_perceptron")
    with pytest.raises(ValueError, match="not linearly separable"):
        lr.margin(np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]]))


def test_theta_has_the_same_bits_for_any_number_of_threads_and_is_that_of_a_plain_loop() -> None:
    lr = recipe("lr_to_perceptron")
    data = lr.pair(lr.digits(), 1, 7, 150, 150)
    before, found = torch.get_num_threads(), set()
    try:
        for n, threads in ((1, 1), (1, 2), (2, 1), (4, 2)):
            torch.set_num_threads(threads)
            errors, theta = lr.descend(data, 1, lr.LARGE, True, 6, num_threads=n)
            found.add((tuple(errors), theta.numpy().tobytes()))
    finally:
        torch.set_num_threads(before)
    assert len(found) == 1
    images = np.stack([np.asarray(data[i]["image"]).reshape(-1) for i in range(len(data))]) / 255
    y = np.where(data.column("label") == 1, 1.0, -1.0)
    a = y[:, None] * np.hstack([images, np.ones((len(images), 1))])
    plain = np.zeros(785)
    for _ in range(len(errors) - 1):
        s = 1 / (1 + np.exp(np.clip(a @ plain, -700, 700)))
        plain += lr.LARGE * (a.T @ s) / s.sum()
    assert np.allclose(theta.numpy(), plain, rtol=1e-9, atol=1e-6)
