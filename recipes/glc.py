"""Global and local clustering (Qu et al., "Upcycling Models under Domain and Category Shift", arXiv 2303.07110), small.

    python recipes/glc.py [--short] [--out DIR]

A net of digits 0 to 6 on black is adapted to digits on photos, without labels and without the data that it knows. There
6 is missing, and 7 to 9 are unknown. Each epoch has two passes over that one data set:

    scan     in order, clean: a bank of features and shares of the classes, by id
    barrier  the bank is whole: each class has the mean of its surest samples against k-means of all others
    stream   shuffled, augmented: trains with the labels of that, by id, and with the shares of neighbours in the bank
Data: mnist-idx and ants2bees of the folder LEAT_DATA names, else drawn. Needs matplotlib.
"""

import argparse
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize, one_hot

import leat

CLASSES, SHARED = 7, 6  # of the net; those of them that are on photos, too
CLEAN = [leat.ops.Normalize((0.13,), (0.31,))]
MOVED = [leat.ops.RandomCrop(28, padding=2), leat.ops.ColorJitter(0.2, 0.2), *CLEAN]


def domains(n: int) -> list[leat.Dataset]:
    """Digits of the first half as they are, and those of the second half on photos."""
    given, random = Path(os.environ.get("LEAT_DATA", "/nowhere")), np.random.default_rng(0)
    if (given / "mnist-idx").is_dir():
        files = {k: given / f"mnist-idx/t10k-{k}s-idx{d}-ubyte.gz" for k, d in (("image", 3), ("label", 1))}
        image, label = leat.Loader(leat.open(files)[:n], n, framework="numpy").batch_at(0, 0).tuple("image", "label")
        cut = {"image": [leat.ops.Decode("GRAY"), leat.ops.RandomResizedCrop(112)]}
        photos = leat.Loader(leat.open(given / "ants2bees/trainA"), 8, outputs=cut, framework="numpy")
        tiles = [b["image"].reshape(-1, 4, 28, 4, 28).swapaxes(2, 3) for _ in range(n // 300) for b in photos]
        behind = np.resize(random.permutation(np.concatenate(tiles).reshape(-1, 28, 28)), (n, 28, 28))
    else:
        label, by, shape = random.integers(0, 10, n), random.integers(-3, 4, (n, 2)), random.random((10, 5, 5)) > 0.6
        shape = np.pad(np.kron(200 * shape, np.ones((4, 4))), ((0, 0), (4, 4), (4, 4)))
        image = np.stack([np.roll(shape[c], s, (0, 1)) for c, s in zip(label, by)])
        behind = np.kron(random.integers(0, 256, (n, 7, 7)), np.ones((4, 4)))
    late, form = np.arange(n) >= n // 2, leat.field("uint8", (28, 28, 1), layout="HWC")
    image = abs(image.reshape(n, 28, 28) - 0.3 * behind * late[:, None, None]).astype(np.uint8)
    parts = [(image[k], label[k].astype(np.int64)) for k in (~late & (label < CLASSES), late & (label != SHARED))]
    return [leat.from_arrays({"image": form}, image=x, label=y) for x, y in parts]


def network() -> nn.Sequential:
    convs = [(nn.Conv2d(a, b, 5, 1, 2), nn.BatchNorm2d(b), nn.ReLU(), nn.MaxPool2d(2)) for a, b in ((1, 16), (16, 32))]
    body = nn.Sequential(*convs[0], *convs[1], nn.Flatten(), nn.Linear(1568, 64), nn.BatchNorm1d(64))
    return nn.Sequential(body, nn.Linear(64, CLASSES))


@torch.no_grad()
def look(net: nn.Sequential, images: Tensor) -> Tensor:
    """Rows of a bank, [n, 64 + CLASSES]: features of unit length, shares of the classes."""
    features = net.eval()[0](images)
    return torch.cat([normalize(features), net.train()[1](features).softmax(1)], 1)


def update(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()


def one_against_all(features: Tensor, shares: Tensor, n_classes: int = 9, others: int = 9) -> Tensor:
    """Labels [n, classes]: the class that a sample is nearer to than to the others, or equal shares: it is unknown."""
    near, n = torch.zeros_like(shares), len(shares) // n_classes
    for c in range(shares.shape[1]):
        order = shares[:, c].argsort(descending=True, stable=True)
        centre, rest = normalize(features[order[:n]].mean(0), dim=0), features[order[n:]]
        centres = rest[:: len(rest) // others][:others]
        for _ in range(10):  # k-means on the sphere
            centres = normalize(torch.zeros_like(centres).index_add_(0, (rest @ centres.T).argmax(1), rest))
        near[:, c] = torch.where(features @ centre > (features @ centres.T).amax(1), features @ centre + 1, 0.0)
    return torch.where(near.amax(1, keepdim=True) > 0, one_hot(near.argmax(1), shares.shape[1]), 1 / shares.shape[1])


class GLC:
    """The adaptation. The states of its parts, taken after any batch of either pass, resume it exactly."""

    def __init__(self, net: nn.Sequential, target: leat.Dataset) -> None:
        self.net, self.optimizer = net, torch.optim.SGD(net[0].parameters(), 1e-2, momentum=0.9)
        self.scan = leat.Loader(target, 256, outputs={"image": CLEAN}, framework="torch")
        self.stream = leat.Loader(target, 64, True, outputs={"image": MOVED}, drop_last=True, framework="torch")
        self.bank = nn.Embedding(len(target), 64 + CLASSES).requires_grad_(False)  # a row by id

    def batches(self, epochs: int) -> Iterator[leat.Batch]:
        while self.stream.epoch < epochs:
            if self.scan.epoch == self.stream.epoch:
                for batch in self.scan:
                    self.bank.weight[batch.ids] = look(self.net, batch["image"])
                    yield batch
            features, shares = self.bank.weight.split([64, CLASSES], 1)  # whole: the scan is an epoch ahead
            labels = one_against_all(features, shares)
            for batch in self.stream:
                own = self.net[0](batch["image"])
                near = (normalize(own.detach()) @ features.T).scatter(1, batch.ids[:, None], -2).topk(4).indices
                update(self.optimizer, cross_entropy(self.net[1](own), 0.3 * labels[batch.ids] + shares[near].mean(1)))
                yield batch

    def parts(self) -> dict[str, object]:
        return {k: getattr(self, k) for k in ("net", "optimizer", "scan", "stream", "bank")}


def score(net: nn.Sequential, target: leat.Dataset) -> tuple[list[float], list[np.ndarray]]:
    """Accuracy on known and unknown classes, its harmonic mean, AUROC; entropies of known and of unknown samples."""
    label, loader = target.column("label"), leat.Loader(target, 256, outputs={"image": CLEAN}, framework="torch")
    shares = torch.cat([look(net, batch["image"])[:, 64:] for batch in loader]).numpy()
    entropy, strange = -(shares * np.log(shares.clip(1e-30))).sum(1) / np.log(CLASSES), label >= CLASSES
    answer, old, new = np.where(entropy > 0.55, -1, shares.argmax(1)), entropy[~strange], entropy[strange]
    known, unknown = np.mean([(answer[label == c] == c).mean() for c in range(SHARED)]), (new > 0.55).mean()
    return [known, unknown, 2 * known * unknown / (known + unknown), (new[:, None] > old).mean()], [old, new]


def main() -> None:
    arguments = argparse.ArgumentParser(description="Adapts a net to another domain with other classes.")
    arguments.add_argument("--short", action="store_true", help="some seconds: fewer digits")
    arguments.add_argument("--out", type=Path, default=Path("recipes-out"), help="a folder for the plot")
    given = arguments.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    (source, target), net = domains(1500 if given.short else 10000), network()
    optimizer, outputs = torch.optim.Adam(net.parameters(), 2e-3), {"image": MOVED, "label": []}
    loader = leat.Loader(source, 64, True, outputs=outputs, drop_last=True, framework="torch")
    for batch in (batch for _ in range(3 if given.short else 5) for batch in loader):
        update(optimizer, cross_entropy(net(batch["image"]), batch["label"], label_smoothing=0.1))
    axes = Figure(figsize=(9, 3.4), layout="constrained").subplots(1, 2, sharex=True)
    print(f"{'net':12} {'known':>7} {'unknown':>8} {'H-score':>8} {'AUROC':>7}")
    for name, axis, epochs in zip(("source only", "GLC"), axes, (0, 3)):
        for _ in GLC(net, target).batches(epochs):
            pass
        row, entropies = score(net, target)
        print(f"{name:12} {row[0]:7.3f} {row[1]:8.3f} {row[2]:8.3f} {row[3]:7.3f}")
        axis.hist(entropies, 30, range=(0, 1), label=["known", "unknown"])
        axis.set(title=name, xlabel="normalised entropy", ylabel="samples")
    given.out.mkdir(parents=True, exist_ok=True)
    axis.legend().figure.savefig(given.out / "glc.png", dpi=100)


if __name__ == "__main__":
    main()
