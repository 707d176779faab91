"""Concurrent adversarial learning (Liu et al., arXiv 2106.00221), small: large batches with adversarial copies.

    python recipes/conadv.py [--short | --large] [--device cuda] [--out DIR]

Adversarial copies make up for what augmentation no longer does at large batches, but cost a second pass that the update
waits for. ConAdv makes those of the *next* batch meanwhile, by the weights of before the update: one step stale. A step
trains on (clean, augmented, adversarial), with a normalisation of its own for the last third.

    views       clean and augmented images of a sample in one row
    look-ahead  loader.peek() is the batch that comes next
    write-back  a thread leaves the copies in a store, by sample id; the step takes those of its batch's ids

On a card the thread has a stream of its own. Data: mnist-idx of the folder LEAT_DATA names, else drawn, as for --large,
which is for a card. Needs matplotlib.
"""

import argparse
import copy
import os
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import leat

EPS = 0.1  # of pixels in 0 to 1: the largest change of an adversarial copy
# digits, rows of a batch, epochs, those to test with, times as many channels, noise of drawn digits
SIZES = {"short": (1200, 250, 6, 200, 1, 0), "whole": (8000, 2000, 20, 2000, 1, 0)}
SIZES["large"] = (26000, 4000, 20, 2000, 8, 120)
SCALE, COPY = leat.ops.ToDtype("float32"), leat.field("float32", (1, 28, 28))


def digits(n: int, noise: float = 0) -> leat.Dataset:
    given, random = Path(os.environ.get("LEAT_DATA", "/nowhere")) / "mnist-idx", np.random.default_rng(0)
    if given.is_dir() and n <= 10000:
        files = {k: given / f"t10k-{k}s-idx{d}-ubyte.gz" for k, d in (("image", 3), ("label", 1))}
        image, label = leat.Loader(leat.open(files)[:n], n, framework="numpy").batch_at(0, 0).tuple("image", "label")
    else:
        label, by, shape = random.integers(0, 10, n), random.integers(-3, 4, (n, 2)), random.random((10, 5, 5)) > 0.6
        shape = np.pad(np.kron(200 * shape, np.ones((4, 4))), ((0, 0), (4, 4), (4, 4)))
        image = np.stack([np.roll(shape[c], s, (0, 1)) for c, s in zip(label, by)])
        image = (image + random.normal(0, noise, image.shape)).clip(0, 255) if noise else image
    form = {"image": leat.field("uint8", (28, 28, 1), layout="HWC")}
    return leat.from_arrays(form, image=image.reshape(n, 28, 28).astype(np.uint8), label=label.astype(np.int64))


