"""Configurations of a DataLoader and programs that use it, drawn at random: the examples of the property test.

A case is plain values, so that its text makes it again: `Case(...)`. property_play.py runs it.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator
from typing import Any

from dataloader_support import KINDS
from property_datasets import MORE_KINDS, ODD_KINDS
from property_samplers import DRAWING, FOREIGN, FOREIGN_BATCHES, GLOBAL, HIDDEN, OWN, PLAIN, PYTORCHS

#: data sets with positions
MAPPED = ("numbers", "kind", "nested", "fails", "draws", "many", "bulk", "keyed")


@dataclasses.dataclass(frozen=True)
class Resume:
    """A state that is taken in the program, and the loader that it is loaded into."""

    op: int  #: the operation at which it is taken: an epoch
    at: int | str  #: batches of it that were delivered; "before" the iterator is made, "end": after its end
    parting: bool = False  #: taken after the iterator is gone
    workers: int = 0  #: of the loader that continues
    json: bool = False  #: the state goes through JSON
    process: bool = False  #: the loader is of another process
    back: tuple[tuple[Any, ...], ...] | None = None  #: the same loader goes back after the program and these


@dataclasses.dataclass(frozen=True)
class Case:
    """One configuration and its program."""

    seed: int = 0  #: of the global generators
    n: int = 8
    data: tuple[Any, ...] = ("numbers",)
    order: tuple[Any, ...] | None = None  #: None: no sampler is given; ("shuffle",): shuffle=True
    batched: bool = False  #: the order is one of batches
    batch_size: int | None = 2
    drop_last: bool = False
    workers: int = 0
    persistent: bool = False
    prefetch: int | None = None
    generator: bool = False
    in_order: bool = True
    collate: str | None = None
    timeout: float = 0
    pin: bool = False
    train: str | None = None  #: where the training loop draws from, once a batch
    peek: bool = False  #: ask leat's loader for its state after each batch
    program: tuple[tuple[Any, ...], ...] = (("epoch",),)
    resume: Resume | None = None
    accelerate: bool | None = None  #: prepared by Accelerate; True: which dispatches batches


# ---- what is known of a case -----------------------------------------------------------------------------------------


def own_order(case: Case) -> bool:
    """Whether leat's own order is used: docs/dataloader.md, "Order and seeds"."""
    return case.order == ("shuffle",) and case.persistent and case.workers > 0 and not case.generator


def _sources(spec: Any) -> set[str]:
    """Where a sampler draws from."""
    kind, *rest = spec
    if kind in ("around", "cut", "batches"):
        return _sources(rest[0])
    if kind in PYTORCHS and kind not in ("distributed", "in order"):
        return {"torch"} if rest[0] is None else {"own torch.Generator"}
    return {rest[0]} if kind in DRAWING else set()


def hidden(case: Case) -> bool:
    """Whether the sampler draws from what no loader can find."""
    return case.order is not None and any(source in HIDDEN for source in _sources(case.order))


def lasting(case: Case) -> bool:
    """Whether orders of later epochs follow from the state: not if they are drawn from global generators."""
    if case.order is None:
        return True
    if case.order == ("shuffle",):
        return case.generator or (own_order(case) and case.batch_size is not None)
    return not any(source in HIDDEN or source in GLOBAL for source in _sources(case.order))


def mixed(case: Case) -> bool:
    """Whether the training loop draws from the sampler's generator, between its draws."""
    drawn = case.order is not None and case.train in _sources(case.order)
    return drawn and any(name in repr(case.order) for name in ("each time", "buffered", "episodes"))


def told(case: Case) -> bool:
    """Whether the sampler is told its epoch."""
    return any(name in repr(case.order) for name in ("'told'", "'distributed'"))


def may_refuse(case: Case) -> bool:
    """Whether a sampler's state cannot be known, so that leat.StateError is right, and other rows never are."""
    return hidden(case) or mixed(case)


# ---- drawing ---------------------------------------------------------------------------------------------------------


def _sampler(rng: random.Random, n: int, resuming: bool) -> tuple[Any, ...]:
    """A sampler of positions."""
    if rng.random() < 0.3:
        kind = rng.choice(PYTORCHS)
        return (kind,) if kind in ("in order",) else (kind, rng.choice((None, rng.randrange(100))))
    if rng.random() < 0.15:
        return (rng.choice(PLAIN[: 3 if resuming else 4]),)
    names = [name for name in FOREIGN if name != "fails" or (not resuming and rng.random() < 0.5)]
    length = rng.choice((n, n, n, None, n + 3, max(1, n - 2)))
    spec = (rng.choice(names), n, _source(rng), rng.randrange(100), length, rng.random() < 0.3)
    spec = (spec[0], *spec[2:])
    return ("around", spec) if rng.random() < 0.15 and spec[0] not in ("stateful", "stateful draws") else spec


