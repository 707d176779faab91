"""Difficulty-aligned trajectory matching (Guo et al., arXiv 2310.05773), small: a data set distilled into 100 images.

    python recipes/datm.py [--short] [--out DIR]

Experts are trained on all digits, and a store keeps their weights after each epoch, by (expert, epoch). Then images and
soft labels are learned that lead a student along the way of the experts: it begins at the weights of one at epoch t and
takes steps on the images; the loss is its distance to the expert at t + M, as a part of the way in between,

    |theta_N - theta*_(t+M)|^2 / |theta*_t - theta*_(t+M)|^2,    t uniform in [T-, T_up), T_up growing from T to T+

so that easy patterns, which experts learn first, come first. The size of a step is learned, too.

Data: mnist-idx of the folder LEAT_DATA names, else drawn; 14 x 14 pixels. Needs matplotlib.
"""

import argparse
import os
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor
from torch.nn.functional import cross_entropy, one_hot, relu

import leat

SIZES = (196 * 32, 32, 32 * 10, 10)  # of a net's weights, which lie one after the other
STEPS, M, LOW = 20, 2, 0  # N of a student, M epochs of an expert, T-


def digits(n: int) -> leat.Dataset:
    given, random = Path(os.environ.get("LEAT_DATA", "/nowhere")) / "mnist-idx", np.random.default_rng(0)
    if given.is_dir():
        files = {k: given / f"t10k-{k}s-idx{d}-ubyte.gz" for k, d in (("image", 3), ("label", 1))}
        image, label = leat.Loader(leat.open(files)[:n], n, framework="numpy").batch_at(0, 0).tuple("image", "label")
    else:
        label, by, shape = random.integers(0, 10, n), random.integers(-3, 4, (n, 2)), random.random((10, 5, 5)) > 0.6
        shape = np.pad(np.kron(200 * shape, np.ones((4, 4))), ((0, 0), (4, 4), (4, 4)))
        image = np.stack([np.roll(shape[c], s, (0, 1)) for c, s in zip(label, by)])
    form = {"image": leat.field("uint8", (28, 28, 1), layout="HWC")}
    return leat.from_arrays(form, image=image.reshape(n, 28, 28).astype(np.uint8), label=label.astype(np.int64))


def loader(data: leat.Dataset, batch_size: int, shuffle: bool = False) -> leat.Loader:
    outputs = {"image": [leat.ops.Resize(14), leat.ops.Normalize((0.13,), (0.31,))], "label": []}
    return leat.Loader(data, batch_size, shuffle, outputs=outputs, framework="torch", yields="tuple", drop_last=shuffle)


def beginning(seed: int) -> Tensor:
    numbers = torch.randn(sum(SIZES), generator=torch.Generator().manual_seed(seed)).split(SIZES)
    return torch.cat([s * n for n, s in zip(numbers, (196**-0.5, 0, 32**-0.5, 0))])


def answers(weights: Tensor, x: Tensor) -> Tensor:
    a, b, c, d = weights.split(SIZES)
    return relu(x.flatten(1) @ a.reshape(196, 32) + b) @ c.reshape(32, 10) + d


def right(weights: Tensor, test: tuple[Tensor, Tensor]) -> float:
    return float((answers(weights, test[0]).argmax(1) == test[1]).float().mean())


def experts(data: leat.Dataset, number: int, epochs: int, store: leat.Store, seed: int) -> None:
    """Trains nets side by side, and stores the way of each: row (expert, epoch); epoch 0 is the beginning."""
    weights, stream = torch.stack([beginning(1000 * seed + i) for i in range(number)]), loader(data, 64, True)
    loss_of = torch.func.vmap(lambda w, x, y: cross_entropy(answers(w, x), y), (0, None, None))
    for epoch in range(epochs + 1):
        for x, y in stream if epoch else ():
            (g,) = torch.autograd.grad(loss_of(weights.requires_grad_(), x, y).sum(), weights)
            weights = (weights - 0.05 * g).detach()
        store[np.arange(number), np.full(number, epoch)] = weights
    store.flush()


def student(weights: Tensor, x: Tensor, soft: Tensor, rate: Tensor, steps: int, learn: bool = False) -> Tensor:
    """Weights after steps on all of x; `soft`: logits of its labels; `learn`: the way can be differentiated."""
    for _ in range(steps):
        weights = weights.requires_grad_() if learn else weights.detach().requires_grad_()
        (g,) = torch.autograd.grad(cross_entropy(answers(weights, x), soft.softmax(1)), weights, create_graph=learn)
        weights = weights - rate * g
    return weights


