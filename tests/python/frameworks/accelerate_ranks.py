"""Scenes of Hugging Face Accelerate, each on a fresh Accelerator: accelerate_ranks.py KIND WORKERS FOLDER.

As a rank among others or alone. Tells the result of each scene under its name.
"""

from __future__ import annotations

import itertools
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import accelerate_table
import numpy as np
import torch
from accelerate import Accelerator, DataLoaderConfiguration, skip_first_batches
from accelerate_table import Batches, Draws, Lazy, Sampler
from frameworks_support import Dice, Line, Numbers, Stream, engine_of, ids, leave, loader_class, loss_of, tell
from torch.utils.data import BatchSampler, DataLoader, SequentialSampler, default_collate

#: samplers of 24 rows that draw: when iteration begins, at the first row, at each, and whole batches
DRAWING: dict[str, Callable[[], dict[str, Any]]] = {
    "a sampler": lambda: {"batch_size": 2, "sampler": Sampler(24)},
    "a lazy sampler": lambda: {"batch_size": 2, "sampler": Lazy(24)},
    "a sampler that draws each row": lambda: {"batch_size": 2, "sampler": Draws(24)},
    "batches": lambda: {"batch_sampler": Batches(24, 2)},
}
KIND, WORKERS, FOLDER = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
SCENES: list[Callable[[], Any]] = []


def scene(function: Callable[[], Any]) -> Callable[[], Any]:
    SCENES.append(function)
    return function


class Rows(Numbers):
    """Numbers, a list of which is asked for at a time."""

    def __getitem__(self, rows: Any) -> dict[str, torch.Tensor]:
        return default_collate([super(Rows, self).__getitem__(i) for i in rows])  # type: ignore[no-any-return]


def loader(n: int = 10, batch_size: int | None = 2, *, data: Any = None, **options: Any) -> DataLoader[Any]:
    options.setdefault("num_workers", WORKERS)
    if "batch_sampler" not in options:
        options["batch_size"] = batch_size
    return loader_class(KIND)(Numbers(n) if data is None else data, **options)


def prepared(loader: DataLoader[Any], **config: Any) -> tuple[Accelerator, Any]:
    accelerator = Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(**config))
    return accelerator, accelerator.prepare(loader)


def batches(loader: Any) -> list[list[int]]:
    return [ids(batch) for batch in loader]


@scene
def sharded() -> Any:
    return batches(prepared(loader())[1])


@scene
def sharded_without_workers() -> Any:
    return batches(prepared(loader(num_workers=0))[1])


@scene
def sharded_twice() -> Any:
    ready = prepared(loader())[1]
    return [batches(ready), batches(ready)]


@scene
def uneven() -> Any:
    return batches(prepared(loader(), even_batches=False)[1])


@scene
def dropped() -> Any:
    return batches(prepared(loader(11, drop_last=True))[1])


@scene
def split() -> Any:
    return batches(prepared(loader(10, 4), split_batches=True)[1])


@scene
def dispatched() -> Any:
    return batches(prepared(loader(), dispatch_batches=True)[1])


@scene
def dispatched_and_split() -> Any:
    return batches(prepared(loader(10, 4), dispatch_batches=True, split_batches=True)[1])


@scene
def own_batch_sampler() -> Any:
    return batches(prepared(loader(batch_sampler=BatchSampler(SequentialSampler(range(10)), 2, False)))[1])


@scene
def sampler_of_batches() -> Any:
    if Accelerator(cpu=True).num_processes == 1:
        return None  # Accelerate itself fails
    data = Rows(10)
    return batches(
        prepared(loader(data=data, batch_size=None, sampler=BatchSampler(SequentialSampler(data), 2, False)))[1]
    )


@scene
def streamed() -> Any:
    return batches(prepared(loader(data=Stream(10)))[1])


@scene
def streamed_in_shards() -> Any:
    return batches(prepared(loader(data=Stream(10)), dispatch_batches=False)[1])


