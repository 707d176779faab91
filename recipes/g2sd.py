"""Generic-to-specific distillation of masked autoencoders (Huang et al., arXiv 2302.14771), small.

    python recipes/g2sd.py [--short | --large] [--device cuda] [--out DIR]

A masked autoencoder sees 12 of 49 patches of a digit. The student learns in two stages from a larger one:

    generic   its states behind the decoder become the teacher's, for seen and unseen patches (smooth L1)
    specific  its answers become those of the teacher, which was fine-tuned on the few digits that have labels

Both draw the patches from the keys of the rows, so they see the same. What the teacher makes of a sample under a key
lies in a store by (id, key), as float16. Every VARIANTS epochs the keys repeat, and with them order and augmentations:
from then on the states are read, and the teacher does not run. Data: mnist-idx of the folder LEAT_DATA names, or drawn.
The nets of --large are for a card.
"""

import argparse
import copy
import os
import tempfile
from collections.abc import Iterable, Iterator
from itertools import count, islice
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, interpolate, kl_div, pixel_unshuffle, smooth_l1_loss

import leat

SEEN, VARIANTS, TEACHER, STUDENT = 12, 2, 32, 6  # patches; epochs with keys of their own; channels
# digits, those with labels, epochs, steps of fine-tuning, times as many channels; noise of drawn digits; seeds
SIZES = {"short": (800, 100, 4, 200, 1, 0, 1), "whole": (3000, 200, 8, 700, 1, 0, 3)}
SIZES["large"] = (9000, 200, 12, 500, 8, 150, 3)


def digits(n: int, noise: float = 0) -> leat.Dataset:
    given, random = Path(os.environ.get("LEAT_DATA", "/nowhere")) / "mnist-idx", np.random.default_rng(0)
    if given.is_dir():
        files = {k: given / f"t10k-{k}s-idx{d}-ubyte.gz" for k, d in (("image", 3), ("label", 1))}
        image, label = leat.Loader(leat.open(files)[:n], n, framework="numpy").batch_at(0, 0).tuple("image", "label")
    else:
        label, by, shape = random.integers(0, 10, n), random.integers(-3, 4, (n, 2)), random.random((10, 5, 5)) > 0.6
        shape = np.pad(np.kron(200 * shape, np.ones((4, 4))), ((0, 0), (4, 4), (4, 4)))
        image = np.stack([np.roll(shape[c], s, (0, 1)) for c, s in zip(label, by)])
        image = (image + random.normal(0, noise, image.shape)).clip(0, 255) if noise else image
    form = {"image": leat.field("uint8", (28, 28, 1), layout="HWC")}
    return leat.from_arrays(form, image=image.reshape(n, 28, 28).astype(np.uint8), label=label.astype(np.int64))


def loader(data: leat.Dataset, batch_size: int = 100, train: bool = True) -> leat.Loader:
    chain = [leat.ops.RandomCrop(28, 2)] * train + [leat.ops.Normalize((0.13,), (0.31,))]
    return leat.Loader(data, batch_size, train, outputs={"image": chain, "label": []}, framework="torch")


def seen(batch: leat.Batch) -> Tensor:  # [n, 1, 7, 7]: 1 where a patch is seen
    chosen = leat.rng(batch.row_keys).permutation(49)[:, :SEEN]
    return torch.zeros(batch.size, 49, device=chosen.device).scatter(1, chosen, 1.0).reshape(-1, 1, 7, 7)


def moved(batches: Iterable[leat.Batch], net: nn.Module) -> Iterator[leat.Batch]:
    return (batch.to(next(net.parameters()).device) for batch in batches)


class Autoencoder(nn.Module):
    def __init__(self, width: int, teacher: int = TEACHER) -> None:
        super().__init__()
        first, second = nn.Conv2d(1, width // 2, 5, 2, 2), nn.Conv2d(width // 2, width, 5, 2, 2)
        self.encoder = nn.Sequential(first, nn.GELU(), second, nn.GELU())
        self.decoder = nn.Sequential(nn.Conv2d(width, width, 3, 1, 1), nn.GELU())
        self.pixels, self.bridge = nn.Conv2d(width, 16, 1), nn.Conv2d(width, teacher, 1)
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(49 * width, 10))

    def states(self, batch: leat.Batch) -> Tensor:  # [n, width, 7, 7]: one for each patch
        return self.decoder(self.encoder(batch["image"] * interpolate(seen(batch), scale_factor=4)))

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.encoder(images))


class Cached:  # states of a teacher, which runs where the store has none
    def __init__(self, teacher: Autoencoder, store: leat.Store) -> None:
        self.teacher, self.store, self.made, self.read = teacher, store, 0, 0

    def __call__(self, batch: leat.Batch) -> Tensor:
        if batch.step == 0:
            self.store.flush()  # a barrier: what was written in the last epoch is there
        states, present = self.store.gather((batch.ids, batch.row_keys))
        if not present.all():
            states = self.teacher.states(batch).detach().half()
            self.store[batch.ids, batch.row_keys] = states
        self.made, self.read = self.made + int((~present).sum()), self.read + int(present.sum())
        return states.to(batch.ids.device).float()


