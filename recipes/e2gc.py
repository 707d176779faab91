"""E2GC: energy-efficient group convolution (Jha and others, arXiv 2006.15100).

    python recipes/e2gc.py [--short | --large] [--device cuda] [--out DIR]

A group convolution of C channels in g groups has C^2 k^2 / g multiply-accumulates (MACs) per place. Usually g is the
same in all layers, so groups grow with C. E2GC holds the size of a group, G = C / g, constant, so layers are balanced
between arithmetic and the movement of data. Both nets are ResNeXts with about the same MACs; what a thousand samples of
training take is what loader.stats() counts: joules, or CPU seconds where there is no counter. Rounds of the two take
turns. Clothes are Fashion-MNIST's, of the folder LEAT_DATA names, else drawn; --large, for a card, is of drawn ones.
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

import leat

WIDTHS = (32, 64, 128)  # channels of the group convolutions, at 28 x 28, 14 x 14 and 7 x 7; large: 8 times as many
Groups = Callable[[int], int]  # of so many channels
METHODS: dict[str, Groups] = {"g = 4 groups": lambda c: 4, "groups of G = 16": lambda c: c // 16}
LARGE: dict[str, Groups] = {"g = 32 groups": lambda c: 32, "groups of G = 16": lambda c: c // 16}
# images, epochs, seeds, rows of a batch
SIZES = {"short": (400, 2, 1, 64), "whole": (2800, 4, 2, 64), "large": (20480, 12, 1, 512)}
OUTPUTS = {"image": [leat.ops.ToDtype("float32", scale=True)], "label": [leat.ops.ToDtype("int64")]}


def drawn(n: int, seed: int = 1) -> leat.Dataset:
    """Ten kinds of blurred blots for those who have no clothes."""
    kinds = np.random.default_rng(0).integers(4, 24, (10, 3, 2))
    noise, y, x = np.random.default_rng(seed), *np.mgrid[:28, :28]
    label = noise.integers(0, 10, n)
    at = kinds[label] + noise.normal(0, 2.5, (n, 3, 2))
    far = (y - at[..., 0, None, None]) ** 2 + (x - at[..., 1, None, None]) ** 2
    images = 200 * np.exp(-far / 8).max(1) + noise.integers(0, 56, (n, 28, 28))
    return leat.from_arrays(image=images.astype(np.uint8), label=label.astype(np.uint8))


def pictures(n: int) -> tuple[leat.Dataset, leat.Dataset]:
    """To train with, and to test: every fifth."""
    folder = Path(os.environ.get("LEAT_DATA", "")) / "fashion-mnist"
    if "LEAT_DATA" in os.environ and folder.is_dir() and n <= 2800:
        names = {k: folder / f"first2800-train-{k}s-idx{d}-ubyte.gz" for k, d in (("image", 3), ("label", 1))}
        data = leat.open(names)[:n]
    else:
        data = drawn(n)
    return data.select(np.flatnonzero(np.arange(len(data)) % 5)), data[::5]


class Block(nn.Module):
    """1 x 1, 3 x 3 in groups, 1 x 1, around which the input goes."""

    def __init__(self, before: int, c: int, groups: int, stride: int) -> None:
        super().__init__()
        self.way = nn.Sequential(
            *(nn.Conv2d(before, c, 1, bias=False), nn.BatchNorm2d(c), nn.ReLU()),
            *(nn.Conv2d(c, c, 3, stride, 1, groups=groups, bias=False), nn.BatchNorm2d(c), nn.ReLU()),
            *(nn.Conv2d(c, c, 1, bias=False), nn.BatchNorm2d(c)),
        )
        self.around = nn.Conv2d(before, c, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.way(x) + self.around(x))


def network(groups: Groups, wider: int = 1) -> nn.Sequential:
    first = [nn.Conv2d(1, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    widths = [wider * c for c in WIDTHS]
    blocks = [Block(b, c, groups(c), 1 + (c > widths[0])) for b, c in zip((16, *widths), widths)]
    return nn.Sequential(*first, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(widths[-1], 10))


def macs(net: nn.Module) -> tuple[int, int]:
    """Of one image: in all convolutions, and in those with groups."""
    counts = [0, 0]

    def count(layer: nn.Conv2d, _: object, out: Tensor) -> None:
        for i in range(1 + (layer.groups > 1)):
            counts[i] += out[0].numel() * layer.weight[0].numel()

    for layer in net.modules():
        if isinstance(layer, nn.Conv2d):
            layer.register_forward_hook(count)  # type: ignore[arg-type]
    net.eval()(torch.zeros(1, 1, 28, 28))
    return counts[0], counts[1]


def answered(net: nn.Module, batch: leat.Batch) -> tuple[Tensor, Tensor]:
    x, y = batch.to(next(net.parameters()).device).tuple("image", "label")
    return net(x.view(-1, 1, 28, 28)), y


def epoch(
    net: nn.Module, optimiser: torch.optim.Optimizer, data: leat.Dataset, number: int, size: int = 64
) -> tuple[float, float, str]:
    """Trains for one; seconds, and what a thousand samples took, in which unit."""
    net.train()
    with leat.Loader(data, size, shuffle=True, seed=number, outputs=OUTPUTS, framework="torch") as loader:
        begun = time.perf_counter()
        for batch in loader:
            optimiser.zero_grad()
            nn.functional.cross_entropy(*answered(net, batch)).backward()
            optimiser.step()
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()
        energy = loader.stats()["energy"]
        return time.perf_counter() - begun, energy["per_thousand_samples"], f"{energy['unit']} ({energy['source']})"


def accuracy(net: nn.Module, data: leat.Dataset) -> float:
    net.eval()
    with torch.no_grad(), leat.Loader(data, 256, outputs=OUTPUTS, framework="torch") as loader:
        return sum(int((a.argmax(1) == y).sum()) for a, y in (answered(net, b) for b in loader)) / len(data)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--short", action="store_true", help="some seconds: fewer pictures, one seed")
    arguments.add_argument("--large", action="store_true", help="for a card: wide nets, more pictures")
    arguments.add_argument("--device", default="cpu", help="of the nets, such as cuda")
    arguments.add_argument("--out", type=Path, default=Path("recipes-out"), help="a folder for the plot")
    given = arguments.parse_args()
    if given.device != "cpu" and not torch.cuda.is_available():
        arguments.error(f"--device {given.device}: PyTorch sees no card here")
    torch.set_num_threads(1)
    n, epochs, seeds, size = SIZES["large" if given.large else "short" if given.short else "whole"]
    methods, wider = (LARGE, 8) if given.large else (METHODS, 1)
    data, test = pictures(n)
    seconds, used, right = ({name: list[float]() for name in methods} for _ in range(3))
    for seed in range(seeds):
        torch.manual_seed(seed)
        nets = {name: network(groups, wider).to(given.device) for name, groups in methods.items()}
        optimisers = {name: torch.optim.Adam(net.parameters(), lr=2e-3) for name, net in nets.items()}
        for number in range(epochs):
            for name, net in nets.items():
                took, energy, unit = epoch(net, optimisers[name], data, number, size)
                seconds[name].append(1000 * took / len(data))
                used[name].append(energy)
        for name, net in nets.items():
            right[name].append(accuracy(net, test))
    print(f"{'3 x 3':18}{'MACs':>12}{'in groups':>12}{'accuracy':>10}{'spread':>8}{'s/1000':>8}  per 1000 samples")
    for name, groups in methods.items():
        all_, grouped = macs(network(groups, wider))
        print(f"{name:18}{all_:12,}{grouped:12,}{np.mean(right[name]):10.4f}{np.ptp(right[name]):8.4f}", end="")
        print(f"{statistics.median(seconds[name]):8.2f}  {statistics.median(used[name]):.3f} {unit}")
    from matplotlib.figure import Figure

    axis = Figure(layout="constrained").subplots(subplot_kw={"ylabel": f"per 1000 samples: {unit}"})
    axis.boxplot(list(used.values()), tick_labels=list(used))
    given.out.mkdir(parents=True, exist_ok=True)
    axis.figure.savefig(given.out / "e2gc.png", dpi=100)


if __name__ == "__main__":
    main()
