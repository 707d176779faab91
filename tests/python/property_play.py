"""Plays the cases of the property test (property_cases.py), and says what differs.

Against PyTorch's loader, event by event: batches, errors, and what the generators have become. Or, of a case that
resumes, leat's loader against one that continues from its state in a world with other seeds, or against itself, gone
back.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import gc
import json
import multiprocessing
import pickle
import random
import signal
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import property_datasets
import property_samplers
import pytest
import torch
import torch.utils.data
from dataloader_support import as_text
from property_cases import Case, draw, hidden, lasting, may_refuse, mixed, own_order, simpler, text_of, told
from property_datasets import held, rows_of, shown
from property_draws import again

import leat

_MOST = 100  # batches of one operation that are looked at
_TELLING = 8  # batches after which a sampler that is read again, and draws others, has shown it
_HUNG_S = 300  # no case takes so long unless something hangs
_SMALLER = 200  # cases that are tried to make a failing one smaller


# ---- playing ---------------------------------------------------------------------------------------------------------


def _seeded(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def _drawn(source: str) -> Any:
    match source:
        case "random":
            return random.random()
        case "numpy":
            return float(np.random.beta(0.3, 0.3))
        case "torch":
            return float(torch.rand(()))
    raise AssertionError(source)


COLLATE: dict[str | None, Callable[[Any], Any] | None] = {None: None, "list": list, "text": as_text}


class World:
    """A data set, a sampler and a loader over them, made from the same seeds each time, and what happens there."""

    def __init__(self, case: Case, loader_class: Any, seed: int | None = None, workers: int | None = None) -> None:
        self.case, self.loader_class = case, loader_class
        self.workers = case.workers if workers is None else workers
        _seeded(case.seed if seed is None else seed)
        self.dataset = property_datasets.make(case.data, case.n)
        shuffled = case.order == ("shuffle",)
        self.order = None if case.order is None or shuffled else property_samplers.make(case.order, case.n)
        self.generator = torch.Generator().manual_seed(case.seed + 1) if case.generator else None
        self.kept: list[Any] = []  # iterators and loaders that stay
        self.loader = self.new()

    @property
    def leats(self) -> bool:
        return self.loader_class is leat.DataLoader

    def new(self) -> Any:
        case = self.case
        options: dict[str, Any] = {"collate_fn": COLLATE[case.collate]}
        if case.order == ("shuffle",):
            options["shuffle"] = True
        if self.order is not None:
            options["batch_sampler" if case.batched else "sampler"] = self.order
        if not case.batched:
            options |= {"batch_size": case.batch_size, "drop_last": case.drop_last}
        if self.workers:
            options |= {"num_workers": self.workers, "persistent_workers": case.persistent}
            options |= {"multiprocessing_context": "fork", "prefetch_factor": case.prefetch, "in_order": case.in_order}
        if self.generator is not None:
            options["generator"] = self.generator
        timeout = case.timeout if bool(self.workers) == bool(case.workers) else 0
        made = self.loader_class(self.dataset, timeout=timeout, pin_memory=case.pin, **options)
        if case.accelerate is None:
            return made
        from accelerate import Accelerator, DataLoaderConfiguration

        return Accelerator(
            cpu=True, dataloader_config=DataLoaderConfiguration(dispatch_batches=case.accelerate)
        ).prepare(made)

    def generators(self) -> tuple[str, ...]:
        """What the next draws from the generators are determined by."""
        kind, key, *rest = np.random.get_state()
        found = {"random": random.getstate(), "numpy": (key.tobytes(), *rest), "torch": torch.get_rng_state()}
        if self.generator is not None:
            found["generator"] = self.generator.get_state()
        return tuple(
            f"{name} {hash(state.numpy().tobytes() if isinstance(state, torch.Tensor) else state) & 0xFFFFFFFF:08x}"
            for name, state in found.items()
        )

    def holds(self) -> Any:
        """What the sampler has become."""
        return None if "one shot" in repr(self.case.order) else held(self.order)

    # ---- operations ----

    def batches(self, it: Any, most: int) -> Iterator[tuple[Any, ...]]:
        """What at most so many calls of next give, one by one."""
        for _ in range(most):
            try:
                batch = next(it)
            except StopIteration:
                yield "end", self.generators(), self.holds()
                return
            except leat.StateError:
                raise
            except Exception as e:
                yield "error", type(e).__name__
                continue
            yield "batch", shown(batch), self.generators()
            if self.case.train is not None:
                yield "draw", _drawn(self.case.train)
            if self.case.peek and self.leats:
                self.loader.state_dict()

    def begin(self, loader: Any) -> Any:
        try:
            return iter(loader)
        except leat.StateError:
            raise
        except Exception as e:
            return "error", type(e).__name__

    def play(self, op: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
        """The events of one operation."""
        kind, *rest = op
        if kind in ("epoch", "break", "hold"):
            it = self.begin(self.loader)
            if isinstance(it, tuple):
                yield it
                return
            yield "begun", self.generators()
            yield from self.batches(it, rest[0] if rest else _MOST)
            if kind == "hold":
                self.kept.append(it)
            del it
            if kind == "break":
                yield "left", self.generators(), self.holds()
        elif kind == "again":  # a second iterator while the first one is in use
            first = self.begin(self.loader)
            if not isinstance(first, tuple):
                yield from self.batches(first, rest[0])
                self.kept.append(first)
            second = self.begin(self.loader)
            if not isinstance(second, tuple):
                yield from self.batches(second, _MOST)
        elif kind == "zip":
            other = self.new()
            a, b = self.begin(self.loader), self.begin(other)
            if isinstance(a, tuple) or isinstance(b, tuple):
                yield ("error",)
                return
            yield "begun", self.generators()
            for _ in range(rest[0]):
                found = [*self.batches(a, 1), *self.batches(b, 1)]
                yield from found
                if any(event[0] != "batch" and event[0] != "draw" for event in found):
                    break
        elif kind == "late":  # the training loop seeds between iter() and next()
            it = self.begin(self.loader)
            if not isinstance(it, tuple):
                _seeded(rest[0])
                yield from self.batches(it, _MOST)
        elif kind == "list":
            try:
                yield "list", [shown(batch) for batch in self.loader], self.generators(), self.holds()
            except leat.StateError:
                raise
            except Exception as e:
                yield "error", type(e).__name__
        elif kind == "skip":
            from accelerate import skip_first_batches

            try:
                yield "list", [shown(batch) for batch in skip_first_batches(self.loader, rest[0])], self.generators()
            except Exception as e:
                yield "error", type(e).__name__
        elif kind == "recreate":
            if rest[0]:
                self.kept.append(self.loader)
            self.loader = self.new()
        elif kind == "copy":
            self.order = copy.deepcopy(self.order) if rest[0] else pickle.loads(pickle.dumps(self.order))
            self.loader = self.new()
        elif kind == "set_epoch":
            inside = [self.order]
            for each in inside:  # grows
                if hasattr(each, "set_epoch"):
                    each.set_epoch(rest[0])
                inside += vars(each).values() if hasattr(each, "__dict__") else ()
        elif kind == "seed":
            _seeded(rest[0])
        elif kind == "change":
            self.dataset.change(rest[0])
        elif kind == "len":
            try:
                yield "len", len(self.loader)
            except Exception as e:
                yield "error", type(e).__name__

    def close(self) -> None:
        self.kept.clear()
        self.loader = None


def played(case: Case, loader_class: Any) -> list[list[Any]]:
    """The events of each operation of the program."""
    world = World(case, loader_class)
    found = []
    for op in case.program:
        found.append(list(world.play(op)))
    world.close()
    if case.workers:
        gc.collect()  # an iterator of PyTorch's that a worker inherits complains when it goes there
    return found


# ---- against PyTorch -------------------------------------------------------------------------------------------------


def compared(case: Case, events: list[list[Any]]) -> Any:
    """What of a program's events has to be the same with both loaders. Each exception is one of docs/dataloader.md."""
    if case.timeout and not case.workers:
        # "`timeout` without workers is an `AssertionError` | `ValueError`"
        return [[("error",) if event[0] == "error" else event for event in op] for op in events]
    found: list[Any] = []
    for op, of in zip(events, case.program):
        if own_order(case):
            # "Two cases have leat's own order": each row as often, and as many batches
            rows = sorted(row for event in op if event[0] == "batch" for row in rows_of(event[1]))
            whole = of[0] == "epoch"
            certain = whole and not case.drop_last and case.data == ("numbers",) and case.collate is None
            found.append([rows if certain else None, sorted(event[0] for event in op)])
        elif case.workers and (not case.in_order or "uneven" in repr(case.data)):
            # in_order=False: "when a batch comes, never which rows it has", nor how many come before an error
            batches = sorted(repr(event[1]) for event in op if event[0] == "batch")
            known = case.in_order or "'fails'" not in repr(case.data)
            found.append([batches if of[0] == "epoch" else None, sorted(event[0] for event in op)] if known else None)
        else:
            found.append(op)
    return found