def pretrain(net: Autoencoder, data: leat.Dataset, epochs: int, teacher: Cached | None = None) -> Autoencoder:
    optimizer, stream = torch.optim.AdamW(net.parameters(), 2e-3), loader(data)
    for epoch in range(epochs):
        stream.set_epoch(epoch % VARIANTS)
        for batch in moved(stream, net):
            made, aim = (net.bridge, teacher(batch)) if teacher else (net.pixels, pixel_unshuffle(batch["image"], 4))
            smooth_l1_loss(made(net.states(batch)), aim, beta=2.0).backward()
            optimizer.step()
            optimizer.zero_grad()
    return net


def finetune(net: Autoencoder, data: leat.Dataset, labels: int, steps: int, teacher: nn.Module | None) -> Autoencoder:
    """On the first samples, which have labels; with a teacher on its answers for all samples, too."""
    net, stream = copy.deepcopy(net), loader(data if teacher else data[:labels])
    optimizer = torch.optim.AdamW(net.parameters(), 1e-3)
    for batch in islice((batch for _ in count() for batch in moved(stream, net)), steps):
        answer, label = net(batch["image"]), torch.where(batch.ids < labels, batch["label"], -1)
        loss = cross_entropy(answer, label, ignore_index=-1, reduction="sum") / batch.size
        if teacher:
            aim = teacher(batch["image"]).detach().softmax(1)
            loss = loss + kl_div(answer.log_softmax(1), aim, reduction="batchmean")
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return net


def compare(data: leat.Dataset, sizes: list[int], seed: int, device: str) -> Iterator[tuple[str, float, Cached]]:
    """The share of a student's answers that are right, one way of teaching it after the other."""
    torch.manual_seed(seed)
    n, labels, epochs, steps, times = sizes
    fresh, fresh_teacher = (Autoencoder(times * c, times * TEACHER).to(device) for c in (STUDENT, TEACHER))
    train, last = data[:n], loader(data[n:], len(data) - n, False).batch_at(0, 0)
    teacher, alone = (pretrain(net, train, epochs) for net in (fresh_teacher, copy.deepcopy(fresh)))
    form, folder = {"states": leat.field("float16", (times * TEACHER, 7, 7))}, tempfile.TemporaryDirectory()
    with folder, leat.Store(Path(folder.name) / "states", form, key=("id", "key")) as store:
        student = pretrain(copy.deepcopy(fresh), train, epochs, cached := Cached(teacher, store))
    tuned = finetune(teacher, train, labels, steps, None)
    ways = {"labels": (fresh, None), "masked, labels": (alone, None), "generic, labels": (student, None)}
    ways |= {"specific": (fresh, tuned), "generic, specific": (student, tuned), "(the teacher)": (teacher, None)}
    for name, (net, by) in ways.items():
        (batch,), taught = moved([last], net), finetune(net, train, labels, steps, by)
        yield name, (taught(batch["image"]).argmax(1) == batch["label"]).float().mean().item(), cached


def main() -> None:
    arguments = argparse.ArgumentParser(description="Distils a masked autoencoder in two stages.")
    arguments.add_argument("--short", action="store_true", help="some seconds: fewer digits")
    arguments.add_argument("--large", action="store_true", help="for a card: wide nets, more digits")
    arguments.add_argument("--device", default="cpu", help="of the nets, such as cuda")
    arguments.add_argument("--out", type=Path, default=Path("recipes-out"), help="a folder for the plot")
    given = arguments.parse_args()
    if given.device != "cpu" and not torch.cuda.is_available():
        arguments.error(f"--device {given.device}: PyTorch sees no card here")
    torch.set_num_threads(1)
    *sizes, noise, seeds = SIZES["large" if given.large else "short" if given.short else "whole"]
    from matplotlib.figure import Figure

    data, axis = digits(sizes[0] + 1000, noise), Figure(layout="constrained").subplots(subplot_kw={"xlabel": "right"})
    runs = [list(compare(data, sizes, seed, given.device)) for seed in range(seeds)]
    print(f"{'student':20} {'right':>6}   least to most of {seeds} seeds, {sizes[1]} of {sizes[0]} digits have labels")
    for name, *shares in ((each[0][0], *(right for _, right, _ in each)) for each in zip(*runs)):
        print(f"{name:20} {np.mean(shares):6.3f}   {min(shares):.3f} to {max(shares):.3f}")
        axis.plot(shares, [name] * seeds, "o")
    (*_, cached) = runs[0][0]
    print(f"states of the teacher: {cached.made} made, {cached.read} read from the store")
    given.out.mkdir(parents=True, exist_ok=True)
    axis.figure.savefig(given.out / "g2sd.png", dpi=100)


if __name__ == "__main__":
    main()
