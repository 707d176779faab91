"""Training on hard mini-batches (Sahayam et al., "Can we learn better with hard samples?", arXiv 2304.03486).

    python recipes/hard_samples.py [--short] [--out DIR]

The first pass trains all B mini-batches and records their losses. Each later pass

    sorts the mini-batches by their last loss, and
    trains the floor(delta B) of them that are highest, in the order of their numbers, which refreshes their losses

until as many mini-batches were trained as in `epochs` plain passes. What is not trained is not read. Mini-batches keep
their samples, so the digits lie in the file in a random order, and a mini-batch is one read.

Printed beside the plain training: steps, passes, bytes read, and accuracy over five seeds; also after as many passes.
Data: mnist-idx of the folder LEAT_DATA names, else digits that are drawn. Needs matplotlib.
"""

import argparse
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import leat

SIZE = 50  # of a mini-batch


def digits(n: int) -> tuple[np.ndarray, np.ndarray]:
    """n images of 28 x 28, uint8, and what they show, in a random order."""
    folder, random = Path(os.environ.get("LEAT_DATA", "/nowhere")) / "mnist-idx", np.random.default_rng(0)
    if folder.is_dir():
        files = {k: folder / f"t10k-{k}s-idx{d}-ubyte.gz" for k, d in (("image", 3), ("label", 1))}
        batch = leat.Loader(leat.open(files), 10000, framework="numpy").batch_at(0, 0)
        order = random.permutation(10000)[:n]
        return np.asarray(batch["image"])[order].reshape(-1, 28, 28), np.asarray(batch["label"])[order].astype(np.int64)
    label, shape = random.integers(0, 10, n), np.kron(random.random((10, 7, 7)) > 0.6, np.ones((4, 4)))
    image = np.stack([np.roll(shape[c], random.integers(-3, 4, 2), (0, 1)) for c in label])
    return (150 * image + random.integers(0, 106, (n, 28, 28))).astype(np.uint8), label


def write(path: Path, image: np.ndarray, label: np.ndarray) -> leat.Dataset:
    with leat.Writer(path, {"image": "bytes", "label": "int64"}) as writer:
        for one, shown in zip(image, label):
            writer.add(image=one.tobytes(), label=int(shown))
    return leat.open(path)


def network(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 10))


def pixels(batch: leat.Batch) -> Tensor:
    return batch["image"].values.reshape(batch.size, 784).float() / 255


class Run:
    """A training; delta None: the plain one. `chosen`: the numbers of the mini-batches of each pass."""

    def __init__(self, train: leat.Dataset, delta: float | None, seed: int, epochs: int | None = None) -> None:
        policy = None if delta is None else leat.TopBatches(delta)
        options = {"drop_last": True, "framework": "torch", "epochs": epochs}  # None: reads ahead into the next one
        self.loader = leat.Loader(train, SIZE, feedback=policy, **options)
        self.net = network(seed)
        self.optimizer = torch.optim.SGD(self.net.parameters(), 0.1, momentum=0.9)
        self.hard, self.steps, self.chosen = delta is not None, 0, list[list[int]]()
        self.losses: list[list[float]] = []

    def passes(self) -> Iterator[int]:
        """Trains one pass after another; the number of steps so far."""
        while True:
            self.chosen.append([])
            self.losses.append([])
            for batch in self.loader:
                loss = cross_entropy(self.net(pixels(batch)), batch["label"], reduction="none")
                self.optimizer.zero_grad()
                loss.mean().backward()
                self.optimizer.step()
                if self.hard:
                    self.loader.report(batch, loss=loss)
                self.chosen[-1].append(int(batch.ids[0]) // SIZE)
                self.losses[-1].append(loss.mean().item())
                self.steps += 1
            yield self.steps

    @property
    def bytes_read(self) -> int:
        return int(self.loader.stats()["fetch"]["bytes"])


@torch.no_grad()
def accuracy(net: nn.Module, image: np.ndarray, label: np.ndarray) -> float:
    answers = net(torch.from_numpy(image.reshape(-1, 784)).float() / 255).argmax(1)
    return float((answers.numpy() == label).mean())


def main() -> None:
    arguments = argparse.ArgumentParser(description="Trains on the mini-batches with the highest losses.")
    arguments.add_argument("--short", action="store_true", help="some seconds: fewer digits, two seeds")
    arguments.add_argument("--out", type=Path, default=Path("recipes-out"), help="a folder for the plot")
    given = arguments.parse_args()
    torch.set_num_threads(1)
    n, epochs, seeds = (1500, 3, 2) if given.short else (10000, 8, 5)
    image, label = digits(n)
    cut = n * 3 // 5 // SIZE * SIZE
    axis = Figure(figsize=(6, 3.6), layout="constrained").subplots()
    with tempfile.TemporaryDirectory() as folder:
        train = write(Path(folder) / "train.leat", image[:cut], label[:cut])
        print(f"{'training':26} {'steps':>6} {'passes':>7} {'MB read':>8} {'accuracy, %':>18}")
        for delta in (None, 0.5, 0.3, 0.1):
            same_steps, same_passes = [], []
            for seed in range(seeds):
                run, curve = Run(train, delta, seed, epochs), []
                for steps in run.passes():
                    right = 100 * accuracy(run.net, image[cut:], label[cut:])
                    row = (steps, len(run.chosen), run.bytes_read / 1e6, right)
                    curve.append(row)
                    if len(run.chosen) == epochs:
                        same_passes.append(row)
                    if steps >= epochs * cut // SIZE:
                        break
                same_steps.append(row)
            name = "plain" if delta is None else f"delta {delta}"
            for what, rows in (("", same_steps), (", as many passes", same_passes)):
                if what and delta is None:
                    continue
                steps, passes, mb, _ = np.mean(rows, 0)
                right = [row[3] for row in rows]
                shown = f"{name + what:26} {steps:6.0f} {passes:7.0f} {mb:8.2f}"
                print(f"{shown} {np.mean(right):10.2f} +- {np.std(right):.2f}")
            axis.plot(*np.array(curve)[:, [0, 3]].T, label=name)
    axis.set(xlabel="steps", ylabel="accuracy, %", ylim=(80 if not given.short else None, None))
    axis.legend()
    given.out.mkdir(parents=True, exist_ok=True)
    axis.figure.savefig(given.out / "hard_samples.png", dpi=100)


if __name__ == "__main__":
    main()
