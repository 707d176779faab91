"""A port: one loader for many processes of a host."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from .. import _leat, check
from ..device.card import Card, card_of
from ..loading import on_card
from ..loading.loader import Loader
from ..sharing.known import Folder, text_of
from ..sharing.served import Served


class Port(Served):
    """Gives the batches of a loader to other processes of this host, which get them by ``leat.attach(name)``.

    Batches of a loader are made once for all of them. Each has its own batch size, rank, start and speed, and gets the
    same rows in the same order, with the same bytes, as a loader of its own would give it (docs/ports.md). It ends with
    :meth:`close`, with the ``with`` block, or with the process.

    The port opens a loader of its own with the arguments of `loader`, which is not touched and can be read, or closed.
    It begins at the position of `loader`.

    Args:
        loader: the served one: in order, and without functions in Python.
        name: the one that others attach to: up to 64 letters, digits, ``-``, ``_`` and ``.``, the first no ``.``.
        device: ``"cuda:0"``: batches go to that card once, and readers that attach with ``device=`` get theirs from
            there, whatever their number (docs/device.md). None: as of `loader`.
        device_budget_bytes: bound of the card's memory for them; it stays with this process once it was used. None:
            half of what is free.
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
        device: Any = None,
        device_budget_bytes: int | None = None,
        folder: Folder = None,
        group: str | int | None = None,
    ) -> None:
        if not isinstance(loader, Loader):
            raise TypeError(f"a port is opened over a leat.Loader, not {type(loader).__name__}")
        self.name = text_of(name)  #: of the port
        there = loader._form.card
        card = None if there is None else there.card
        card = card if device is None else card_of(device)
        self._mirrors = None
        if card is not None:
            budget = 0 if device_budget_bytes is None else check.integer("device_budget_bytes", device_budget_bytes, 1)
            self._mirrors = _leat.DeviceMirrors.open(card.number, budget)
        super().__init__(
            loader,
            self.name,
            folder,
            None if group is None else str(group),
            open_=None if card is None else partial(_opened, loader, card),
            mirrors=self._mirrors,
        )

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
        found = super().stat()
        if self._mirrors is not None:
            found["device"] = json.loads(self._mirrors.stats())
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("a Port cannot be pickled: other processes reach it by leat.attach(name)")

    def __repr__(self) -> str:
        return f"<leat.Port {self.name!r}{'' if self._finalizer.alive else ', closed'}>"


def _opened(loader: Loader, card: Card, options: dict[str, Any]) -> tuple[_leat.Loader, dict[str, Any]]:
    """A loader whose batches go to a card, and the tables of what readers make of them there."""
    outputs = None if loader._form.by_host else loader._outputs
    core, tables = (
        on_card.opened(options, outputs, loader.dataset.schema, card, False)
        if outputs is not None
        else (_leat.Loader.open(**options, pinning=card.number), [])
    )
    return core, {"tables": [table.told() for table in tables]}


def milliseconds(name: str, seconds: Any) -> int:
    """A time as the library takes it."""
    if isinstance(seconds, bool) or not hasattr(seconds, "__float__"):
        raise TypeError(f"{name} is a number of seconds, not {seconds!r:.60}")
    number = float(seconds)
    if not 0 <= number < 1 << 31:
        raise ValueError(f"{name} is a number of seconds, 0 or more, not {seconds!r:.60}")
    return round(number * 1000)