def _source(rng: random.Random) -> str:
    return rng.choice((*GLOBAL, *GLOBAL, *OWN, *OWN, *HIDDEN))


def _batches(rng: random.Random, n: int, resuming: bool) -> tuple[Any, ...]:
    """A sampler of batches."""
    size = rng.randint(1, 4)
    what = rng.random()
    if what < 0.25:
        return ("batches", _sampler(rng, n, resuming), size, rng.random() < 0.3)
    if what < 0.5:
        return ("cut", _sampler(rng, n, resuming), size, rng.choice(("sampler", "order", "base_sampler")))
    if what < 0.6:
        return ("list of batches", size, rng.randrange(2))
    return (rng.choice(list(FOREIGN_BATCHES)), _source(rng), rng.randrange(100), None, rng.random() < 0.3, size)


def draw(number: int, area: str) -> Case:
    """The case of that number. `area`: "in process", "workers", "streams"; or "resume ..." of them."""
    rng = random.Random(f"{area} {number}")
    resuming = area.startswith("resume")
    workers = area.endswith("workers")
    accelerate = area == "accelerate"
    made: dict[str, Any] = {"seed": rng.randrange(1000), "n": rng.choice((5, 8, 8, 9, 16))}
    n = made["n"]
    if accelerate:
        made["accelerate"] = rng.random() < 0.5
    if workers or (accelerate and rng.random() < 0.2) or (area.endswith("streams") and rng.random() < 0.6):
        made["workers"] = rng.choice((1, 2, 2, 3))
        made["persistent"] = rng.random() < 0.5
        made["prefetch"] = rng.choice((None, None, 1, 2, 3))
        made["in_order"] = rng.random() < 0.9
        made["timeout"] = rng.choice((0, 0, 0, 100))
    elif not resuming and rng.random() < 0.02:
        made["timeout"] = 10
    made["batch_size"] = rng.choice((1, 2, 2, 3, 4, n, n + 1, None))
    made["drop_last"] = made["batch_size"] is not None and rng.random() < 0.25
    made["generator"] = rng.random() < 0.4
    made["pin"] = rng.random() < 0.05
    made["train"] = rng.choice((None, None, *GLOBAL))
    made["peek"] = not resuming and rng.random() < 0.3
    if area.endswith("streams"):
        made |= _stream(rng, n, made.get("workers", 0), resuming)
    else:
        made |= _mapped(rng, n, made, resuming)
    made["collate"] = made.get("collate") or rng.choice((None, None, None, "list", "text"))
    if made.get("batched"):
        made["batch_size"], made["drop_last"] = 1, False
    case = Case(**made)
    if accelerate:
        case = _prepared(case)
    if hidden(case) and resuming:
        case = dataclasses.replace(case, n=16, batch_size=None if case.batch_size is None else min(case.batch_size, 2))
    case = dataclasses.replace(case, program=_program(rng, case, resuming))
    if hidden(case) and not resuming:  # what both worlds have in common goes on from one to the next
        case = dataclasses.replace(case, order=_visible(case.order))
    if resuming:
        case = dataclasses.replace(case, resume=_resume(rng, case))
    return case


def _prepared(case: Case) -> Case:
    """A case of what Accelerate takes: whole tensors in batches, and no errors."""
    data = case.data if case.data in (("numbers",), ("nested",), ("many",)) else ("kind", "image and label")
    known = case.order is None or not any(
        name in repr(case.order)
        for name in ("fails", "varying", "batches', 4", "lists", "words", "tensors", "one shot")
    )
    return dataclasses.replace(
        case,
        data=data,
        order=case.order if known else ("shuffle",),
        collate=None,
        timeout=0,
        batched=case.batched and known,
        batch_size=case.batch_size or 2,
        peek=False,
    )


def _visible(spec: Any) -> Any:
    if isinstance(spec, tuple):
        return tuple(_visible(part) for part in spec)
    return "own Generator" if spec in HIDDEN else spec


