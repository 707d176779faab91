"""The recipes whose paper claims more than two cores can show, as JSON lines: what each method reaches, at which price.

    python bench/recipes.py e2gc|adadagrad|g2sd|conadv [--device cpu|cuda] [--size tiny|short|whole|large] [--seconds S]

A line is printed as soon as it is known. No pair of epochs, and no seed but the first one, begins after S seconds.

    e2gc       energy for a thousand samples with both nets, in pairs of epochs A B B A; the first pair warms up
    adadagrad  accuracy, and updates until the one that is aimed at, of each method and seed
    g2sd       the share of right answers of each way of teaching a student
    conadv     the share of right answers, clean and under attack, and the seconds of each training
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any

import torch

import leat

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "recipes"))

TINY: dict[str, tuple[Any, ...]] = {  # in the place of SIZES of a recipe, to try this file
    "e2gc": (80, 3, 1, 32),
    "adadagrad": (500, 1, 1, 0.1, 16, 1),
    "g2sd": (200, 50, 2, 4, 1, 0, 1),
    "conadv": (200, 50, 1, 50, 1, 0),
}
Record = dict[str, Any]
Late = Callable[[], bool]


def e2gc(recipe: Any, sizes: tuple[Any, ...], given: argparse.Namespace, late: Late) -> Iterator[Record]:
    n, epochs, _, rows = sizes
    methods, wider = (recipe.LARGE, 8) if given.size == "large" else (recipe.METHODS, 1)
    data, test = recipe.pictures(n)
    torch.manual_seed(0)
    nets = {name: recipe.network(groups, wider).to(given.device) for name, groups in methods.items()}
    optimisers = {name: torch.optim.Adam(net.parameters(), lr=2e-3) for name, net in nets.items()}
    usual, constant = nets
    ratios = list[float]()
    for number in takewhile(lambda number: number < 2 or not late(), range(epochs)):
        used = {}
        for name in (constant, usual) if number % 2 else (usual, constant):
            _, used[name], unit = recipe.epoch(nets[name], optimisers[name], data, number, rows)
        ratios += [used[constant] / used[usual]] * (number > 0)
        yield {"pair": number, "per_thousand_samples": used, "unit": unit}
    for name, net in nets.items():
        yield {"net": name, "accuracy": recipe.accuracy(net, test), "macs": recipe.macs(net.cpu())[0]}
    ratio = [min(ratios), statistics.median(ratios), max(ratios)]
    yield {"energy of": constant, "to": usual, "ratio": ratio, "pairs": len(ratios), "unit": unit}


def adadagrad(recipe: Any, sizes: tuple[Any, ...], given: argparse.Namespace, late: Late) -> Iterator[Record]:
    n, epochs, seeds, target, width, times = sizes
    data, test = recipe.digits(n)
    for seed in takewhile(lambda seed: not (seed and late()), range(seeds)):
        for name, (rows, eta) in recipe.METHODS.items():
            control = leat.NormTest(eta, recipe.LARGE * times, every=recipe.EVERY) if eta else None
            began = time.monotonic()
            run = recipe.train(data, test, rows * times, epochs, seed, control, width, given.device)
            yield {
                "method": name,
                "seed": seed,
                "accuracy": run["curve"][-1][1],
                "updates": len(run["sizes"]),
                "target": target,
                "updates_to_target": next((n for n, right in run["curve"] if right >= target), None),
                "most_rows": max(run["sizes"]),
                "seconds": time.monotonic() - began,
            }


def g2sd(recipe: Any, sizes: tuple[Any, ...], given: argparse.Namespace, late: Late) -> Iterator[Record]:
    *of_run, noise, seeds = sizes
    data = recipe.digits(of_run[0] + 1000, noise)
    for seed in takewhile(lambda seed: not (seed and late()), range(seeds)):
        for name, right, cached in recipe.compare(data, of_run, seed, given.device):
            yield {"student": name, "seed": seed, "right": right, "made": cached.made, "read": cached.read}


def conadv(recipe: Any, sizes: tuple[Any, ...], given: argparse.Namespace, late: Late) -> Iterator[Record]:
    for how, (clean, robust), seconds in recipe.compared(sizes, [0, recipe.EPS], given.device):
        yield {"training": how, "clean": clean, "robust": robust, "within": recipe.EPS, "seconds": seconds}


RUNS = {"e2gc": e2gc, "adadagrad": adadagrad, "g2sd": g2sd, "conadv": conadv}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", choices=RUNS)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--size", default="whole", choices=("tiny", "short", "whole", "large"))
    parser.add_argument("--seconds", type=float, default=75)
    given = parser.parse_args()
    end = time.monotonic() + given.seconds
    if given.device != "cpu" and not torch.cuda.is_available():
        parser.error(f"--device {given.device}: PyTorch sees no card here")
    torch.set_num_threads(1)
    torch.backends.cudnn.benchmark = True
    recipe = importlib.import_module(given.recipe)
    sizes = TINY[given.recipe] if given.size == "tiny" else recipe.SIZES[given.size]
    for record in RUNS[given.recipe](recipe, sizes, given, lambda: time.monotonic() > end):
        print(json.dumps(record), flush=True)


if __name__ == "__main__":
    main()