def differs(case: Case) -> str | None:
    """How leat's loader does otherwise than PyTorch's; None: it does not."""
    reference, take = case, compared
    if case.workers and "'fails'" in repr(case.order):
        # "a sampler raises: its error, after the batches that it named before", as without workers, where other numbers
        # are drawn
        case = dataclasses.replace(case, data=("numbers",)) if case.data == ("draws",) else case
        reference = dataclasses.replace(case, workers=0, persistent=False, timeout=0)
        take = lambda _, events: [rows_only(op) for op in events]  # noqa: E731
    theirs = take(case, played(reference, torch.utils.data.DataLoader))
    ours = take(case, played(case, leat.DataLoader))
    return difference(theirs, ours, "PyTorch", "leat")


def difference(a: Any, b: Any, of_a: str, of_b: str) -> str | None:
    """The first event that is not the same."""
    for op, (x, y) in enumerate(zip(a, b)):
        if x is None and y is None:
            continue
        for i, (one, other) in enumerate(zip(x, y)):
            if one != other:
                return f"operation {op}, event {i}:\n  {of_a}: {one!r:.300}\n  {of_b}: {other!r:.300}"
        if len(x) != len(y):
            more = (x if len(x) > len(y) else y)[min(len(x), len(y))]
            return f"operation {op}: {of_a} has {len(x)} events, {of_b} {len(y)}; the next is {more!r:.300}"
    return None if len(a) == len(b) else f"{len(a)} and {len(b)} operations"


