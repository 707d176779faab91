"""CycleGAN on two folders of photos that have no pairs: photos of one domain learn to look like the other's.

    python examples/cyclegan.py FOLDER [--steps 600] [--side 64] [--out build/cyclegan] [--resume]

FOLDER holds ``trainA`` and ``trainB``. Each domain has a loader of its own, and the training takes a batch of both in
each step: a domain whose photos are all used begins its next epoch, whatever the other one does. Discriminators are
shown pictures from a history of the last 50 (Shrivastava et al., 2017). A checkpoint has the states of networks,
optimizers, history and of both loaders: ``--resume`` goes on at the next batch. At the end a sheet shows photos of both
domains, what became of them, and what came back.

The networks are small and the side is 64, because the training here runs on a CPU; the recipe is that of Zhu et al.,
"Unpaired image-to-image translation using cycle-consistent adversarial networks", 2017.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# before torch: its threads sleep while they wait, and leave the cores to the loaders
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import torch
from PIL import Image
from progress import progress
from torch import Tensor, nn

import leat

CYCLE, IDENTITY = 10.0, 5.0  # weights of the losses beside the adversarial one
HISTORY = 50  # pictures
SAVE_EVERY = 100  # steps


def loader_of(folder: Path, side: int, seed: int) -> leat.Loader:
    """Photos of one domain, in an order of their own: float32 in [-1, 1], (1, 3, side, side)."""
    ops = leat.ops
    chain = [
        ops.Decode(),
        ops.Resize((side * 286 // 256, side * 286 // 256), interpolation="bicubic"),
        ops.RandomCrop(side),
        ops.RandomHorizontalFlip(),
        ops.Normalize((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
    ]
    return leat.Loader(leat.open(folder), 1, shuffle=True, seed=seed, outputs={"image": chain}, framework="torch")


def batches(loader: leat.Loader) -> Iterator[Tensor]:
    """Epoch after epoch. After `load_state_dict` the first one goes on where it was left."""
    for _ in itertools.count():
        for batch in loader:
            yield batch["image"]


class History:
    """The last pictures that a generator made. A discriminator is shown the new one, or, half of the time, one of
    these, which the new one replaces; so it does not forget what generators used to do."""

    def __init__(self, room: int, seed: int) -> None:
        self.room, self.pictures, self.draws = room, list[Tensor](), random.Random(seed)

    def exchange(self, picture: Tensor) -> Tensor:
        if len(self.pictures) < self.room:
            self.pictures.append(picture.detach())
            return picture
        if self.draws.random() < 0.5:
            return picture
        place = self.draws.randrange(self.room)
        old, self.pictures[place] = self.pictures[place], picture.detach()
        return old

    def state_dict(self) -> dict[str, Any]:
        return {"pictures": self.pictures, "draws": self.draws.getstate()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.pictures = list(state["pictures"])
        version, numbers, last = state["draws"]
        self.draws.setstate((version, tuple(numbers), last))


class Residual(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()

        def half() -> list[nn.Module]:
            return [nn.ReflectionPad2d(1), nn.Conv2d(channels, channels, 3), nn.InstanceNorm2d(channels)]

        self.body = nn.Sequential(*half(), nn.ReLU(), *half())

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x)


def generator(width: int = 24, blocks: int = 4) -> nn.Module:
    def step(into: int, out: int, conv: nn.Module) -> list[nn.Module]:
        return [conv, nn.InstanceNorm2d(out), nn.ReLU()]

    layers: list[nn.Module] = [nn.ReflectionPad2d(3), *step(3, width, nn.Conv2d(3, width, 7))]
    for c in (width, 2 * width):
        layers += step(c, 2 * c, nn.Conv2d(c, 2 * c, 3, 2, 1))
    layers += [Residual(4 * width) for _ in range(blocks)]
    for c in (4 * width, 2 * width):
        layers += step(c, c // 2, nn.ConvTranspose2d(c, c // 2, 3, 2, 1, 1))
    return nn.Sequential(*layers, nn.ReflectionPad2d(3), nn.Conv2d(width, 3, 7), nn.Tanh())


def discriminator(width: int = 32) -> nn.Module:
    """Says of each patch whether it is of a photo."""
    layers: list[nn.Module] = [nn.Conv2d(3, width, 4, 2, 1), nn.LeakyReLU(0.2)]
    for c in (width, 2 * width):
        layers += [nn.Conv2d(c, 2 * c, 4, 2, 1), nn.InstanceNorm2d(2 * c), nn.LeakyReLU(0.2)]
    return nn.Sequential(*layers, nn.Conv2d(4 * width, 1, 3, 1, 1))


class CycleGAN:
    """Two generators, two discriminators, and a step of training."""

    def __init__(self) -> None:
        self.nets = nn.ModuleDict(
            {"to_b": generator(), "to_a": generator(), "is_a": discriminator(), "is_b": discriminator()}
        )
        for p in self.nets.parameters():
            if p.ndim > 1:
                nn.init.normal_(p, 0, 0.02)
        makers = [*self.nets["to_a"].parameters(), *self.nets["to_b"].parameters()]
        critics = [*self.nets["is_a"].parameters(), *self.nets["is_b"].parameters()]
        self.make = torch.optim.Adam(makers, 2e-4, betas=(0.5, 0.999))
        self.judge = torch.optim.Adam(critics, 2e-4, betas=(0.5, 0.999))
        self.made = {"a": History(HISTORY, 1), "b": History(HISTORY, 2)}

    def step(self, a: Tensor, b: Tensor) -> dict[str, float]:
        to_a, to_b, is_a, is_b = (self.nets[n] for n in ("to_a", "to_b", "is_a", "is_b"))
        far = nn.functional.l1_loss
        for p in (*is_a.parameters(), *is_b.parameters()):
            p.requires_grad_(False)
        new_b, new_a = to_b(a), to_a(b)
        fooled = (is_b(new_b) - 1).square().mean() + (is_a(new_a) - 1).square().mean()
        cycle = far(to_a(new_b), a) + far(to_b(new_a), b)
        same = far(to_a(a), a) + far(to_b(b), b)
        self.make.zero_grad()
        (fooled + CYCLE * cycle + IDENTITY * same).backward()
        self.make.step()
        for p in (*is_a.parameters(), *is_b.parameters()):
            p.requires_grad_(True)
        judged = a.new_zeros(())
        for critic, real, new, history in ((is_a, a, new_a, self.made["a"]), (is_b, b, new_b, self.made["b"])):
            shown = history.exchange(new.detach())
            judged = judged + ((critic(real) - 1).square().mean() + critic(shown).square().mean()) / 2
        self.judge.zero_grad()
        judged.backward()
        self.judge.step()
        return {"cycle": cycle.item(), "fooled": fooled.item(), "judged": judged.item()}

    def parts(self) -> dict[str, Any]:
        return {"nets": self.nets, "make": self.make, "judge": self.judge, **self.made}


@torch.no_grad()
def sheet(gan: CycleGAN, pairs: list[tuple[Tensor, Tensor]], path: Path) -> None:
    """A row per pair: a photo, translated, and back; of the one domain at the left, of the other at the right."""
    rows = []
    for a, b in pairs:
        new_b, new_a = gan.nets["to_b"](a), gan.nets["to_a"](b)
        rows.append(torch.cat([a, new_b, gan.nets["to_a"](new_b), b, new_a, gan.nets["to_b"](new_a)], 3))
    pixels = ((torch.cat(rows, 2)[0] + 1) * 127.5).clamp(0, 255).byte().permute(1, 2, 0)
    Image.fromarray(pixels.numpy()).resize((pixels.shape[1] * 2, pixels.shape[0] * 2)).save(path)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("folder", type=Path, help="holds trainA and trainB")
    arguments.add_argument("--steps", type=int, default=600, help="pairs of photos to train on")
    arguments.add_argument("--side", type=int, default=64, help="pixels; a multiple of 4, at least 16")
    arguments.add_argument("--out", type=Path, default=Path("build/cyclegan"), help="a folder for checkpoint and sheet")
    arguments.add_argument("--resume", action="store_true", help="go on from the checkpoint in --out")
    given = arguments.parse_args()
    if given.side % 4 or given.side < 16:
        arguments.error(f"--side is a multiple of 4 and at least 16, not {given.side}")
    if given.resume and not (given.out / "checkpoint.pt").exists():
        arguments.error(f"--resume: there is no {given.out / 'checkpoint.pt'}")
    given.out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    gan, losses, done = CycleGAN(), list[dict[str, float]](), 0
    with loader_of(given.folder / "trainA", given.side, 1) as a, loader_of(given.folder / "trainB", given.side, 2) as b:
        parts = gan.parts() | {"loader_a": a, "loader_b": b}
        checkpoint = given.out / "checkpoint.pt"
        if given.resume:
            state = torch.load(checkpoint, weights_only=True)
            done, losses = state.pop("done"), state.pop("losses")
            for name, part in parts.items():
                part.load_state_dict(state[name])
        pairs = zip(batches(a), batches(b))  # by step; each domain has epochs of its own
        with progress(total=given.steps, initial=done, desc="training", unit=" steps") as bar:
            for x, y in itertools.islice(pairs, max(0, given.steps - done)):
                losses.append(gan.step(x, y))
                done += 1
                bar.update()
                bar.set_postfix(losses[-1] | {"epoch": f"{a.epoch}, {b.epoch}"}, refresh=False)
                if done % SAVE_EVERY == 0 or done == given.steps:
                    states = {name: part.state_dict() for name, part in parts.items()}
                    torch.save(states | {"done": done, "losses": losses}, checkpoint)
        print(f"epochs: {a.epoch + 1} of {len(a)} photos, {b.epoch + 1} of {len(b)}; {checkpoint}")
        sheet(gan, list(itertools.islice(pairs, 4)), given.out / "sheet.png")
    n = min(len(losses) // 2, 50)
    first, last = (sum(x["cycle"] for x in part) / max(n, 1) for part in (losses[:n], losses[-n:]))
    print(f"cycle loss: {first:.3f} in the first {n} steps, {last:.3f} in the last {n}; {given.out / 'sheet.png'}")


if __name__ == "__main__":
    try:
        main()
    except leat.Error as e:
        sys.exit(f"cyclegan: {e}")
