"""leat's loaders inside Lightning: a run that was saved at the end of an epoch goes on with the next one.

Lightning saves the state of the training loader with its checkpoints. At the end of an epoch, that state may be one of
mid-epoch: ``limit_train_batches`` ends an epoch early, and the loader does not know. Lightning itself does, when it
resumes: its counters say whether the batch before was the epoch's last. It then trains the next epoch on the loader's
batches, or does not load the state at all. So the states that leat's loaders get are made those of the next epoch.

Lightning fetches one batch ahead for data whose length is not known; a state then does not count it.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

from .errors import StateError

_FIT_LOOPS = ("lightning.pytorch.loops.fit_loop", "pytorch_lightning.loops.fit_loop")


def is_here() -> bool:
    """Whether Lightning is imported: then its fit loops load states as this module says. Loaders call this as their
    length is asked for, which a fit loop does before it loads states.
    """
    found = [name for name in _FIT_LOOPS if name in sys.modules]
    for name in found:
        install(name)
    return bool(found)


@functools.cache
def install(module: str) -> None:
    """Makes the fit loop of Lightning, which is that module, load states of the right epoch; once in a process."""
    loop: Any = getattr(sys.modules[module], "_FitLoop", None)
    original = getattr(loop, "_load_combined_loader_states", None)
    if original is None:  # a version that does not load states
        return

    @functools.wraps(original)
    def load(self: Any) -> None:
        states = list(getattr(self, "_combined_loader_states_to_load", ()))
        original(self)
        loaders = getattr(self._combined_loader, "flattened", ())
        if not states or not (_over(self) or not self.restarting):
            return
        self._combined_loader_states_to_load = []  # they are for the first loaders of a run
        for loader, state in zip((each for each in loaders if hasattr(each, "state_dict")), states):
            if hasattr(loader, "_leave_epoch"):
                _begin_after(loader, state, strict=self.restarting)
            if hasattr(loader, "_tell_epoch"):  # Lightning does so once workers have begun to read
                progress = self.epoch_progress.current
                loader._tell_epoch(progress.processed + (progress.ready != progress.processed))

    save = loop.on_save_checkpoint

    @functools.wraps(save)
    def saved(self: Any) -> Any:
        loaders = [each for each in getattr(self._combined_loader, "flattened", ()) if hasattr(each, "most_ahead")]
        try:
            for loader in loaders:
                loader._ahead = len(getattr(self._data_fetcher, "batches", ()))
            return save(self)
        finally:
            for loader in loaders:
                loader._ahead = 0

    loop._load_combined_loader_states, loop.on_save_checkpoint = load, saved


def _over(loop: Any) -> bool:
    """Whether the checkpoint was saved after the last batch of an epoch."""
    return bool(loop.epoch_loop.batch_progress.is_last_batch)


def _begin_after(loader: Any, state: Any, strict: bool) -> None:
    """Makes a loader begin the epoch after that of a state, which may be one of another loader if not `strict`."""
    try:
        loader.load_state_dict(state)
        loader._leave_epoch()
    except StateError:
        if strict:
            raise
        loader._loaded = None
