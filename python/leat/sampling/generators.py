"""The random generators that a sampler may draw from: their states, compared, as plain values, and put back.

They are torch's, Python's and NumPy's global ones, the loader's own `generator`, and those that the sampler holds, at
any depth: ``torch.Generator``, ``random.Random``, ``numpy.random.Generator`` and ``RandomState``.
"""

from __future__ import annotations

import base64
import ctypes
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
import torch.utils.data

from ..errors import StateError

#: names of those that everyone in the process draws from
GLOBAL = ("random", "numpy", "torch")
_MT_BYTES = 625 * 4  # of NumPy's struct: 624 words and the position
_MOST_OBJECTS, _MOST_ITEMS, _DEPTH = 64, 64, 4
_PLAIN = (int, float, str, bool, type(None))
_SCALARS = (np.bool_, np.integer, np.floating)
#: what a sampler may look at, and what has states of its own in a checkpoint
_BESIDE = (
    torch.utils.data.Dataset,
    torch.utils.data.DataLoader,
    torch.nn.Module,
    torch.optim.Optimizer,
    torch.optim.lr_scheduler.LRScheduler,
)


def objects_in(loader: Any) -> Iterator[tuple[str, Any]]:
    """The sampler and the batch sampler of a loader, and the objects inside them, with their paths; no data sets, no
    models with their optimizers, and no loaders."""
    waiting: list[tuple[str, Any, int]] = [("batch_sampler", loader.batch_sampler, 0), ("sampler", loader.sampler, 0)]
    seen: set[int] = {id(loader.dataset)}
    for path, found, depth in waiting:  # grows
        if id(found) in seen or isinstance(found, _PLAIN):
            continue
        seen.add(id(found))
        yield path, found
        if depth == _DEPTH or len(waiting) > _MOST_OBJECTS or _is_generator(found):
            continue
        for name, value in _parts(found):
            if isinstance(value, torch.utils.data.Sampler) or not _is_beside(value):
                waiting.append((f"{path}.{name}", value, depth + 1))


def _is_beside(found: Any) -> bool:
    leats = ("leat.data.", "leat.loading.")
    return isinstance(found, _BESIDE) or any(c.__module__.startswith(leats) for c in type(found).__mro__)


def _parts(found: Any) -> list[tuple[str, Any]]:
    if isinstance(found, dict | list | tuple):
        if len(found) > _MOST_ITEMS:
            return []
        return [(str(k), v) for k, v in (found.items() if isinstance(found, dict) else enumerate(found))]
    if type(found).__module__.partition(".")[0] in ("builtins", "numpy") or isinstance(
        found, type | torch.Tensor | torch.nn.Module
    ):
        return []
    return [
        *getattr(found, "__dict__", {}).items(),
        *((name, getattr(found, name)) for name in sorted(_slots(type(found))) if hasattr(found, name)),
    ]


def attributes_in(loader: Any) -> dict[str, Any]:
    """The numbers and words among the attributes of samplers, and short lists of them; of PyTorch's the epoch."""
    return {
        f"{path}.{name}": _plain(value)
        for path, found in objects_in(loader)
        if not isinstance(found, dict | list | tuple)
        for name, value in _named(found).items()
        if (name == "epoch" or not type(found).__module__.startswith("torch.")) and _is_plain(value)
    }


def _is_plain(value: Any) -> bool:
    if type(value) in (list, tuple):
        return len(value) <= _MOST_ITEMS and all(type(v) in _PLAIN or isinstance(v, _SCALARS) for v in value)
    return type(value) in _PLAIN or isinstance(value, _SCALARS)


def _plain(value: Any) -> Any:
    if type(value) in (list, tuple):
        return type(value)(map(_plain, value))
    return value.item() if isinstance(value, _SCALARS) else value


def _slots(kind: type) -> set[str]:
    given = [vars(each).get("__slots__", ()) for each in kind.__mro__]
    named = (name for names in given for name in ([names] if isinstance(names, str) else names))
    return {name for name in named if not name.startswith("__")}


def _named(found: Any) -> dict[str, Any]:
    """Its attributes. One that its class gives a value becomes its own once it changes."""
    named: dict[str, Any] = {}
    for kind in reversed(type(found).__mro__):
        named |= {name: value for name, value in vars(kind).items() if not name.startswith("__")}
    slots = {name: getattr(found, name) for name in _slots(type(found)) if hasattr(found, name)}
    return {**named, **slots, **getattr(found, "__dict__", {})}


def set_attributes(loader: Any, values: dict[str, Any], told: bool | None = None) -> None:
    """Sets attributes to the result of `attributes_in`; `told`: only for samplers with, or without, ``set_epoch``."""
    there = {path: o for path, o in objects_in(loader) if told is None or told == hasattr(o, "set_epoch")}
    for path, value in values.items():
        of, _, name = path.rpartition(".")
        found = there.get(of)
        if found is None or isinstance(found, dict | list | tuple):
            continue
        present, slot = _named(found).get(name), name in _slots(type(found))
        own = slot or name in getattr(found, "__dict__", {})
        if not own and (callable(present) or hasattr(type(present), "__get__")):
            continue  # a method of its class, of which no state has a value
        kind: Any = type(present)
        if (kind in (list, tuple) and isinstance(value, list)) or (issubclass(kind, _SCALARS) and value is not None):
            value = kind(value)
        if slot:
            object.__setattr__(found, name, value)
        elif hasattr(found, "__dict__"):  # an attribute may be made when the sampler is first read
            vars(found)[name] = value


