"""Hugging Face Trainer trains with leat.DataLoader, by a method of the user's or by leat's mixin, and resumes where it
was.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import leat

pytest.importorskip("torch")
# The import of Trainer takes seconds: it waits until a test runs.

from frameworks_support import Numbers, Stream, available, engine_of, module_of, needs, run_ranks  # noqa: E402

needs("transformers", "accelerate")

pytestmark = pytest.mark.filterwarnings("ignore")  # Trainer's own


@pytest.fixture(scope="module")
def trainer() -> Any:
    """The model and the trainers that the script of two ranks uses as well."""
    return module_of("trainer_ranks.py")


# How a training comes by its loader: Trainer's own way, get_train_dataloader written with either class, leat's mixin.
HOW = ["trainer", "torch", "leat", "mixin"]


def skip_if_missing(how: str) -> str:
    if how in ("leat", "mixin", "loader") and not available("leat"):
        pytest.skip("leat has no DataLoader yet")
    return how


def engine(how: str) -> str:
    return {"trainer": "torch", "mixin": "leat", "loader": "leat"}.get(how, how)


@pytest.fixture(params=HOW)
def how(request: pytest.FixtureRequest) -> str:
    return skip_if_missing(request.param)


def flat(batches: list[list[int]]) -> list[int]:
    return [i for batch in batches for i in batch]


def test_each_epoch_trains_on_every_sample_in_an_order_of_its_own(trainer: Any, how: str, tmp_path: Path) -> None:
    done = trainer.fit(how, tmp_path, Numbers(20))
    first, second = flat(done.model.seen[:10]), flat(done.model.seen[10:])
    assert sorted(first) == sorted(second) == list(range(20))
    assert first != second
    assert engine_of(done.get_train_dataloader()) == engine(how)


def test_a_training_learns_what_it_learns_with_trainers_own_loader(trainer: Any, tmp_path: Path, how: str) -> None:
    own, done = trainer.fit("trainer", tmp_path / "own", Numbers(20)), trainer.fit(how, tmp_path, Numbers(20))
    assert done.model.seen == own.model.seen
    assert done.model.line.layer.weight.equal(own.model.line.layer.weight)


@pytest.mark.parametrize("step", [3, 10, 14])
def test_a_resumed_training_goes_on_with_the_very_next_batch(trainer: Any, how: str, step: int, tmp_path: Path) -> None:
    whole = trainer.fit(how, tmp_path, Numbers(20), save_strategy="steps", save_steps=step)
    resumed = trainer.fit(how, tmp_path / "again", Numbers(20), resume=str(tmp_path / f"checkpoint-{step}"))
    assert resumed.model.seen == whole.model.seen[step:]
    assert len(whole.model.seen) == 20


def test_gradients_are_accumulated_over_whole_rounds(trainer: Any, how: str, tmp_path: Path) -> None:
    done = trainer.fit(how, tmp_path, Numbers(20), gradient_accumulation_steps=4, num_train_epochs=1)
    assert sorted(flat(done.model.seen)) == list(range(20))
    assert done.state.global_step == 3  # 4 + 4 + 2 batches


@pytest.mark.parametrize("how", ["trainer", "mixin"])
def test_evaluation_and_prediction_see_each_sample_once_and_in_order(trainer: Any, how: str, tmp_path: Path) -> None:
    skip_if_missing(how)
    done = trainer.fit(how, tmp_path, Numbers(4), num_train_epochs=1)
    found = done.predict(Numbers(5))
    assert found.predictions[1].tolist() == [0, 1, 2, 3, 4]
    assert found.label_ids.flatten().tolist() == pytest.approx([2 * i / 5 - 1 for i in range(5)])
    assert done.evaluate()["eval_loss"] == pytest.approx(found.metrics["test_loss"])
    assert {engine_of(done.get_eval_dataloader()), engine_of(done.get_test_dataloader(Numbers(5)))} == {engine(how)}


@pytest.mark.parametrize("how", ["trainer", "mixin"])
def test_a_stream_trains_for_as_many_steps_as_asked(trainer: Any, how: str, tmp_path: Path) -> None:
    skip_if_missing(how)
    done = trainer.fit(how, tmp_path, Stream(8), max_steps=6)
    assert done.model.seen == [[0, 2], [1, 3], [4, 6], [5, 7], [0, 2], [1, 3]]


def test_the_mixin_gives_loaders_what_only_leat_has(trainer: Any, tmp_path: Path) -> None:
    class Mixed(trainer.trainer_class("mixin")):  # type: ignore[misc]
        loader_options = {"num_workers": "auto", "on_error": "skip"}

    done = Mixed(trainer.Model(), trainer.arguments(tmp_path), train_dataset=Numbers(20))
    done.train()
    assert sorted(flat(done.model.seen[:10])) == list(range(20))
    loader = done.get_train_dataloader()
    assert (loader._adaptive, loader.on_error, done.get_test_dataloader(Numbers(3)).on_error) == (True, "skip", "skip")


@pytest.mark.parametrize("step", [3, 14])
def test_a_loader_that_the_user_does_not_prepare_resumes_by_its_seed(trainer: Any, step: int, tmp_path: Path) -> None:
    class Unprepared(trainer.Trainer):  # type: ignore[misc]
        def get_train_dataloader(self) -> Any:
            return leat.DataLoader(
                self.train_dataset,
                self._train_batch_size,
                shuffle=True,
                seed=5,
                collate_fn=self.data_collator,
                num_workers=2,
            )

    def fit(folder: Path, resume: str | None = None) -> list[list[int]]:
        made = Unprepared(
            trainer.Model(),
            trainer.arguments(folder, save_strategy="steps", save_steps=step),
            train_dataset=Numbers(20),
        )
        made.train(resume_from_checkpoint=resume)
        return made.model.seen  # type: ignore[no-any-return]

    whole = fit(tmp_path)
    assert fit(tmp_path / "again", str(tmp_path / f"checkpoint-{step}")) == whole[step:]
    assert sorted(flat(whole[:10])) == list(range(20))


# --- two ranks -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=[*HOW, "loader"])
def two(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    how = skip_if_missing(request.param)
    found = run_ranks("trainer_ranks.py", how, tmp_path_factory.mktemp("trainer"))
    return [{**rank, "how": how} for rank in found]


def test_two_ranks_share_each_epoch_and_end_with_the_same_weights(two: list[dict[str, Any]]) -> None:
    for epoch in (slice(0, 5), slice(5, 10)):
        assert sorted(i for rank in two for i in flat(rank["seen"][epoch])) == list(range(20))
    assert two[0]["weights"] == two[1]["weights"]
    assert [rank["engine"] for rank in two] == [engine(two[0]["how"])] * 2


def test_two_ranks_resume_with_their_very_next_batches(two: list[dict[str, Any]]) -> None:
    for rank in two:
        assert rank["resumed"] == rank["seen"][7:]
        assert len(rank["seen"]) == 10


def test_two_ranks_evaluate_each_sample_once(two: list[dict[str, Any]]) -> None:
    for rank in two:
        assert rank["labels"] == pytest.approx([2 * i / 5 - 1 for i in range(5)])
        assert rank["evaluated"] > 0
