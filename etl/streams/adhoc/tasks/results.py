"""Results of ad-hoc queries in a batch: rows are files of their queries' tables, aggregates are merged in the driver.

    batch │ the query's columns │ for an average also NAME__sum and NAME__count

An aggregate's row covers the new results of one batch; rows of several batches can be added up (`total`), which is why
averages are stored with their sum and count (ADR 87).
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace

import pyarrow as pa
import pyarrow.compute as pc

from etl.adapters.delta.data_files import write_part
from etl.correlate.adhoc.query.model import Aggregate, Query
from etl.correlate.adhoc.run.sinks.result import COUNT, QueryRows, atom_name, finalise, merge_partials
from etl.pipeline.tasks.wire import Message, rows_message, rows_of
from etl.streams.adhoc.version import Version
from etl.streams.tasks import wire
from etl.streams.tasks.plan import RESULTS, BatchPlan

BATCH = "batch"
_AT_A_TIME = 4
_COUNTS = "counts"  # name of the message with the counts of all queries that only count


class TaskResults:
    """One task's results of all queries. A failing sink is reported and does not affect the others."""

    def __init__(self, plan: BatchPlan, version: Version, task: int) -> None:
        self._plan, self._version, self._task = plan, version, task
        self._rows: dict[str, list[QueryRows]] = {}
        self._partials: dict[str, list[pa.Table]] = {}
        self._given_up: set[str] = set()

    def add_rows(self, name: str, rows: QueryRows) -> None:
        self._rows.setdefault(name, []).append(rows)

    def add_partial(self, name: str, partial: pa.Table) -> None:
        self._partials.setdefault(name, []).append(partial)

    def give_up(self, name: str) -> None:
        """Drop the rows of a query that exceeds its limit."""
        self._given_up.add(name)

    def written(self) -> Iterator[Message]:
        for name in self._given_up:
            self._rows.pop(name, None)
            self._partials.pop(name, None)
            yield too_many(self._plan, self._version.entries[name].id)
        with ThreadPoolExecutor(_AT_A_TIME, "write-rows") as pool:  # the time is spent waiting for the disk
            yield from (message for message in pool.map(self._rows_of, self._rows) if message is not None)
        yield from self._aggregates()

    def _rows_of(self, name: str) -> Message | None:
        table = pa.concat_tables([one.to_table() for one in self._rows[name]])
        return self._file(name, table) if table.num_rows else None

    def _file(self, name: str, rows: pa.Table) -> Message:
        # A retried task must not overwrite a file that the first try has reported.
        part = self._plan.part_name(f"q{secrets.token_hex(4)}-", self._task)
        return written(self._plan, self._version.entries[name].id, self._version.entries[name].folder, part, rows)

    def _aggregates(self) -> Iterator[Message]:
        counts: dict[int, int] = {}
        for name, parts in self._partials.items():
            query, number = self._version.running[name].query, self._version.entries[name].id
            if query.only_counts:
                counts[number] = sum(int(part[COUNT][0].as_py()) for part in parts)
                continue
            merged = merge_partials(query, parts)
            if merged is not None and merged.num_rows:
                yield _partials(str(number), merged)
        some = {number: many for number, many in counts.items() if many}
        if some:
            columns = {"id": pa.array(some.keys(), pa.int64()), COUNT: pa.array(some.values(), pa.int64())}
            yield _partials(_COUNTS, pa.table(columns))


def _partials(name: str, table: pa.Table) -> Message:
    (batch,) = table.combine_chunks().to_batches()
    return replace(rows_message(batch, 0), kind="partials", name=name)


def written(plan: BatchPlan, number: int, folder: str, part: str, rows: pa.Table) -> Message:
    """Write a file of a query's table; a failure is returned as a message."""
    table = rows.add_column(0, BATCH, pa.repeat(pa.scalar(plan.batch, pa.int64()), rows.num_rows))
    try:
        file = write_part(plan.places.queries / folder, RESULTS, part, table)
    except (OSError, pa.ArrowException) as error:
        return wire.result("query_failed", {"query": number, "reason": _reason(error)})
    return wire.result("query_file", {"query": number, "folder": folder, "file": asdict(file)})


def too_many(plan: BatchPlan, number: int) -> Message:
    """The message for a query that exceeds the limit of rows per batch."""
    most = 0 if plan.queries is None else plan.queries.rows_most
    reason = f"it has more than {most:,} rows in one micro-batch; select fewer tuples, or count them"
    return wire.result("query_failed", {"query": number, "reason": reason})


def _reason(error: Exception) -> str:
    text = str(error).splitlines()[0] if str(error) else type(error).__name__
    return f"its table cannot be written: {text}"


def parse_partials(message: Message) -> list[tuple[int, pa.Table]]:
    """A task's partial aggregates, by the query's id."""
    table = rows_of(message)
    if message.name != _COUNTS:
        return [(int(message.name), table)]
    counts = zip(table["id"].to_pylist(), table[COUNT].to_pylist(), strict=True)
    return [(number, pa.table({COUNT: pa.array([many], pa.int64())})) for number, many in counts]


def aggregated(query: Query, partials: Sequence[pa.Table]) -> pa.Table | None:
    """Merge the partial aggregates of all tasks into a batch's rows."""
    merged = merge_partials(query, partials)
    if merged is None or not merged.num_rows:
        return None
    table = finalise(query, merged)
    for each in query.aggregates:
        if each.kind == "avg" and each.of is not None:
            atoms = atom_name(("sum", each.of)), atom_name(("nonnull", each.of))
            for part, atom in zip(each.parts, atoms, strict=True):
                table = table.append_column(part, merged[atom])
    return table


def total(query: Query, rows: pa.Table) -> pa.Table:
    """Merge the aggregates of several batches: a query's total so far."""
    keys = [one.name for one in query.columns]
    wanted: list[tuple[str, str]] = []
    for each in query.aggregates:
        if each.kind == "avg":
            wanted += [(part, "sum") for part in each.parts]
        else:
            wanted.append((each.name, each.kind if each.kind in ("min", "max") else "sum"))
    names = [name for name, _ in wanted] + keys
    numbered = pa.table([rows[name] for name in names], names=[str(at) for at in range(len(names))])
    merged = numbered.group_by([str(names.index(key)) for key in keys]).aggregate(
        [(str(at), how) for at, (_, how) in enumerate(wanted)]
    )
    columns = [f"{at}_{how}" for at, (_, how) in enumerate(wanted)] + [str(names.index(key)) for key in keys]
    found = {name: merged[column] for name, column in zip(names, columns, strict=True)}
    return pa.table({each.name: _total(each, found) if isinstance(each, Aggregate) else found[each.name]
                     for each in query.outputs})  # fmt: skip


def _total(each: Aggregate, found: Mapping[str, pa.ChunkedArray]) -> pa.ChunkedArray:
    if each.kind != "avg":
        return found[each.name]
    sums, counts = (found[part].cast(pa.float64()) for part in each.parts)
    return pc.divide(sums, pc.if_else(pc.greater(counts, 0), counts, pa.scalar(None, pa.float64())))
