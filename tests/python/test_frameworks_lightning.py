"""Lightning trains with leat.DataLoader: alone and on two ranks, where it makes each loader again with a sampler of its
own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
# The import of Lightning takes seconds: it waits until a test runs.

from frameworks_support import (  # noqa: E402
    Numbers,
    Stream,
    available,
    engine_of,
    loader_class,
    module_of,
    needs,
    run_script,
)
from torch.utils.data import DistributedSampler  # noqa: E402

needs("lightning", "torchdata")

pytestmark = pytest.mark.filterwarnings("ignore")  # Lightning's own, of which there are many


@pytest.fixture(scope="module")
def lightning() -> Any:
    """The model and the trainer that the script of two ranks uses as well."""
    return module_of("lightning_ddp.py")


@pytest.fixture(params=["torch", "leat"])
def kind(request: pytest.FixtureRequest) -> str:
    if not available(request.param):
        pytest.skip("leat has no DataLoader yet")
    return str(request.param)


@pytest.fixture(params=["torchdata", "leat"])
def stateful(request: pytest.FixtureRequest) -> str:
    if not available(request.param):
        pytest.skip("leat has no DataLoader yet")
    return str(request.param)


WHOLE = [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_fit_sees_the_batches_of_training_and_validation_in_each_epoch(
    lightning: Any, kind: str, workers: int, tmp_path: Path
) -> None:
    make, model = loader_class(kind), lightning.Model()
    fit = lightning.trainer(tmp_path, max_epochs=3, enable_checkpointing=False)
    fit.fit(
        model, make(Numbers(10), batch_size=3, num_workers=workers), make(Numbers(4), batch_size=2, num_workers=workers)
    )
    assert model.seen["train"] == {epoch: WHOLE for epoch in range(3)}
    assert model.seen["val"] == {epoch: [[0, 1], [2, 3]] for epoch in range(3)}
    assert {engine_of(fit.train_dataloader), engine_of(fit.val_dataloaders)} == {kind}


def test_a_shuffled_fit_sees_every_sample_in_each_epoch_in_an_order_of_its_own(
    lightning: Any, kind: str, tmp_path: Path
) -> None:
    model = lightning.Model()
    loader = loader_class(kind)(Numbers(40), batch_size=5, shuffle=True, num_workers=2, persistent_workers=True)
    lightning.trainer(tmp_path, max_epochs=2, enable_checkpointing=False).fit(model, loader)
    orders = [[i for batch in model.seen["train"][epoch] for i in batch] for epoch in range(2)]
    assert [sorted(order) for order in orders] == [list(range(40))] * 2
    assert orders[0] != orders[1]


def test_predictions_come_in_the_order_of_the_samples(lightning: Any, kind: str, tmp_path: Path) -> None:
    fit = lightning.trainer(tmp_path, enable_checkpointing=False)
    assert fit.predict(lightning.Model(), loader_class(kind)(Numbers(10), batch_size=3, num_workers=2)) == WHOLE
    assert engine_of(fit.predict_dataloaders) == kind


def test_a_limit_of_batches_ends_each_epoch_early_and_the_next_begins_anew(
    lightning: Any, kind: str, tmp_path: Path
) -> None:
    model = lightning.Model()
    loader = loader_class(kind)(Numbers(10), batch_size=3, num_workers=2, persistent_workers=True)
    lightning.trainer(tmp_path, max_epochs=2, limit_train_batches=2, enable_checkpointing=False).fit(model, loader)
    assert model.seen["train"] == {0: WHOLE[:2], 1: WHOLE[:2]}


def fit_and_resume(lightning: Any, kind: str, folder: Path, step: int, **options: Any) -> tuple[Any, Any]:
    """What a fit of three epochs saw, and what another saw that went on from its checkpoint after `step` steps."""
    whole, resumed = lightning.Model(), lightning.Model()

    def fresh() -> Any:
        return loader_class(kind)(Numbers(10), **{"batch_size": 2, "num_workers": 2, **options})

    lightning.trainer(folder, max_epochs=3, callbacks=[lightning.every(step, folder)]).fit(whole, fresh())
    fit = lightning.trainer(folder, max_epochs=3, callbacks=[lightning.every(step, folder / "again")])
    fit.fit(resumed, fresh(), ckpt_path=str(folder / f"step={step}.ckpt"))
    return whole.seen["train"], resumed.seen["train"]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_fit_resumed_in_the_middle_of_an_epoch_goes_on_with_the_very_next_batch(
    lightning: Any, stateful: str, workers: int, tmp_path: Path
) -> None:
    whole, resumed = fit_and_resume(lightning, stateful, tmp_path, 7, num_workers=workers)
    assert resumed == {1: whole[1][2:], 2: whole[2]}
    assert len(whole[1]) == 5


@pytest.mark.parametrize(
    "how", [{"shuffle": True, "seed": 4}, {"shuffle": True}, {"shuffle": True, "seed": 4, "persistent_workers": True}]
)
def test_a_shuffled_fit_resumed_in_the_middle_of_an_epoch_keeps_its_order(
    lightning: Any, how: dict[str, Any], tmp_path: Path
) -> None:
    if not available("leat"):
        pytest.skip("leat has no DataLoader yet")
    whole, resumed = fit_and_resume(lightning, "leat", tmp_path, 7, **how)
    assert resumed[1] == whole[1][2:]
    assert sorted(i for batch in resumed[2] for i in batch) == list(range(10))
    if "seed" in how:
        assert resumed[2] == whole[2]


def test_a_fit_resumed_from_the_end_of_an_epoch_goes_on_with_the_whole_next_one(lightning: Any, tmp_path: Path) -> None:
    if not available("leat"):
        pytest.skip("leat has no DataLoader yet")
    whole, resumed = fit_and_resume(lightning, "leat", tmp_path, 5, shuffle=True, seed=4)
    assert resumed == {1: whole[1], 2: whole[2]}


SAVES: dict[str, dict[str, Any]] = {
    "after two steps": {"every_n_train_steps": 2},
    "after the epoch": {"every_n_epochs": 1, "save_on_train_epoch_end": True},
    "after validation": {"every_n_epochs": 1, "save_on_train_epoch_end": False},
}


@pytest.mark.parametrize("save", SAVES)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"limit_train_batches": 2},
        {"limit_train_batches": 4, "val_check_interval": 2},
        {"limit_train_batches": 4, "accumulate_grad_batches": 2, "limit_val_batches": 1},
        {"limit_train_batches": 3, "max_epochs": -1, "max_steps": 7},
        {"overfit_batches": 2},
    ],
    ids=str,
)
def test_a_fit_resumed_from_any_checkpoint_goes_on_as_if_it_had_not_ended(
    lightning: Any, save: str, options: dict[str, Any], tmp_path: Path
) -> None:
    if not available("leat"):
        pytest.skip("leat has no DataLoader yet")

    def fit(how: str, folder: Path, resume: Path | None = None) -> list[Any]:
        from lightning.pytorch.callbacks import ModelCheckpoint

        model, checkpoint = lightning.Model(), ModelCheckpoint(folder, "{step}", save_top_k=-1, **SAVES[save])
        order = {"seed": 4} if how == "seed" else {"generator": torch.Generator().manual_seed(4)}
        training = loader_class("leat")(Numbers(10), 2, shuffle=True, **order)
        made = lightning.trainer(folder, callbacks=[checkpoint], **{"max_epochs": 3, **options})
        made.fit(model, training, loader_class("leat")(Numbers(4), 2), ckpt_path=resume)
        return [(epoch, batch) for epoch, batches in model.seen["train"].items() for batch in batches]

    for how in ("seed", "generator"):
        whole = fit(how, tmp_path / how)
        checkpoints = list((tmp_path / how).glob("step=*.ckpt"))
        assert len(checkpoints) > 1
        for path in checkpoints:
            loops = torch.load(path, weights_only=False)["loops"]["fit_loop"]
            done = loops["epoch_loop.batch_progress"]["total"]["ready"]
            assert fit(how, tmp_path / "again", path) == whole[done:], (how, path.name)


@pytest.mark.parametrize("save", SAVES)
@pytest.mark.parametrize("options", [{}, {"limit_train_batches": 2}, {"max_steps": 7}, {"check_val_every_n_epoch": 2}])
def test_a_fit_on_a_loader_of_files_goes_on_as_if_it_had_not_ended(
    lightning: Any, save: str, options: dict[str, Any], tmp_path: Path
) -> None:
    import leat

    numbers = Numbers(10)
    data = leat.from_arrays(**{k: torch.stack([numbers[i][k] for i in range(10)]) for k in numbers[0]})

    def fit(folder: Path, resume: Path | None = None) -> list[Any]:
        from lightning.pytorch.callbacks import ModelCheckpoint

        model, checkpoint = lightning.Model(), ModelCheckpoint(folder, "{step}", save_top_k=-1, **SAVES[save])
        made = lightning.trainer(folder, callbacks=[checkpoint], **{"max_epochs": 3, **options})
        made.fit(model, leat.Loader(data, 2, shuffle=True, seed=4), leat.Loader(data, 4), ckpt_path=resume)
        return [(epoch, batch) for epoch, batches in model.seen["train"].items() for batch in batches]

    whole = fit(tmp_path / "whole")
    checkpoints = list((tmp_path / "whole").glob("step=*.ckpt"))
    assert checkpoints
    for path in checkpoints:
        done = torch.load(path, weights_only=False)["loops"]["fit_loop"]["epoch_loop.batch_progress"]["total"]["ready"]
        assert fit(tmp_path / "again", path) == whole[done:], path.name


@pytest.mark.parametrize("workers", [0, 2])
def test_a_fit_on_a_stream_goes_on_with_the_batch_that_lightning_had_fetched_ahead(
    lightning: Any, workers: int, tmp_path: Path
) -> None:
    if not available("leat"):
        pytest.skip("leat has no DataLoader yet")

    def fit(folder: Path, resume: Path | None = None) -> list[list[int]]:
        model = lightning.Model()
        made = lightning.trainer(folder, max_epochs=2, callbacks=[lightning.every(1, folder)])
        made.fit(model, loader_class("leat")(Stream(10), 2, num_workers=workers), ckpt_path=resume)
        return [batch for batches in model.seen["train"].values() for batch in batches]

    whole = fit(tmp_path)
    for step in (2, len(whole) // 2 - 1, len(whole) // 2, len(whole) // 2 + 2):
        assert fit(tmp_path / "again", tmp_path / f"step={step}.ckpt") == whole[step:], step


# --- two ranks -------------------------------------------------------------------------------------------------------


Ranks = list[dict[str, Any]]


@pytest.fixture(scope="module", params=["torch", "leat"])
def two(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Ranks:
    """What the two ranks of frameworks/lightning_ddp.py told."""
    if not available(request.param):
        pytest.skip("leat has no DataLoader yet")
    told = run_script("lightning_ddp.py", request.param, tmp_path_factory.mktemp("lightning"))
    assert sorted(rank["rank"] for rank in told) == [0, 1]
    return [{**rank, "kind": request.param} for rank in sorted(told, key=lambda rank: rank["rank"])]


def shares(n: int, size: int, epoch: int, shuffle: bool) -> list[list[list[int]]]:
    """The batches of each of two ranks by torch's DistributedSampler, as Lightning makes it."""
    found = []
    for rank in range(2):
        sampler = DistributedSampler(Numbers(n), num_replicas=2, rank=rank, shuffle=shuffle, seed=0)
        sampler.set_epoch(epoch)
        order = list(sampler)
        found.append([order[i : i + size] for i in range(0, len(order), size)])
    return found


