"""The input of `leat mix show`: a Python object by name, a file that names sources and shares, or a saved state."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import os
import sys
import tomllib
import traceback
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from .. import _leat
from ..data.dataset import Dataset
from ..data.made import of_arrays
from ..errors import Error, InvalidError, MissingFileError
from ..loading.loader import Loader
from ..mixtures.logs import order_in, orders_of, with_shares
from ..mixtures.mixing import Mix
from ..mixtures.schedule import Schedule

MIX_KEYS = ("unit", "exhausted", "epoch_rows", "tokens_field", "normalize")
KEYS = ("sources", "schedule", "interpolate", "counts", *MIX_KEYS)
SOURCE_KEYS = ("path", "share", "where", "pack", "format")
SHARES = 1 << 32


class Found:
    """A mixture, and the facts of its run; `options`: of the Loader, as ``mix.show`` takes them."""

    def __init__(self, mixture: Mix | Schedule, log: Any = None, end: tuple[int, int] | None = None, **options: Any):
        self.mixture, self.log, self.end, self.options = mixture, log, end, options


def find(spec: str) -> Found:
    """The object that a SPEC names.

    Raises:
        ValueError: it names nothing, or the file is not as docs/cli.md says; the text has file and key.
        TypeError: the object is no mixture.
    """
    base, ending = os.path.splitext(spec)
    if ending.lower() in (".toml", ".json"):
        return _file(spec, ending.lower())
    module, colon, name = spec.rpartition(":")
    if colon and module and name:
        return _object(spec, module, name)
    raise ValueError(
        f"{spec}: a mixture is named module:attribute or file.py:name, or is a .toml or .json file that names sources "
        "and shares, or a .json file of a loader's state"
    )


# ---- Python ----------------------------------------------------------------------------------------------------------


def named(spec: str) -> Any:
    """The object that ``module:name`` or ``file.py:name`` names; a function or class without arguments is called.

    Raises:
        ValueError: there is no such object.
    """
    module, colon, name = spec.rpartition(":")
    if not (colon and module and name):
        raise ValueError(f"{spec}: a data set is named module:attribute or file.py:name")
    found = _attribute(spec, module, name)
    is_data = not isinstance(found, type) and (hasattr(found, "__getitem__") or hasattr(found, "__iter__"))
    with _of_user(spec):
        return found() if callable(found) and not is_data else found


@contextlib.contextmanager
def _of_user(spec: str) -> Iterator[None]:
    """An error of the user's code, or its end, is told with the lines that led to it there."""
    try:
        yield
    except Error:
        raise
    except (Exception, SystemExit) as e:
        at, own = e.__traceback__, os.path.dirname(os.path.dirname(__file__)) + os.sep
        while at is not None and at.tb_frame.f_code.co_filename.startswith((own, importlib.__file__, "<frozen ")):
            at = at.tb_next
        led = "".join(traceback.format_exception(e.with_traceback(at))).rstrip()
        raise ValueError(f"{spec} raised {type(e).__name__}: {e}\n\n{led}") from None


def _attribute(spec: str, module: str, name: str) -> Any:
    with _of_user(spec):
        found: Any = _imported(spec, module)
    for part in name.split("."):
        if not hasattr(found, part):
            near = _leat.nearest(part, dir(found))
            raise ValueError(f"{spec}: there is no {part!r} in it" + (f"; did you mean {near!r}?" if near else ""))
        found = getattr(found, part)
    return found


def _object(spec: str, module: str, name: str) -> Found:
    found: Any = _attribute(spec, module, name)
    if callable(found) and not isinstance(found, (Mix, Schedule, Loader)):
        with _of_user(spec):
            found = found()
    if isinstance(found, Loader) and not isinstance(found.dataset, Dataset):
        state = json.loads(found._core.state())
        return Found(found.dataset, found.log, order=order_in(state), batch_size=found._global)
    if not isinstance(found, (Mix, Schedule)):
        raise TypeError(
            f"{spec} is a {type(found).__name__}, not a leat.Mix, a leat.Schedule, a Loader of one, or a function "
            "without arguments that gives one"
        )
    return Found(found)


def _imported(spec: str, module: str) -> Any:
    if not module.endswith(".py"):
        sys.path.insert(0, os.getcwd())
        try:
            return importlib.import_module(module)
        except ModuleNotFoundError as e:
            if e.name != module.partition(".")[0]:
                raise
            raise InvalidError(f"{spec}: there is no module {e.name} in Python's path or the present folder") from None
    if not os.path.isfile(module):
        raise MissingFileError(f"{module}: there is no such file")
    sys.path.insert(0, os.path.dirname(os.path.abspath(module)))
    name = os.path.basename(module)[:-3]
    made = importlib.util.spec_from_file_location(name, module)
    if made is None or made.loader is None:
        raise InvalidError(f"{spec}: Python cannot read this file")
    found = importlib.util.module_from_spec(made)
    sys.modules[name] = found
    made.loader.exec_module(found)
    return found


# ---- files -----------------------------------------------------------------------------------------------------------


def _file(path: str, ending: str) -> Found:
    with open(path, "rb") as file:
        data = file.read()
    try:
        found = tomllib.loads(data.decode()) if ending == ".toml" else json.loads(data)
    except (ValueError, RecursionError) as e:
        raise ValueError(f"{path}: {e}") from None
    if not isinstance(found, dict):
        raise ValueError(f"{path}: not a table of sources and shares, nor a loader's state")
    try:
        if "sources" not in found and "plan" in found and "log" in found:
            return _state(found)
        return Found(_mixture(found, os.path.dirname(path)))
    except (ValueError, TypeError, KeyError) as e:
        text = e.args[0] if isinstance(e, KeyError) and e.args else e
        raise type(e)(f"{path}: {text}") from None


