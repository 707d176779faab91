"""Loaders that a framework wraps or makes again, in one process: those that Accelerate prepares, that Lightning gives
another sampler, combines or seeds, and that Trainer makes. What comes of leat's is what comes of torch's.
"""

from __future__ import annotations

import pickle
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from frameworks_support import Numbers, Stream, engine_of, ids, loader_class, module_of, needs  # noqa: E402
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, Sampler, SequentialSampler  # noqa: E402

needs("accelerate", "lightning", "transformers")

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # the frameworks' own
    pytest.mark.parametrize("kind", ["torch", "leat"]),
]


def batches(loader: Any) -> list[list[int]]:
    return [ids(batch) for batch in loader]


# --- Accelerate ------------------------------------------------------------------------------------------------------


@pytest.fixture
def accelerate() -> Iterator[Any]:
    """The package, with no Accelerator left behind."""
    import accelerate
    from accelerate.state import AcceleratorState, GradientState

    yield accelerate
    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_prepared_stream_without_batches_gives_its_samples(accelerate: Any, kind: str, num_workers: int) -> None:
    loader = loader_class(kind)(Stream(6), batch_size=None, num_workers=num_workers)
    config = accelerate.DataLoaderConfiguration(dispatch_batches=False)
    ready = accelerate.Accelerator(cpu=True, dataloader_config=config).prepare(loader)
    assert [sample["id"].item() for sample in ready] == list(range(6)) and engine_of(ready) == kind


def _with_a_word(samples: list[dict[str, torch.Tensor]]) -> dict[str, Any]:
    return {"id": torch.stack([s["id"] for s in samples]), "word": "the same", "nothing": None}


@pytest.mark.parametrize("data", [Numbers(5), Stream(5)])
def test_what_is_no_tensor_passes_through_a_prepared_loader(accelerate: Any, kind: str, data: Any) -> None:
    loader = loader_class(kind)(data, batch_size=2, num_workers=1, collate_fn=_with_a_word)
    ready = accelerate.Accelerator(cpu=True).prepare(loader)
    assert [(ids(b), b["word"], b["nothing"]) for b in ready] == [
        (each, "the same", None) for each in ([0, 1], [2, 3], [4])
    ]


@pytest.mark.parametrize("num_processes", [1, 2])
def test_a_seed_says_the_order_of_a_prepared_loader(accelerate: Any, kind: str, num_processes: int) -> None:
    def run(which: str, seed: int) -> list[list[int]]:
        accelerate.utils.set_seed(seed)
        loader = loader_class(which)(Numbers(12), batch_size=1, shuffle=True)
        ready = accelerate.data_loader.prepare_data_loader(
            loader, num_processes=num_processes, process_index=num_processes - 1
        )
        return batches(ready) + batches(ready)

    found = run(kind, 21)
    assert found == run(kind, 21) == run("torch", 21) != run(kind, 42)


def order_of(epoch: int) -> list[int]:
    return np.random.default_rng(epoch).permutation(16).tolist()  # type: ignore[no-any-return]


class ByEpoch(Sampler):
    epoch = 0

    def __iter__(self) -> Iterator[int]:
        return iter(order_of(self.epoch))

    def __len__(self) -> int:
        return 16

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch


class BatchesByEpoch(BatchSampler):
    def set_epoch(self, epoch: int) -> None:
        self.sampler.epoch = epoch  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "batches_of, dispatched", [(BatchSampler, False), (BatchSampler, True), (BatchesByEpoch, False)]
)
def test_the_epoch_reaches_samplers_of_ones_own_and_outlives_skipping(
    accelerate: Any, kind: str, batches_of: type, dispatched: bool
) -> None:
    sampler = ByEpoch()
    config = accelerate.DataLoaderConfiguration(dispatch_batches=dispatched)
    accelerator = accelerate.Accelerator(cpu=True, dataloader_config=config)
    loader = loader_class(kind)(Numbers(16), batch_sampler=batches_of(sampler, 4, False), num_workers=1)
    ready = accelerator.prepare(loader)
    ready.set_epoch(1)
    assert sampler.epoch == 1
    rest = accelerator.skip_first_batches(ready, 2)
    assert batches(rest) == [order_of(1)[8:12], order_of(1)[12:]] and sampler.epoch == 1


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_prepared_loader_that_nobody_holds_is_gone(accelerate: Any, kind: str, num_workers: int) -> None:
    accelerator = accelerate.Accelerator(cpu=True)
    ready = accelerator.prepare(loader_class(kind)(Numbers(16), batch_size=4, num_workers=num_workers))
    it = iter(ready)
    assert ids(next(it)) == [0, 1, 2, 3]
    gone = [weakref.ref(accelerator), weakref.ref(ready)]
    del it, ready, accelerator
    assert [each() for each in gone] == [None, None]