def test_two_ranks_get_the_batches_of_their_distributed_samplers_in_each_epoch(two: Ranks) -> None:
    for epoch in range(2):
        assert [rank["seen"]["train"][str(epoch)] for rank in two] == shares(21, 4, epoch, shuffle=True)
        assert [rank["seen"]["val"][str(epoch)] for rank in two] == shares(10, 2, epoch, shuffle=False)


def test_two_ranks_end_with_the_same_weights(two: Ranks) -> None:
    assert two[0]["weights"] == two[1]["weights"] != [0.0, 0.0]


@pytest.mark.parametrize("where", ["passed", "hook"])
def test_a_loader_that_is_made_again_for_a_rank_keeps_its_engine_and_every_argument(two: Ranks, where: str) -> None:
    for rank in two:
        for stage in ("train", "val"):
            assert rank["arguments"][where][stage] == {"engine": rank["kind"], "lost": [],
            "sampler": "DistributedSampler", "method": "fork",
                                                       "batch_size": 3, "drop_last": True}  # fmt: skip


def test_two_ranks_predict_each_sample_once(two: Ranks) -> None:
    assert sorted(i for rank in two for batch in rank["predicted"] for i in batch) == list(range(9))
    assert [rank["predict_engine"] for rank in two] == [two[0]["kind"]] * 2


@pytest.mark.parametrize("two", ["leat"], indirect=True)
def test_two_ranks_resumed_in_the_middle_of_an_epoch_go_on_with_their_very_next_batches(two: Ranks) -> None:
    for number, rank in enumerate(two):
        assert [rank["whole"][str(epoch)] for epoch in range(3)] == [
            shares(20, 2, epoch, shuffle=True)[number] for epoch in range(3)
        ]
        assert rank["resumed"] == {"1": rank["whole"]["1"][2:], "2": rank["whole"]["2"]}


@pytest.mark.parametrize("two", ["leat"], indirect=True)
def test_two_ranks_resumed_from_the_end_of_a_limited_epoch_go_on_with_the_next_one(two: Ranks) -> None:
    for number, rank in enumerate(two):
        assert rank["limited"] == {str(epoch): shares(20, 2, epoch, shuffle=True)[number][:2] for epoch in range(3)}
        assert rank["limited resumed"] == {epoch: rank["limited"][epoch] for epoch in ("1", "2")}
