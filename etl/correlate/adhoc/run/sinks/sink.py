"""The sink of the queries with the same last join: counts, aggregates or materialises, per query.

count(*)           all queries at once, products of counts per key
other aggregates   per query, folded along the links, never materialised
rows               materialised once for all queries, then each selects the pairs with its bit
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from etl.columnar import bitsets
from etl.correlate.adhoc.query.model import ColumnOf
from etl.correlate.adhoc.run.changes.partitioning import Partitioning, tasks_of_rows
from etl.correlate.adhoc.run.components import Team
from etl.correlate.adhoc.run.joins import eager
from etl.correlate.adhoc.run.joins.eager import Flat
from etl.correlate.adhoc.run.joins.factor import Factor, Rows, multiply_out
from etl.correlate.adhoc.run.sinks.aggregate import aggregate
from etl.correlate.adhoc.run.sinks.count import Counts, counts
from etl.correlate.adhoc.run.sinks.result import COUNT, Chunk, QueryRows, merge_partials
from etl.correlate.adhoc.run.sinks.tally import tally

_AT_A_TIME = 256  # joins that are counted together


class Sink:
    """Collects each query's results over the combinations of one slot."""

    def __init__(self, team: Team, type_of: Callable[[ColumnOf], pa.DataType], rows_most: int) -> None:
        self._team, self._type_of, self._rows_most = team, type_of, rows_most
        self._many: dict[int, int] = {}  # rows so far
        self._full = 0  # queries over the limit
        self._counts: Counts = {}
        self._to_count: list[tuple[Factor, int]] = []
        self._partials: dict[int, list[pa.Table]] = {}
        self.rows: dict[str, QueryRows] = {}

    def take(self, joined: Factor | Flat, mask: int, task: int | None, partitioning: Partitioning | None) -> None:
        """Add one combination's result for the queries of `mask`, or this task's part of it."""
        if task is not None and partitioning is not None:
            part = _of_task(joined, task, partitioning)
            if part is None:
                return
            joined = part
        having = mask & ~self._full & (joined.sets.mask if isinstance(joined, Flat) else joined.mask)
        counting, rows = having & self._team.counting, having & self._team.materialising
        rest = having & ~(counting | rows)
        if isinstance(joined, Flat):
            self._take_flat(joined, counting, rows, bitsets.positions_of(rest))
            return
        if counting:
            self._to_count.append((joined, counting))
            if len(self._to_count) >= _AT_A_TIME:
                self._count()
        for number in bitsets.positions_of(rest):
            self._add_partial(number, aggregate(joined, self._team.by_number[number].query, number))
        if rows:
            for chunk in multiply_out(joined, rows):
                self._add_rows(joined, chunk, rows)
                if not rows & ~self._full:
                    return

    def _take_flat(self, joined: Flat, counting: int, rows: int, rest: list[int]) -> None:
        self._add(eager.flat_counts(joined, counting))
        found = eager.flat_rows(joined, rows | bitsets.mask_of(rest))
        self._add_rows(joined, found, rows)
        for number in rest:
            chunk = Chunk(joined.buckets, found.of(number))
            self._add_partial(number, tally(self._team.by_number[number].query, chunk, self._type_of))

    def _count(self) -> None:
        """Count the joins since the last call together, so that weights of common sides are shared."""
        self._add(counts(self._to_count))
        self._to_count.clear()

    def _add(self, counts: dict[int, int]) -> None:
        for number, many in counts.items():
            self._counts[number] = self._counts.get(number, 0) + many

    def _add_partial(self, number: int, partial: pa.Table | None) -> None:
        if partial is not None and partial.num_rows:
            self._partials.setdefault(number, []).append(partial)

    def _add_rows(self, joined: Factor | Flat, found: Rows, mask: int) -> None:
        for number in bitsets.positions_of(mask & found.numbering & ~self._full):
            chosen = Chunk(joined.buckets, found.of(number))
            if len(chosen):
                query = self._team.by_number[number].query
                self._many[number] = self._many.get(number, 0) + len(chosen)
                if self._many[number] > self._rows_most:
                    self._full |= 1 << number
                    self.rows.pop(query.name, None)
                    continue
                types = {c.of: self._type_of(c.of) for c in query.columns}
                self.rows.setdefault(query.name, QueryRows(query, types)).chunks.append(chosen)

    @property
    def too_many(self) -> set[str]:
        """The queries whose rows were dropped because they exceed the limit."""
        return {self._team.by_number[number].query.name for number in bitsets.positions_of(self._full)}

    def merged(self) -> dict[str, pa.Table]:
        """The partial aggregates of the slot, by query."""
        self._count()
        found = {
            self._team.by_number[n].query.name: pa.table({COUNT: pa.array([many], pa.int64())})
            for n, many in self._counts.items()
        }
        for number, partials in self._partials.items():
            query = self._team.by_number[number].query
            merged = merge_partials(query, partials)
            if merged is not None and merged.num_rows > self._rows_most:
                self._full |= 1 << number
            elif merged is not None:
                found[query.name] = merged
        return found


def _of_task(joined: Factor | Flat, task: int, partitioning: Partitioning) -> Factor | Flat | None:
    """The results whose key in the last join belongs to the task; None if no key does."""
    if isinstance(joined, Flat):
        assert joined.last is not None, "a sink takes joins"
        end = joined.last.left
        bucket = joined.buckets[end.stream]
        index = bucket.index(end.columns)
        tasks = tasks_of_rows(bucket.codes(end.columns), partitioning.assign(index.lo, index.hi))
        return eager.restricted(joined, tasks[joined.rows[end.stream]] == task)
    link = joined.links[-1]
    mine = partitioning.assign(*link.left.keys(link.at_left)) == task
    return joined.part(mine) if mine.any() else None