def test_an_accelerator_with_a_prepared_loader_can_be_pickled(accelerate: Any, kind: str) -> None:
    accelerator = accelerate.Accelerator(cpu=True)
    ready = accelerator.prepare(loader_class(kind)(Numbers(8), batch_size=4))
    assert batches(ready) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    again = pickle.loads(pickle.dumps(accelerator))
    assert again.state.__dict__ == accelerator.state.__dict__


# --- Lightning -------------------------------------------------------------------------------------------------------


def subclass_of(kind: str) -> type:
    class Named(loader_class(kind)):  # type: ignore[misc]
        """A loader with an argument of its own, which Lightning has to find again."""

        def __init__(self, name: str, dataset: Any, *args: Any, **options: Any) -> None:
            super().__init__(dataset, *args, **options)
            self.name = name

    return Named


def test_lightning_makes_a_subclass_again_with_another_sampler_and_all_of_its_arguments(kind: str) -> None:
    from lightning.pytorch.utilities.data import _update_dataloader

    options = {"num_workers": 1, "multiprocessing_context": "spawn", "drop_last": True, "collate_fn": _with_a_word}
    loader = subclass_of(kind)("mine", Numbers(9), 2, shuffle=True, **options)
    again = _update_dataloader(loader, SequentialSampler(loader.dataset))
    assert type(again) is type(loader) and again.name == "mine"
    assert (again.batch_size, again.drop_last, again.num_workers, again.collate_fn) == (2, True, 1, _with_a_word)
    assert again.multiprocessing_context.get_start_method() == "spawn"
    again.multiprocessing_context = "fork"
    assert batches(again) == [[0, 1], [2, 3], [4, 5], [6, 7]] and type(iter(again)).__module__.startswith(kind)


def derived(base: Any) -> dict[str, tuple[type, tuple[Any, ...], dict[str, Any], dict[str, Any]]]:
    """Classes whose constructors differ from the loader's: (class, arguments, options, what the loader then has)."""

    class Named(base):  # type: ignore[misc]
        def __init__(self, name: str, *args: Any, **options: Any) -> None:
            self.name = name
            super().__init__(*args, **options)

    class Renamed(Named):
        def __init__(self, title: str, *args: Any, **options: Any) -> None:
            self.title = title
            super().__init__(title + " again", *args, **options)

    class Counted(base):  # type: ignore[misc]
        def __init__(self, values: torch.Tensor, *args: Any, **options: Any) -> None:
            self.values = values
            super().__init__(range(len(values)), *args, **options)

    class Smaller(base):  # type: ignore[misc]
        def __init__(self, dataset: Any, batch_size: int, **options: Any) -> None:
            super().__init__(dataset, batch_size=batch_size - 5, **options)

    class Joined(base):  # type: ignore[misc]
        def __init__(self, first: Any, second: Any, **options: Any) -> None:
            super().__init__([*first, *second], **options)

    class Longer(base):  # type: ignore[misc]
        def __init__(self, dataset: Any, **options: Any) -> None:
            super().__init__([*dataset, 5, 6], **options)

    class Table(base):  # type: ignore[misc]
        def __init__(self, dataset: Any, table: Any = None, **options: Any) -> None:
            super().__init__(dataset, **options)
            self.table = np.ones((2, 2)) if table is None else table  # which is not compared by ==

    values = torch.arange(4)
    return {
        "first argument": (Named, ("mine",), {"dataset": range(4), "batch_size": 2}, {"name": "mine", "batch_size": 2}),
        "two classes": (Renamed, ("a", range(4)), {"batch_size": 2}, {"name": "a again", "title": "a"}),
        "data set made": (Counted, (values,), {"batch_size": 2}, {"values": values, "dataset": range(4)}),
        "batch size made": (Smaller, (range(4),), {"batch_size": 10}, {"batch_size": 5}),
        "data set joined": (Joined, (range(2), range(2, 4)), {"batch_size": 2}, {"dataset": [0, 1, 2, 3]}),
        "data set longer": (Longer, (range(5),), {}, {"dataset": [0, 1, 2, 3, 4, 5, 6]}),
        "no data set": (base, (None,), {}, {"dataset": None}),
        "array": (Table, (range(4),), {"batch_size": 2}, {"batch_size": 2}),
    }


