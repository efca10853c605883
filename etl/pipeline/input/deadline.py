"""How much a batch takes in and may read of its masters, so that it ends in time (ADR 65).

    earlier batches ─▶ Costs: fixed, per event, per page or key read ─▶ w: the events one batch can serve
    w and what waits ─▶ Control, written down with the batch: a second try does the same

    waiting ≤ w          all is taken in; what is left of w, up to 2·w, comes from the backlog, oldest first
    w < waiting ≤ 2·w    w is taken in; the rest stays landed and comes next
    waiting > 2·w        overload: as many events as can be probed in time are taken in. Front stage hits are served,
                         the keys and pages that most events wait for are read within the budget, and the rest is
                         shed to the backlog

Costs are counted, not timed, while a batch runs: the same Control sheds the same events. Pure: no clock, no files.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from typing import Any

from etl.adapters.ledger import BacklogFile, BatchRecord
from etl.contract.model import Format, Shedding
from etl.enrich.step import BatchBudget

_MARGIN = 0.8
"""Share of the deadline that is planned: unit costs vary from batch to batch."""
_LOOKED_AT = 0.9
"""Share of the time for events that intake may use under overload; the rest is for reading masters."""
_FOR_EVENTS = 0.25
"""Least share of the planned time for events, even if the fixed costs exceed it: smaller batches end no sooner."""
_USUAL_EVENT_S = 1e-4
"""Cost per event until a batch was large enough to measure; several times the cost on two cores."""
_FIRST_FIXED_S = 10.0
"""Fixed cost of a first batch: a session that has just started, kernels and front stages that are cold."""
_FIRST_EVENT_S = 6e-6
"""Cost per event of a first batch; less than most events cost, so that what fits is not cut."""
_FIRST_EVENT_BYTES: Mapping[Format, int] = {"jsonl": 200, "csv": 100, "parquet": 30}
"""Bytes of an event until some were counted."""
_TELLING = 5_000
"""Events of a batch, or of a join, below which fixed costs dominate."""
_FEW_READS = 256
"""A join that read less is no measurement of reading costs."""
_WAITING_ROWS = 256, 20_000
"""Events in a file of the backlog, at least and at most."""
RECENT = 8
"""Number of recent batches that are measured."""


@dataclass(frozen=True, slots=True)
class Past:
    """Counts and durations of one earlier batch."""

    seconds: float
    events: int
    bytes: int
    joins: Mapping[str, Mapping[str, Any]]  # by master: seconds, tasks, tuples, shed, pages, lookups
    reads: Mapping[str, ReadCosts] = field(default_factory=dict)  # the unit costs it was planned with


@dataclass(frozen=True, slots=True)
class ReadCosts:
    """What reading one master costs a task, and how much of it an event needs."""

    page_s: float | None = None
    lookup_s: float | None = None
    event_s: float = 0.0  # of one task, per event that was served

    def budget(self, seconds: float) -> BatchBudget:
        """What a task can read in this time."""
        return BatchBudget(_fitting(seconds, self.page_s), _fitting(seconds, self.lookup_s))


@dataclass(frozen=True, slots=True)
class Costs:
    """Measured unit costs of one pipeline."""

    fixed_s: float
    event_s: float
    event_bytes: float
    reads: Mapping[str, ReadCosts] = field(default_factory=dict)

    def for_events(self, seconds: float) -> float:
        """The part of this time that is left for events, after the fixed costs of a batch."""
        return max(seconds - self.fixed_s, seconds * _FOR_EVENTS)

    def served(self, seconds: float, tasks: int) -> int:
        """w: how many events can be served in this time, including the reading of masters for them."""
        each = self.event_s + sum(one.event_s for one in self.reads.values()) / tasks
        return max(1, int(self.for_events(seconds) / max(each, 1e-9)))

    def looked_at(self, seconds: float) -> int:
        """How many events can be taken in and probed, with time left for reading masters."""
        return max(1, int(self.for_events(seconds) * _LOOKED_AT / max(self.event_s, 1e-9)))


@dataclass(frozen=True, slots=True)
class Control:
    """Limits of one batch, recorded when its input is fixed."""

    shedding: Shedding = "none"
    overloaded: bool = False
    waiting: int = 0  # events that had landed or were shed
    capacity: int | None = None  # w
    take_bytes: int | None = None
    reload: int | None = None  # shed events that may come back
    first: int | None = None  # for `keep`: this many events are served, the others shed without a probe
    budgets: Mapping[str, BatchBudget] = field(default_factory=dict)  # by master, of one task
    reads: Mapping[str, ReadCosts] = field(default_factory=dict)  # by master, the unit costs behind the budgets
    taken_bytes: int = 0  # actual input
    lost: Mapping[str, tuple[int, int | None]] = field(default_factory=dict)  # by partition of a topic: lost offsets
    unreadable: Mapping[str, str] = field(default_factory=dict)  # by landed file: why it cannot be read

    @property
    def waiting_rows(self) -> int:
        """Events in a file of the backlog: at most w, for 2·w come back at once, in whole files."""
        least, most = _WAITING_ROWS
        return most if self.capacity is None else max(least, min(most, self.capacity))

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Control:
        budgets = {name: BatchBudget(**one) for name, one in value["budgets"].items()}
        return cls(**{**value, "budgets": budgets, "reads": _reads(value)})


def past(history: Iterable[BatchRecord]) -> list[Past]:
    """Loaded batches as the ledger recorded them."""
    return [
        Past(
            sum(record.seconds.values()),
            record.counts.lines + record.counts.backlog_resolved,
            record.control.get("taken_bytes", 0) if record.control else 0,
            {name: join for name, join in record.joins.items() if "tasks" in join},
            _reads(record.control or {}),
        )
        for record in history
        if record.state == "loaded"
    ]


def oldest(files: Iterable[BacklogFile], most: int | None) -> Iterator[BacklogFile]:
    """The first files of the backlog that hold `most` events together; at least one file."""
    taken = 0
    for file in files:
        if most is not None and (most == 0 or (taken and taken + file.waiting > most)):
            return
        taken += file.waiting
        yield file


def observed(past: Sequence[Past]) -> Costs | None:
    """Unit costs from the newest batches; None as long as there are none."""
    recent = [one for one in past if one.events and one.bytes][-RECENT:]  # batches of the backlog alone do not count
    if not recent:
        return None
    fixed_s, event_s = _batch_costs([(max(0.0, one.seconds - _join_seconds(one)), one.events) for one in recent])
    return Costs(
        fixed_s,
        event_s,
        sum(one.bytes for one in recent) / sum(one.events for one in recent),
        {name: _read_costs(recent, name) for name in {name for one in recent for name in one.joins}},
    )


def _batch_costs(around: Sequence[tuple[float, int]]) -> tuple[float, float]:
    """Fixed cost per batch and cost per event: the first from small batches, the second from large ones."""
    large = [(took, events) for took, events in around if events >= _TELLING]
    at_most = [took / events for took, events in large]
    usual = min(_USUAL_EVENT_S, statistics.median(at_most)) if at_most else _USUAL_EVENT_S
    fixed_s = min((max(0.0, took - events * usual) for took, events in around if events < _TELLING), default=0.0)
    if len(large) < 2:  # a driver's first batch is slow
        return fixed_s, _USUAL_EVENT_S
    return fixed_s, statistics.median(max(0.0, took - fixed_s) / events for took, events in large)


def _reads(control: Mapping[str, Any]) -> dict[str, ReadCosts]:
    return {name: ReadCosts(**one) for name, one in control.get("reads", {}).items()}


def control(
    costs: Costs | None, landed_bytes: int, shed: int, deadline: timedelta, shedding: Shedding, tasks: int
) -> Control:
    """The limits of the next batch, from the landed bytes and the shed events that wait."""
    if costs is None or shedding == "none":
        return Control(shedding)
    seconds = deadline.total_seconds() * _MARGIN
    landed = int(landed_bytes / max(costs.event_bytes, 1.0))
    w = costs.served(seconds, tasks)
    overloaded = landed > 2 * w
    taken = _taken(costs, seconds, w, shedding) if overloaded else w
    most = 2 * w if shedding == "consider" else w  # bounded reading ends in time, however many events come back
    reload = most - landed if landed <= w else 0
    events = min(taken, landed) + min(reload, shed)
    reading_s = max(0.0, costs.for_events(seconds) - events * costs.event_s)
    return Control(
        shedding,
        overloaded,
        landed + shed,
        w,
        max(1, int(taken * costs.event_bytes)),
        reload,
        w if shedding == "keep" else None,
        _budgets(costs, reading_s) if shedding == "consider" else {},
        costs.reads,
    )


def first_control(landed_bytes: int, shed: int, deadline: timedelta, shedding: Shedding, format: Format) -> Control:
    """The limits of a batch that has no past: what usual unit costs say fits is taken in, the rest stays landed.

    Nothing is shed, and reading is not bounded: that needs costs that were measured.
    """
    if shedding == "none":
        return Control(shedding)
    event_bytes = _FIRST_EVENT_BYTES[format]
    usual = Costs(_FIRST_FIXED_S, _FIRST_EVENT_S, event_bytes)
    w = usual.served(deadline.total_seconds() * _MARGIN, tasks=1)
    return Control(shedding, waiting=landed_bytes // event_bytes + shed, take_bytes=w * event_bytes)


def _taken(costs: Costs, seconds: float, w: int, shedding: Shedding) -> int:
    """Events to take in under overload: probing an event costs less than serving it."""
    return max(w, costs.looked_at(seconds)) if shedding == "consider" else 2 * w


def _budgets(costs: Costs, seconds: float) -> dict[str, BatchBudget]:
    """Reading time divided among the masters by what an event needs of each."""
    need = sum(one.event_s for one in costs.reads.values())
    shares = {name: one.event_s / need if need else 1.0 for name, one in costs.reads.items()}
    return {name: one.budget(seconds * shares[name]) for name, one in costs.reads.items()}


def _join_seconds(one: Past) -> float:
    return float(sum(float(join["seconds"]) / max(1, join["tasks"]) for join in one.joins.values()))


def _read_costs(recent: Sequence[Past], name: str) -> ReadCosts:
    """Costs from the newest batches; where those read too little to measure, the costs they were planned with."""
    known = next((one.reads[name] for one in reversed(recent) if name in one.reads), ReadCosts())
    joins = [one.joins[name] for one in recent if name in one.joins]
    whole = [(float(join["seconds"]), join["tuples"]) for join in joins if not join["shed"]]
    return ReadCosts(
        _unit([join for join in joins if join["pages"]], "pages") or known.page_s,
        _unit([join for join in joins if not join["pages"]], "lookups") or known.lookup_s,
        _upper([seconds / events for seconds, events in whole if events >= _TELLING], known.event_s),
    )


def _unit(joins: Sequence[Mapping[str, Any]], what: str) -> float | None:
    units = [float(join["seconds"]) / join[what] for join in joins if join[what] >= _FEW_READS]
    return _upper(units, 0.0) or None


def _upper(values: Sequence[float], nothing: float) -> float:
    """The upper quartile: an unusually fast batch must not lower the estimate."""
    if len(values) < 2:
        return values[0] if values else nothing
    return float(statistics.quantiles(values, n=4, method="inclusive")[2])


def _fitting(seconds: float, unit_s: float | None) -> int | None:
    return None if unit_s is None else max(1, int(seconds / unit_s))
