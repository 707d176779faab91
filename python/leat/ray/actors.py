"""The actors of a stage: as many as its calls need, between its bounds."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import ray
from ray.exceptions import RayError

from ..errors import InvalidError
from .policies import LOOK_S, Load, actors_wanted, averaged, room
from .stages import Runner, Stage


def connected() -> Any:
    """Ray, as long as this process is connected: else its calls would start a cluster here."""
    if not ray.is_initialized():
        raise InvalidError("Ray was shut down before the loader was closed")
    return ray


@dataclass(eq=False)
class Actor:
    handle: Any
    where: Any
    began: float = field(default_factory=time.monotonic)  #: when it was asked for
    is_there: bool = False
    calls: list[Any] = field(default_factory=list)  #: what it was given and has not answered, in order
    died: bool = False  #: which was seen at the call that it ran then

    def ran(self, call: Any) -> bool:
        """Whether a call that was lost with the actor is the one that it ran: those behind it are not to blame."""
        first = not self.died and self.calls[0] is call
        self.died |= first
        return first

    def node(self) -> str:
        """Where it is, as far as that is known."""
        if not connected().wait([self.where], timeout=0)[0]:
            return "whose actor has not started: no node has room for it"
        try:
            return f"on {connected().get(self.where)}"
        except RayError:
            return "whose actor has died"


class Pool:
    """Actors of one stage, and what they have done."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.rows, self.calls, self.seconds = 0, 0, 0.0
        self.types: tuple[Any, ...] = ()  #: of what it returns
        self.growth: float | None = None  #: bytes that come out for one that goes in, at most
        self._actors: list[Actor] = []
        self._options = {"num_cpus": stage.num_cpus, "num_gpus": stage.num_gpus, "max_restarts": 0}
        self._least, self._most = stage.actors or (1, 0)
        self.start_s = 1.0  #: from asking for an actor to having it: of the last one
        self._busy, self._wait_s, self._looked = 0.0, 0.0, time.monotonic()  # averages, and when they were taken
        for _ in range(self._least):
            self._start()

    @property
    def cpus(self) -> float:
        """Those that its actors take."""
        return len(self._actors) * self.stage.num_cpus

    def _start(self) -> Actor:
        handle = connected().remote(Runner).options(**self._options).remote(self.stage.fn, self.stage.name)
        actor = Actor(handle, handle.where.remote())
        self._actors.append(actor)
        return actor

    def room(self) -> int:
        """How many calls the actors take now."""
        return room(len(self._actors), sum(len(actor.calls) for actor in self._actors))

    def resize(self, calls: int, cpus: float) -> None:
        """Starts or ends an actor where that is due for so many calls (:func:`policies.actors_wanted`): a few times a
        second. `cpus`: those that no actor and no task has."""
        now = time.monotonic()
        if now - self._looked < LOOK_S:
            return
        passed, self._looked = now - self._looked, now
        there, starting = len(self._actors), self._starting(now)
        call_s = self.seconds / max(1, self.calls)
        self._busy = averaged(self._busy, sum(bool(actor.calls) for actor in self._actors), passed)
        self._wait_s = averaged(self._wait_s, calls * call_s / max(1, there), passed)
        spare, gpu = cpus >= self.stage.num_cpus and self._has_gpu(), self.stage.num_gpus > 0
        times = (self._busy, self._wait_s, call_s, self.start_s)
        wanted = actors_wanted(Load(there, self._least, self._most, spare, starting, gpu, *times))
        if wanted > there:
            self._start()
        elif wanted < there:
            idle = [actor for actor in self._actors if not actor.calls]
            for actor in idle[-1:]:
                self._actors.remove(actor)
                connected().kill(actor.handle)

    def _starting(self, now: float) -> bool:
        """Whether an actor is still on its way to a node."""
        coming = [actor for actor in self._actors if not actor.is_there]
        up = connected().wait([a.where for a in coming], num_returns=len(coming), timeout=0)[0] if coming else []
        for actor in coming:
            if actor.where in up:
                actor.is_there, self.start_s = True, now - actor.began
        return len(up) < len(coming)

    def _has_gpu(self) -> bool:
        need = self.stage.num_gpus
        return bool(self._most or not need or connected().available_resources().get("GPU", 0) >= need)

    def take(self, call: Any) -> Actor:
        """The actor for a call that there is room for."""
        actor = min(self._actors, key=lambda actor: len(actor.calls))
        actor.calls.append(call)
        return actor

    def lost(self, actor: Actor) -> None:
        """An actor has died: another one takes its place."""
        if actor in self._actors:
            self._actors.remove(actor)
            if len(self._actors) < self._least:
                self._start()

    def told(self) -> dict[str, Any]:
        """For statistics."""
        about = {"name": self.stage.name, "rows": self.rows, "calls": self.calls, "seconds": round(self.seconds, 6)}
        about |= {"actors": len(self._actors), "most": self._most or None, "num_gpus": self.stage.num_gpus}
        return {**about, "nondeterministic": not self.stage.deterministic}

    def close(self) -> None:
        """Ends the actors."""
        for actor in self._actors if ray.is_initialized() else []:
            ray.kill(actor.handle)
        self._actors.clear()
