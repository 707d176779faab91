"""From logistic regression to the perceptron (Tyurin, arXiv 2412.08424): two classes of digits, separable.

    python recipes/lr_to_perceptron.py [--short] [--out DIR]

Gradient descent on the logistic loss (LR+GD) over vectors y_i a_i, from zero, with steps gamma * beta_t:

    LR+GD             beta_t = 1                   the textbook: gamma = 1/L; gamma -> infinity: a batch perceptron
    normalised LR+GD  beta_t = (1/n sum_i (1 + exp(y_i <a_i, theta>))^-1)^-1

The second one has no error left after at most R^2/mu^2 steps if gamma is large (R: the longest a_i, mu: the margin).
Each step is a pass in order. Digits are MNIST's, of the folder LEAT_DATA names, else drawn. Needs SciPy, matplotlib.
"""

import argparse
import math
import os
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import torch
from scipy.optimize import nnls
from torch import Tensor

import leat

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402

BATCH = 40  # rows of 785 numbers: below 32768, from which on torch divides a sum among its threads
LARGE = 1e8  # gamma: what a finite one adds to the bound is a part of 1.2 n / gamma of it at most


def drawn(n: int, seed: int = 0) -> leat.Dataset:
    """Digits for those who have none: 1 is a bar, 7 has another across its top, 0 is a ring; with noise."""
    noise, y, x = np.random.default_rng(seed), *np.mgrid[:28, :28]
    far = np.hypot(y - 13.5, x - 13.5)
    shapes = {1: abs(x - 14) < 2, 7: (abs(x - 14) < 2) | ((y < 7) & (x < 16)), 0: abs(far - 8) < 2}
    labels = noise.choice(list(shapes), n).astype(np.uint8)
    images = np.stack([200 * shapes[int(k)] for k in labels]) + noise.integers(0, 56, (n, 28, 28))
    return leat.from_arrays(image=images.astype(np.uint8), label=labels)


def digits() -> leat.Dataset:
    folder = Path(os.environ.get("LEAT_DATA", "")) / "mnist-idx"
    if "LEAT_DATA" not in os.environ or not folder.is_dir():
        return drawn(4000)
    return leat.open({k: folder / f"t10k-{k}s-idx{d}-ubyte.gz" for k, d in (("image", 3), ("label", 1))})


def pair(data: leat.Dataset, first: int, other: int, n_first: int, n_other: int) -> leat.Dataset:
    """So many samples of the one class and of the other, in the order of the data set."""
    label = data.column("label")
    chosen = [np.flatnonzero(label == c)[:n] for c, n in ((first, n_first), (other, n_other))]
    return data.select(np.sort(np.concatenate(chosen)))


def vectors(batch: leat.Batch, first: int) -> Tensor:
    """[n, 785] in float64: y_i a_i, of pixels in 0 to 1 and a 1 for the offset; y_i is 1 for digits of `first`."""
    a = torch.nn.functional.pad(batch["image"].flatten(1).double() / 255, (0, 1), value=1.0)
    return torch.where(batch["label"] == first, 1.0, -1.0).double()[:, None] * a


def margin(a: np.ndarray) -> tuple[float, float]:
    """The margin of rows y_i a_i, from below and from above: max over |w| = 1 of the least <w, y_i a_i>.

    The QP of the hard margin, min |w|^2 with a w >= 1, by Lawson and Hanson's way from least distances to nonnegative
    least squares, an active-set method: w shows a margin, the weights of its dual that there is none larger.
    """
    e = np.vstack([a.T, np.ones(len(a))])
    weights, residual = nnls(e, np.eye(len(e))[-1], maxiter=100 * len(a))
    if residual < 1e-9:
        raise ValueError("the two classes are not linearly separable")
    r = e @ weights - np.eye(len(e))[-1]
    w = -r[:-1] / r[-1]
    return float((a @ w).min() / np.linalg.norm(w)), float(np.linalg.norm(a.T @ weights) / weights.sum())