def highest(turn: int, turns: int, epochs: int) -> int:
    """T_up: from a quarter of the epochs to all but M, reached in the middle of the distillation."""
    return epochs // 4 + round((epochs - M + 1 - epochs // 4) * min(1, 2 * turn / turns))


def distil(x: Tensor, y: Tensor, store: leat.Store, number: int, epochs: int, turns: int, seed: int) -> list[Tensor]:
    """Images that begin as x, logits of their labels, and the size of a step."""
    random, made = np.random.default_rng(seed), [x.clone(), 6.0 * one_hot(y, 10), torch.tensor(0.1)]
    optimizer = torch.optim.Adam([{"params": [p.requires_grad_()], "lr": r} for p, r in zip(made, (0.03, 0.03, 0.003))])
    for turn in range(turns):
        expert, t = random.integers(number), random.integers(LOW, highest(turn, turns, epochs))
        (begin, end), _ = store.gather((np.full(2, expert), [t, t + M]))
        loss = (student(begin, *made, STEPS, True) - end).square().sum() / (begin - end).square().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return [p.detach() for p in made]


def speeds(store: leat.Store) -> list[float]:
    """GB/s of writing all trajectories, of gathering them in random order, and of NumPy's gather in memory."""
    where, values = store.ids, store.gather(store.ids)[0].numpy()
    order, found = np.random.default_rng(0).permutation(len(values)), list[float]()
    mixed = where[0][order], where[1][order]
    for job in (lambda: store.__setitem__(where, values), lambda: store.gather(mixed), lambda: values[order]):
        began = time.perf_counter()
        for _ in range(20):
            job()
        found.append(20 * values.nbytes / (time.perf_counter() - began) / 1e9)
    return found


def main() -> None:
    arguments = argparse.ArgumentParser(description="Distils a data set into ten images of each class.")
    arguments.add_argument("--short", action="store_true", help="some seconds: fewer digits, two images of each class")
    arguments.add_argument("--out", type=Path, default=Path("recipes-out"), help="a folder for the plot")
    given = arguments.parse_args()
    torch.set_num_threads(1)
    n, number, epochs, turns, seeds, each = (1500, 4, 8, 60, 2, 2) if given.short else (8000, 10, 20, 400, 3, 10)
    data, axes = digits(n), Figure(figsize=(3 * seeds, 4), layout="constrained").subplots(1, seeds)
    train, test = data[: n - n // 4], next(iter(loader(data[n - n // 4 :], n // 4)))
    print(f"{'seed':4} {'random':>7} {'distilled':>10} {'experts':>8}   {10 * each} images of {len(train)}")
    for seed, axis in enumerate(axes):
        form, folder = {"weights": leat.field("float32", (sum(SIZES),))}, tempfile.TemporaryDirectory()
        with folder, leat.Store(Path(folder.name) / "s", form, key=("id", "key"), queue_bytes=1) as store:
            experts(train, number, epochs, store, seed)
            label, order = train.column("label"), np.random.default_rng(seed).permutation(len(train))
            chosen = np.concatenate([order[label[order] == c][:each] for c in range(10)])
            x, y = next(iter(loader(train.select(chosen), len(chosen))))
            made = distil(x, y, store, number, epochs, turns, seed)
            plain, fresh = [x, 50.0 * one_hot(y, 10), torch.tensor(0.1)], beginning(10**6 + seed)
            whole = np.mean([right(w, test) for w in store.gather((np.arange(number), np.full(number, epochs)))[0]])
            best = max(right(student(fresh, *plain, steps), test) for steps in (50, 200, 800))
            print(f"{seed:4} {best:7.3f} {right(student(fresh, *made, 200), test):10.3f} {whole:8.3f}", flush=True)
            rates = speeds(store)
        axis.imshow(made[0].reshape(10, each, 14, 14).swapaxes(1, 2).reshape(140, 14 * each), cmap="gray")
        axis.set_axis_off()
    print("trajectories: {:.1f} GB/s written, {:.1f} gathered in random order; NumPy in memory {:.1f}".format(*rates))
    given.out.mkdir(parents=True, exist_ok=True)
    axes[0].figure.savefig(given.out / "datm.png", dpi=100)


if __name__ == "__main__":
    main()