def _mapped(rng: random.Random, n: int, made: dict[str, Any], resuming: bool) -> dict[str, Any]:
    """A data set with positions, and its order."""
    found: dict[str, Any] = {}
    what = rng.random()
    workers = made.get("workers", 0)
    if what < 0.45:
        found["data"] = ("numbers",)
    elif what < 0.65:
        kinds = [kind for kind in (*KINDS, *MORE_KINDS) if kind != "dict in another order"]  # docs, "Differences"
        found["data"] = ("kind", rng.choice(kinds))
    elif what < 0.7:
        found["data"], found["collate"] = ("kind", rng.choice(list(ODD_KINDS))), rng.choice(("list", "text"))
    elif what < 0.8:
        found["data"] = ("nested",)
    elif what < 0.85:
        found["data"] = ("fails", rng.choice(("ValueError", "KeyError", "Own")), rng.randrange(n))
    elif what < 0.9 and workers < 2 and not resuming:  # which worker makes a sample is not certain
        found["data"] = ("draws",)
    elif what < 0.95:
        found["data"] = ("many",)
    else:
        kind, order = rng.choice((("bulk", "lists"), ("keyed", "words"), ("numbers", "tensors")))
        return {"data": (kind,), "order": (order,), "batch_size": None, "drop_last": False}
    what = rng.random()
    if what < 0.08:
        found["order"] = None
    elif what < 0.25:
        found["order"] = ("shuffle",)
    elif what < 0.65:
        found["order"] = _sampler(rng, n, resuming)
    else:
        found["order"], found["batched"] = _batches(rng, n, resuming), True
        if any(name in repr(found["order"]) for name in ("varying", "list of batches")):
            found["collate"] = found.get("collate") or rng.choice(("list", "text", "text"))
    return found


def _stream(rng: random.Random, n: int, workers: int, resuming: bool) -> dict[str, Any]:
    """An iterable data set."""
    each = rng.choice((4, 6, 8))
    sizes: tuple[Any, ...] = (each,) * max(1, workers)
    if rng.random() < 0.2 and workers > 1:
        sizes = (*sizes[1:], each + rng.randint(1, 3))
    kinds = ["stream", "kind", "per worker", "plain", "stateful", "stateful iterator", "own iterator", "wrong length",
             "failing stream"]  # fmt: skip
    kind = rng.choice(kinds if resuming else [*kinds, "pipe"])
    if workers == 2 and not resuming and rng.random() < 0.1:
        return {"data": ("stalls",), "in_order": False, "batch_size": 1, "prefetch": 2}
    if kind == "kind":
        return {"data": ("stream of kind", rng.choice(list(KINDS)))}
    if kind in ("per worker", "plain", "stateful", "stateful iterator"):
        return {"data": (kind, sizes, *(["uneven"] if len(set(sizes)) > 1 else []))}
    if kind == "failing stream":
        # PyTorch's workers end with an error of their own where `__iter__` raises
        return {"data": (kind, rng.choice((3, 5) if resuming or workers else (-1, 3, 5)))}
    return {"data": (kind,)}


def _program(rng: random.Random, case: Case, resuming: bool) -> tuple[tuple[Any, ...], ...]:
    # Workers that are left while one waits for the other are waited for, with both loaders.
    ops: list[tuple[Any, ...]] = [("epoch",)] if case.data == ("stalls",) else []
    for i in range(rng.randint(1, 3)):
        # skip_first_batches asks for a length
        if case.accelerate is not None and rng.random() < 0.3 and "None" not in repr(case.order):
            ops.append(("skip", rng.randint(0, 1)))
        if told(case) and "around" not in repr(case.order) and rng.random() < 0.6:
            ops.append(("set_epoch", i + rng.randrange(2)))
        what = rng.random()
        if resuming:
            # streams that workers which persist have left do not tell where they begin, before their first batches
            left = what > 0.85 and not (case.persistent and case.data[0] not in MAPPED)
            ops.append(("break", rng.randint(0, 3)) if left else ("epoch",))
            continue
        if case.data == ("nested",) and rng.random() < 0.6:
            ops.append(("change", rng.randrange(3)))
            if case.persistent or rng.random() < 0.5:  # workers that persist keep their copy: docs, "Workers"
                ops.append(("recreate", rng.random() < 0.5))
        if what < 0.4:
            ops.append(("epoch",))
        elif what < 0.6:
            ops.append(("break", rng.randint(0, 4)))
        elif what < 0.65:
            ops.append(("hold", rng.randint(0, 3)) if not case.persistent else ("list",))
        elif what < 0.7:
            ops += [("recreate", rng.random() < 0.3), ("epoch",)]
        elif what < 0.75 and "one shot" not in repr(case.order) and "closure" not in repr(case.order):
            ops += [("copy", rng.random() < 0.5), ("epoch",)]
        elif what < 0.8:
            ops.append(("zip", rng.randint(1, 9)))
        elif what < 0.85:
            ops.append(("late", rng.randrange(100)))
        elif what < 0.9 and not case.persistent:
            ops.append(("again", rng.randint(0, 2)))
        elif what < 0.93:
            ops += [("seed", rng.randrange(100)), ("epoch",)]
        elif what < 0.96:
            ops.append(("len",))
        else:
            ops.append(("list",))
    if resuming:
        ops += [("epoch",)] * rng.randint(1, 2)
    return tuple(ops)


