"""Counting in public (Jain, Raskhodnikova, Sivakumar, Smith, arXiv 2112.00828): what a training consumed, published
after every sample, without giving any of them away.

    python recipes/dp_counting.py [--short] [--out DIR]

The stream is 1 where the loader's next sample is a zero (the digit), and else 0. Its sum is published T times, under
epsilon = 1 for all of them together: for one event, a sample that is consumed once (one of two epochs has twice
that). Without privacy the sum is exact. Noise of scale 1/epsilon on every value adds up to sqrt(2T)/epsilon, noise on
every sum has to be T times as large. The tree pays log2(T)^1.5, the factorisation, under (epsilon, 1e-5), about
log(T); no mechanism with delta = 0 can do better than log(T) at worst. Which of ten counts is the largest is harder:
T^(1/3), so it is asked a rationed number of times. Digits are MNIST's, of the folder LEAT_DATA names, else drawn.
Needs matplotlib.
"""

import argparse
import math
import os
import secrets
from pathlib import Path

import matplotlib
import numpy as np

import leat
from leat.privacy import RunningArgmax, TreeCounter
from leat.privacy.noise import discrete_laplace

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402

EPSILON, DELTA = 1.0, 1e-5
UNIT = 1 << 20


def labels() -> leat.Dataset:
    folder = Path(os.environ.get("LEAT_DATA", "/nowhere")) / "mnist-idx"
    if folder.is_dir():
        return leat.open({"label": folder / "t10k-labels-idx1-ubyte.gz"})
    return leat.from_arrays(label=np.random.default_rng(0).integers(0, 10, 10000).astype(np.uint8))


def consumed(data: leat.Dataset, n: int, seed: int) -> np.ndarray:
    """The labels of the first n samples that a shuffled training has had, epoch after epoch."""
    had: list[np.ndarray] = []
    with leat.Loader(data, 256, shuffle=True, seed=seed, framework="numpy") as loader:
        while sum(map(len, had)) < n:
            had += [np.asarray(batch["label"]) for batch in loader]
    return np.concatenate(had)[:n]


def laplace(scale: float) -> float:
    return discrete_laplace(round(scale * UNIT), 1, secrets.randbelow) / UNIT


def tree(stream: np.ndarray) -> np.ndarray:
    return through(TreeCounter(len(stream), EPSILON), stream)


def factorised(stream: np.ndarray) -> np.ndarray:
    return through(TreeCounter(len(stream), EPSILON, DELTA), stream)


def through(counter: TreeCounter, stream: np.ndarray) -> np.ndarray:
    sums = []
    for x in stream.tolist():
        counter.add(x)
        sums.append(counter.value)
    return np.array(sums)


def noisy_values(stream: np.ndarray) -> np.ndarray:
    return np.cumsum([x + laplace(1 / EPSILON) for x in stream.tolist()])


def noisy_sums(stream: np.ndarray) -> np.ndarray:
    return np.array([s + laplace(len(stream) / EPSILON) for s in np.cumsum(stream).tolist()])


# What the paper and its sources say of the error at T values, up to constants of the mechanisms as they are built here.
MECHANISMS = {
    "exact, not private": (np.cumsum, lambda T: 0.0),
    "noise on each sum": (noisy_sums, lambda T: math.sqrt(2) * T / EPSILON),
    "noise on each value": (noisy_values, lambda T: math.sqrt(T) / EPSILON),
    "tree": (tree, lambda T: T.bit_length() * math.sqrt(T.bit_length()) / EPSILON),
    "factorisation": (factorised, lambda T: TreeCounter(T, EPSILON, DELTA).deviation(T)),
}


def behind(had: np.ndarray, delta: float) -> float:
    """By how many the class that is named is behind the largest, at worst: asked every T / queries samples."""
    ranking, counts, named, worst = RunningArgmax(len(had), EPSILON, 10, delta=delta), np.zeros(10), 0, 0.0
    pause = math.ceil(len(had) / ranking.queries)
    for i, label in enumerate(had.tolist()):
        ranking.add(np.eye(10)[label])
        counts[label] += 1
        if i % pause == 0:
            named = ranking.ask()
        worst = max(worst, counts.max() - counts[named])
    return worst


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--short", action="store_true", help="some seconds: shorter streams")
    arguments.add_argument("--out", type=Path, default=Path("recipes-out"), help="a folder for the plot")
    given = arguments.parse_args()
    data, runs = labels(), 3 if given.short else 10
    lengths = [64, 256, 1024] if given.short else [64, 256, 1024, 4096, 16384]
    streams = {T: [consumed(data, T, seed) for seed in range(runs)] for T in lengths}
    figure, (axis, other) = pyplot.subplots(1, 2, figsize=(10, 4), layout="constrained")
    print(f"{'root of the mean squared error, T =':36}" + "".join(f"{T:>10}" for T in lengths) + "   (said)")
    for name, (mechanism, said) in MECHANISMS.items():
        errors = []
        for T in lengths:
            found = [mechanism(had == 0) - np.cumsum(had == 0) for had in streams[T]]
            errors.append(float(np.sqrt(np.mean(np.square(found)))))
        print(f"{name:36}" + "".join(f"{e:10.1f}" for e in errors) + f"   ({said(lengths[-1]):.1f})")
        if any(errors):
            axis.plot(lengths, errors, "o-", label=name)
            axis.plot(lengths, [said(T) for T in lengths], ":", color=axis.lines[-1].get_color())
    for delta in (0.0, DELTA):
        name = f"largest of ten: behind, delta {delta:g}"
        worst = [float(np.mean([behind(had, delta) for had in streams[T]])) for T in lengths]
        print(f"{name:36}" + "".join(f"{b:10.1f}" for b in worst))
        other.plot(lengths, worst, "o-", label=name)
    print(f"{'  T^(1/3)':36}" + "".join(f"{T ** (1 / 3):10.1f}" for T in lengths))
    axis.set(xscale="log", yscale="log", xlabel="T", ylabel="error; dotted: as the analysis says")
    axis.legend()
    other.plot(lengths, [T ** (1 / 3) for T in lengths], ":", label="T^(1/3)")
    other.set(xscale="log", yscale="log", xlabel="T")
    other.legend()
    given.out.mkdir(parents=True, exist_ok=True)
    figure.savefig(given.out / "dp_counting.png", dpi=100)


if __name__ == "__main__":
    main()
