"""Makes the batches of FashionMNIST once for every training of this host that attaches: share_consumer.py is one.

    python examples/share_producer.py [FOLDER] &
    python examples/share_consumer.py --batch-size 64 &
    python examples/share_consumer.py --batch-size 96 --hidden 512

It goes on until it is interrupted, or `leat port stop fashion` asks it to end. Without a folder it makes up images.
"""

import argparse
import contextlib
from pathlib import Path

import numpy as np

import leat


def data_set(folder: Path | None) -> leat.Dataset:
    """The training images and labels of a folder of IDX files; without one, noise with a bright square per class."""
    if folder is not None:
        found = (sorted(folder.glob(f"*train-{kind}-ubyte*")) for kind in ("images-idx3", "labels-idx1"))
        images, labels = (next((p for p in paths if p.name.islower()), None) for paths in found)
        if images is None or labels is None:
            raise SystemExit(f"{folder} has no train-images-idx3-ubyte or no train-labels-idx1-ubyte")
        return leat.open({"image": images, "label": labels})
    random = np.random.default_rng(0)
    label = random.integers(0, 10, 6000)
    image = 0.5 * random.random((len(label), 1, 28, 28), dtype=np.float32)
    for pixels, c in zip(image[:, 0], label):
        pixels[5 * (c // 2) + 2 :, 14 * (c % 2) + 4 :][:6, :6] += 0.4
    return leat.from_arrays(image=image, label=label)


def main() -> None:
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("folder", type=Path, nargs="?", help="holds train-images-idx3-ubyte and train-labels-idx1-ubyte")
    a.add_argument("--name", default="fashion", help="what trainings attach to")
    o = a.parse_args()
    outputs = {"image": [leat.ops.Normalize((0.2860,), (0.3530,))], "label": [leat.ops.ToDtype("int64")]}
    loader = leat.Loader(data_set(o.folder), 64, shuffle=True, seed=0, outputs=outputs, yields="tuple")
    # A training of its own would iterate the loader here. These two lines give it to others instead.
    with leat.Port(loader, o.name) as port, contextlib.suppress(KeyboardInterrupt):
        print(f"serving {o.name}: {len(loader)} batches of 64 an epoch", flush=True)
        port.wait()


if __name__ == "__main__":
    main()
