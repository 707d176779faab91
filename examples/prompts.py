"""Few-shot prompts on a small model that keeps keys and values: as they came, sorted, and in groups.

DATA has MMLU as mmlu/dev/SUBJECT_dev.csv and mmlu/test/SUBJECT_test.csv, with the columns question, choice0 to choice3
and answer, and GSM8K with its shots in front as gsm8k/gsm8k_prepended_8shot.jsonl, with the member context; either will
do. Tokens are bytes, and the weights of the model are random: what is shown are the seconds of prefill.

    python examples/prompts.py DATA --prompts 400
"""

import argparse
import csv
import json
import random
import time
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional

import leat

WIDTH, HEADS, LAYERS = 64, 4, 2
Cache = list[tuple[torch.Tensor, torch.Tensor]]


def questions(data: Path) -> list[bytes]:
    """The prompts of all files that are there."""
    found = []
    for path in sorted(data.glob("mmlu/test/*_test.csv")):
        subject = path.name.removesuffix("_test.csv")
        with open(data / "mmlu" / "dev" / f"{subject}_dev.csv", newline="") as file:
            shots = "".join(asked(row) + " " + "ABCD"[int(row["answer"])] + "\n\n" for row in csv.DictReader(file))
        with open(path, newline="") as file:
            found += [f"Questions about {subject}.\n\n{shots}{asked(row)}".encode() for row in csv.DictReader(file)]
    for path in data.glob("gsm8k/gsm8k_prepended_8shot.jsonl"):
        with open(path) as file:
            found += [json.loads(line)["context"].encode() for line in file]
    return found


def asked(row: dict[str, str]) -> str:
    choices = "".join(f"\n{letter}. {row[f'choice{i}']}" for i, letter in enumerate("ABCD"))
    return f"{row['question']}{choices}\nAnswer:"