class SplitNorm(nn.Module):
    """Batch normalisation, with statistics and weights of their own for the rows from `rows` on; None: for no row."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.main, self.other, self.rows = nn.BatchNorm2d(channels), nn.BatchNorm2d(channels), None

    def forward(self, x: Tensor) -> Tensor:
        parts = zip((self.main, self.other), x.tensor_split([len(x) if self.rows is None else self.rows]))
        return torch.cat([norm(part) for norm, part in parts if len(part)])


def network(wider: int = 1) -> nn.Sequential:
    channels = pairwise((1, 8 * wider, 16 * wider))
    convs = [(nn.Conv2d(a, b, 5, 2, 2), SplitNorm(b), nn.ReLU()) for a, b in channels]
    return nn.Sequential(*convs[0], *convs[1], nn.Flatten(), nn.Linear(784 * wider, 10))


def answers(net: nn.Sequential, x: Tensor, rows: int | None = None, train: bool = False) -> Tensor:
    for part in net.train(train):
        if isinstance(part, SplitNorm):
            part.rows = rows
    return net(x)


def attack(net: nn.Sequential, x: Tensor, y: Tensor, rows: int | None, eps: float = EPS, steps: int = 1) -> Tensor:
    """Copies of x, at most eps away, that raise the loss: one step along the sign of its gradient, or several."""
    found = x
    for _ in range(steps):
        found = found.detach().requires_grad_()
        (g,) = torch.autograd.grad(cross_entropy(answers(net, found, rows), y), found)
        found = (found + min(1, 2.5 / steps) * eps * g.sign()).clamp(x - eps, x + eps).clamp(0, 1)
    return found.detach()


class Copies:  # adversarial ones by id, which a thread makes by the weights that it is given
    def __init__(self, store: leat.Store, net: nn.Sequential) -> None:
        self.store, self.weights, self.thread = store, copy.deepcopy(net), ThreadPoolExecutor(1)
        self.stream = torch.cuda.Stream() if next(net.parameters()).is_cuda else None

    def begin(self, batch: leat.Batch, net: nn.Sequential) -> None:
        self.weights.load_state_dict(net.state_dict())
        if self.stream:
            self.stream.wait_stream(torch.cuda.current_stream())
        self.done = self.thread.submit(self.make, batch)

    def make(self, batch: leat.Batch) -> None:
        with torch.cuda.stream(self.stream):  # None: as it is
            self.store[batch.ids] = attack(self.weights, batch["clean"], batch["label"], 0)
            self.store.flush()

    def of(self, batch: leat.Batch) -> Tensor:
        self.done.result()
        return self.store[batch.ids].to(batch.ids.device)


def train(
    how: str, data: leat.Dataset, batch_size: int, epochs: int, store: leat.Store, wider: int = 1, device: str = "cpu"
) -> nn.Sequential:
    """`how`: "plain" has no copies, "ConAdv" those of the weights of a step ago, "sequential" those of its own."""
    torch.manual_seed(0)
    net = network(wider).to(device)
    optimizer, copies = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9), Copies(store, net)
    chains = {"clean": [SCALE], "moved": [leat.ops.RandomCrop(28, 2), SCALE]}
    outputs = {name: leat.Out("image", ops) for name, ops in chains.items()} | {"label": leat.Out("label", [])}
    loader = leat.Loader(data, batch_size, True, outputs=outputs, drop_last=True, framework="torch")
    for _ in range(epochs):
        for batch in (batch.to(device) for batch in loader):
            x = [batch["clean"], batch["moved"]]
            if how == "sequential" or how == "ConAdv" and batch.step == 0:
                copies.begin(batch, net)
            if how != "plain":
                x.append(copies.of(batch))
            if how == "ConAdv" and (ahead := loader.peek()) is not None:
                copies.begin(ahead.to(device), net)
            answer = answers(net, torch.cat(x), 2 * batch.size, train=True)
            cross_entropy(answer, batch["label"].repeat(len(x))).backward()
            optimizer.step()
            optimizer.zero_grad()
    return net


def compared(sizes: tuple[int, ...], spans: list[float], device: str) -> Iterator[tuple[str, list[float], float]]:
    """By method, the shares of answers that are right under attacks of these spans, and the seconds of training."""
    n, batch_size, epochs, n_test, wider, noise = sizes
    data = digits(n, noise)
    last = leat.Loader(data[n - n_test :], n_test, framework="torch").batch_at(0, 0).to(device)
    x, y = last["image"].reshape(-1, 1, 28, 28) / 255, last["label"]
    for how in ("plain", "ConAdv", "sequential"):
        began, folder = time.monotonic(), tempfile.TemporaryDirectory()
        with folder, leat.Store(Path(folder.name) / "copies", {"copy": COPY}) as store:
            net = train(how, data[: n - n_test], batch_size, epochs, store, wider, device)
            next(net.parameters()).sum().item()  # a card has done it all by then
        spent = time.monotonic() - began
        found = [(answers(net, attack(net, x, y, None, e, 10)).argmax(1) == y).float().mean().item() for e in spans]
        yield how, found, spent


def main() -> None:
    arguments = argparse.ArgumentParser(description="Trains on adversarial copies that are one step stale.")
    arguments.add_argument("--short", action="store_true", help="some seconds: fewer digits")
    arguments.add_argument("--large", action="store_true", help="for a card: wide nets, more digits")
    arguments.add_argument("--device", default="cpu", help="of the nets, such as cuda")
    arguments.add_argument("--out", type=Path, default=Path("recipes-out"), help="a folder for the plot")
    given = arguments.parse_args()
    if given.device != "cpu" and not torch.cuda.is_available():
        arguments.error(f"--device {given.device}: PyTorch sees no card here")
    torch.set_num_threads(1)  # the second core is for the copies
    sizes = SIZES["large" if given.large else "short" if given.short else "whole"]
    from matplotlib.figure import Figure

    axis, spans = Figure(layout="constrained").subplots(), [0, 0.05, EPS, 0.15]
    print(f"{'training':12} {'clean':>6} {'robust':>7} {'seconds':>8}")
    for how, shares, spent in compared(sizes, spans, given.device):
        print(f"{how:12} {shares[0]:6.3f} {shares[2]:7.3f} {spent:8.1f}")
        axis.plot(spans, shares, "o-", label=how)
    axis.set(xlabel="largest change of a pixel", ylabel="right under attack", title=f"batches of {sizes[1]}")
    given.out.mkdir(parents=True, exist_ok=True)
    axis.legend().figure.savefig(given.out / "conadv.png", dpi=100)


if __name__ == "__main__":
    main()