@scene
def gathered() -> Any:
    found = {}
    for name, config in {"sharded": {}, "dispatched": {"dispatch_batches": True}}.items():
        accelerator, ready = prepared(loader(11, 4), **config)
        found[name] = [int(i) for batch in ready for i in accelerator.gather_for_metrics(batch["id"])]
    accelerator, ready = prepared(loader(11, 4, shuffle=True))
    found["shuffled"] = [int(i) for batch in ready for i in accelerator.gather_for_metrics(batch["id"])]
    accelerator, ready = prepared(loader(12, 4), split_batches=True)
    found["split"] = [int(i) for batch in ready for i in accelerator.gather_for_metrics(batch["id"])]
    return found


@scene
def shuffled() -> Any:
    torch.manual_seed(100 + Accelerator(cpu=True).process_index)  # ranks that disagree, as they do by default
    ready = prepared(loader(16, 2, shuffle=True))[1]
    return [batches(ready), batches(ready)]


@scene
def shuffled_by_generators() -> Any:
    """Orders of two generators, dispatched: Accelerate leaves the generator to the sampler alone."""
    found = []
    for seed in (1, 2):
        options: dict[str, Any] = {"persistent_workers": True, "generator": torch.Generator().manual_seed(seed)}
        ready = prepared(loader(16, 2, shuffle=True, **options), dispatch_batches=True)[1]
        found.append([batches(ready), batches(ready)])
    return found


@scene
def seedable() -> Any:
    ready = prepared(loader(16, 2, shuffle=True), use_seedable_sampler=True, data_seed=3)[1]
    found = [batches(ready), batches(ready)]
    ready.set_epoch(0)
    return [*found, batches(ready)]


@scene
def skipped() -> Any:
    accelerator, ready = prepared(loader(20, 2, shuffle=True), use_seedable_sampler=True, data_seed=3)
    first, second = batches(ready), batches(ready)
    accelerator, ready = prepared(loader(20, 2, shuffle=True), use_seedable_sampler=True, data_seed=3)
    ready.set_epoch(1)
    rest = accelerator.skip_first_batches(ready, 2)
    ready.set_epoch(2)
    return {"epochs": [first, second], "rest": batches(rest), "length": len(rest), "engine": engine_of(rest),
            "after": batches(ready), "twice": batches(skip_first_batches(skip_first_batches(prepared(loader(20))[1],
            1), 1))}  # fmt: skip


@scene
def skipped_of_a_stream() -> Any:
    accelerator, ready = prepared(loader(data=Stream(20)))
    return [batches(ready), batches(accelerator.skip_first_batches(ready, 2))]


@scene
def skipped_unprepared() -> Any:
    rest = skip_first_batches(loader(), 3)
    return [batches(rest), engine_of(rest)]


def saved_and_resumed(epoch: int, name: str, seedable: bool = True, **options: Any) -> Any:
    """Saves after two batches of an epoch; what the epoch and the next went on with, there and after loading."""
    folder = FOLDER / f"{KIND}-{name}-{Accelerator(cpu=True).num_processes}"

    def fresh() -> tuple[Accelerator, Any]:
        config = {k: options[k] for k in options if k.endswith("_batches")}
        if seedable and options.get("shuffle"):
            config |= {"use_seedable_sampler": True, "data_seed": 3}
        given = {k: v for k, v in options.items() if k not in config}
        return prepared(loader(24, 2, **given), use_stateful_dataloader=True, **config)

    accelerator, ready = fresh()
    for _ in range(epoch):
        batches(ready)
    steps = iter(ready)
    head = [ids(next(steps)) for _ in range(2)]
    if accelerator.is_main_process:  # what a save by other ranks, or of PyTorch's loader, has left
        folder.mkdir(parents=True, exist_ok=True)
        for left in ("dl_state_dict.bin", "leat_state_dicts_7.bin"):
            (folder / left).write_bytes(b"of a former save")
    accelerator.wait_for_everyone()
    accelerator.save_state(str(folder))
    accelerator.wait_for_everyone()
    left = sorted(file.name for file in folder.iterdir() if b"of a former save" in file.read_bytes())
    tail = [ids(batch) for batch in steps]
    accelerator, again = fresh()
    accelerator.load_state(str(folder))
    return {
        "head": head,
        "tail": tail,
        "next": batches(ready),
        "resumed": batches(again),
        "resumed next": batches(again),
        "engine": engine_of(again),
        "left": left,
    }


