"""The driver's part before the decision: merge and write the aggregates of all tasks, compute the new state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from etl.adapters.ledger import DataFile
from etl.correlate.adhoc.optimize.decisions import Decision
from etl.pipeline.tasks.wire import Message
from etl.streams.adhoc.planning import Planned
from etl.streams.adhoc.registry import EvolvedQueries
from etl.streams.adhoc.state import EventClock
from etl.streams.adhoc.tasks.results import aggregated, parse_partials, too_many, written
from etl.streams.storage.log import Segment

if TYPE_CHECKING:
    from etl.streams.tasks.plan import BatchPlan


_AT_A_TIME = 16


@dataclass(slots=True)
class GatheredQueries:
    """The tasks' results for all queries."""

    files: list[tuple[str, DataFile]] = field(default_factory=list)  # folder of the query's table
    rows: Counter[int] = field(default_factory=Counter)  # by the query's id
    failed: dict[int, str] = field(default_factory=dict)
    late: Counter[str] = field(default_factory=Counter)
    sums: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0  # of the slowest task
    partials: dict[int, list[pa.Table]] = field(default_factory=dict)

    def add(self, what: str, value: Mapping[str, Any]) -> None:
        if what == "query_file":
            file = DataFile(**value["file"])
            self.files.append((value["folder"], file))
            self.rows[value["query"]] += file.rows
        elif what == "query_failed":
            self.failed[value["query"]] = value["reason"]
        elif what == "query_late":
            self.late[value["stream"]] += value["late"]
        else:
            self.seconds = max(self.seconds, value["seconds"])
            self.sums.update({name: value[name] for name in ("joins", "tuples", "indexes", "shared")})

    def add_partials(self, message: Message) -> None:
        for number, table in parse_partials(message):
            self.partials.setdefault(number, []).append(table)


def give_up_too_many(plan: BatchPlan, gathered: GatheredQueries) -> None:
    """Drop the rows of queries that exceed, over all tasks, the limit of rows per query and batch."""
    for number, rows in list(gathered.rows.items()):
        if plan.queries is not None and rows > plan.queries.rows_most and number not in gathered.failed:
            message = too_many(plan, number)
            gathered.add(message.name, message.json())


def write_aggregates(plan: BatchPlan, planned: Planned, gathered: GatheredQueries) -> None:
    """Write a file for every aggregating query that has results."""
    if planned.version is None or not gathered.partials:
        return
    entries, running = {one.id: one for one in planned.version.entries.values()}, planned.version.running

    def write(number: int) -> Message | None:
        entry = entries[number]
        table = aggregated(running[entry.name].query, gathered.partials[number])
        return None if table is None else written(plan, number, entry.folder, plan.part_name("a", 0), table)

    with ThreadPoolExecutor(_AT_A_TIME, "write-aggregates") as pool:  # the time is spent waiting for the disk
        for message in pool.map(write, [number for number in gathered.partials if number not in gathered.failed]):
            if message is not None:
                gathered.add(message.name, message.json())


def files_of(gathered: GatheredQueries, planned: Planned) -> Iterator[tuple[str, DataFile]]:
    """The files to publish: a query that failed in one task has no rows in the batch at all."""
    failed = {f"{one.name}-{one.id}" for one in _entries(planned) if one.id in gathered.failed}
    return ((f"queries/{folder}", file) for folder, file in gathered.files if folder not in failed)


def evolve_queries(
    batch: int,
    planned: Planned,
    gathered: GatheredQueries,
    new: list[Segment],
    clock: EventClock,
    streams: frozenset[str],
) -> EvolvedQueries:
    """The changes of a batch: event time of all streams with fields, segments in use, suspended queries."""
    windows = {} if planned.version is None else planned.version.windows
    state = planned.state.advanced(clock, batch, [one for one in new if one.stream in streams], windows)
    names = {one.id: one.name for one in _entries(planned)}
    decisions = [Decision(batch, "suspend", names[number], why) for number, why in gathered.failed.items()]
    return EvolvedQueries(
        state,
        planned.created,
        planned.deleted,
        {**planned.suspended, **gathered.failed},
        (*planned.decisions, *decisions),
    )


def figures(planned: Planned, gathered: GatheredQueries) -> dict[str, Any]:
    """Figures of queries in a batch: part of the decision, shown in reports and by commands."""
    names = {one.id: one.name for one in _entries(planned)}
    return {
        "running": len(names),
        "created": sorted(names[number] for number in planned.created if number in names),
        "deleted": len(planned.deleted),
        "rows": {
            names[number]: rows for number, rows in sorted(gathered.rows.items()) if number not in gathered.failed
        },
        "late": dict(gathered.late),
        "joins": gathered.sums["joins"],
        "bytes": {name: gathered.sums[name] for name in ("tuples", "indexes", "shared")},
        "shares": planned.state.shares,
        "seconds": round(gathered.seconds, 6),
        "suspended": sorted(names.get(number, str(number)) for number in {**planned.suspended, **gathered.failed}),
    }


def _entries(planned: Planned) -> list[Any]:
    return [] if planned.version is None else list(planned.version.entries.values())
