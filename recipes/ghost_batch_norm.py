"""Train longer, generalise better: ghost batch normalisation (Hoffer, Hubara, Soudry, arXiv 1705.08741).

    python recipes/ghost_batch_norm.py [--short] [--out DIR]

A net trained with large batches tests worse than with small ones. Part of that gap is closed step by step:

    + LR     the step size grows with the square root of the batch size, and gradients are clipped
    + GBN    batch normalisation by ghost batches of 32 rows: the parts of the batch, batch.split(32)
    + RA     regime adaptation: as many updates as with small batches, hence more epochs

Five seeds with their spread. Digits are MNIST's, of the folder LEAT_DATA names, else drawn.
"""

import argparse
import os
from pathlib import Path

import matplotlib
import numpy as np
import torch
from torch import Tensor, nn

import leat

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402

SMALL, LARGE, GHOST, RATE = 32, 512, 32, 0.05
OUTPUTS = {"image": [leat.ops.ToDtype("float32", scale=True)], "label": [leat.ops.ToDtype("int64")]}


def drawn(n: int, seed: int = 1) -> leat.Dataset:
    """Ten kinds of blurred blots for those who have no digits."""
    kinds = np.random.default_rng(0).integers(4, 24, (10, 3, 2))
    noise, y, x = np.random.default_rng(seed), *np.mgrid[:28, :28]
    label = noise.integers(0, 10, n)
    at = kinds[label] + noise.normal(0, 2.5, (n, 3, 2))
    far = (y - at[..., 0, None, None]) ** 2 + (x - at[..., 1, None, None]) ** 2
    images = 200 * np.exp(-far / 8).max(1) + noise.integers(0, 56, (n, 28, 28))
    return leat.from_arrays(image=images.astype(np.uint8), label=label.astype(np.uint8))


def digits(n: int) -> tuple[leat.Dataset, leat.Dataset]:
    """To train with, and to test: every other one."""
    folder = Path(os.environ.get("LEAT_DATA", "")) / "mnist-idx"
    if "LEAT_DATA" in os.environ and folder.is_dir():
        data = leat.open({k: folder / f"t10k-{k}s-idx{d}-ubyte.gz" for k, d in (("image", 3), ("label", 1))})[:n]
    else:
        data = drawn(n)
    return data[::2], data[1::2]


def network() -> nn.Sequential:
    """Fully connected, with batch normalisation behind each layer, as the paper's F1."""
    widths = [784, 128, 128, 128]
    layers = [[nn.Linear(a, b), nn.BatchNorm1d(b), nn.ReLU()] for a, b in zip(widths, widths[1:])]
    return nn.Sequential(nn.Flatten(), *sum(layers, []), nn.Linear(widths[-1], 10))


def logits(net: nn.Module, batch: leat.Batch, ghost: int | None) -> Tensor:
    """With ghost batches each part is normalised by its own mean and variance, and moves the running ones."""
    if ghost is None:
        return net(batch["image"])
    return torch.cat([net(part["image"]) for part in batch.split(ghost)])


def train(data: leat.Dataset, test: leat.Dataset, size: int, how: str, updates: int, seed: int) -> list[float]:
    """Accuracy on the test set after each tenth of the updates; the step size falls to a tenth at two thirds."""
    torch.manual_seed(seed)
    net = network()
    rate = RATE * ((size / SMALL) ** 0.5 if "LR" in how else 1.0)
    optimiser = torch.optim.SGD(net.parameters(), lr=rate, momentum=0.9)
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimiser, [updates * 2 // 3])
    found, step = list[float](), 0
    with leat.Loader(data, size, shuffle=True, seed=seed, outputs=OUTPUTS, drop_last=True, framework="torch") as loader:
        while True:
            for batch in loader:
                out = logits(net, batch, GHOST if "GBN" in how else None)
                optimiser.zero_grad()
                nn.functional.cross_entropy(out, batch["label"]).backward()
                if "LR" in how:
                    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
                optimiser.step()
                schedule.step()
                step += 1
                while len(found) < 10 * step // updates:
                    found.append(accuracy(net, test))
                if step == updates:
                    return found


def accuracy(net: nn.Module, data: leat.Dataset) -> float:
    net.eval()
    with torch.no_grad(), leat.Loader(data, 1000, outputs=OUTPUTS, framework="torch") as loader:
        found = sum(int((net(b["image"]).argmax(1) == b["label"]).sum()) for b in loader) / len(data)
    net.train()
    return found


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--short", action="store_true", help="some seconds: fewer digits and epochs, two seeds")
    arguments.add_argument("--out", type=Path, default=Path("recipes-out"), help="a folder for the plot")
    given = arguments.parse_args()
    torch.set_num_threads(1)
    n, epochs, seeds = (2048, 3, 2) if given.short else (8192, 10, 5)
    data, test = digits(n)
    few, many = epochs * (len(data) // LARGE), epochs * (len(data) // SMALL)
    methods = {
        "small": (SMALL, "", many),
        "large": (LARGE, "", few),
        "large + LR": (LARGE, "LR", few),
        "large + LR + GBN": (LARGE, "LR GBN", few),
        "large + LR + GBN + RA": (LARGE, "LR GBN RA", many),
    }
    figure, axis = pyplot.subplots(figsize=(6, 4), layout="constrained")
    print(
        f"{'method':24}{'batch':>6}{'updates':>9}{'accuracy':>10}{'spread':>8}{'best':>8}{'worst':>8}{'gap closed':>12}"
    )
    means = dict[str, float]()
    for name, (size, how, updates) in methods.items():
        curves = np.array([train(data, test, size, how, updates, seed) for seed in range(seeds)])
        last = curves[:, -1]
        means[name] = last.mean()
        gap = means["small"] - means.get("large", 0.0)
        closed = f"{(means[name] - means['large']) / gap:11.0%}" if "+" in name and gap > 0 else "-"
        print(f"{name:24}{size:6}{updates:9}{last.mean():10.4f}{last.std():8.4f}", end="")
        print(f"{last.max():8.4f}{last.min():8.4f}{closed:>12}", flush=True)
        axis.errorbar(np.arange(1, 11) / 10, 1 - curves.mean(0), curves.std(0), label=name, capsize=2)
    axis.set(xlabel="part of the training", ylabel="test error", yscale="log")
    axis.legend()
    given.out.mkdir(parents=True, exist_ok=True)
    figure.savefig(given.out / "ghost_batch_norm.png", dpi=100)
    print(f"{given.out / 'ghost_batch_norm.png'}")


if __name__ == "__main__":
    main()
