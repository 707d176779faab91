"""Trainings with Lightning: the model that the tests share, and as a script a training on two ranks: lightning_ddp.py
KIND FOLDER.

Lightning starts the second rank itself: it runs this script again.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import lightning
import torch
from frameworks_support import Line, Numbers, engine_of, ids, leave, loader_class, loss_of, tell
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.strategies import DDPStrategy
from torch.utils.data import DataLoader


class Model(lightning.LightningModule):
    """Fits a line, and keeps the ids of every batch by epoch."""

    def __init__(self, loaders: dict[str, Any] | None = None) -> None:
        super().__init__()
        self.line = Line()
        self.seen: dict[str, dict[int, list[list[int]]]] = {"train": {}, "val": {}}
        self.loaders = loaders

    def note(self, stage: str, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        self.seen[stage].setdefault(self.current_epoch, []).append(ids(batch))
        return loss_of(self.line(batch["x"]), batch)

    def training_step(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        return self.note("train", batch)

    def validation_step(self, batch: dict[str, torch.Tensor]) -> None:
        self.log("val", self.note("val", batch), sync_dist=True)

    def predict_step(self, batch: dict[str, torch.Tensor]) -> list[int]:
        return ids(batch)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


class Provider(Model):
    """A model that makes its loaders in the hooks where Lightning notes the arguments of each loader made."""

    def __init__(self, make: Any) -> None:
        super().__init__()
        self.make = make

    def train_dataloader(self) -> DataLoader[Any]:
        return self.make(True)  # type: ignore[no-any-return]

    def val_dataloader(self) -> DataLoader[Any]:
        return self.make(False)  # type: ignore[no-any-return]


def trainer(folder: Path, **options: Any) -> lightning.Trainer:
    options.setdefault("devices", 1)
    return lightning.Trainer(accelerator="cpu", default_root_dir=folder, logger=False, enable_progress_bar=False,
    enable_model_summary=False,
                             num_sanity_val_steps=0, **options)  # fmt: skip


def every(steps: int, folder: Path) -> ModelCheckpoint:
    """Saves after each `steps` steps."""
    return ModelCheckpoint(folder, filename="{step}", every_n_train_steps=steps, save_top_k=-1)


def of_two() -> dict[str, Any]:
    return {"devices": 2, "strategy": DDPStrategy(process_group_backend="gloo")}


def stack(rows: list[dict[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    return {k: torch.stack([row[k] for row in rows]) for k in rows[0]}


def nothing(worker: int) -> None:
    pass


def described(loader: Any, given: dict[str, Any]) -> dict[str, Any]:
    """Whether a loader that was made again has what the first was given."""
    same = [
        k
        for k, v in given.items()
        if k != "multiprocessing_context" and getattr(loader, k) is not v and getattr(loader, k) != v
    ]
    return {"engine": engine_of(loader), "lost": same, "sampler": type(loader.sampler).__name__,
    "method": loader.multiprocessing_context.get_start_method(),
            "batch_size": loader.batch_size, "drop_last": loader.drop_last}  # fmt: skip


def main(kind: str, folder: Path) -> None:
    torch.set_num_threads(1)
    make = loader_class(kind)

    model = Model()
    fit = trainer(folder, max_epochs=2, enable_checkpointing=False, **of_two())
    fit.fit(
        model,
        make(Numbers(21), batch_size=4, shuffle=True, num_workers=2),
        make(Numbers(10), batch_size=2, num_workers=2),
    )
    told: dict[str, Any] = {
        "rank": fit.global_rank,
        "seen": model.seen,
        "weights": [float(w) for w in model.line.layer.weight.detach().flatten()],
    }

    own: dict[str, Any] = (
        {"reseed": True, "on_error": "skip", "sample_timeout_s": 60.0, "return_ids": False} if kind == "leat" else {}
    )
    given = {"num_workers": 2, "collate_fn": stack, "timeout": 50, "worker_init_fn": nothing,
    "multiprocessing_context": "fork",
             "prefetch_factor": 3, "persistent_workers": True, **own}  # fmt: skip
    told["arguments"] = {}
    for where in ("passed", "hook"):

        def fresh(shuffle: bool) -> DataLoader[Any]:
            return make(Numbers(20), batch_size=3, shuffle=shuffle, drop_last=True, **given)

        fit = trainer(folder, max_epochs=1, enable_checkpointing=False, **of_two())
        if where == "hook":
            fit.fit(Provider(fresh))
        else:
            fit.fit(Model(), fresh(True), fresh(False))
        told["arguments"][where] = {
            "train": described(fit.train_dataloader, given),
            "val": described(fit.val_dataloaders, given),
        }

    fit = trainer(folder, enable_checkpointing=False, **of_two())
    told["predicted"] = fit.predict(Model(), make(Numbers(9), batch_size=2, num_workers=2))
    told["predict_engine"] = engine_of(fit.predict_dataloaders)

    if kind != "torch":  # whose loader has no state
        whole, resumed = Model(), Model()
        loader = {"batch_size": 2, "shuffle": True, "num_workers": 2}
        trainer(folder, max_epochs=3, callbacks=[every(7, folder)], **of_two()).fit(whole, make(Numbers(20), **loader))
        trainer(folder, max_epochs=3, **of_two()).fit(
            resumed, make(Numbers(20), **loader), ckpt_path=str(folder / "step=7.ckpt")
        )
        told |= {"whole": whole.seen["train"], "resumed": resumed.seen["train"]}

        limited, resumed = Model(), Model()
        options: dict[str, Any] = {"max_epochs": 3, "limit_train_batches": 2, **of_two()}
        trainer(folder, callbacks=[every(2, folder)], **options).fit(limited, make(Numbers(20), **loader))
        trainer(folder, **{**options, **of_two()}).fit(
            resumed, make(Numbers(20), **loader), ckpt_path=str(folder / "step=2.ckpt")
        )
        told |= {"limited": limited.seen["train"], "limited resumed": resumed.seen["train"]}
    tell(**told)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
    leave()