@scene
def saved() -> Any:
    return saved_and_resumed(0, "first")


@scene
def saved_shuffled() -> Any:
    return saved_and_resumed(1, "second", shuffle=True)


@scene
def saved_at_the_end() -> Any:
    folder = FOLDER / f"{KIND}-end-{Accelerator(cpu=True).num_processes}"

    def fresh() -> tuple[Accelerator, Any]:
        return prepared(loader(8, 2), use_stateful_dataloader=True)

    accelerator, ready = fresh()
    batches(ready)
    accelerator.save_state(str(folder))
    accelerator.wait_for_everyone()
    accelerator, again = fresh()
    accelerator.load_state(str(folder))
    return batches(again)


@scene
def ends() -> Any:
    accelerator, ready = prepared(loader(11, 2))
    found = []
    for _ in ready:
        found.append([accelerator.gradient_state.end_of_dataloader, accelerator.gradient_state.remainder])
    return {"batches": found, "after": accelerator.gradient_state.in_dataloader, "length": len(ready),
            "total_batch_size": ready.total_batch_size, "total_dataset_length": ready.total_dataset_length}  # fmt: skip


@scene
def trained() -> Any:
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    model, data = Line(), loader(20, 2)
    model, optimizer, data = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), data)
    for _ in range(2):
        for batch in data:
            with accelerator.accumulate(model):
                accelerator.backward(loss_of(model(batch["x"]), batch))
                optimizer.step()
                optimizer.zero_grad()
    return [float(w) for w in accelerator.unwrap_model(model).layer.weight.detach().flatten()]