def _resume(rng: random.Random, case: Case) -> Resume:
    epochs = [i for i, op in enumerate(case.program) if op == ("epoch",)]
    op = rng.choice(epochs)
    at: Any = rng.choice(("before", "end", 0, 1, 1, 2, 2, 3, 4, 5, 8, 8, 9))
    if at == "before" and op and case.program[op - 1][0] == "break":
        at = 0  # the state would be one of the epoch that was left
    streams = case.data[0] not in MAPPED
    if rng.random() < 0.5:
        return Resume(op, at, workers=case.workers, json=_as_json(rng, case), back=_back(rng, case))
    workers = case.workers if streams else rng.choice((0, case.workers, case.workers, min(2, case.workers + 1)))
    if not case.workers:
        workers = 0 if rng.random() < 0.9 or streams else 2
    parting = isinstance(at, int) and case.in_order and rng.random() < 0.2
    return Resume(op, at, parting, workers, _as_json(rng, case), rng.random() < 0.04)


def _as_json(rng: random.Random, case: Case) -> bool:
    return "stateful draws" not in repr(case.order) and rng.random() < 0.5


def _back(rng: random.Random, case: Case) -> tuple[tuple[Any, ...], ...]:
    """The operations between the program's end and the moment at which its loader goes back."""
    found: list[tuple[Any, ...]] = []
    for _ in range(rng.choice((0, 0, 1, 1, 2, 3))):
        what = rng.random()
        if what < 0.2:
            found.append(("epoch",))
        elif what < 0.4:
            found.append(("break", rng.randint(0, 4)))
        elif what < 0.5:
            found.append(("hold", rng.randint(0, 3)) if not case.persistent else ("epoch",))
        elif what < 0.6:
            found.append(("seed", rng.randrange(100)))
        elif what < 0.8:  # loads the state, and another one or the same after so many batches
            found.append(("load",))
        elif what < 0.9:  # the state of now, if nothing else is loaded before
            found.append(("keep",))
        elif told(case) and "around" not in repr(case.order):
            found.append(("set_epoch", rng.randrange(4)))
    return tuple(found)


# ---- telling, and making smaller -------------------------------------------------------------------------------------


def text_of(case: Case) -> str:
    """The case as a call that makes it: only what is not as it is by default."""
    given = [
        f"{f.name}={getattr(case, f.name)!r}"
        for f in dataclasses.fields(case)
        if f.default is dataclasses.MISSING or getattr(case, f.name) != f.default
    ]
    return f"Case({', '.join(given)})"


def simpler(case: Case) -> Iterator[Case]:
    """Cases with one thing less."""
    for i in reversed(range(len(case.program))):
        less = case.program[:i] + case.program[i + 1 :]
        resume = case.resume
        if resume is not None:
            if i == resume.op:
                continue
            resume = dataclasses.replace(resume, op=resume.op - (i < resume.op))
        yield dataclasses.replace(case, program=less, resume=resume)
    if case.resume is not None:
        for i in range(len(case.resume.back or ())):
            back = case.resume.back[:i] + case.resume.back[i + 1 :]
            yield dataclasses.replace(case, resume=dataclasses.replace(case.resume, back=back))
        for name in ("process", "json", "parting"):
            if getattr(case.resume, name):
                yield dataclasses.replace(case, resume=dataclasses.replace(case.resume, **{name: False}))
        if isinstance(case.resume.at, int) and case.resume.at > 1:
            yield dataclasses.replace(case, resume=dataclasses.replace(case.resume, at=case.resume.at - 1))
        if case.resume.workers != case.workers:
            yield dataclasses.replace(case, resume=dataclasses.replace(case.resume, workers=case.workers))
    plain = Case()
    for field in dataclasses.fields(Case):
        if field.name in ("program", "resume", "order", "batched", "data"):
            continue
        value = getattr(plain, field.name)
        if getattr(case, field.name) != value:
            yield dataclasses.replace(case, **{field.name: value})
    if case.data != plain.data and case.data[0] in MAPPED:
        yield dataclasses.replace(case, data=plain.data)
    if case.order is not None and case.order[0] in ("around", "cut", "batches"):
        yield dataclasses.replace(case, order=case.order[1], batched=False)
    if case.workers > 1:
        yield dataclasses.replace(case, workers=1)
