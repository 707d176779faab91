"""A tiny model of DNA: windows that see each base, of either strand, and a loss over A, C, G and T alone."""

import argparse
from pathlib import Path

import torch

import leat

arguments = argparse.ArgumentParser(description=__doc__)
arguments.add_argument("genome", type=Path, nargs="?", help="a FASTA file; without it a small one is made, made.fa")
path = arguments.parse_args().genome
torch.manual_seed(0)
if path is None:
    path, words = Path("made.fa"), torch.randint(4, (8, 5))[torch.randint(8, (80_000,))]
    path.write_text(">eight words and a gap\n" + "".join("ACGT"[i] for i in words.flatten()) + "N" * 3000 + "\n")
windows = leat.windows(leat.open(path), "sequence", length=512, stride=448, tail="cover")
outputs = {"sequence": [leat.ops.ReverseComplement(0.5), leat.ops.Lookup("nucleotide", loss_mask="ACGT")]}
loader = leat.Loader(windows, batch_size=8, shuffle=True, seed=0, outputs=outputs)
model = torch.nn.ModuleList([torch.nn.Embedding(128, 16), torch.nn.Conv1d(16, 64, 12), torch.nn.Conv1d(64, 128, 1)])
optimizer = torch.optim.Adam(model.parameters(), 3e-3)
for step, batch in zip(range(1, 151), loader):
    tokens, known = batch["sequence"].to_padded(), batch["sequence.loss_mask"].to_padded(False)[:, 12:]
    guesses = model[2](model[1](model[0](tokens).mT).relu())[:, :, :-1]  # of what follows twelve letters
    loss = torch.nn.functional.cross_entropy(guesses, tokens[:, 12:], reduction="none")[known].sum() / known.sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 30 == 0:
        print(f"step {step}: loss {loss:.3f} over {known.sum()} of {known.numel()} bases")