def stack(rows: list[dict[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    return {"id": torch.stack([row["id"] for row in rows]), "rows": torch.tensor(len(rows))}


def nothing(worker: int) -> None:
    pass


@scene
def arguments() -> Any:
    own: dict[str, Any] = {"reseed": True, "on_error": "skip", "sample_timeout_s": 60.0} if KIND == "leat" else {}
    context = {"multiprocessing_context": "fork", "prefetch_factor": 3, "persistent_workers": True} if WORKERS else {}
    given = loader(10, 2, collate_fn=stack, timeout=50, worker_init_fn=nothing, **context, **own)
    found = {}
    for name, config in {"sharded": {}, "dispatched": {"dispatch_batches": True}}.items():
        accelerator, ready = prepared(given, **config)
        rest = accelerator.skip_first_batches(ready, 1)
        for stage, one in {"prepared": ready, "skipped": rest}.items():
            method = one.multiprocessing_context and one.multiprocessing_context.get_start_method()
            found[f"{name} {stage}"] = {
                "engine": engine_of(one), "dataset": one.dataset is given.dataset,
                "collate_fn": one.collate_fn is stack,
                "timeout": one.timeout, "worker_init_fn": one.worker_init_fn is nothing, "method": method,
                "num_workers": one.num_workers, "prefetch_factor": one.prefetch_factor,
                "persistent_workers": one.persistent_workers,
                "isinstance": isinstance(one, loader_class(KIND)), "own": {k: getattr(one, k) for k in own},
            }  # fmt: skip
    return found


# --- what PyTorch's loader does not have ---------------------------------------------------------------------------


def drawn(loader: Any) -> list[list[list[float]]]:
    return [batch["x"].tolist() for batch in loader]


@scene
def seeded() -> Any:
    if KIND != "leat":
        return None
    found = {}
    for name, config in {"sharded": {}, "dispatched": {"dispatch_batches": True}}.items():
        for persistent in (False, True):
            accelerator, ready = prepared(loader(16, 2, shuffle=True, seed=9, persistent_workers=persistent), **config)
            first, second = batches(ready), batches(ready)
            ready.set_epoch(1)
            rest = batches(accelerator.skip_first_batches(ready, 1))
            found[f"{name} {persistent}"] = {"epochs": [first, second], "rest": rest}
    return found


@scene
def redrawn() -> Any:
    if KIND != "leat":
        return None
    accelerator, ready = prepared(loader(data=Dice(16), batch_size=2, shuffle=True, seed=9, reseed=True))
    first = drawn(ready)
    return {
        "whole": first,
        "rest": drawn(
            accelerator.skip_first_batches(prepared(loader(data=Dice(16), shuffle=True, seed=9, reseed=True))[1], 2)
        ),
    }


@scene
def kept() -> Any:
    """What loaders that are made again know of what nobody asked for."""
    if KIND != "leat":
        return None
    accelerator, ready = prepared(loader(num_workers="auto"))
    rest = accelerator.skip_first_batches(ready, 1)
    plain = accelerator.skip_first_batches(prepared(loader())[1], 1)
    return {
        "adaptive": [ready._adaptive, rest._adaptive],
        "windows": [ready._window_given, plain._window_given],
        "batches": len(batches(rest)),
    }


@scene
def saved_otherwise() -> Any:
    if KIND != "leat":
        return None
    return {
        "dispatched": saved_and_resumed(1, "dispatched", dispatch_batches=True),
        "dispatched and split": saved_and_resumed(1, "split", dispatch_batches=True, split_batches=True),
        "a stream": saved_and_resumed(1, "stream", data=Stream(24)),
        "shuffled without a seed": saved_and_resumed(1, "plain", shuffle=True, seedable=False),
        "shuffled with a seed": saved_and_resumed(1, "seed", shuffle=True, seed=4, seedable=False),
        "without workers": saved_and_resumed(1, "alone", num_workers=0, shuffle=True),
    }


@scene
def table() -> Any:
    return accelerate_table.table(loader_class(KIND))


@scene
def saved_drawn() -> Any:
    """Rows and the training's own draws, with samplers that draw from the generators of each rank for itself."""
    if KIND != "leat":
        return None
    found = {}
    for (name, given), way, workers in itertools.product(DRAWING.items(), ("sharded", "dispatched"), (0, 2)):
        if workers and name.endswith("sampler"):
            continue  # as without
        folder = FOLDER / f"drawn-{name}-{way}-{workers}-{Accelerator(cpu=True).num_processes}"

        def fresh(seed: int) -> tuple[Accelerator, Any]:
            rank = Accelerator(cpu=True).process_index
            for seeded in (random.seed, np.random.seed, torch.manual_seed):
                seeded(seed + rank)
            made = loader_class(KIND)(Numbers(24), num_workers=workers, **given())  # noqa: B023
            return prepared(made, use_stateful_dataloader=True, dispatch_batches=way == "dispatched")  # noqa: B023

        def train(steps: Any) -> list[Any]:
            return [[ids(batch), random.random(), np.random.random(), float(torch.rand(()))] for batch in steps]

        accelerator, ready = fresh(5)
        train(ready)
        steps = iter(ready)
        train(itertools.islice(steps, 2))
        accelerator.save_state(str(folder))
        accelerator.wait_for_everyone()
        tail = [train(steps), train(ready)]
        accelerator, again = fresh(70)
        accelerator.load_state(str(folder))
        found[f"{name}, {way}, {workers} workers"] = {"tail": tail, "resumed": [train(again), train(again)]}
    return found


def main() -> None:
    for each in SCENES:
        tell(**{each.__name__: each()})


if __name__ == "__main__":
    main()
    leave()
