"""A small ESM-2 as BioNeMo trains it (arXiv 2411.10548; packing: its recipe esm2_native_te), in three kinds of batches.

    python recipes/esm2.py [--short] [--out DIR]

Proteins of one name, such as "DNA ligase", are a cluster. Each epoch draws one of each and, of one longer than 1,022
residues, a crop; 15% of the tokens are to be predicted. Crops come in a random order, padded to the longest of a batch;
with others of about their length (`batch_tokens`); and packed, with attention over each by itself (`leat.pack_rows`).
`leat.one_of` draws as rows are read, and the last two have to know lengths before: a crop is a window, `one_of` draws
among those from all offsets, and the last two select what it draws in an epoch. A step has PARTS batches of all ranks.
Printed: real tokens a CPU second, padding, and the loss on other clusters after as many tokens, trained in turns. Data:
proteins of the folder LEAT_DATA names, else families that are made. Needs matplotlib.
"""

import argparse
import os
import time
from collections.abc import Iterator
from itertools import accumulate, islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, scaled_dot_product_attention

import leat

WAYS, CROP, TOKENS, PARTS, WIDTH = ("padded", "by length", "packed"), 1022, 4096, 2, 64
CHAIN = [leat.ops.Lookup("esm2"), leat.ops.MaskTokens(32, 33, special_ids=(0, 1, 2, 3, 32))]


def proteins(folder: Path) -> leat.Dataset:
    """Those of Swiss-Prot; else three members of each of 300 families, Markov chains with a fifth replaced."""
    files = sorted((Path(os.environ.get("LEAT_DATA", "/nowhere")) / "proteins").glob("uniprot_*.fasta"))
    if not files:
        draw, made, files = np.random.default_rng(0), "", [folder / "made.fa"]
        following = draw.integers(20, size=(20, 4))
        for name, n in enumerate(draw.lognormal(5, 0.8, 300).astype(int) % 1500 + 30):
            family = [*accumulate(draw.integers(4, size=n - 1), lambda a, i: following[a, i], initial=0)]
            for member in np.where(draw.random((3, n)) < 0.2, draw.integers(20, size=(3, n)), family):
                made += f">made ~~~~~~{name}~~~\n{''.join('LAGVSERTIDPKQNFYMHWC'[i] for i in member)}\n"
        files[0].write_text(made)
    return leat.open(files, index_dir=folder)


def split(ds: leat.Dataset) -> list[leat.Dataset]:
    """Clusters to train on, and others. Members of one are equally likely, and so are all offsets of a crop."""
    names = [text.split("~~~")[2] for text in ds.column("description")]
    crops = 1 + np.maximum(ds.column("sequence.length") - CROP, 0)
    windows = leat.windows(ds, "sequence", CROP, stride=1, tail="cover")
    return leat.one_of(windows, np.repeat(names, crops), np.repeat(1 / crops, crops)).split([0.9, 0.1])


def steps(way: str, rows: Any, state: Any = (0, 0, None), **ranks: int) -> Iterator[tuple[list[leat.Batch], Any]]:
    """The batches of a rank in each step, and the state after it, from which one rank or two go on."""
    (epoch, begin, at), share = state, PARTS // ranks.get("world_size", 1)
    options: dict[str, Any] = {"outputs": {"sequence": [] if way == "packed" else CHAIN}, "shuffle": True, **ranks}
    while True:
        if way == "padded":
            loader = leat.Loader(rows, round(TOKENS / rows.column("sequence.length").mean()), drop_last=True, **options)
        else:
            drawn = leat.Loader(rows, len(rows), outputs={"begin": []}, shuffle=True).batch_at(epoch, 0).ids
            crops = rows.samples.select(drawn.numpy())
            if way == "packed":
                crops = leat.pack_rows(crops, "sequence", how="ragged", chain=CHAIN)
            loader = leat.Loader(crops, batch_tokens=TOKENS, drop_last=True, **options)
        loader.set_epoch(epoch)
        end = len(loader) // share  # one that has resumed counts the batches of the ranks before, too
        loader.load_state_dict(at or loader.state_dict())
        batches = iter(loader)
        for step in range(begin, end):
            yield [next(batches) for _ in range(share)], (epoch, step + 1, loader.state_dict())
        epoch, begin, at = epoch + 1, 0, None


