"""Trains a small language model on a mixture of domains: static, scheduled, or decided while it trains (ADO).

    python examples/train_lm.py texts/ --mixture scheduled --out run
    python examples/train_lm.py texts/ --mixture scheduled --out run --resume --ranks 4   # after it was interrupted

`texts/` holds .jsonl files with a text and a domain per line: {"text": "...", "meta": {"domain": "books"}}, or
{"text": "...", "domain": "books"}. Tokens are bytes. Documents are packed into rows per domain, and the domains are
mixed by tokens. The run prints shares and losses of each domain, draws them if matplotlib is there, and prints a hash
of all tokens in the order in which they came: wherever a run is interrupted, and on however many data-parallel ranks
and tensor-parallel peers it goes on, the hash at the end is the same. Some minutes on a processor with two cores.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import leat

EOS, VOCABULARY = 256, 257


def documents(source: Path, out: Path) -> leat.Dataset:
    """The texts of the .jsonl files as tokens, in a file of leat that is made once."""
    packed = out / "documents.leat"
    if not packed.exists():
        files = sorted(source.glob("*.jsonl")) if source.is_dir() else [source]
        if not files:
            raise SystemExit(f"{source} has no .jsonl files")
        with leat.Writer(packed, {"tokens": leat.field("uint16", (None,)), "domain": "str"}) as w:
            for file in files:
                for number, line in enumerate(file.read_text().splitlines(), 1):
                    record = json.loads(line)
                    domain = record.get("domain") or record.get("meta", {}).get("domain")
                    if not isinstance(record.get("text"), str) or not domain:
                        raise SystemExit(f"{file}, line {number}: needs a text and a domain")
                    w.add(tokens=np.frombuffer(record["text"].encode(), np.uint8).astype(np.uint16), domain=domain)
    return leat.open(packed)


def mixture(ds: leat.Dataset, kind: str, length: int, steps: int) -> leat.Mix | leat.Schedule:
    """Rows of `length` + 1 tokens, mixed by domain."""
    natural = leat.Mix.inferred(ds, "domain", unit="tokens", exhausted="repeat")
    rows = natural.map(lambda part: leat.pack_rows(part, length=length + 1, eos=EOS))
    flat = rows.with_weights({name: math.sqrt(w) for name, w in rows.weights.items()}, normalize=True)
    if kind == "scheduled":  # from the shares that there are to nearly equal ones
        return leat.Schedule([(0, rows), (steps * 3 // 4, flat)], interpolate="linear")
    return flat if kind == "static" else rows


class Model(nn.Module):
    """A transformer over bytes, of 140 thousand parameters."""

    def __init__(self, length: int, width: int = 64, layers: int = 2) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.places = nn.Parameter(torch.zeros(length, width))
        layer = nn.TransformerEncoderLayer(
            width, 4, 4 * width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.body = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, VOCABULARY)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(length), persistent=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.head(self.body(self.tokens(tokens) + self.places, self.mask, is_causal=True))
        return found


def row_losses(model: nn.Module, rows: torch.Tensor) -> torch.Tensor:
    """The mean loss of each row, in nats a token."""
    logits = model(rows[:, :-1])
    return nn.functional.cross_entropy(logits.transpose(1, 2), rows[:, 1:], reduction="none").mean(1)


def same_batch(peers: list[Any]) -> leat.Batch | None:
    """The next batch of tensor-parallel peers, which is the same on each."""
    first, *others = [next(peer, None) for peer in peers]
    for other in others:
        same = first is None or (torch.equal(first["tokens"], other["tokens"]) and torch.equal(first.ids, other.ids))
        assert same and (first is None) == (other is None), "tensor-parallel peers have different batches"
    return first


class Run:
    """One run: loaders of all ranks, the model, and what is written down of each step."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        ds = documents(options.source, options.out)
        self.mix = mixture(ds, options.mixture, options.length, options.steps)
        # One process has all ranks here, so that the example runs anywhere; with torchrun each would open its own.
        self.groups = [[self._open(rank, peer) for peer in range(options.tp)] for rank in range(options.ranks)]
        self.loaders = [loader for group in self.groups for loader in group]
        torch.manual_seed(options.seed)
        self.model = Model(options.length)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), options.rate)
        self.step, self.hash = 0, ""
        self.shares: list[list[float]] = []  # of each step, by domain
        self.losses: list[list[float]] = []

    def _open(self, rank: int, peer: int) -> leat.Loader:
        """The loader of one of the tensor-parallel peers that share the rows of a data-parallel rank."""
        options = self.options
        return leat.Loader(
            self.mix,
            global_batch_size=options.batch,
            shuffle=True,
            seed=options.seed,
            mesh={"dp": (rank, options.ranks), "tp": (peer, options.tp)},
            outputs={"tokens": [leat.ops.ToDtype("int64")]},
            framework="torch",
            **({"mixture": leat.ADO(refit_every=options.refit)} if options.mixture == "ado" else {}),
        )

    # ---- checkpoints -----------------------------------------------------------------------------------------------

    def save(self) -> None:
        partial = self.options.out / "checkpoint.partial"
        torch.save(
            {
                "model": self.model.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "loader": self.loaders[0].state_dict(),  # the same on every rank
                "step": self.step,
                "hash": self.hash,
                "shares": self.shares,
                "losses": self.losses,
            },
            partial,
        )
        partial.rename(self.options.out / "checkpoint.pt")

    def load(self) -> None:
        saved = torch.load(self.options.out / "checkpoint.pt", weights_only=True)
        self.model.load_state_dict(saved["model"])
        self.optimizer.load_state_dict(saved["optimizer"])
        for loader in self.loaders:
            loader.load_state_dict(saved["loader"])
        self.step, self.hash = saved["step"], saved["hash"]
        self.shares, self.losses = saved["shares"], saved["losses"]

    # ---- training --------------------------------------------------------------------------------------------------

    def train(self) -> None:
        names, until = self.mix.names, min(self.options.stop or self.options.steps, self.options.steps)
        began = time.monotonic()
        while self.step < until:
            groups = [[iter(loader) for loader in group] for group in self.groups]
            while self.step < until:
                batches = [batch for batch in map(same_batch, groups) if batch is not None]
                if not batches:
                    break  # the epoch ends on all ranks at the same step
                rows = torch.cat([batch["tokens"][batch.valid] for batch in batches])
                domains = torch.cat([batch.domains[batch.valid] for batch in batches])
                self._learn(rows, domains, names, (batches[0].epoch, batches[0].step))
                if self.step % self.options.every == 0 or self.step == until:
                    last = np.nanmean(np.array(self.losses[-self.options.every :]))
                    print(f"step {self.step}: loss {last:.3f}, {time.monotonic() - began:.0f} s", flush=True)
                    self.save()

    def _learn(self, rows: torch.Tensor, domains: torch.Tensor, names: list[str], at: tuple[int, int]) -> None:
        if self.options.no_model:
            losses = torch.full((len(rows),), 5.0)
        else:
            losses = row_losses(self.model, rows)
            self.optimizer.zero_grad()
            losses.mean().backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
        counts = torch.bincount(domains.long(), minlength=len(names))
        sums = torch.bincount(domains.long(), losses.detach().double(), minlength=len(names))
        means = (sums / counts).tolist()  # nan where a domain has no row in this batch
        self.hash = hashlib.sha256(self.hash.encode() + rows.numpy().tobytes() + domains.numpy().tobytes()).hexdigest()
        self.shares.append((counts / counts.sum()).tolist())
        self.losses.append(means)
        if self.options.mixture == "ado":
            seen = [k for k in range(len(names)) if counts[k]]
            for loader in self.loaders:
                loader.report(at, {names[k]: means[k] for k in seen}, {names[k]: int(counts[k]) for k in seen})
        self.step += 1

    # ---- what it did -----------------------------------------------------------------------------------------------

    def tell(self) -> None:
        shares, losses = np.array(self.shares), np.array(self.losses)
        last = slice(-max(len(losses) // 10, 1), None)
        print(f"{'domain':14} {'share, first':>12} {'last tenth':>12} {'loss, first':>12} {'last tenth':>12}")
        for k, name in enumerate(self.mix.names):
            columns = (shares[: -last.start, k], shares[last, k], losses[: -last.start, k], losses[last, k])
            print(f"{name:14}" + "".join(f"{_mean(c):12.3f} " for c in columns).rstrip())
        print(f"tokens of {self.step} steps: {self.hash}")

    def draw(self) -> None:
        try:
            import matplotlib
        except ImportError:
            print("no plot: it needs matplotlib (pip install matplotlib)")
            return
        matplotlib.use("Agg")
        from matplotlib import pyplot

        figure, (above, below) = pyplot.subplots(2, 1, figsize=(9, 8), sharex=True)
        window = max(len(self.shares) // 30, 1)
        colors = pyplot.get_cmap("tab20")
        for k, name in enumerate(self.mix.names):
            for axes, values in ((above, self.shares), (below, self.losses)):
                axes.plot(_smooth(np.array(values)[:, k], window), label=name, color=colors(k % 20))
        above.set_ylabel(f"share of the tokens (mean of {window} steps)")
        below.set_ylabel("loss (nats a byte)")
        below.set_xlabel("step")
        above.legend(loc="center left", bbox_to_anchor=(1, 0.5), fontsize="small")
        above.set_title(f"{self.options.mixture} mixture")
        figure.tight_layout()
        path = self.options.out / f"{self.options.mixture}.{self.options.plot}"
        figure.savefig(path, dpi=100)
        print(f"plot: {path}")


def _mean(values: np.ndarray[Any, Any]) -> float:
    return float(np.nanmean(values)) if np.isfinite(values).any() else math.nan


def _smooth(values: np.ndarray[Any, Any], window: int) -> np.ndarray[Any, Any]:
    """The mean of the values around each that are there."""
    there = np.isfinite(values)
    kernel = np.ones(window)
    counts = np.convolve(there, kernel, "same")
    sums = np.convolve(np.where(there, values, 0), kernel, "same")
    return np.divide(sums, counts, out=np.full(len(values), np.nan), where=counts > 0)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("source", type=Path, help="a .jsonl file, or a folder of them")
    arguments.add_argument("--mixture", choices=["static", "scheduled", "ado"], default="static")
    arguments.add_argument("--out", type=Path, default=Path("lm-run"), help="folder of checkpoint, plot and tokens")
    arguments.add_argument("--steps", type=int, default=600)
    arguments.add_argument("--stop", type=int, help="stop after this step; --resume goes on")
    arguments.add_argument("--resume", action="store_true", help="go on from the checkpoint in --out")
    arguments.add_argument("--ranks", type=int, default=1, help="loaders that share each global batch")
    arguments.add_argument("--tp", type=int, default=1, help="tensor-parallel peers of each rank: all see its batches")
    arguments.add_argument("--batch", type=int, default=32, help="rows of a batch of all ranks")
    arguments.add_argument("--length", type=int, default=64, help="tokens of a row")
    arguments.add_argument("--rate", type=float, default=3e-3)
    arguments.add_argument("--every", type=int, default=50, help="steps between checkpoints")
    arguments.add_argument("--refit", type=int, default=100, help="steps between fits of ADO")
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--plot", default="png", help="png or svg")
    arguments.add_argument("--no-model", action="store_true", help="only read: the tokens are the same")
    options = arguments.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    run = Run(options)
    if options.resume:
        run.load()
    run.train()
    run.tell()
    if run.step == options.steps and not options.no_model:
        run.draw()


if __name__ == "__main__":
    main()
