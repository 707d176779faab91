"""PyTorch's quickstart with leat, on the IDX files of FashionMNIST or MNIST."""

import argparse
from pathlib import Path

import torch

import leat

arguments = argparse.ArgumentParser(description=__doc__)
arguments.add_argument("folder", type=Path, help="holds train-images-idx3-ubyte and train-labels-idx1-ubyte, or .gz")
folder = arguments.parse_args().folder
images, labels = (
    next((p for p in sorted(folder.glob(f"*train-{kind}-ubyte*")) if p.name.islower()), None)
    for kind in ("images-idx3", "labels-idx1")
)
if images is None or labels is None:
    arguments.error(f"{folder} has no train-images-idx3-ubyte or no train-labels-idx1-ubyte")
train, test = leat.open({"image": images, "label": labels}).split([0.9, 0.1], seed=0)
outputs = {"image": [leat.ops.Normalize((0.2860,), (0.3530,))], "label": [leat.ops.ToDtype("int64")]}
model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(784, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
optimizer = torch.optim.Adam(model.parameters(), 1e-3)
loader = leat.Loader(train, batch_size=64, shuffle=True, seed=0, outputs=outputs, yields="tuple")
for epoch in range(3):
    for x, y in loader:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    with torch.no_grad():
        right = sum(
            int((model(x).argmax(1) == y).sum()) for x, y in leat.Loader(test, 256, outputs=outputs, yields="tuple")
        )
    print(f"epoch {epoch}: {right / len(test):.1%} of {len(test)} right")