@pytest.mark.parametrize("which", sorted(derived(DataLoader)))
def test_loaders_made_in_lightnings_hooks_are_made_again_as_they_were(kind: str, which: str) -> None:
    from lightning.fabric.utilities.data import _replace_dunder_methods, _update_dataloader

    of, arguments, options, expected = derived(loader_class(kind))[which]
    with _replace_dunder_methods(DataLoader, "dataset"):
        loader = of(*arguments, **options)
        loader.note = "set in the hook"
    again = _update_dataloader(loader, loader.sampler)
    assert type(again) is of and again.note == "set in the hook"
    for name, value in expected.items():
        assert getattr(again, name) is value or getattr(again, name) == value, name
    if expected.get("dataset", ()) is not None:
        assert [b.tolist() for b in again] == [b.tolist() for b in loader]


class Labelled(BatchSampler):
    def __init__(self, sampler: Any, label: str, drop_last: bool = True) -> None:
        super().__init__(sampler, 4, drop_last)
        self.label = label


class Alike:
    """Has what a BatchSampler has, and is none."""

    def __init__(self, sampler: Any, batch_size: int, drop_last: bool) -> None:
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last

    def __iter__(self) -> Iterator[list[int]]:
        return iter(BatchSampler(self.sampler, self.batch_size, self.drop_last))


def test_batch_samplers_of_ones_own_get_lightnings_sampler(kind: str) -> None:
    from lightning.fabric.utilities.data import _replace_dunder_methods, _update_dataloader

    with _replace_dunder_methods(BatchSampler):
        labelled = Labelled(SequentialSampler(range(9)), "mine")
    for own in (labelled, Alike(SequentialSampler(range(9)), 4, True)):
        again = _update_dataloader(loader_class(kind)(range(9), batch_sampler=own), list(range(8, -1, -1)))
        assert type(again.batch_sampler) is type(own)
        assert [b.tolist() for b in again] == [[8, 7, 6, 5], [4, 3, 2, 1]]
    with pytest.raises(TypeError, match="into your batch sampler"):
        _update_dataloader(loader_class(kind)(range(9), batch_sampler=[[1, 2]]), SequentialSampler(range(9)))


@pytest.fixture(scope="module")
def lightning() -> Any:
    return module_of("lightning_ddp.py")


@pytest.mark.parametrize("how", ["shuffle", "sampler"])
def test_overfitting_repeats_the_first_batches_in_order(lightning: Any, kind: str, how: str, tmp_path: Path) -> None:
    options = {"shuffle": True} if how == "shuffle" else {"sampler": RandomSampler(range(10))}
    model = lightning.Model()
    loader = loader_class(kind)(Numbers(10), batch_size=3, num_workers=1, **options)
    lightning.trainer(tmp_path, max_epochs=2, overfit_batches=2, enable_checkpointing=False).fit(model, loader)
    assert model.seen["train"] == {epoch: [[0, 1, 2], [3, 4, 5]] for epoch in range(2)}


def test_batches_that_the_data_set_has_made_are_predicted_as_they_are(
    lightning: Any, kind: str, tmp_path: Path
) -> None:
    made = [{k: torch.stack([Numbers(6)[i][k] for i in part]) for k in ("x", "y", "id")} for part in ([0, 1, 2], [3])]
    fit = lightning.trainer(tmp_path, enable_checkpointing=False)
    assert fit.predict(lightning.Model(), loader_class(kind)(made, batch_size=None, num_workers=1)) == [[0, 1, 2], [3]]


