"""Trainings with Hugging Face Trainer: what the tests share, and as a script a training on each rank: trainer_ranks.py
KIND FOLDER.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from frameworks_support import Line, Numbers, engine_of, ids, leave, loader_class, loss_of, tell
from torch.utils.data import Dataset
from transformers import Trainer, TrainingArguments

import leat


class Model(torch.nn.Module):
    """Fits a line, and keeps the ids of every batch that it has been trained on."""

    def __init__(self) -> None:
        super().__init__()
        self.line = Line()
        self.seen: list[list[int]] = []

    def forward(self, x: torch.Tensor, y: torch.Tensor, id: torch.Tensor) -> dict[str, torch.Tensor]:
        if self.training:
            self.seen.append(ids({"id": id}))
        output = self.line(x)
        return {"loss": loss_of(output, {"y": y}), "logits": output, "ids": id}


def arguments(folder: Path, **options: Any) -> TrainingArguments:
    options = {"num_train_epochs": 2, "per_device_train_batch_size": 2, "per_device_eval_batch_size": 2,
    "dataloader_num_workers": 2, "seed": 7,
               "save_strategy": "no", "logging_strategy": "no", "learning_rate": 0.1, **options}  # fmt: skip
    return TrainingArguments(
        str(folder),
        use_cpu=True,
        report_to=[],
        disable_tqdm=True,
        remove_unused_columns=False,
        label_names=["y"],
        **options,
    )


def overriding(kind: str) -> type[Trainer]:
    """A Trainer whose user has written get_train_dataloader, as its documentation says."""

    class Overriding(Trainer):  # type: ignore[misc]
        def get_train_dataloader(self) -> Any:
            loader = loader_class(kind)(
                self.train_dataset, batch_size=self._train_batch_size, shuffle=True, collate_fn=self.data_collator,
                num_workers=self.args.dataloader_num_workers, drop_last=self.args.dataloader_drop_last,
            )  # fmt: skip
            return self.accelerator.prepare(loader)

    return Overriding


class OfLoader(Trainer):  # type: ignore[misc]
    """A Trainer whose user gives it a leat.Loader, which has its rank from torch.distributed."""

    def get_train_dataloader(self) -> Any:
        samples = [self.train_dataset[i] for i in range(len(self.train_dataset))]
        data = leat.from_arrays(**{name: torch.stack([s[name] for s in samples]) for name in samples[0]})
        return leat.Loader(data, self._train_batch_size, shuffle=True)


def trainer_class(how: str) -> type[Trainer]:
    """By name: Trainer itself, one with a method written for that loader, and one with leat's mixin."""
    if how == "loader":
        return OfLoader
    if how == "trainer":
        return Trainer  # type: ignore[no-any-return]
    if how == "mixin":
        from leat.accelerate import TrainerMixin

        return type("Mixed", (TrainerMixin, Trainer), {})
    return overriding(how)


def fit(how: str, folder: Path, data: Dataset[Any], *, resume: str | None = None, **options: Any) -> Trainer:
    trainer = trainer_class(how)(Model(), arguments(folder, **options), train_dataset=data, eval_dataset=Numbers(5))
    trainer.train(resume_from_checkpoint=resume)
    return trainer


def main(how: str, folder: Path) -> None:
    trainer = fit(how, folder, Numbers(20), save_strategy="steps", save_steps=7)
    resumed = fit(how, folder / "again", Numbers(20), resume=str(folder / "checkpoint-7"))
    predicted = trainer.predict(Numbers(5))
    weights = [float(w) for w in trainer.model.line.layer.weight.detach().flatten()]
    tell(seen=trainer.model.seen, resumed=resumed.model.seen, weights=weights,
    engine=engine_of(trainer.get_train_dataloader()),
         evaluated=trainer.evaluate()["eval_loss"],
         labels=[float(v) for v in predicted.label_ids.flatten()])  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
    leave()