class Model(torch.nn.Module):
    """A causal transformer over bytes, in double precision: the order of sums then changes no answer."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(256, WIDTH)
        self.qkv = torch.nn.ModuleList(torch.nn.Linear(WIDTH, 3 * WIDTH) for _ in range(LAYERS))
        self.out = torch.nn.ModuleList(torch.nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS))
        self.wide = torch.nn.ModuleList(torch.nn.Linear(WIDTH, 4 * WIDTH) for _ in range(LAYERS))
        self.narrow = torch.nn.ModuleList(torch.nn.Linear(4 * WIDTH, WIDTH) for _ in range(LAYERS))
        self.double()

    def forward(self, tokens: torch.Tensor, cache: Cache | None) -> tuple[int, Cache]:
        """The next token of `tokens` behind those of `cache`, and the cache with them."""
        before = 0 if cache is None else cache[0][0].shape[1]
        x, kept = self.embed(tokens) + places(before, len(tokens)), []
        mask = torch.ones(len(tokens), before + len(tokens), dtype=torch.bool).tril(before)
        for i in range(LAYERS):
            normed = functional.layer_norm(x, (WIDTH,))
            q, k, v = self.qkv[i](normed).view(len(tokens), 3, HEADS, -1).permute(1, 2, 0, 3)
            if cache is not None:
                k, v = torch.cat([cache[i][0], k], 1), torch.cat([cache[i][1], v], 1)
            kept.append((k, v))
            mixed = functional.scaled_dot_product_attention(q[None], k[None], v[None], attn_mask=mask)[0]
            x = x + self.out[i](mixed.permute(1, 0, 2).reshape(len(tokens), WIDTH))
            x = x + self.narrow[i](torch.relu(self.wide[i](functional.layer_norm(x, (WIDTH,)))))
        return int((x[-1] @ self.embed.weight.T).argmax()), kept


def places(first: int, n: int) -> torch.Tensor:
    at = torch.arange(first, first + n, dtype=torch.float64)[:, None] * 0.01 ** (torch.arange(0, WIDTH, 2) / WIDTH)
    return torch.cat([at.sin(), at.cos()], 1)


def one_after_the_other(model: Model, prompts: list[np.ndarray]) -> tuple[list[int], int]:
    """An engine that keeps the last prompt: what the next one shares with it is not computed. Also the tokens that
    were."""
    answers, computed = [], 0
    last, cache = np.empty(0, np.uint8), None
    for prompt in prompts:
        n = min(len(last), len(prompt) - 1)
        differ = np.flatnonzero(last[:n] != prompt[:n])
        shared = int(differ[0]) if len(differ) else n
        before = None if cache is None or not shared else [(k[:, :shared], v[:, :shared]) for k, v in cache]
        answer, cache = model(torch.from_numpy(prompt[shared:]).long(), before)
        answers.append(answer)
        computed, last = computed + len(prompt) - shared, prompt
    return answers, computed


def in_groups(model: Model, g: leat.Dataset, batch_kv: int) -> tuple[list[int], int]:
    """An engine that keeps the prefix of a group: it compares nothing, since batches say what is shared."""
    answers, computed, group, cache = [0] * len(g), 0, -1, None
    for batch in leat.Loader(g, batch_kv=batch_kv, oversize="alone", framework="numpy"):
        rows = zip(batch.ids.tolist(), batch["group"].tolist(), batch["prefix_length"].tolist(), batch["tokens"])
        for at, number, prefix, prompt in rows:
            prefix = min(prefix, len(prompt) - 1)  # the last token is always computed: it has the answer
            if number != group:
                cache = model(torch.from_numpy(prompt[:prefix]).long(), None)[1] if prefix else None
                group, computed = number, computed + prefix
            kept = None if not prefix or cache is None else [(k[:, :prefix], v[:, :prefix]) for k, v in cache]
            answers[at] = model(torch.from_numpy(prompt[prefix:]).long(), kept)[0]
            computed += len(prompt) - prefix
    return answers, computed


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("data", type=Path, help="a folder with mmlu/ or gsm8k/")
    arguments.add_argument("--prompts", type=int, default=400, help="so many, drawn from all")
    arguments.add_argument("--batch-kv", type=int, default=65536, help="tokens that are kept for a batch")
    arguments.add_argument("--short", action="store_true", help="24 prompts, cut to 600 bytes: for tests")
    given = arguments.parse_args()
    found = questions(given.data)
    if not found:
        arguments.error(f"{given.data} has neither mmlu/test/*_test.csv nor gsm8k/gsm8k_prepended_8shot.jsonl")
    random.Random(0).shuffle(found)
    found = [p[:600] for p in found[:24]] if given.short else found[: given.prompts]
    torch.manual_seed(0)
    torch.set_num_threads(1)  # its operations are small
    model = Model()
    offsets = np.cumsum([0, *map(len, found)])
    tokens = leat.Ragged(np.frombuffer(b"".join(found), np.uint8), offsets)
    ds = leat.from_arrays({"tokens": leat.field("uint8", (None,))}, tokens=tokens)
    prompts = [ds[i]["tokens"] for i in range(len(ds))]
    g = leat.group_prompts(ds, "tokens")
    by_tokens = sorted(range(len(prompts)), key=lambda i: prompts[i].tobytes())
    print(
        f"{len(ds):,} prompts of {offsets[-1]:,} tokens in {len(g.groups)} groups: {100 * g.saving:.1f}% need not be "
        f"computed, at any depth {100 * g.optimum:.1f}%"
    )
    results = []
    with torch.inference_mode():
        model(torch.from_numpy(prompts[0]).long(), None)  # what is made at the first use
        for name in ("as they came", "sorted", "grouped"):
            begin = time.process_time()
            if name == "grouped":
                answers, computed = in_groups(model, g, given.batch_kv)
                answers = g.restore(answers)
            else:
                order = by_tokens if name == "sorted" else range(len(prompts))
                in_order, computed = one_after_the_other(model, [prompts[i] for i in order])
                back = dict(zip(order, in_order, strict=True))
                answers = [back[i] for i in range(len(prompts))]
            seconds = time.process_time() - begin
            print(f"{name:12}  {seconds:7.2f} s of one core for prefill, {computed:,} tokens computed")
            results.append(answers)
    assert results[0] == results[1] == results[2]
    print("the answers are equal, in the order of the prompts")
