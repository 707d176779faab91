"""The work of a Ray worker: rows of a plan, made in its process, where data set and program stay open."""

from __future__ import annotations

import pickle
import socket
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import ray

from .. import __version__
from ..errors import UnsupportedError
from ..loading.making import rows_of
from .parts import made_of


class Ran(NamedTuple):
    """What is told of rows that stay in the store: small, so that it outlives them."""

    nbytes: int
    rows: int
    node: str
    seconds: float
    hash: str  #: of the outputs that a stage returned
    types: tuple[tuple[str, str, tuple[int, ...]], ...]  #: of these: name, dtype, shape of a row


class Failed(NamedTuple):
    """An error in the place of rows: a value, so that Ray neither wraps it nor tries again."""

    error: Exception
    node: str


def host() -> str:
    """This machine, with Ray's name of its node."""
    return f"{socket.gethostname()}, node {ray.get_runtime_context().get_node_id()[:8]}"


def make(
    common: Mapping[str, Any], decisions: Any, places: Sequence[Mapping[str, Any]], threads: int, version: str
) -> list[Any]:
    """Rows of planned batches: for each place :class:`Made`, or :class:`Failed`.

    Args:
        common, decisions, places: the parts of plans of rows: of their loader, of all steps between two decisions, and
            epoch, step and rows of each.
        threads: that this worker may use.
        version: of leat where the plans were made.
    """
    node = host()
    if version != __version__:
        said = f"leat {__version__} is installed there, and {version} where the batches are read: install the same"
        return [Failed(UnsupportedError(said), node) for _ in places]
    made = list[Any]()
    for place in places:
        try:
            planned = {**common, "decisions": decisions, **place}
            made.append(made_of(rows_of(planned, threads), place["rows"][1], node))
        except Exception as e:  # noqa: BLE001 whatever it is, it belongs to whoever reads that batch
            made.append(Failed(portable(e), node))
    return made


def portable(error: Exception) -> Exception:
    """The error, or one of a plain type, if it cannot be pickled and read again."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # noqa: BLE001 whatever its class does
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def make_sized(*args: Any) -> tuple[Any, Any]:
    """The same for rows that a stage takes: what is told of them, and they themselves, which stay in the store."""
    (made,) = make(*args)
    if isinstance(made, Failed):
        return made, None
    return Ran(made.nbytes, len(made.ids), made.node, 0.0, "", ()), made
