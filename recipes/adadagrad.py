"""AdAdaGrad (Lau, Liu, Kolar, arXiv 2402.11215): AdaGrad whose batches grow by a norm test.

    python recipes/adadagrad.py [--short | --large] [--device cuda] [--out DIR]

After every 32nd step, with the gradients of the batch's parts (batch.split), the batch grows to

    b+ = ceil(|Var_i(gradient of sample i)|_1 / (eta^2 |mean gradient|^2)),    b = max(b, b+), at most b_max

which leat.NormTest does: the size holds from the next batch on, and the epoch goes on. Plain AdaGrad with small and
with large batches sees as many samples. Digits are MNIST's, of the folder LEAT_DATA names, else drawn; --large, for a
card, is of drawn ones.
"""

import argparse
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import leat

SMALL, LARGE, EVERY, PARTS = 16, 1024, 32, 8
METHODS = {"AdaGrad, small": (SMALL, 0.0), "AdaGrad, large": (LARGE, 0.0)}  # rows of the first batch, eta
METHODS |= {f"AdAdaGrad, eta {eta}": (SMALL, eta) for eta in (0.5, 1.0, 1.2)}
# digits, epochs, seeds, accuracy that is aimed at, width of the net, times as many rows of a batch
SIZES = {"short": (2500, 4, 1, 0.8, 64, 1), "whole": (10000, 10, 3, 0.9, 64, 1), "large": (40000, 12, 3, 0.91, 1024, 4)}
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
    """To train with, and to test: every fifth."""
    folder = Path(os.environ.get("LEAT_DATA", "")) / "mnist-idx"
    if "LEAT_DATA" in os.environ and folder.is_dir() and n <= 10000:
        data = leat.open({k: folder / f"t10k-{k}s-idx{d}-ubyte.gz" for k, d in (("image", 3), ("label", 1))})[:n]
    else:
        data = drawn(n)
    return data.select(np.flatnonzero(np.arange(n) % 5)), data[::5]


def network(width: int = 64) -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), nn.Linear(784, width), nn.ReLU(), nn.Linear(width, 10))


def gradients(net: nn.Module, batch: leat.Batch, parts: int) -> Iterator[tuple[list[Tensor], int]]:
    """The mean gradient of each of the batch's parts, and its rows."""
    for part in batch.split(max(1, batch.size // parts)):
        loss = nn.functional.cross_entropy(net(part["image"]), part["label"])
        yield list(torch.autograd.grad(loss, list(net.parameters()))), part.size


def accuracy(net: nn.Module, data: leat.Dataset) -> float:
    where = next(net.parameters()).device
    with torch.no_grad(), leat.Loader(data, 1000, outputs=OUTPUTS, framework="torch") as loader:
        pairs = (batch.to(where).tuple("image", "label") for batch in loader)
        return sum(int((net(x).argmax(1) == y).sum()) for x, y in pairs) / len(data)


def train(
    data: leat.Dataset,
    test: leat.Dataset,
    size: int,
    epochs: int,
    seed: int,
    control: leat.NormTest | None,
    width: int = 64,
    device: str = "cpu",
) -> dict[str, Any]:
    """AdaGrad; the batch size of each step, and of each epoch the ids, and the accuracy at its end."""
    torch.manual_seed(seed)
    net = network(width).to(device)
    optimiser = torch.optim.Adagrad(net.parameters(), lr=0.02)
    sizes, ids, curve = list[int](), list[list[int]](), list[tuple[int, float]]()
    with leat.Loader(data, size, shuffle=True, seed=seed, outputs=OUTPUTS, framework="torch") as loader:
        for _ in range(epochs):
            ids.append([])
            for batch in loader:
                for parameter in net.parameters():
                    parameter.grad = torch.zeros_like(parameter)
                for found, rows in gradients(net, batch.to(device), PARTS if control and control.due else 1):
                    for parameter, gradient in zip(net.parameters(), found):
                        assert parameter.grad is not None
                        parameter.grad += gradient * (rows / batch.size)
                    if control is not None:
                        control.observe(found, rows)
                optimiser.step()
                sizes.append(batch.size)
                ids[-1] += batch.ids.tolist()
                if control is not None:
                    control.step(loader)
            curve.append((len(sizes), accuracy(net, test)))
    return {"sizes": sizes, "ids": ids, "curve": curve}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--short", action="store_true", help="some seconds: fewer digits, one seed")
    arguments.add_argument("--large", action="store_true", help="for a card: a wide net, more digits")
    arguments.add_argument("--device", default="cpu", help="of the net, such as cuda")
    arguments.add_argument("--out", type=Path, default=Path("recipes-out"), help="a folder for the plot")
    given = arguments.parse_args()
    if given.device != "cpu" and not torch.cuda.is_available():
        arguments.error(f"--device {given.device}: PyTorch sees no card here")
    torch.set_num_threads(1)
    n, epochs, seeds, target, width, times = SIZES["large" if given.large else "short" if given.short else "whole"]
    from matplotlib.figure import Figure

    (data, test), axis = digits(n), Figure(figsize=(6, 4), layout="constrained").subplots()
    print(f"{'method':20}{'accuracy':>9}{'spread':>8}{'updates':>9}{f'to {target}':>8}{'batches':>14}", end="")
    print("  each row once an epoch")
    for name, (size, eta) in METHODS.items():
        controls = [leat.NormTest(eta, LARGE * times, every=EVERY) if eta else None for _ in range(seeds)]
        runs = [
            train(data, test, size * times, epochs, seed, control, width, given.device)
            for seed, control in enumerate(controls)
        ]
        found = [run["curve"][-1][1] for run in runs]
        reached = [next((n for n, right in run["curve"] if right >= target), None) for run in runs]
        first = "-" if None in reached else round(float(np.mean(reached)))  # by the ends of epochs
        once = all(sorted(ids) == data.ids.tolist() for run in runs for ids in run["ids"])
        updates = round(np.mean([len(run["sizes"]) for run in runs]))
        sizes = f"{runs[0]['sizes'][0]} to {max(runs[0]['sizes'])}"
        print(f"{name:20}{np.mean(found):9.4f}{np.ptp(found):8.4f}{updates:9}{first:>8}{sizes:>14}", end="")
        print(f"  {'yes' if once else 'NO'}", flush=True)
        axis.plot(np.cumsum(runs[0]["sizes"]) / n, runs[0]["sizes"], label=f"{name}: {updates} updates")
    axis.set(xlabel="epoch", ylabel="rows of a batch", yscale="log")
    axis.legend()
    given.out.mkdir(parents=True, exist_ok=True)
    axis.figure.savefig(given.out / "adadagrad.png", dpi=100)


if __name__ == "__main__":
    main()
