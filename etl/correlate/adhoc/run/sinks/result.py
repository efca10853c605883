"""A query's results of one slot: row references, materialised lazily; or partial aggregates.

Partial aggregates (ADR 41) have the group's columns, `count`, and one column per atom (`sum of`, `nonnull of`, `min
of`, `max of`). Partials of several slots, tasks or combinations can be merged; `finalise` computes the
query's own columns from them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from etl.columnar.csr import I32
from etl.correlate.adhoc.query.model import Aggregate, ColumnOf, OutputColumn, Query
from etl.correlate.adhoc.run.joins.bucket import Bucket

AtomKind = Literal["sum", "nonnull", "min", "max"]
Atom = tuple[AtomKind, ColumnOf]
COUNT = "count"
_ATOMS: Mapping[str, tuple[AtomKind, ...]] = {
    "count": ("nonnull",), "sum": ("sum", "nonnull"), "avg": ("sum", "nonnull"), "min": ("min",), "max": ("max",),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Chunk:
    """Results of one combination of buckets, as row numbers."""

    buckets: Mapping[str, Bucket]
    rows: Mapping[str, I32]

    def __len__(self) -> int:
        return len(next(iter(self.rows.values())))

    def take(self, of: ColumnOf) -> pa.ChunkedArray:
        return self.buckets[of.stream].table[of.column].take(pa.array(self.rows[of.stream]))


@dataclass
class QueryRows:
    """A query's results of one slot, not yet materialised."""

    query: Query
    types: Mapping[ColumnOf, pa.DataType]
    chunks: list[Chunk] = field(default_factory=list)

    def __len__(self) -> int:
        return sum(len(chunk) for chunk in self.chunks)

    def to_table(self) -> pa.Table:
        """The full materialisation: only the columns that the query selects are taken, once."""
        schema = pa.schema([(c.name, self.types[c.of]) for c in self.query.columns])
        tables = [pa.table([chunk.take(c.of) for c in self.query.columns], schema=schema) for chunk in self.chunks]
        return pa.concat_tables(tables) if tables else schema.empty_table()


def atoms_of(query: Query) -> list[Atom]:
    """The partial values per group that the query's aggregates need."""
    found = [(kind, a.of) for a in query.aggregates if a.of is not None for kind in _ATOMS[a.kind]]
    return list(dict.fromkeys(found))


def atom_name(atom: Atom) -> str:
    return f"{atom[0]} of {atom[1].stream}.{atom[1].column}"


def group_name(of: ColumnOf) -> str:
    return f"{of.stream}.{of.column}"


def merge_partials(query: Query, partials: Sequence[pa.Table]) -> pa.Table | None:
    """Merge partials: counts and sums add up, minima and maxima are compared."""
    if not partials:
        return None
    table = pa.concat_tables(partials)
    keys = [group_name(of) for of in query.group_by]
    wanted: list[tuple[str, str]] = [(COUNT, "sum")]
    wanted += [(atom_name(atom), atom[0] if atom[0] in ("min", "max") else "sum") for atom in atoms_of(query)]
    merged = table.group_by(keys).aggregate(wanted)
    columns = {key: merged[key] for key in keys}
    columns |= {name: merged[f"{name}_{how}"] for name, how in wanted}
    return pa.table({name: column.cast(table.schema.field(name).type) for name, column in columns.items()})


def finalise(query: Query, partials: pa.Table) -> pa.Table:
    """The query's columns from its partials."""
    return pa.table({each.name: _output(each, partials) for each in query.outputs})


def _output(each: OutputColumn | Aggregate, partials: pa.Table) -> pa.ChunkedArray:
    if isinstance(each, OutputColumn):
        return partials[group_name(each.of)]
    if each.of is None:
        return partials[COUNT]
    if each.kind in ("min", "max"):
        return partials[atom_name((each.kind, each.of))]
    there = partials[atom_name(("nonnull", each.of))]
    if each.kind == "count":
        return there
    total = partials[atom_name(("sum", each.of))]
    some = pc.greater(there, 0)
    if each.kind == "sum":
        return pc.if_else(some, total, pa.scalar(None, total.type))
    ratio = pc.divide(total.cast(pa.float64()), pc.if_else(some, there, 1).cast(pa.float64()))
    return pc.if_else(some, ratio, pa.scalar(None, pa.float64()))