# ---- states ----------------------------------------------------------------------------------------------------------


def rows_only(op: list[Any]) -> list[Any]:
    return [event[:2] for event in op if event[0] in ("batch", "error")]


def rest_of(case: Case, world: World, first: int) -> list[list[Any]]:
    """The program from operation `first` on, as far as a state says how it goes on."""
    ops = case.program[first:]
    return [rows_only(list(world.play(op))) for op in (ops if lasting(case) else ops[:1])]


def continued(case: Case, state: bytes, first: int) -> list[list[Any]] | str:
    """The rest of the program from operation `first` on, of which the state is, in a new world with other seeds."""
    resume = case.resume
    assert resume is not None
    world = World(case, leat.DataLoader, seed=case.seed + 77, workers=resume.workers)
    try:
        world.loader.load_state_dict(json.loads(state) if resume.json else pickle.loads(state))
        return rest_of(case, world, first)
    except leat.StateError as e:
        return f"StateError: {e}"
    finally:
        world.close()


def gone_back(case: Case, world: World, state: bytes, first: int) -> list[list[Any]] | str:
    """The same in the world that has given it once and has gone on; `Resume.back` says how far."""
    resume = case.resume
    assert resume is not None and resume.back is not None

    def load(saved: bytes) -> None:
        world.loader.load_state_dict(json.loads(saved) if resume.json else pickle.loads(saved))

    try:
        for op in resume.back:
            if op[0] == "load":
                load(state)
            elif op[0] == "keep":
                load(kept_as(case, world.loader.state_dict()))
            else:
                list(world.play(op))
        load(state)
        return rest_of(case, world, first)
    except leat.StateError as e:
        return f"StateError: {e}"


def kept_as(case: Case, state: Any) -> bytes:
    """The state as it lies in a file."""
    assert case.resume is not None
    return json.dumps(state).encode() if case.resume.json else pickle.dumps(state)


def _in_process(case: Case, state: bytes, first: int, pipe: Any) -> None:
    try:
        with warnings.catch_warnings(action="ignore"):
            pipe.send(continued(case, state, first))
    except BaseException as e:
        pipe.send(e)


