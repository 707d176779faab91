"""What a refit of leat.ADO costs, and how near its slopes are to those of a slow reference in SciPy.

    python bench/ado.py [FOLDER]     (or LEAT_DATA: the folder that holds text/mixture)

Real loss curves: a small model of bytes trains on all domains of FOLDER's text/mixture/*.jsonl (`text`, with
`meta.domain`), and the loss of each domain is measured in each step. Without a folder the curves are power laws with
noise. The reference is the published fit, by SciPy's L-BFGS-B from several starts, on the same smoothed points. Times
are CPU times of one thread.
"""

from __future__ import annotations

import glob
import json
import os
import platform
import statistics
import sys
import time
from collections import defaultdict

import numpy as np
import scipy
from scipy import optimize

from leat import _leat
from leat.mixtures.curve import Curve

BOUNDS = (1e-3, 0.8, 6.5, -30.0)
STEPS, ROWS = 3000, 64  # of the training: 64 bytes of each domain in a step


def trained(folder: str) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Loss curves of a model that predicts a byte from the six before it."""
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(1)
    texts: dict[str, list[bytes]] = defaultdict(list)
    for name in sorted(glob.glob(os.path.join(folder, "text", "mixture", "*.jsonl"))):
        with open(name, encoding="utf-8") as file:
            for line in file:
                record = json.loads(line)
                texts[record["meta"]["domain"]].append(record["text"].encode())
    data = {name: torch.frombuffer(bytearray(b"\n".join(parts)), dtype=torch.uint8) for name, parts in texts.items()}
    model = torch.nn.Sequential(
        torch.nn.Embedding(256, 24), torch.nn.Flatten(), torch.nn.Linear(144, 192), torch.nn.GELU(),
        torch.nn.Linear(192, 256),
    )  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    losses = np.empty((STEPS, len(data)))
    for step in range(STEPS):
        parts = []
        for text in data.values():
            at = torch.randint(0, len(text) - 7, (ROWS,))
            parts.append(text[at[:, None] + torch.arange(7)])
        rows = torch.cat(parts).long()
        found = torch.nn.functional.cross_entropy(model(rows[:, :6]), rows[:, 6], reduction="none")
        optimizer.zero_grad()
        found.mean().backward()
        optimizer.step()
        losses[step] = found.detach().view(len(data), ROWS).mean(1).numpy()
    n = ROWS * np.arange(1, STEPS + 1)
    return {name: (n, losses[:, k]) for k, name in enumerate(data)}


def made() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    rng, n = np.random.default_rng(0), ROWS * np.arange(1, STEPS + 1)
    return {
        f"law {k}": (n, (eps + beta * n**-alpha) * (1 + 0.03 * rng.standard_normal(STEPS)))
        for k, (eps, beta, alpha) in enumerate([(1, 40, 0.6), (2.6, 12, 0.35), (3, 5, 0.2), (0.8, 20, 0.45)])
    }


def slow_fit(n: np.ndarray, loss: np.ndarray) -> tuple[float, ...]:
    x, y, delta = np.log(n), np.log(loss), 1e-3

    def objective(p: np.ndarray) -> tuple[float, np.ndarray]:
        u = p[1] - p[0] * x
        found = np.logaddexp(u, p[2])
        r, share = found - y, np.exp(u - found)
        psi = np.clip(r, -delta, delta)
        gradient = np.array([np.sum(-psi * share * x), np.sum(psi * share), np.sum(psi * (1 - share))])
        return 1e3 * float(np.sum(psi * (r - psi / 2))), 1e3 * gradient

    best = None
    for alpha in (0.1, 0.3, 0.5, 0.7):
        for a in (0.0, 3.0):
            for e in (0.0,):
                found = optimize.minimize(
                    objective, [alpha, a, e], jac=True, method="L-BFGS-B", bounds=[(0, 0.8), (-30, 6.5), (-30, 30)],
                    options={"maxiter": 300, "ftol": 1e-12, "gtol": 1e-9},
                )  # fmt: skip
                best = found if best is None or found.fun < best.fun else best
    assert best is not None
    return (*best.x.tolist(), best.fun / 1e3)


def main() -> None:
    folder = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("LEAT_DATA")
    curves = trained(folder) if folder else made()
    print(f"{platform.processor() or platform.machine()}, SciPy {scipy.__version__}, {len(curves)} curves of {STEPS}")
    print(f"{'curve':24} {'slope':>11} {'SciPy':>11} {'ratio':>7} {'objective':>10}   (ours / SciPy)")
    worst = 0.0
    for name, (n, loss) in curves.items():
        curve = Curve(101, 3, 10, 10_000)
        for x, value in zip(n[STEPS // 6 :], loss[STEPS // 6 :]):
            curve.add(int(x), float(value))
        points = curve.points()
        law = _leat.power_law_fit(*points, BOUNDS, None)
        slow = slow_fit(*points)
        ours, theirs = (_leat.power_law_at(*fit[:3], float(n[-1]))[1] for fit in (law, slow))
        worst = max(worst, abs(ours / theirs - 1))
        print(f"{name:24} {ours:11.4g} {theirs:11.4g} {ours / theirs:7.3f} {law[3] / slow[3]:10.6f}", flush=True)
    print(f"slopes differ by {100 * worst:.2g}% at most")
    n = ROWS * 10.0 * np.arange(1, 2001)
    rng = np.random.default_rng(1)
    many = [(1 + k / 10 + (5 + k) * n ** -(0.2 + k / 50)) * (1 + 0.01 * rng.standard_normal(2000)) for k in range(20)]
    laws = [_leat.power_law_fit(n, loss, BOUNDS, None) for loss in many]
    later = [loss * (1 + 0.001 * rng.standard_normal(2000)) for loss in many]
    cold, warm = [], []
    for _ in range(7):
        begin = time.thread_time()
        for loss in later:
            _leat.power_law_fit(n, loss, BOUNDS, None)
        middle = time.thread_time()
        for loss, law in zip(later, laws):
            _leat.power_law_fit(n, loss, BOUNDS, law[:3])
        cold.append(middle - begin)
        warm.append(time.thread_time() - middle)
    print(f"20 domains x 2,000 points: {1e3 * statistics.median(warm):.1f} ms from the last fit, "
          f"{1e3 * statistics.median(cold):.1f} ms from the grid")  # fmt: skip


if __name__ == "__main__":
    main()
