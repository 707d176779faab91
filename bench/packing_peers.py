"""Packed rows against other loaders of tokens, in the same run: documents of uint16 into rows of 2048 int64, shuffled.

    python bench/packing_peers.py [--seconds 1] [--tokens 33554432] [--folder FOLDER] [peer ...]

- widen: rows of 2048 uint16 -> int64 by one numpy loop over a shuffled memmap: the limit.
- megatron: a dataset like that of Megatron-LM: indices of documents, samples and their order are made beforehand, and
  a row is put together of pieces of a memory-mapped file, in a torch DataLoader.
- streaming: MosaicML Streaming over rows of MDS that were cut beforehand, in a torch DataLoader (mosaicml-streaming).

Rates are by CPU time, in turns; the median of ratios of neighbours is printed.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable, Iterable

import numpy as np
import torch
from packing import BATCH, SEQ, ratio, widen

import leat

Epoch = Callable[[], Iterable[int]]


class Megatron(torch.utils.data.Dataset[torch.Tensor]):
    """Rows by a document index, a sample index and a shuffle index."""

    def __init__(self, path: str, lengths: np.ndarray) -> None:
        draw = np.random.RandomState(0)
        self.documents = np.arange(len(lengths), dtype=np.int32)
        draw.shuffle(self.documents)
        ends = np.concatenate([[0], np.cumsum(lengths[self.documents])])
        n = int(ends[-1] - 1) // SEQ
        at = np.arange(n + 1) * SEQ
        document = np.searchsorted(ends, at, "right") - 1
        self.samples = np.stack([document, at - ends[document]], 1).astype(np.int32)
        self.order = np.arange(n, dtype=np.uint32)
        draw.shuffle(self.order)
        self.lengths, self.begins = lengths, (np.cumsum(lengths) - lengths) * 2
        self.bytes = memoryview(np.memmap(path, np.uint8, "r"))

    def __len__(self) -> int:
        return len(self.order)

    def piece(self, document: int, begin: int, count: int | None) -> np.ndarray:
        i = self.documents[document]
        count = self.lengths[i] - begin if count is None else count
        return np.frombuffer(self.bytes, np.uint16, count, self.begins[i] + begin * 2)

    def __getitem__(self, i: int) -> torch.Tensor:
        (first, begin), (last, end) = self.samples[self.order[i]], self.samples[self.order[i] + 1]
        if first == last:
            pieces = [self.piece(first, begin, end - begin + 1)]
        else:
            pieces = [self.piece(first, begin, None)]
            pieces += [self.piece(k, 0, None) for k in range(first + 1, last)]
            pieces.append(self.piece(last, 0, end + 1))
        return torch.from_numpy(np.concatenate(pieces).astype(np.int64))[:-1].contiguous()


def megatron(path: str, lengths: np.ndarray) -> Epoch:
    loader = torch.utils.data.DataLoader(Megatron(path, lengths), batch_size=BATCH)
    return lambda: (len(batch) for batch in loader)


def streaming(path: str, folder: str) -> Epoch:
    import streaming as peer

    if not os.path.exists(folder):
        tokens = np.memmap(path, np.uint16, "r")
        with peer.MDSWriter(out=folder, columns={"tokens": f"ndarray:uint16:{SEQ}"}) as w:
            for row in tokens[: len(tokens) // SEQ * SEQ].reshape(-1, SEQ):
                w.write({"tokens": np.asarray(row)})

    class Rows(peer.StreamingDataset):  # type: ignore[misc]
        def __getitem__(self, i: int) -> torch.Tensor:
            return torch.from_numpy(super().__getitem__(i)["tokens"].astype(np.int64))

    rows = Rows(local=folder, shuffle=True, batch_size=BATCH, num_canonical_nodes=1)
    loader = torch.utils.data.DataLoader(rows, batch_size=BATCH)
    return lambda: (len(batch) for batch in loader)


def packed(ds: leat.Dataset, how: str) -> Epoch:
    loader = leat.Loader(
        leat.pack_rows(ds, length=SEQ, how=how),
        batch_size=BATCH,
        shuffle=True,
        num_threads=1,
        framework="torch",
        outputs={"tokens": [leat.ops.ToDtype("int64")]},
        drop_last=True,
    )
    return lambda: (len(batch["tokens"]) for batch in loader)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peers", nargs="*", default=["widen", "megatron", "streaming"])
    parser.add_argument("--tokens", type=int, default=32 << 20)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--folder")
    args = parser.parse_args()
    torch.set_num_threads(1)
    with open("/proc/cpuinfo") as f:
        model = next((line.split(":")[1].strip() for line in f if line.startswith("model name")), "unknown processor")
    print(f"{model}, leat {leat.__version__}, numpy {np.__version__}, torch {torch.__version__}")
    rng = np.random.default_rng(0)
    lengths = np.clip(rng.lognormal(6, 1, args.tokens // 300), 1, 20000).astype(np.int64)
    lengths = lengths[np.cumsum(lengths) <= args.tokens]
    with tempfile.TemporaryDirectory() as made:
        folder = args.folder or made
        path = f"{folder}/tokens.bin"
        tokens = rng.integers(1, 50000, int(lengths.sum())).astype(np.uint16)
        tokens[: len(tokens) // SEQ * SEQ].tofile(path.replace(".bin", ".rows"))
        tokens.tofile(path)
        with leat.Writer(f"{folder}/documents.leat", {"tokens": leat.field("uint16", (None,))}, overwrite=True) as w:
            for end, n in zip(np.cumsum(lengths), lengths, strict=True):
                w.add(tokens=tokens[end - n : end])
        ds = leat.open(f"{folder}/documents.leat")
        for peer in args.peers:
            if peer == "widen":
                other = widen(path.replace(".bin", ".rows"))
            else:
                other = megatron(path, lengths) if peer == "megatron" else streaming(path, f"{folder}/mds")
            for how in ("cut", "best_fit"):
                print(f"{how + ' / ' + peer:22} {ratio(packed(ds, how), other, args.seconds)}", flush=True)


if __name__ == "__main__":
    main()