def _elsewhere(case: Case, state: bytes, first: int) -> list[list[Any]] | str:
    """The same in a process that has seen nothing of this one."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["property_play"])
    ours, theirs = context.Pipe()
    process = context.Process(target=_in_process, args=(case, state, first, theirs))
    process.start()
    theirs.close()
    found = ours.recv()
    process.join()
    if isinstance(found, BaseException):
        raise found
    return found  # type: ignore[no-any-return]


def resumes_wrongly(case: Case) -> str | None:
    """How a loader that continues from a state does otherwise than one that goes on; None: it does not."""
    resume = case.resume
    assert resume is not None
    world = World(case, leat.DataLoader)
    whole: list[list[Any]] = []
    state: Any = None
    delivered = 0
    try:
        for i, op in enumerate(case.program):
            if i != resume.op:
                whole.append(rows_only(list(world.play(op))))
                continue
            if resume.at == "before":
                state = world.loader.state_dict()
            it = iter(world.loader)
            seen: list[Any] = []
            if resume.at == 0:
                state = world.loader.state_dict()
            for event in world.batches(it, _MOST):
                if event[0] in ("batch", "error"):
                    seen.append(event[:2])
                if len(seen) == resume.at and state is None and event[0] != "end":
                    if case.train is not None and event[0] == "batch":
                        continue  # the training loop draws for this batch before it saves
                    state, delivered = world.loader.state_dict(), len(seen)
            if state is None:  # after the end
                state = world.loader.state_dict()
                if resume.at != "end":
                    return None  # the epoch has fewer batches
            del it
            whole.append(seen)
        if resume.back is None:
            world.close()
        if resume.parting:
            state = _parting(case)
    except leat.StateError as e:
        return None if may_refuse(case) else f"state_dict() raised StateError: {e}"
    data = kept_as(case, state)
    # "Taken after the last batch, it means the next epoch's start."
    over = resume.at == "end" or (resume.at != "before" and 0 < delivered == len(whole[resume.op]))
    expected = whole[resume.op + over :]
    if not over:
        expected[0] = expected[0][delivered:]
    if resume.back is not None:
        found = gone_back(case, world, data, resume.op + over)
        world.close()
    else:
        found = (_elsewhere if resume.process else continued)(case, data, resume.op + over)
    if isinstance(found, str):
        return None if may_refuse(case) else found
    if not lasting(case) and (over or resume.at == "before"):
        return None  # "Seeds of later epochs that PyTorch would draw from the global generator are not in the state"
    if hidden(case) and delivered < _TELLING:
        return None
    if (over or resume.at == "before") and told(case) and case.program[resume.op + over :][:1] in ((), (("epoch",),)):
        return None  # "A sampler with `set_epoch` is told its epoch after the state is loaded"
    begins_alike = case.order is None or (case.order == ("shuffle",) and not case.persistent)
    if bool(resume.workers) != bool(case.workers) and not begins_alike:
        # PyTorch calls a sampler's __iter__ twice in the first epoch of workers, and draws one seed for all epochs of
        # workers that persist
        if over or resume.at == "before":
            return None
        expected = expected[:1]
    if case.program[resume.op + over :][:1] == (("break", 0),):
        expected = expected[:1]  # an iterator that has delivered nothing has not used the state up
    if resume.workers != case.workers:
        if mixed(case):
            return None  # how far it is read before the training loop draws is another distance
        # so is how far it is read in an epoch that is left
        left = next((i for i, op in enumerate(case.program[resume.op + over :]) if op[0] == "break"), None)
        expected = expected if left is None else expected[: left + 1]
    if own_order(case) and not resume.workers:
        expected, found = expected[:1], found[:1]  # without workers that persist, later epochs are drawn
    if not case.in_order or "uneven" in repr(case.data):
        # batches of an epoch that is left are those that were finished first
        left = next((i for i, op in enumerate(case.program[resume.op + over :]) if op[0] == "break"), None)
        expected = expected[:left]
        expected, found = [sorted(map(repr, op)) for op in expected], [sorted(map(repr, op)) for op in found]
    if mixed(case) and "buffered" in repr(case.order):
        return None  # "What it keeps in mind from earlier draws is not in the state then"
    return difference(expected[: len(found)], found[: len(expected)], "uninterrupted", "resumed")


def _parting(case: Case) -> Any:
    """The state of a loader whose iterator is gone."""
    resume = case.resume
    assert resume is not None and isinstance(resume.at, int)
    world = World(case, leat.DataLoader)
    for op in case.program[: resume.op]:
        list(world.play(op))
    list(world.play(("break", resume.at)))
    state = world.loader.state_dict()
    world.close()
    return state


# ---- checking and making smaller -------------------------------------------------------------------------------------


class Hung(BaseException):
    """No Exception: those are events of a case."""


@contextlib.contextmanager
def _in_time(seconds: int) -> Iterator[None]:
    """Raises Hung in what takes longer. For the main thread."""

    def late(number: int, frame: Any) -> None:
        raise Hung(f"it takes longer than {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def fault(case: Case) -> str | None:
    """What is wrong with leat's loader in this case; None: nothing."""
    try:
        with warnings.catch_warnings(action="ignore"), _in_time(_HUNG_S):
            return resumes_wrongly(case) if case.resume is not None else differs(case)
    except (Exception, Hung) as e:
        return "".join(traceback.format_exception(e))


def smaller(case: Case, why: str) -> tuple[Case, str]:
    """A case that still fails, and why; it is one of which nothing more can be left out."""
    found, left = True, _SMALLER
    while found:
        found = False
        for less in simpler(case):
            left -= 1
            if left < 0:
                break
            try:
                wrong = fault(less)
            except Exception:  # what is left makes no sense
                continue
            if wrong is not None and ("Traceback" in wrong) == ("Traceback" in why):
                case, why, found = less, wrong, True
                break
    return case, why


def look(area: str, numbers: range) -> None:
    """Fails with the first of these examples of an area that does, made smaller."""
    for number in numbers:
        case = draw(number, area)
        if (why := fault(case)) is not None:
            less, why = smaller(case, why)
            cases = f"The example is\n    {text_of(case)}\nIt fails as well as\n    {text_of(less)}"
            pytest.fail(f"{why}\n\n{cases}\n{again(number)}", pytrace=False)
