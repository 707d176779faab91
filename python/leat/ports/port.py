"""A port: one loader for many processes of a host."""

from __future__ import annotations

import json
import weakref
from typing import Any

from .. import _leat, check
from ..errors import UnsupportedError
from ..loading.loader import TAILS, Loader
from ..loading.reader import Closing
from .form import told
from .known import Folder, path_of, text_of

HELD = 1 << 30  #: bytes lent to consumers, if the memory allows it


class Port(Closing):
    """Gives the batches of a loader to other processes of this host, which get them by ``leat.attach(name)``.

    Batches of a loader are made once for all of them. Each has its own batch size, rank, start and speed, and gets the
    same rows in the same order, with the same bytes, as a loader of its own would give it (docs/ports.md). It ends with
    :meth:`close`, with the ``with`` block, or with the process.

    The port opens a loader of its own with the arguments of `loader`, which is not touched and can be read, or closed.
    It begins at the position of `loader`.

    Args:
        loader: the served one: in order, and without functions in Python.
        name: the one that others attach to: up to 64 letters, digits, ``-``, ``_`` and ``.``, the first no ``.``.
        folder: that of the socket. None: ``$LEAT_RUNTIME_DIR``, else ``$XDG_RUNTIME_DIR/leat``, else ``leat-<user id>``
            in ``$TMPDIR`` or ``/tmp``. It is made if it is missing, for this user alone.
        group: a group of users, by name or number, whose members may attach, too. None: this user alone.

    Raises:
        ValueError: the name is not valid.
        FileExistsError: a port of that name is open (:class:`leat.ExistsError`).
        OSError: the folder or the socket cannot be made.
        leat.UnsupportedError: a loader that cannot be shared; the text says why.

    >>> loader = leat.Loader(leat.open(path), batch_size=32, shuffle=True, framework="numpy")
    >>> with leat.Port(loader, "numbers", folder=tmp / "ports"):
    ...     with leat.attach("numbers", batch_size=8, folder=tmp / "ports") as training:
    ...         [batch.size for batch in training][:3]
    [8, 8, 8]
    """

    def __init__(
        self,
        loader: Loader,
        name: str,
        *,
        folder: Folder = None,
        group: str | int | None = None,
        _part: tuple[int, int] = (0, 1),
    ) -> None:
        if not isinstance(loader, Loader):
            raise TypeError(f"a port is opened over a leat.Loader, not {type(loader).__name__}")
        self.name = text_of(name)  #: of the port
        refuse(loader)
        options = {**loader._options, **_shared(loader, *_part)}
        core = _leat.Loader.open(**options)
        try:
            state = json.loads(loader._core.state())
            if loader._share is None and (state["at"]["epoch"] or state["at"]["row"]):
                core.load_state(json.dumps(state))
            self._core = _leat.Port.open(
                core, self.name, path_of(folder), None if group is None else str(group), json.dumps(told(loader))
            )
        except BaseException:
            core.close()
            raise
        self._finalizer = weakref.finalize(self, _close, self._core, core)  # at exit, too: the socket is removed

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until someone asks the port to end (``leat port stop``, :func:`leat.ports.stop`).

        Args:
            timeout: seconds. None: without end.

        Returns:
            Whether it was asked to end. It goes on until :meth:`close` is called.

        Raises:
            OSError: why it cannot go on.
        """
        return self._core.wait(-1 if timeout is None else milliseconds("timeout", timeout))

    def stat(self) -> dict[str, Any]:
        """The state of the port and each consumer; docs/ports.md names the keys."""
        found: dict[str, Any] = json.loads(self._core.stat())
        return found

    def close(self) -> None:
        """Tells the attached readers, and removes the socket. The batches that they hold stay valid."""
        super().close()

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("a Port cannot be pickled: other processes reach it by leat.attach(name)")

    def __repr__(self) -> str:
        return f"<leat.Port {self.name!r}{'' if self._finalizer.alive else ', closed'}>"


def milliseconds(name: str, seconds: Any) -> int:
    """A time as the library takes it."""
    if isinstance(seconds, bool) or not hasattr(seconds, "__float__"):
        raise TypeError(f"{name} is a number of seconds, not {seconds!r:.60}")
    number = float(seconds)
    if not 0 <= number < 1 << 31:
        raise ValueError(f"{name} is a number of seconds, 0 or more, not {seconds!r:.60}")
    return round(number * 1000)


def refuse(loader: Loader) -> None:
    """Raises if other processes cannot share this loader."""
    decided = loader._decisions.entries()[1:] if loader._sampler is None else []
    reason = (
        "functions in Python (leat.ops.Map, MapBatch) are not served yet: run them on what leat.attach gives"
        if loader._calls is not None
        else "a mesh is of one job: give rank and world_size to leat.attach"
        if loader.mesh is not None and loader._share is None
        else "in_order=False gives each process rows in an order of its own"
        if not loader._options["in_order"]
        else "batches by length (batch_tokens, buckets) have no size of their own for each consumer"
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


def _shared(loader: Loader, part: int, parts: int) -> dict[str, Any]:
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
        "tail": check.choice("tail", "uneven", TAILS),
        "rank": part,
        "world_size": parts,
        "local_ranks": 1,
        "epochs": -1,
        "region": 1,
        "log_dir": None,
        "max_held_bytes": max(held, min(HELD, _leat.memory_allowed() // 4)),
    }


def _close(port: _leat.Port, loader: _leat.Loader) -> None:
    port.close()
    loader.close()
