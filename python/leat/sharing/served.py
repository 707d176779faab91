"""A loader that other processes of the host read, by the name of a port."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Protocol

from .. import _leat, check
from ..closing import Closing, finalize
from ..errors import UnsupportedError
from .known import Folder, path_of

HELD = 1 << 30  #: bytes lent to consumers, if the memory allows it


class Shared(Protocol):
    """A loader whose batches are made for several processes: :class:`leat.Loader`."""

    dataset: Any
    mesh: Any
    rank: int
    world_size: int
    _calls: Any
    _core: Any
    _decisions: Any
    _distributed: bool
    _entries: Any
    _form: Any
    _framework: Any
    _global: int
    _mixture: Any
    _elsewhere: bool
    _options: dict[str, Any]
    _outputs: Any
    _sampler: Any
    _share: Any
    _tail: Any
    _yields: Any

    def _common(self) -> dict[str, str]: ...


class Served(Closing):
    """A port over a loader of its own, with the arguments of `loader`. `part`: the part of each global batch that it
    makes, and how many there are.
    """

    def __init__(
        self,
        loader: Shared,
        name: str,
        folder: Folder = None,
        group: str | None = None,
        part: tuple[int, int] = (0, 1),
        open_: Callable[[dict[str, Any]], tuple[_leat.Loader, dict[str, Any]]] | None = None,
        mirrors: _leat.DeviceMirrors | None = None,
    ) -> None:
        """`open_`: opens the loader by its options, and says what readers must know of it beside the rest."""
        refuse(loader)
        options = {**loader._options, **_options(loader, *part)}
        core, more = (_leat.Loader.open(**options), dict[str, Any]()) if open_ is None else open_(options)
        try:
            state = json.loads(loader._core.state())
            if loader._share is None and (state["at"]["epoch"] or state["at"]["row"]):
                core.load_state(json.dumps(state))
            self._core = _leat.Port.open(
                core, name, path_of(folder), group, json.dumps({**_told(loader), **more}), mirrors
            )
        except BaseException:
            core.close()
            raise
        self._finalizer = finalize(self, _close, self._core, core)  # at exit, too: the socket is removed

    def stat(self) -> dict[str, Any]:
        """The state of the port and each consumer; docs/ports.md names the keys."""
        found: dict[str, Any] = json.loads(self._core.stat())
        return found

    def close(self) -> None:
        """Tells the attached readers, and removes the socket. The batches that they hold stay valid."""
        super().close()


def refuse(loader: Shared) -> None:
    """Raises if other processes cannot share this loader."""
    decided = loader._decisions.entries()[1:] if loader._sampler is None else []
    reason = (
        "its rows are made by a cluster, which each training asks itself: open a leat.Loader"
        if loader._elsewhere
        else "functions in Python (leat.ops.Map, MapBatch) are not served yet: run them on what leat.attach gives"
        if loader._calls is not None
        else "a mesh is of one job: give rank and world_size to leat.attach"
        if loader.mesh is not None and loader._share is None
        else "in_order=False gives each process rows in an order of its own"
        if not loader._options["in_order"]
        else "batches by size (batch_tokens, buckets, batch_cost, batch_kv) have no size of their own for each consumer"
        if loader._options["buckets"] is not None
        else "a Sampler is read in one process, once an epoch: give a list of positions, or leat.Weighted"
        if loader._sampler is not None
        else "a mixture that is steered while it is read (mixture=) belongs to one training"
        if loader._mixture is not None and loader._mixture.algorithm is not None
        else "decisions of one training (log=, set_batch_size, set_mixture) do not hold for others"
        if decided
        else None
    )
    if reason is not None:
        raise UnsupportedError(f"this loader cannot be shared by a port: {reason}")


def _options(loader: Shared, part: int, parts: int) -> dict[str, Any]:
    """The other options of a loader that a port reads: all rows, or one of several parts of each global batch, in
    memory that other processes can map.
    """
    memory = json.loads(loader._core.stats())["memory"]
    # Ranks of a job hold, and have in flight, as much as with a loader each.
    holders, readers = (loader._options["local_ranks"], loader.world_size // parts) if loader._share else (1, 1)
    rows, rest = divmod(loader._global, loader.world_size)
    rows *= readers if parts > 1 else 1  # the part is made at once, and a reader that holds some of its rows holds it
    held = int(memory["max_held_bytes"]) * holders * (1 if parts == 1 else -(-readers // 4))
    return {
        "budget_bytes": loader._options["budget_bytes"] or (memory["budget_bytes"] * readers if readers > 1 else 0),
        "batch_size": loader._global if rest else rows,  # so that a consumer that names none has that of a rank
        "global_batch_size": 0,
        "tail": check.choice("tail", "uneven", check.TAILS),
        "rank": part,
        "world_size": parts,
        "local_ranks": 1,
        "epochs": -1,
        "region": 1,
        "log_dir": None,
        "max_held_bytes": max(held, min(HELD, _leat.memory_allowed() // 4)),
    }


def _told(loader: Shared) -> dict[str, Any]:
    """The facts that readers of a port over this loader must know, as plain values."""
    form = loader._form
    return {
        "framework": loader._framework,  # as given: "auto" is decided where the batches arrive
        "yields": loader._yields,
        "order": form.order,
        "length": form.length,
        "multiple": form.multiple,
        "sparse": form.sparse,
        "sparse_fields": {name: f.shape[0] for name, f in loader.dataset.schema.items() if f.kind == "sparse"},
    }


def _close(port: _leat.Port, loader: _leat.Loader) -> None:
    port.close()
    loader.close()
