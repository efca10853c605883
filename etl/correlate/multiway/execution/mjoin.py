"""MJoin over a micro-batch: every new tuple probes the other inputs one after the other.

A result is produced in the batch in which its newest member arrives. With the inputs numbered, the new tuples of input
i probe old and new tuples of the inputs before i, and only old ones of those after i; so every combination with a new
member is found exactly once.

A partial combination consists of a row number per input and its window; columns are read once, at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from etl.correlate.multiway import layout
from etl.correlate.multiway.codes import I64, Codes, combine
from etl.correlate.multiway.execution.kernel import Kernel, Side, WindowIndex
from etl.correlate.multiway.execution.tuples import Tuples, concat
from etl.correlate.multiway.query import JoinQuery


@dataclass(frozen=True, slots=True)
class Input:
    """One input of an operator: old tuples, and the batch's new ones."""

    streams: int
    old: Tuples
    new: Tuples


@dataclass(frozen=True, slots=True)
class Combinations:
    """Row numbers per input (in its `old` followed by its `new`), and the windows of the combinations."""

    rows: dict[int, I64]
    start: I64
    end: I64

    def __len__(self) -> int:
        return len(self.start)


def mjoin(query: JoinQuery, inputs: Sequence[Input], kernel: Kernel) -> pa.Table:
    """The results with at least one new member, in the columns of their set of streams."""
    operator = _Operator(query, inputs, kernel)
    found = [operator.probe_from(number) for number in range(len(inputs))]
    return operator.materialise(found)


class _Operator:
    def __init__(self, query: JoinQuery, inputs: Sequence[Input], kernel: Kernel) -> None:
        self._query, self._inputs, self._kernel = query, inputs, kernel
        self._all = [concat([one.old, one.new], one.old) for one in inputs]
        self._indexes: dict[tuple[int, bool, tuple[int, ...]], WindowIndex] = {}

    def probe_from(self, first: int) -> Combinations:
        """The combinations of the new tuples of one input."""
        new, offset = self._inputs[first].new, len(self._inputs[first].old)
        found = Combinations({first: np.arange(len(new)) + offset}, new.start, new.end)
        while len(found.rows) < len(self._inputs) and len(found):
            found = self._extend(found, self._next(found), first)
        missing = {n: np.empty(0, np.int64) for n in range(len(self._inputs)) if n not in found.rows}
        return Combinations(found.rows | missing, found.start, found.end)

    def _next(self, found: Combinations) -> int:
        """The smallest input that can be joined next."""
        held = {n for one in found.rows for n in self._all[one].codes}
        near = [n for n in range(len(self._inputs)) if n not in found.rows and held & set(self._all[n].codes)]
        return min(near, key=lambda n: len(self._all[n]))

    def _extend(self, found: Combinations, other: int, first: int) -> Combinations:
        held = {n: one for one in found.rows for n in self._all[one].codes}
        shared = tuple(n for n in self._all[other].codes if n in held)
        sides = [self._all[held[n]].codes[n].values[found.rows[held[n]]] for n in shared]
        exact = all(self._all[held[n]].codes[n].exact for n in shared)
        code = combine([Codes(side, exact) for side in sides])
        parts = [False, True] if other < first else [False]
        met = [self._probe(other, fresh, shared, Side(code.values, found.start, found.end)) for fresh in parts]
        mine, theirs = np.concatenate([one for one, _ in met]), np.concatenate([one for _, one in met])
        if not code.exact:
            same = self._equal(found, held, shared, mine, other, theirs)
            mine, theirs = mine[same], theirs[same]
        rows = {n: at[mine] for n, at in found.rows.items()} | {other: theirs}
        start = np.maximum(found.start[mine], self._all[other].start[theirs])
        return Combinations(rows, start, np.minimum(found.end[mine], self._all[other].end[theirs]))

    def _probe(self, other: int, fresh: bool, shared: tuple[int, ...], side: Side) -> tuple[I64, I64]:
        stored = self._inputs[other].new if fresh else self._inputs[other].old
        name = (other, fresh, shared)
        if name not in self._indexes:
            code = combine([stored.codes[n] for n in shared])
            self._indexes[name] = self._kernel.index(Side(code.values, stored.start, stored.end))
        pairs = self._indexes[name].probe(side)
        return pairs.probe, pairs.stored + (len(self._inputs[other].old) if fresh else 0)

    def _equal(
        self, found: Combinations, held: dict[int, int], shared: tuple[int, ...], mine: I64, other: int, theirs: I64
    ) -> I64:
        """Candidate pairs, whose codes are hashes, filtered by equal values."""
        same = np.ones(len(mine), np.bool_)
        for n in shared:
            here, column = held[n], layout.key(n)
            left = self._all[here].table.column(column).take(pa.array(found.rows[here][mine]))
            right = self._all[other].table.column(column).take(pa.array(theirs))
            same &= pc.equal(left, right).to_numpy()
        return np.flatnonzero(same)

    def materialise(self, found: Sequence[Combinations]) -> pa.Table:
        streams = 0
        for one in self._inputs:
            streams |= one.streams
        rows = {n: np.concatenate([one.rows[n] for one in found]) for n in range(len(self._inputs))}
        columns: dict[str, pa.ChunkedArray | I64] = {
            layout.START: np.concatenate([one.start for one in found]),
            layout.END: np.concatenate([one.end for one in found]),
        }
        schema = layout.schema(self._query, streams)
        for number, at in rows.items():
            table = self._all[number].table
            wanted = [name for name in table.column_names if name in schema.names and name not in columns]
            columns |= dict(zip(wanted, table.select(wanted).take(pa.array(at)).columns, strict=True))
        return pa.table({name: columns[name] for name in schema.names}, schema=schema)