def _known(given: Any, keys: tuple[str, ...], what: str) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise ValueError(f"{what} is a table, not {given!r:.60}")
    for key in given:
        if key not in keys:
            near = _leat.nearest(str(key), list(keys))
            hint = f"did you mean {near!r}?" if near else f"there are {', '.join(keys)}"
            raise ValueError(f"{what} has no key {key!r}: {hint}")
    return given


def _mixture(given: Mapping[str, Any], folder: str) -> Mix | Schedule:
    _known(given, KEYS, "a mixture")
    sources = given.get("sources")
    if not isinstance(sources, Mapping) or not sources:
        raise ValueError("sources is a table: the path and the share of each source by its name")
    points = given.get("schedule", [])
    if not isinstance(points, list):
        raise ValueError(f"schedule is a list of points, not {points!r:.60}")
    opened = {name: _opened(name, source, folder, bool(points)) for name, source in sources.items()}
    options = {key: given[key] for key in MIX_KEYS if key in given}
    if isinstance(options.get("exhausted"), Mapping):
        options["exhausted"] = {k: tuple(v) if isinstance(v, list) else v for k, v in options["exhausted"].items()}
    if not points:
        return Mix(opened, **options)
    at = [_known(p, ("step", "row", "shares"), f"point {i} of the schedule") for i, p in enumerate(points)]
    for i, point in enumerate(at):
        if "shares" not in point or ("step" in point) == ("row" in point):
            raise ValueError(f"point {i} of the schedule has shares, and a step or a row from which they hold")
    counts = given.get("counts", "rows" if "row" in at[0] else "steps")
    key, divide = counts[:-1] if isinstance(counts, str) else "", bool(options.pop("normalize", False))
    if odd := [i for i, point in enumerate(at) if key not in point]:
        raise ValueError(f"point {odd[0]} of the schedule has no {key!r}: its points count {counts}")
    even = {name: (ds, 1.0) for name, (ds, _) in opened.items() if len(ds)}
    even |= {name: (ds, 0.0) for name, (ds, _) in opened.items() if not len(ds)}
    first = Mix({name: even[name] for name in opened}, normalize=True, **options)
    mixes = [(point[key], first.with_weights(point["shares"], divide)) for point in at]
    return Schedule(mixes, given.get("interpolate", "step"), counts)


def _opened(name: str, source: Any, folder: str, scheduled: bool) -> tuple[Any, float]:
    import leat

    _known(source, SOURCE_KEYS, f"source {name!r}")
    path, share = source.get("path"), source.get("share")
    if not isinstance(path, (str, list)) or not path:
        raise ValueError(f"source {name!r} has no path")
    if share is None and not scheduled:
        raise ValueError(f"source {name!r} has no share")
    if scheduled and share is not None:
        raise ValueError(f"source {name!r} has a share, and the schedule says all of them")
    paths = [os.path.join(folder, p) if "://" not in p else p for p in ([path] if isinstance(path, str) else path)]
    ds = leat.open(paths[0] if isinstance(path, str) else paths, format=source.get("format", "auto"))
    if "where" in source:
        ds = ds.where(source["where"])
    if "pack" in source:
        keys = ("field", "length", "how", "bos", "eos", "fill", "seed")
        ds = leat.pack_rows(ds, **_known(source["pack"], keys, f"pack of source {name!r}"))
    return ds, share if share is not None else 0.0


# ---- states ----------------------------------------------------------------------------------------------------------


def _state(state: Mapping[str, Any]) -> Found:
    """A mixture of as many rows as the state says, which is all that the plan depends on."""
    found, log = state.get("order"), state["log"]
    order = found if isinstance(found, Mapping) else {}
    sources = orders_of(state) if order.get("sources") else []
    if not sources or "shares" not in (log[0] if log else {}):
        raise ValueError("this is the state of a run without a mixture")
    if order.get("schedule") or any("pack" in source or "tokens" in source for source in sources):
        raise ValueError(
            "a state alone does not say the rows of packed sources, or a schedule: name the mixture itself, and give "
            "this file as --log"
        )
    log = _whole(with_shares(log), state.get("mixture", {}).get("older"))
    names = state.get("mixture", {}).get("names") or [f"source {k}" for k in range(len(sources))]
    shares = [share / SHARES for share in log[0]["shares"]]
    exhausted: dict[str, Any] = {
        n: ("repeat", s["limit"]) if s.get("limit") else s["exhausted"] for n, s in zip(names, sources)
    }  # noqa: B905
    mixed = {n: (_empty(int(s["count"])), share) for n, s, share in zip(names, sources, shares, strict=True)}
    mix = Mix(mixed, exhausted=exhausted, epoch_rows=order.get("epoch_rows") or None)
    at = state["at"]
    return Found(mix, log, (at["epoch"], at["row"]), order=order_in(state))


def _whole(log: list[Any], older: Any) -> list[Any]:
    """The log with the decisions that the library has folded, if the state has them."""
    if len(log) < 2 or log[1].get("kind") != "folded" or not older:
        return log
    return [log[0], *older, *log[2:]]


def _empty(count: int) -> Any:
    """A data set of so many samples that takes no memory."""
    return of_arrays(None, {"x": np.zeros(count, np.uint8)}, f"{count} samples of a state")