def generators_in(loader: Any) -> dict[str, Any]:
    """All generators that the sampler of a loader may draw from, by name."""
    found: dict[str, Any] = {"random": random, "numpy": np.random, "torch": torch.default_generator}
    if isinstance(loader.generator, torch.Generator):
        found["generator"] = loader.generator
    known = {id(each) for each in found.values()} | {id(getattr(np.random.mtrand, "_rand", None))}
    inside = [(path, each) for path, each in objects_in(loader) if _is_generator(each) and id(each) not in known]
    return found | dict(inside)


def _is_generator(found: Any) -> bool:
    kinds = torch.Generator | random.Random | np.random.RandomState | np.random.Generator
    return isinstance(found, kinds) and not isinstance(found, random.SystemRandom)  # which has no state


def mark(generator: Any) -> Any:
    """The state, to be compared with ``==``, taken quickly. NumPy's: without the second normal number of a pair."""
    if isinstance(generator, torch.Generator):
        return generator.get_state().numpy().tobytes()
    if generator is random or isinstance(generator, random.Random):
        return generator.getstate()
    bits = _bit_generator(generator)
    if isinstance(bits, np.random.MT19937):  # its state as a dict takes 40 microseconds
        return ctypes.string_at(bits.ctypes.state_address, _MT_BYTES)
    return _packed(bits.state)


def state_of(generator: Any, marked: Any = None) -> Any:
    """The state as a plain value, which JSON can hold: the present one, or that of a `mark`."""
    if isinstance(generator, torch.Generator):
        return text_of(mark(generator) if marked is None else marked)
    if generator is random or isinstance(generator, random.Random):
        version, words, gauss = generator.getstate() if marked is None else marked
        return [version, text_of(np.array(words, np.uint32).tobytes()), gauss]
    bits = _bit_generator(generator)
    if marked is not None and isinstance(bits, np.random.MT19937):
        words = np.frombuffer(marked, np.uint32)
        found: dict[str, Any] = {"bit_generator": "MT19937", "state": {"key": words[:624], "pos": int(words[624])}}
        if not isinstance(generator, np.random.Generator):
            found |= {"has_gauss": 0, "gauss": 0.0}
        return _packed(found)
    if marked is not None:
        return marked
    legacy = generator is np.random or isinstance(generator, np.random.RandomState)
    return _packed(generator.get_state(legacy=False) if legacy else bits.state)


def set_state(generator: Any, state: Any) -> None:
    """Puts a generator back to the result of `state_of`.

    Raises:
        StateError: it is a state of another kind of generator, or none.
    """
    try:
        if isinstance(generator, torch.Generator):
            generator.set_state(tensor_of(state))
        elif generator is random or isinstance(generator, random.Random):
            version, words, gauss = state
            generator.setstate((version, tuple(np.frombuffer(base64.b64decode(words), np.uint32).tolist()), gauss))
        else:
            _set_numpy(generator, _unpacked(state))
    except Exception as e:
        raise StateError(f"this is no state of a {type(generator).__name__} ({e!s:.120})") from e


def puts_back(loader: Any) -> Callable[[], bool]:
    """Remembers all generators that the sampler of a loader may draw from. The function puts back those that have moved
    since; False: none has.
    """
    before = [(generator, state_of(generator)) for generator in generators_in(loader).values()]

    def put_back() -> bool:
        moved = [(generator, state) for generator, state in before if state_of(generator) != state]
        for generator, state in moved:
            set_state(generator, state)
        return bool(moved)

    return put_back


def _set_numpy(generator: Any, state: Any) -> None:
    kind = state["bit_generator"]
    if kind == "MT19937":  # NumPy itself does not check these
        key, at = state["state"]["key"], state["state"]["pos"]
        if not (isinstance(key, np.ndarray) and key.shape == (624,) and type(at) is int and 0 <= at <= 624):
            raise ValueError("NumPy's has 624 words")
        if state.get("has_gauss", 0) not in (0, 1) or not isinstance(state.get("gauss", 0.0), float):
            raise ValueError("NumPy's may hold one number more")
    if isinstance(generator, np.random.Generator):
        generator.bit_generator.state = state
    else:
        generator.set_state(state)


def checked(name: str, state: Any, like: Any = None) -> None:
    """Tries a state on a generator made for this, so that nothing else changes.

    Raises:
        StateError: it is none.
    """
    if isinstance(state, str):
        set_state(torch.Generator(like.device if isinstance(like, torch.Generator) else "cpu"), state)
    elif isinstance(state, dict):
        bits = getattr(np.random, str(state.get("bit_generator")), None)
        if not (isinstance(bits, type) and issubclass(bits, np.random.BitGenerator)):
            raise StateError("NumPy has no such generator")
        legacy = "has_gauss" in state
        set_state(np.random.RandomState(bits()) if legacy else np.random.Generator(bits()), state)
    else:
        set_state(random.Random(), state)


def _bit_generator(generator: Any) -> Any:
    if isinstance(generator, np.random.Generator):
        return generator.bit_generator
    return (np.random.mtrand._rand if generator is np.random else generator)._bit_generator


def _packed(state: Any) -> Any:
    """A state of NumPy's without arrays."""
    if isinstance(state, dict):
        return {name: _packed(value) for name, value in state.items()}
    return [state.dtype.str, text_of(state.tobytes())] if isinstance(state, np.ndarray) else state


def _unpacked(state: Any) -> Any:
    if isinstance(state, dict):
        return {name: _unpacked(value) for name, value in state.items()}
    return np.frombuffer(base64.b64decode(state[1]), state[0]).copy() if isinstance(state, list) else state


def text_of(state: bytes) -> str:
    """Bytes as a word."""
    return base64.b64encode(state).decode()


def tensor_of(text: str) -> torch.Tensor:
    """The state of a torch.Generator that `text_of` gave as a word."""
    return torch.from_numpy(np.frombuffer(base64.b64decode(text), np.uint8).copy())
