"""The actors of a stage: as many as its calls need, between its bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ray
from ray.exceptions import RayError

from .stages import Runner, Stage

QUEUED = 2  #: calls of an actor at a time: one that runs, and the next one, whose rows fly


@dataclass(eq=False)
class Actor:
    handle: Any
    where: Any
    running: int = 0

    def node(self) -> str:
        """Where it is, as far as that is known."""
        if not ray.wait([self.where], timeout=0)[0]:
            return "whose actor has not started: no node has room for it"
        try:
            return f"on {ray.get(self.where)}"
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
        for _ in range(self._least):
            self._start()

    @property
    def cpus(self) -> float:
        """Those that its actors take."""
        return len(self._actors) * self.stage.num_cpus

    def _start(self) -> Actor:
        handle = ray.remote(Runner).options(**self._options).remote(self.stage.fn, self.stage.name)
        actor = Actor(handle, handle.where.remote())
        self._actors.append(actor)
        return actor

    def room(self, calls: int, cpus: float) -> int:
        """How many of so many calls the actors take now. If they are too few, one more is started, if it needs no more
        than `cpus`, which no actor and no task has."""
        room = sum(max(0, QUEUED - actor.running) for actor in self._actors)
        if calls > room and cpus >= self.stage.num_cpus and self._fits():
            self._start()
            room += QUEUED
        return room

    def take(self) -> Actor:
        """The actor for a call that there is room for."""
        actor = min(self._actors, key=lambda actor: actor.running)
        actor.running += 1
        return actor

    def _fits(self) -> bool:
        places = [actor.where for actor in self._actors]
        if places and ray.wait(places, num_returns=len(places), timeout=0)[1]:
            return False  # one is still on its way to a node
        if self._most:
            return len(self._actors) < self._most
        return bool(ray.available_resources().get("GPU", 0) >= self.stage.num_gpus)

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
