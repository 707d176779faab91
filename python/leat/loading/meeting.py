"""The start that the ranks of a process group have in common, told from earlier ones that used the same store.

torchrun's agent may keep one store for the ranks of all restarts. Values that were left there by ranks that are gone
must not be compared, so each start has a token of its own, which is a part of all keys.

    leader               the rank that came first and its token, which is that of the start
    asked/TOKEN          how many ranks have asked this leader whether it is there
    answered/TOKEN       how many of them it has answered

A leader that is gone answers nobody. It is replaced by the process that has its rank now, and then asked anew.
"""

from __future__ import annotations

import json
import secrets
from typing import Any


class Meeting:
    """The part of one rank. `others`: how many ranks there are beside it."""

    def __init__(self, store: Any, rank: int, others: int) -> None:
        self._store, self._rank, self._others = store, rank, others
        self._token = secrets.token_hex(8)
        self._asked = ("", 0)  # the token of the leader that was asked last, and which one this rank was to ask it
        self._answered = 0  # ranks, by this one
        self.leader = rank  #: as far as is known
        self.start: str | None = None  #: the token of the start, once it is known

    @property
    def is_awaited(self) -> bool:
        """Whether other ranks have yet to ask this one."""
        return self.start == self._token and self._answered < self._others

    def look(self) -> None:
        """Takes the next step: asks, looks for the answer, or answers."""
        if self.start is None:
            self._look_for_start()
        if self.is_awaited and (new := self._store.add(f"asked/{self._token}", 0) - self._answered):
            self._store.add(f"answered/{self._token}", new)
            self._answered += new

    def _look_for_start(self) -> None:
        self.leader, token = self._found()
        if token == self._token:
            self.start = token
        elif token != self._asked[0]:
            self._asked = token, self._store.add(f"asked/{token}", 1)
        elif self._store.add(f"answered/{token}", 0) >= self._asked[1]:
            self.start = token

    def _found(self) -> tuple[int, str]:
        """The leader, which is this rank if there is none, or only that of an earlier process of this rank."""
        mine = json.dumps([self._rank, self._token])
        text = self._store.compare_set("leader", "", mine)
        if json.loads(text)[0] == self._rank and text != mine:
            text = self._store.compare_set("leader", text, mine)
        rank, token = json.loads(text)
        return rank, token
