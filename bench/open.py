"""What opening ten million samples and taking the first shuffled batch costs in Python: seconds, and memory of the
process above the level after the imports. Each measurement is of a fresh process.

    python bench/open.py FOLDER [SAMPLES]

Makes the files in FOLDER where there are none: `values` has a label and bytes of 0 to 15, `records` 13 float32, 26
int32 and a label.
"""

import multiprocessing
import os
import sys
import time

SIZES = (256, 4096)
PIECE = 100_000


def make(path, kind, count):
    import numpy as np

    import leat

    if kind == "values":
        schema = {"label": "int64", "text": "bytes"}
    else:
        schema = {"dense": leat.field("float32", (13,)), "sparse": leat.field("int32", (26,)), "label": "int64"}
    with leat.Writer(path, schema) as writer:
        for first in range(0, count, PIECE):
            n = min(PIECE, count - first)
            label = np.arange(first, first + n)
            if kind == "records":
                writer.write_batch(
                    {"dense": np.zeros((n, 13), "float32"), "sparse": np.zeros((n, 26), "int32"), "label": label}
                )
            else:
                for i in range(first, first + n):
                    writer.add(label=i, text=b"fifteen letters"[: i % 16])


def memory():
    """VmHWM, RssAnon and RssFile in MB."""
    found = {}
    with open("/proc/self/status") as lines:
        for line in lines:
            name, _, value = line.partition(":")
            if name in ("VmHWM", "RssAnon", "RssFile"):
                found[name] = int(value.split()[0]) / 1e3
    return found


def measure(path, kind, batch_size):
    import numpy  # noqa: F401  imported before, so that it does not count

    import leat

    before = memory()
    begun = time.perf_counter()
    with leat.Loader(leat.open(path), batch_size=batch_size, shuffle=True, framework="numpy") as loader:
        batch = next(iter(loader))
        seconds = time.perf_counter() - begun
        after = memory()
        del batch
    told = "   ".join(f"{name} +{after[name] - before[name]:.1f} MB" for name in before)
    print(f"{kind:8s} batch {batch_size:5d}: {seconds:6.3f} s   {told}", flush=True)


def main():
    if len(sys.argv) not in (2, 3):
        raise SystemExit(__doc__)
    count = int(sys.argv[2]) if len(sys.argv) == 3 else 10_000_000
    fresh = multiprocessing.get_context("spawn")
    jobs = []
    for kind in ("values", "records"):
        path = os.path.join(sys.argv[1], f"open-{kind}-{count}.leat")
        if not os.path.exists(path):
            jobs.append((make, (path, kind, count)))
        jobs += [(measure, (path, kind, size)) for size in SIZES]
    for target, args in jobs:
        process = fresh.Process(target=target, args=args)
        process.start()
        process.join()
        if process.exitcode:
            raise SystemExit(process.exitcode)


if __name__ == "__main__":
    main()
