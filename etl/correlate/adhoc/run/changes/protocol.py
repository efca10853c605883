"""How all tasks come to apply a changelog: the two protocols of section 6, as messages.

    atomic       1  manager: where are you?          tasks: bucket, time           (figure 10)
                 2  manager: after bucket b?         tasks: yes (and wait at b), or no (already past b)
                 3  manager: do it | forget it       all tasks apply it at the boundary b, or none does
    non-atomic      manager: here it is              each task applies it at its own next boundary

Managers and tasks are state machines: they take a message and return messages. The caller transports them, with any
delay, but in order between two parties. On Spark a micro-batch is a barrier for all tasks, so the driver decides alone;
this model shows what several independent drivers would have to do.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

MANAGER = -1
Kind = Literal["ask", "report", "propose", "yes", "no", "commit", "abort", "changelog", "applied"]


@dataclass(frozen=True, slots=True)
class Message:
    kind: Kind
    source: int
    target: int
    change: int  # the changelog's number
    attempt: int = 0
    bucket: int = 0


@dataclass
class Task:
    """One task: it processes buckets, and applies changelogs at their boundaries."""

    number: int
    bucket: int = 0  # the next bucket it will process
    promised: dict[int, tuple[int, int]] = field(default_factory=dict)  # change ─► (attempt, boundary) it waits for
    pending: list[int] = field(default_factory=list)  # non-atomic changelogs received since the last boundary
    applied: list[tuple[int, int]] = field(default_factory=list)  # (bucket before which, change)

    @property
    def waits(self) -> bool:
        """Whether it must wait: it has promised a boundary whose outcome is open."""
        return any(boundary <= self.bucket for _, boundary in self.promised.values())

    def advance(self) -> bool:
        """Process the next bucket, unless it must wait."""
        if self.waits:
            return False
        self.applied += [(self.bucket, change) for change in self.pending]
        self.pending.clear()
        self.bucket += 1
        return True

    def receive(self, message: Message) -> list[Message]:
        change, attempt = message.change, message.attempt
        if message.kind == "ask":
            return [Message("report", self.number, MANAGER, change, attempt, self.bucket)]
        if message.kind == "propose":
            if message.bucket < self.bucket:
                return [Message("no", self.number, MANAGER, change, attempt, self.bucket)]
            self.promised[change] = (attempt, message.bucket)
            return [Message("yes", self.number, MANAGER, change, attempt, self.bucket)]
        if message.kind == "abort":
            if self.promised.get(change, (-1, 0))[0] == attempt:
                del self.promised[change]
            return []
        if message.kind == "commit":
            _, boundary = self.promised.pop(change)
            self.applied.append((boundary, change))
            return [Message("applied", self.number, MANAGER, change, attempt, boundary)]
        assert message.kind == "changelog", "a task is sent no other message"
        self.pending.append(change)
        return [Message("applied", self.number, MANAGER, change, attempt, self.bucket)]


@dataclass
class Manager:
    """The manager's side of one changelog. `slack` buckets are left between the foremost task and the boundary."""

    change: int
    tasks: int
    atomic: bool
    slack: int = 1
    attempt: int = 0
    phase: Literal["ask", "propose", "commit", "done"] = "ask"
    boundary: int = -1
    _reports: dict[int, int] = field(default_factory=dict)
    _refused: bool = False

    def start(self) -> list[Message]:
        if not self.atomic:
            self.phase = "commit"
            return self._to_all("changelog")
        self.phase, self._reports, self._refused = "ask", {}, False
        self.attempt += 1
        return self._to_all("ask")

    def receive(self, message: Message) -> list[Message]:
        if message.attempt != self.attempt or (message.kind == "report") != (self.phase == "ask"):
            return []
        self._reports[message.source] = message.bucket
        self._refused |= message.kind == "no"
        if len(self._reports) < self.tasks:
            return []
        return self._next_phase()

    def _next_phase(self) -> list[Message]:
        if self.phase == "ask":
            self.boundary = max(self._reports.values()) + self.slack
            self.phase, self._reports = "propose", {}
            return self._to_all("propose")
        if self.phase == "propose":
            if self._refused:
                given_up = self._to_all("abort")
                return given_up + self.start()
            self.phase, self._reports = "commit", {}
            return self._to_all("commit")
        self.phase = "done"
        return []

    def timeout(self) -> list[Message]:
        """An answer is overdue: abandon this attempt and ask again. Not possible after commit."""
        if not self.atomic or self.phase not in ("ask", "propose"):
            return []
        given_up = self._to_all("abort") if self.phase == "propose" else []
        return given_up + self.start()

    def _to_all(self, kind: Kind) -> list[Message]:
        return [Message(kind, MANAGER, task, self.change, self.attempt, self.boundary) for task in range(self.tasks)]