@pytest.mark.parametrize("mode", ["min_size", "max_size_cycle", "max_size", "sequential"])
def test_loaders_are_combined_as_lightning_combines_them(kind: str, mode: str) -> None:
    from lightning.pytorch.utilities import CombinedLoader

    loaders = [loader_class(kind)(Numbers(n), batch_size=3, num_workers=1) for n in (7, 4)]
    a, b = [[0, 1, 2], [3, 4, 5], [6]], [[0, 1, 2], [3]]
    expected = {
        "min_size": [[x, y] for x, y in zip(a, b)],
        "max_size_cycle": [[x, y] for x, y in zip(a, [*b, b[0]])],
        "max_size": [[x, y] for x, y in zip(a, [*b, None])],
        "sequential": [*a, *b],
    }[mode]
    found = []
    for batch, _, _ in CombinedLoader(loaders, mode):
        found.append(ids(batch) if mode == "sequential" else [None if x is None else ids(x) for x in batch])
    assert found == expected


class Dicing(Numbers):
    def __getitem__(self, i: int) -> dict[str, torch.Tensor]:
        return {"id": torch.tensor(i), "x": torch.as_tensor(np.random.randint(0, 10**6, 3))}


def test_workers_that_lightning_seeds_draw_what_those_of_torch_draw(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from lightning.fabric import Fabric, seed_everything

    for name in ("PL_GLOBAL_SEED", "PL_SEED_WORKERS"):  # which are put back
        monkeypatch.setenv(name, "0")

    def run(which: str) -> list[list[int]]:
        seed_everything(5, workers=True, verbose=False)
        loader = loader_class(which)(Dicing(6), batch_size=2, num_workers=1)
        ready = Fabric(accelerator="cpu", devices=1).setup_dataloaders(loader)
        return [batch["x"].flatten().tolist() for _ in range(2) for batch in ready]

    found = run(kind)
    assert found == run("torch") and len({tuple(each) for each in found}) == 6


# --- Trainer ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trainer() -> Any:
    return module_of("trainer_ranks.py")


def made(trainer: Any, kind: str, folder: Path, **options: Any) -> Any:
    arguments = trainer.arguments(folder, per_device_train_batch_size=4, per_device_eval_batch_size=8, **options)
    return trainer.trainer_class("mixin" if kind == "leat" else "trainer")(
        trainer.Model(), arguments, train_dataset=Numbers(18), eval_dataset=Numbers(20)
    )


@pytest.mark.parametrize("drop_last", [False, True])
def test_loaders_of_trainer_have_the_sizes_that_it_was_told(
    trainer: Any, kind: str, drop_last: bool, tmp_path: Path
) -> None:
    of = made(trainer, kind, tmp_path, dataloader_drop_last=drop_last)
    train, evaluated = of.get_train_dataloader(), of.get_eval_dataloader()
    assert (train.total_batch_size, evaluated.total_batch_size) == (4, 8)
    assert (
        (len(train), len(evaluated)) == (len(batches(train)), len(batches(evaluated))) == (5 - drop_last, 3 - drop_last)
    )
    assert len(of.get_eval_dataloader(Numbers(64))) == 8


def test_predictions_of_a_stream_come_in_its_order(trainer: Any, kind: str, tmp_path: Path) -> None:
    of = made(trainer, kind, tmp_path, dataloader_num_workers=1)
    assert of.predict(Stream(11)).predictions[1].tolist() == list(range(11))


@pytest.mark.parametrize("persistent", [False, True])
def test_loaders_of_evaluation_are_kept_if_their_workers_are(
    trainer: Any, kind: str, persistent: bool, tmp_path: Path
) -> None:
    of = made(trainer, kind, tmp_path, dataloader_persistent_workers=persistent, dataloader_num_workers=1)
    of.accelerator.prepare = lambda loader: loader  # which makes a new one each time
    first, second = of.get_eval_dataloader(), of.get_eval_dataloader()
    assert (first is second) == persistent and batches(first) == batches(second)
    assert isinstance(first, DataLoader)