class ESM2(nn.Module):
    def __init__(self, layers: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table, self.norm = nn.Parameter(0.02 * torch.randn(33 + CROP + 2, WIDTH)), nn.LayerNorm(WIDTH)
        self.layers, linear = nn.ModuleList(), nn.Linear
        for _ in range(layers):
            qkv, wide = nn.Sequential(nn.LayerNorm(WIDTH), linear(WIDTH, 3 * WIDTH)), linear(WIDTH, 4 * WIDTH)
            mlp = nn.Sequential(nn.LayerNorm(WIDTH), wide, nn.GELU(), linear(4 * WIDTH, WIDTH))
            self.layers.append(nn.ModuleList([qkv, linear(WIDTH, WIDTH), mlp]))

    def forward(self, batches: list[leat.Batch]) -> tuple[Tensor, np.ndarray]:
        """The mean loss over the batches of all ranks; their tokens without padding, and with."""
        losses, counts = zip(*map(self.sums, batches), strict=True)
        return sum(losses) / sum(counts)[0], sum(counts)[1:]

    def sums(self, batch: leat.Batch) -> tuple[Tensor, np.ndarray]:
        tokens, labels, mask = batch["sequence"], batch["sequence.labels"], None
        if packed := "cu_seqlens" in batch:
            lengths, places = batch["cu_seqlens"].diff(), batch["positions"]
        else:
            lengths, places = tokens.offsets.diff(), torch.arange(int(tokens.offsets.diff().max()))
            tokens, labels = tokens.to_padded(1), labels.to_padded(-100)
            mask = (places < lengths[:, None])[:, None, None]
        x = self.table[tokens] + self.table[33 + places]  # its first 33 rows are the head, too
        for qkv, out, mlp in self.layers:
            y = qkv(x).unflatten(-1, (3, -1, 32)).permute(2, 0, 3, 1, 4)
            parts = y.split(lengths.tolist(), 3) if packed else [y]  # on a CPU far faster than a mask of blocks
            y = torch.cat([scaled_dot_product_attention(*part, mask) for part in parts], 2)
            x = x + out(y.transpose(1, 2).flatten(2))
            x = x + mlp(x)
        logits, hidden = self.norm(x[labels != -100]) @ self.table[:33].T, labels[labels != -100]
        return cross_entropy(logits, hidden, reduction="sum"), np.array([len(hidden), lengths.sum(), tokens.numel()])


def train(way: str, rows: leat.Dataset, test: list[leat.Batch], turns: range, layers: int) -> Iterator[list[float]]:
    net, stream, counts, seconds = ESM2(layers), steps(way, rows), np.zeros(2), 0.0
    optimizer = torch.optim.AdamW(net.parameters(), 2e-3, betas=(0.9, 0.98))
    for goal in turns:
        begun = time.process_time()
        while counts[0] < goal:
            loss, n = net(next(stream)[0])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            counts += n
        seconds += time.process_time() - begun
        yield [*counts, seconds, torch.no_grad()(net)(test)[0].item()]


def main() -> None:
    arguments = argparse.ArgumentParser(description="Trains a small ESM-2 with padding, by length and packed.")
    arguments.add_argument("--short", action="store_true", help="some seconds: fewer tokens, one layer")
    arguments.add_argument("--out", type=Path, default=Path("recipes-out"), help="a folder for the plot")
    given = arguments.parse_args()
    torch.set_num_threads(1)
    turns, layers, tests = (range(20_000, 20_001), 1, 2) if given.short else (range(100_000, 1_000_001, 100_000), 2, 4)
    axis = Figure(figsize=(6, 3.6), layout="constrained").subplots()
    given.out.mkdir(parents=True, exist_ok=True)
    rows, others = split(proteins(given.out))
    test = [batch for step, _ in islice(steps("by length", others), tests) for batch in step]
    trained = zip(*(train(way, rows, test, turns, layers) for way in WAYS), strict=True)  # in turns
    print(f"{'batches':9} {'tokens/s':>9} {'padding':>8} {'tokens':>9} {'loss':>7}")
    for way, (real, padded, cpu, loss) in zip(WAYS, np.array([*trained]).transpose(1, 2, 0), strict=True):
        print(f"{way:9} {real[-1] / cpu[-1]:9.0f} {1 - real[-1] / padded[-1]:8.1%} {real[-1]:9.0f} {loss[-1]:7.4f}")
        axis.plot(cpu, loss, ".-", label=way)
    axis.set(xlabel=f"seconds of CPU, a dot each {turns.step:,} tokens", ylabel="loss on other clusters")
    axis.legend()
    axis.figure.savefig(given.out / "esm2.png", dpi=100)


if __name__ == "__main__":
    main()
