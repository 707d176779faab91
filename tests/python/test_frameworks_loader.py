"""A leat.Loader in Hugging Face Trainer, and in Accelerate's skip_first_batches: a resumed run has the very next
batches, without reading those before.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leat

torch = pytest.importorskip("torch")

from frameworks_support import module_of, needs  # noqa: E402

needs("transformers", "accelerate")

pytestmark = pytest.mark.filterwarnings("ignore")  # Trainer's own

N = 40
LENGTHS = np.random.default_rng(0).integers(3, 60, N)


def data() -> leat.Dataset:
    ids = np.arange(N)
    x = (ids[:, None] / [N, -N]).astype(np.float32)
    return leat.from_arrays(x=x, y=x[:, :1], id=ids)


def documents() -> leat.Dataset:
    starts = np.concatenate([[0], np.cumsum(LENGTHS)])
    return leat.from_arrays(tokens=leat.Ragged(np.arange(starts[-1]), starts), id=np.arange(N))


def drawn(seed: int) -> Any:
    return torch.utils.data.RandomSampler(range(N), generator=torch.Generator().manual_seed(seed))


MAKE: dict[str, Callable[..., leat.Loader]] = {
    "shuffled": lambda **k: leat.Loader(data(), 4, shuffle=True, seed=3, **k),
    "in order": lambda **k: leat.Loader(data(), 4, **k),
    "the last batch is smaller": lambda **k: leat.Loader(data(), 7, shuffle=True, tail="uneven", **k),
    "weighted": lambda **k: leat.Loader(data(), 4, sampler=leat.Weighted(np.arange(1.0, N + 1), N), **k),
    "a list": lambda **k: leat.Loader(data(), 4, sampler=list(range(N - 1, 3, -1)), **k),
    "a sampler": lambda **k: leat.Loader(data(), 4, sampler=drawn(5), **k),
    "by length": lambda **k: leat.Loader(documents(), batch_tokens=300, shuffle=True, **k),
    "blocks": lambda **k: leat.Loader(data(), 4, shuffle=leat.Blocks(5), **k),
    "a mixture": lambda **k: leat.Loader(leat.Mix({"a": (data(), 0.75), "b": (data(), 0.25)}), 4, **k),
    "two ranks": lambda **k: leat.Loader(data(), 4, shuffle=True, rank=1, world_size=2, **k),
}


def epoch(batches: Any) -> list[list[int]]:
    return [batch["id"].tolist() for batch in batches]


@pytest.fixture(scope="module")
def skip() -> Any:
    accelerate = pytest.importorskip("accelerate")
    accelerate.PartialState()
    return accelerate.Accelerator().skip_first_batches


@pytest.mark.parametrize("how", MAKE)
def test_the_rest_of_an_epoch_is_that_of_the_whole(skip: Any, how: str) -> None:
    loader = MAKE[how]()
    whole = [epoch(loader) for _ in range(3)]
    for n in (1, 2, len(whole[0]) - 1):
        other = MAKE[how]()
        rest = skip(other, n)
        assert len(rest) == len(whole[0]) - n
        assert epoch(rest) == whole[0][n:]
        assert [epoch(other), epoch(other)] == whole[1:]


@pytest.mark.parametrize("how", [how for how in MAKE if how != "a sampler"])
def test_an_epoch_that_is_said_needs_none_before_it(skip: Any, how: str) -> None:
    loader = MAKE[how]()
    whole = [epoch(loader) for _ in range(4)]
    other = MAKE[how]()
    rest = skip(other, 2)
    rest.set_epoch(2)
    assert epoch(rest) == whole[2][2:]
    assert epoch(other) == whole[3]


def test_what_is_skipped_is_not_read(skip: Any, tmp_path: Path) -> None:
    def noted(value: Any) -> Any:
        with open(tmp_path / "read", "a") as file:
            file.write(f"{int(value)}\n")
        return value

    many = leat.from_arrays(id=np.arange(20_000))
    loader = leat.Loader(many, 4, outputs={"id": [leat.ops.Map(noted)]})
    assert epoch(skip(loader, 4998)) == [[19_992, 19_993, 19_994, 19_995], [19_996, 19_997, 19_998, 19_999]]
    assert len((tmp_path / "read").read_text().split()) < 10_000  # those of the first window, which opening begins


def test_skipping_twice_and_all(skip: Any) -> None:
    loader = MAKE["in order"]()
    assert epoch(skip(skip(loader, 3), 4)) == [[28, 29, 30, 31], [32, 33, 34, 35], [36, 37, 38, 39]]
    assert epoch(skip(loader, 10)) == epoch(skip(loader, 12)) == []
    assert loader.epoch == 3
    assert epoch(skip(loader, 0))[0] == [0, 1, 2, 3]


def test_a_state_that_was_loaded_counts_in_place_of_the_number(skip: Any) -> None:
    loader = MAKE["shuffled"]()
    batches = iter(loader)
    for _ in range(6):
        next(batches)
    other = MAKE["shuffled"]()
    other.load_state_dict(loader.state_dict())
    assert epoch(skip(other, 6)) == epoch(batches)


def test_a_state_that_was_loaded_counts_beyond_the_length_too(skip: Any) -> None:
    loader = MAKE["in order"]()
    batches = iter(loader)
    next(batches)
    loader.set_batch_size(8)
    epoch(batches)
    batches = iter(loader)
    next(batches)
    other = MAKE["in order"]()
    other.load_state_dict(loader.state_dict())
    assert len(other) == 5
    assert epoch(skip(other, 8)) == epoch(batches)


@pytest.mark.parametrize("place", [(0, 1), (1, 2)])
def test_a_reader_of_a_port_skips(skip: Any, tmp_path: Path, place: tuple[int, int]) -> None:
    def reader() -> Any:
        return leat.attach("p", 3, folder=tmp_path, rank=place[0], world_size=place[1], start="beginning")

    with leat.Loader(data(), 5, shuffle=True) as served, leat.Port(served, "p", folder=tmp_path):
        whole = reader()
        epochs = [epoch(whole) for _ in range(3)]
        other = reader()
        other.set_epoch(0)
        assert epoch(skip(other, 2)) == epochs[0][2:]
        rest = skip(other, len(epochs[0]) - 1)
        rest.set_epoch(2)
        assert epoch(rest) == epochs[2][-1:]
        whole.set_epoch(1)
        batches = iter(whole)
        for _ in range(3):
            next(batches)
        other.load_state_dict(whole.state_dict())
        assert epoch(skip(other, 1)) == epochs[1][3:]


def test_ranks_that_share_a_loader_skip(skip: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"RANK": 0, "WORLD_SIZE": 2, "LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": 2}.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.setenv("LEAT_RUNTIME_DIR", str(tmp_path / "ports"))
    alone = leat.Loader(data(), 4, shuffle=True)
    whole = [epoch(alone) for _ in range(4)]
    with leat.Loader(data(), 4, shuffle=True, share="job") as loader:
        assert loader.stats()["shared"]["attached"]
        assert [epoch(loader), epoch(skip(loader, 2)), epoch(loader)] == [whole[0], whole[1][2:], whole[2]]
        rest = skip(loader, 3)
        rest.set_epoch(1)
        assert epoch(rest) == whole[1][3:]
        alone.set_epoch(2)
        next(iter(alone))
        loader.load_state_dict(alone.state_dict())
        assert [epoch(skip(loader, 4)), epoch(skip(loader, 4))] == [whole[2][1:], whole[3][4:]]


def test_what_only_a_state_tells_is_said(skip: Any) -> None:
    with pytest.raises(leat.UnsupportedError, match="only a state that was saved says which rows"):
        epoch(skip(MAKE["shuffled"](in_order=False), 2))
    with pytest.raises(leat.UnsupportedError, match=r"what was reported of those before: load_state_dict\(\) goes on"):
        epoch(skip(MAKE["in order"](feedback=leat.TopFraction(0.5)), 2))


def test_the_function_that_a_script_has_imported_takes_a_loader(skip: Any) -> None:
    import accelerate
    from accelerate.data_loader import skip_first_batches

    MAKE["in order"]()
    assert epoch(skip_first_batches(MAKE["in order"](), 9)) == epoch(
        accelerate.skip_first_batches(MAKE["in order"](), 9)
    )
    plain = torch.utils.data.DataLoader(range(8), 2)
    assert [batch.tolist() for batch in skip_first_batches(plain, 3)] == [[6, 7]]


# ---- Trainer ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trainer() -> Any:
    return module_of("trainer_ranks.py")


def fit(trainer: Any, folder: Path, how: str, mixed: bool, resume: Path | None = None, **options: Any) -> Any:
    """Trains on a loader, which a method of the user's gives to Trainer, or which leat's mixin takes for a data set."""

    class Given(trainer.Trainer):  # type: ignore[misc]
        def get_train_dataloader(self) -> Any:
            return MAKE[how]()

    kind = trainer.trainer_class("mixin") if mixed else Given
    of = {"train_dataset": MAKE[how]()} if mixed else {}
    done = kind(trainer.Model(), trainer.arguments(folder, **options), **of)
    done.train(resume_from_checkpoint=None if resume is None else str(resume))
    return done


@pytest.mark.parametrize("step", [3, 10, 13])
@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("how", ["shuffled", "the last batch is smaller", "weighted", "a mixture"])
def test_a_resumed_training_goes_on_with_the_very_next_batch(
    trainer: Any, tmp_path: Path, how: str, mixed: bool, step: int
) -> None:
    whole = fit(trainer, tmp_path, how, mixed, save_strategy="steps", save_steps=step, num_train_epochs=3)
    resumed = fit(trainer, tmp_path / "b", how, mixed, tmp_path / f"checkpoint-{step}", num_train_epochs=3)
    assert resumed.model.seen == whole.model.seen[step:]
    loader = MAKE[how]()
    assert whole.model.seen == [ids for _ in range(3) for ids in epoch(loader)]


@pytest.mark.parametrize("step", [3, 13])
def test_the_mixin_saves_what_decides(trainer: Any, tmp_path: Path, step: int) -> None:
    """Batches of another size from a step on, which Trainer does not count, and lists that a sampler has drawn."""
    from transformers import TrainerCallback

    class Smaller(TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
            if state.global_step == 2:
                given["train_dataloader"].set_batch_size(2)

    def run(folder: Path, resume: str | None = None, **options: Any) -> list[list[int]]:
        made = trainer.trainer_class("mixin")(
            trainer.Model(),
            trainer.arguments(folder, max_steps=25, **options),
            train_dataset=MAKE["a sampler"](),
            callbacks=[Smaller()],
        )
        made.train(resume_from_checkpoint=resume)
        return made.model.seen  # type: ignore[no-any-return]

    whole = run(tmp_path, save_strategy="steps", save_steps=step)
    assert run(tmp_path / "b", str(tmp_path / f"checkpoint-{step}")) == whole[step:]
    assert {len(ids) for ids in whole[2:]} == {2}


def test_a_sampler_that_json_does_not_hold_is_said(trainer: Any, tmp_path: Path) -> None:
    class Own(torch.utils.data.Sampler[int]):
        def __iter__(self) -> Any:
            return iter(range(N))

        def __len__(self) -> int:
            return N

        def state_dict(self) -> dict[str, Any]:
            return {"at": torch.zeros(1)}

        def load_state_dict(self, state: dict[str, Any]) -> None:
            pass

    made = trainer.trainer_class("mixin")(
        trainer.Model(),
        trainer.arguments(tmp_path, save_strategy="steps", save_steps=2),
        train_dataset=leat.Loader(data(), 4, sampler=Own()),
    )
    with pytest.raises(leat.StateError, match="what a sampler says of itself is no JSON, as Trainer saves it"):
        made.train()


def test_states_that_differ_from_rank_to_rank_are_refused(trainer: Any, tmp_path: Path) -> None:
    made = trainer.trainer_class("mixin")(
        trainer.Model(),
        trainer.arguments(tmp_path, save_strategy="steps", save_steps=2),
        train_dataset=MAKE["two ranks"](in_order=False),
    )
    with pytest.raises(leat.StateError, match="one state for all ranks.*in_order=False.*save loader.state_dict"):
        made.train()


def test_a_second_training_begins_anew(trainer: Any, tmp_path: Path) -> None:
    """A run that Trainer tries again with `auto_find_batch_size` is one, too."""
    made = trainer.trainer_class("mixin")(
        trainer.Model(), trainer.arguments(tmp_path, max_steps=3), train_dataset=MAKE["shuffled"]()
    )
    made.train()
    made.train()
    assert made.model.seen[3:] == made.model.seen[:3] == epoch(MAKE["shuffled"]())[:3]


def test_gradients_are_accumulated_over_whole_rounds(trainer: Any, tmp_path: Path) -> None:
    options = {"gradient_accumulation_steps": 3, "num_train_epochs": 2}
    whole = fit(trainer, tmp_path, "shuffled", True, save_strategy="steps", save_steps=2, **options)
    assert whole.state.global_step == 8
    resumed = fit(trainer, tmp_path / "b", "shuffled", True, tmp_path / "checkpoint-2", **options)
    assert resumed.model.seen == whole.model.seen[6:]
    assert resumed.model.line.layer.weight.equal(whole.model.line.layer.weight)


def test_without_skipping_an_epoch_begins_anew(trainer: Any, tmp_path: Path) -> None:
    whole = fit(trainer, tmp_path, "shuffled", True, save_strategy="steps", save_steps=3)
    again = fit(trainer, tmp_path / "b", "shuffled", True, tmp_path / "checkpoint-3", ignore_data_skip=True)
    assert again.model.seen[:10] == whole.model.seen[:10]


def test_evaluation_and_prediction_take_loaders(trainer: Any, tmp_path: Path) -> None:
    def made() -> Any:
        return leat.Loader(data(), 16, tail="uneven")

    kind = trainer.trainer_class("mixin")
    plain = kind(trainer.Model(), trainer.arguments(tmp_path), eval_dataset={"a": made()})
    assert plain.predict(made()).predictions[1].tolist() == list(range(N))
    assert plain.evaluate(made())["eval_loss"] == plain.evaluate()["eval_a_loss"]