def descend(
    data: leat.Dataset, first: int, gamma: float, normalised: bool, most: int, num_threads: int = 2
) -> tuple[list[int], Tensor]:
    """Errors before each step, until there is none or after `most` steps; and theta."""
    theta, errors = torch.zeros(785, dtype=torch.float64), list[int]()
    with leat.Loader(data, BATCH, num_threads=num_threads, framework="torch") as loader:
        while True:
            gradient, weight, wrong = torch.zeros_like(theta), torch.zeros((), dtype=torch.float64), 0
            for batch in loader:  # always in this order, so sums are rounded alike
                a = vectors(batch, first)
                m = (a * theta).sum(1)
                s = torch.sigmoid(-m)
                gradient += (a * s[:, None]).sum(0)
                weight += s.sum()
                wrong += int((m <= 0).sum())
            errors.append(wrong)
            if wrong == 0 or len(errors) > most:
                return errors, theta
            theta += gamma * gradient / (weight if normalised else len(data))


def compare(data: leat.Dataset, first: int) -> dict[str, Any]:
    """Margin, bound, and for each method (errors before each step, theta), in at most the bound's steps."""
    with leat.Loader(data, BATCH, framework="torch") as loader:
        a = torch.cat([vectors(batch, first) for batch in loader]).numpy()
    low, high = margin(a)
    bound = float((a**2).sum(1).max()) / high**2
    smooth = float(4 * len(a) / np.linalg.norm(a, 2) ** 2)
    methods = {"LR+GD, 1/L": (smooth, False), "LR+GD, large": (LARGE, False), "normalised": (LARGE, True)}
    runs = {name: descend(data, first, gamma, how, math.floor(bound)) for name, (gamma, how) in methods.items()}
    return {"mu": (low, high), "bound": bound, "runs": runs}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--short", action="store_true", help="some seconds: fewer digits")
    arguments.add_argument("--out", type=Path, default=Path("recipes-out"), help="a folder for the plot")
    given = arguments.parse_args()
    torch.set_num_threads(1)  # theta does not depend on it
    n = 200 if given.short else 1000
    cases = [(first, other, few, n) for first, other in ((0, 1), (1, 7)) for few in (n, 1)]
    data = digits()
    figure, axes = pyplot.subplots(1, len(cases), figsize=(4 * len(cases), 3.6), layout="constrained")
    print(f"{'digits':20}{'mu':>7}  {'R^2/mu^2':>8}  {'method':12}  {'steps':>5}  {'errors left':>11}  stops in time")
    for axis, (first, other, *numbers) in zip(axes, cases):
        part = pair(data, first, other, *numbers)
        found = compare(part, first)
        title = f"{numbers[0]} x {first}, {numbers[1]} x {other}"
        for name, (errors, _) in found["runs"].items():
            stops = "no" if errors[-1] else "yes"
            print(f"{title:20}{found['mu'][0]:7.4f}  {found['bound']:8.1f}  {name:12}", end="")
            print(f"  {len(errors) - 1:5}  {errors[-1]:11}  {stops}")
            axis.plot(np.arange(len(errors)) + 1, np.array(errors) + 0.5, label=name)
        axis.axvline(found["bound"] + 1, color="grey", linestyle=":", label="R²/mu²")
        axis.set(title=title, xlabel="step + 1", ylabel="errors + 0.5", xscale="log", yscale="log")
    thetas = {descend(part, first, LARGE, True, n, threads)[1].numpy().tobytes() for threads in (1, 2, 4)}
    same = "the same bits" if len(thetas) == 1 else "DIFFERENT bits"
    print(f"theta of the last row with 1, 2 and 4 threads of the loader: {same}")
    axes[0].legend()
    given.out.mkdir(parents=True, exist_ok=True)
    figure.savefig(given.out / "lr_to_perceptron.png", dpi=100)
    print(f"{given.out / 'lr_to_perceptron.png'}")


if __name__ == "__main__":
    main()
