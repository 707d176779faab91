"""Trains a small network on batches that share_producer.py makes, for this training and any others that attach.

    python examples/share_consumer.py [--batch-size 64] [--hidden 256] [--epochs 3]

Batch size, speed and start are its own; the rows, and their bytes, are those of a loader of its own.
"""

import argparse

import torch

import leat


def main() -> None:
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--name", default="fashion", help="of the port")
    a.add_argument("--batch-size", type=int, default=64)
    a.add_argument("--hidden", type=int, default=256, help="units of the hidden layer")
    a.add_argument("--epochs", type=int, default=3)
    o = a.parse_args()
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Flatten(), torch.nn.Linear(784, o.hidden), torch.nn.ReLU(), torch.nn.Linear(o.hidden, 10)
    )
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    # A training with a loader of its own has leat.Loader(...) here, with the arguments of the producer; no other line
    # would be another one. Tensors lie in the port's memory: writable=True where a training writes to them.
    loader = leat.attach(o.name, o.batch_size, start="beginning", patience=60)
    for epoch in range(o.epochs):
        right = rows = 0
        for x, y in loader:
            optimizer.zero_grad()
            output = model(x)
            torch.nn.functional.cross_entropy(output, y).backward()
            optimizer.step()
            right, rows = right + int((output.argmax(1) == y).sum()), rows + len(y)
        print(f"epoch {epoch}: {right / rows:.1%} of {rows} right while it trained", flush=True)


if __name__ == "__main__":
    main()
