"""The entry point of micro-batches: keys in, one answer per key out.

join = build("cinlj", lookup=source, budget_bytes=64 << 20)       kept from batch to batch
join.front_stage.pin(master_version)                              another version empties it
result = join_batch(join, keys)                                   master rows and a position per key
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from etl.columnar.errors import FingerprintCollision
from etl.columnar.gather import MasterRows, compacted, stable_argsort
from etl.columnar.keys import I64, to_contiguous
from etl.enrich.build import build
from etl.enrich.errors import UnknownChoice
from etl.enrich.join import SemiStreamJoin
from etl.enrich.step import UNBOUNDED, BatchBudget, Metrics, Step

__all__ = ["ABSENT", "SHED", "BatchBudget", "BatchResult", "build", "join_batch"]

ABSENT, SHED = -1, -2
How = Literal["inner", "left"]
HOW: tuple[How, ...] = ("inner", "left")


@dataclass(frozen=True, slots=True)
class BatchResult:
    """The answer for each key of a call."""

    master: pa.Table  # the master rows, in their original chunks: a mapped front stage is not copied
    position: I64  # for each key its row in `master`, ABSENT or SHED
    hit: np.ndarray  # answered by the front stage
    metrics: Metrics

    def joined(self, stream: pa.Table, how: How = "inner") -> pa.Table:
        """Stream rows, in the order of the keys, with the columns of their master rows; the master's key is left out.

        `inner` drops rows without a master row, `left` keeps them with NULLs; shed rows, which are retried later, are
        in neither.
        """
        if how not in HOW:
            raise UnknownChoice("join semantics", how, HOW)
        rows = np.flatnonzero(self.position >= 0 if how == "inner" else self.position != SHED)
        order = stable_argsort(self.position[rows])
        facts = MasterRows(self.master, self.master.column_names[1:]).take(self.position[rows[order]])
        out = stream.take(pa.array(rows[order]))
        for name, column in zip(self.master.column_names[1:], facts.flatten(), strict=True):
            out = out.append_column(self.master.schema.field(name).with_nullable(True), column)
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        return out.take(pa.array(back))


def join_batch(
    join: SemiStreamJoin,
    keys: pa.Array | pa.ChunkedArray,
    *,
    now: float | None = None,
    budget: BatchBudget = UNBOUNDED,
) -> BatchResult:
    """Join all keys; nothing stays pending, even after an error. NULL keys are ABSENT.

    `budget`: once it is spent, keys the front stage cannot answer are SHED.
    """
    assert not join.pending, "a batch starts with an empty join"
    keys = to_contiguous(keys)
    tickets = join.offer(keys)
    answer = _Answer(int(tickets[0]) if len(tickets) else 0, len(keys))
    metrics = Metrics()
    try:
        while join.pending:
            left = budget.after(metrics.cost)
            step = join.give_up(now) if left.spent else join.step(now, left)
            metrics += step.metrics
            answer.add(step)
    except BaseException:
        join.forget()  # the caller gets the error instead of answers
        raise
    tables = answer.tables or [join.tactic.schema(keys.type).empty_table()]
    master = pa.concat_tables(tables)
    _verify(keys, master, answer.position)
    return BatchResult(master, answer.position, answer.hit, metrics)


class _Answer:
    """Collects the results of steps into one answer per key."""

    def __init__(self, first_ticket: int, keys: int) -> None:
        self._first = first_ticket
        self.tables: list[pa.Table] = []
        self._starts: dict[int, int] = {}  # by table: a front stage returns the same one repeatedly
        self._rows = 0
        self.position = np.full(keys, ABSENT, np.int64)
        self.hit = np.zeros(keys, bool)

    def add(self, step: Step) -> None:
        self.hit[step.known_absent - self._first] = True
        for matches in step.matched:
            assert matches.rows is not None, "a match has a row"
            where = matches.tickets - self._first
            self.position[where] = self._placed(matches.rows, matches.row)
            self.hit[where] |= matches.front
        if step.shed is not None:
            self.position[step.shed.tickets - self._first] = SHED

    def _placed(self, rows: pa.Table, row: I64) -> I64:
        """The positions of a table's rows among all collected rows."""
        if id(rows) not in self._starts:
            if rows.num_rows > len(row) and rows.column(0).num_chunks > 1:
                rows, row = compacted(rows, row)  # a front stage that changes at every step has many chunks
            self._starts[id(rows)] = self._rows
            self.tables.append(rows)
            self._rows += rows.num_rows
        return row + self._starts[id(rows)]


def _verify(keys: pa.Array, master: pa.Table, position: I64) -> None:
    """Where keys were compared by fingerprint, compare the keys themselves."""
    if pa.types.is_integer(keys.type) or not master.num_rows:
        return
    found = np.flatnonzero(position >= 0)
    mine, theirs = keys.take(pa.array(found)), to_contiguous(master.column(0)).take(pa.array(position[found]))
    parts = zip(mine.flatten(), theirs.flatten(), strict=True) if pa.types.is_struct(keys.type) else [(mine, theirs)]
    wrong = sum(int(pc.sum(pc.not_equal(a, b.cast(a.type))).as_py() or 0) for a, b in parts)
    if wrong:
        raise FingerprintCollision(wrong)
