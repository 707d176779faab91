"""Learns the types of cells from a file of cells, such as an .h5ad, which is read in place.

With scanpy and scikit-learn, which hold all cells in memory:

    cells = scanpy.read_h5ad("cells.h5ad")
    scanpy.pp.normalize_total(cells, target_sum=1e4)
    scanpy.pp.log1p(cells)
    model = sklearn.linear_model.LogisticRegression().fit(cells.X, cells.obs["cell_type"])
"""

import argparse
from pathlib import Path

import torch

import leat

arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
arguments.add_argument("cells", type=Path, help="an .h5ad, .zarr or another file of cells with counts of genes")
arguments.add_argument("--label", default="cell_type", help="a categorical column of obs")
arguments.add_argument("--counts", default="X", help="where the counts are: X, raw.X or layers.NAME")
given = arguments.parse_args()
torch.manual_seed(0)
ds, code = leat.open(given.cells), f"obs.{given.label}.code"
if code not in ds.schema or given.counts not in ds.schema:
    labels = ", ".join(name.removeprefix("obs.") for name in ds.categories)
    arguments.error(f"--label {given.label}, --counts {given.counts}: it has the labels {labels or '(none)'} in {ds}")
types = ds.categories[f"obs.{given.label}"]
train, test = ds.where(f'"{code}" >= 0').split([0.9, 0.1], seed=0)  # -1: a cell without a type
chain = [leat.ops.NormalizeTotal(1e4), leat.ops.Log1p(), leat.ops.Densify()]
outputs = {given.counts: chain, code: [leat.ops.ToDtype("int64")]}
model = torch.nn.LazyLinear(len(types))
optimizer = torch.optim.Adam(model.parameters(), 3e-3)
# Blocks of neighbours are read together, which is far faster from compressed files than cells in any order.
loader = leat.Loader(train, 64, shuffle=leat.Blocks(64, 4096), seed=0, outputs=outputs, yields="tuple")
for _ in range(10):
    for x, y in loader:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
right = torch.zeros(len(types), 2)
for x, y in leat.Loader(test, 256, outputs=outputs, yields="tuple"):
    right.index_add_(0, y, torch.stack([model(x).argmax(1) == y, torch.ones_like(y)], 1).float())
for name, (n, of) in zip([*types, "all"], [*right.tolist(), right.sum(0).tolist()]):
    print(f"{name}: {n:.0f} of {of:.0f} right")
