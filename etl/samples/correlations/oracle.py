"""The oracle: the expected results of a correlation, computed by DuckDB over the whole history.

    batches of events ──► late or on time ──► the correlation's own SQL over what is on time, its window spelled out

A tuple is late if its event time lies before its stream's watermark as of the start of its batch: the largest event
time of all earlier batches, less the lateness. Late tuples are not joined and are counted per alias, after the
selection that the SQL makes of that alias alone. Columns in the SQL must be written with their alias.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import combinations
from typing import TYPE_CHECKING

import pyarrow as pa
import sqlglot
from sqlglot import exp

if TYPE_CHECKING:
    import duckdb

_LATE, _BATCH = "late__", "batch__"
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class History:
    """One stream: its tuples by batch, and the name of its event-time column."""

    batches: Sequence[pa.Table]
    event_time: str


@dataclass(frozen=True, slots=True)
class Asked:
    """A correlation as declared; without `within` there is no window."""

    sql: str
    within: timedelta | None = None
    lateness: timedelta = timedelta(0)


@dataclass(frozen=True, slots=True)
class Truth:
    rows: pa.Table  # the columns of the SQL
    pairs: int  # joined rows, before they are grouped
    late: Mapping[str, int]  # per alias


def truth(asked: Asked, streams: Mapping[str, History]) -> Truth:
    """Rows, pairs and late tuples after all batches."""
    import duckdb

    select = sqlglot.parse_one(asked.sql, dialect="spark")
    assert isinstance(select, exp.Select), "a correlation is one SELECT"
    tables = {table.alias_or_name: table.name for table in select.find_all(exp.Table)}
    with duckdb.connect() as connection:
        for name in dict.fromkeys(tables.values()):
            _load(connection, name, streams[name], asked.lateness)
        late = {alias: _late(connection, select, alias, stream) for alias, stream in tables.items()}
        for table in select.find_all(exp.Table):
            table.replace(exp.to_table(f"{table.name}_on_time", alias=table.alias_or_name))
        times = {alias: streams[stream].event_time for alias, stream in tables.items()}
        for condition in _windows(asked.within, times):
            select = select.where(condition, dialect="duckdb")
        rows = connection.sql(select.sql(dialect="duckdb")).to_arrow_table()
        return Truth(rows, _count(connection, select), late)


def same_rows(found: pa.Table, wanted: pa.Table) -> bool:
    """Whether two tables are equal as multisets of rows, by the columns of the second."""
    import duckdb

    columns = wanted.column_names
    if not set(columns) <= set(found.column_names) or found.num_rows != wanted.num_rows:
        return False
    with duckdb.connect() as connection:
        for name, table in (("found", found), ("wanted", wanted)):
            connection.register(name, pa.table({column: _plain(table[column]) for column in columns}))
        missing = connection.execute("select count(*) from (select * from wanted except all select * from found)")
        return missing.fetchall() == [(0,)]


def _load(connection: duckdb.DuckDBPyConnection, name: str, stream: History, lateness: timedelta) -> None:
    """Load a table of all rows with batch and lateness, and a view of those on time."""
    parts = [
        pa.table({**dict(zip(batch.column_names, map(_naive, batch.columns), strict=True)),
                  _BATCH: pa.repeat(pa.scalar(number, pa.int64()), batch.num_rows)})
        for number, batch in enumerate(stream.batches)
    ]  # fmt: skip
    connection.register("arrived", pa.concat_tables(parts))
    connection.execute(
        f"""
        create table "{name}" as
        with largest as (select {_BATCH} as number, max("{stream.event_time}") as at from arrived group by all),
             watermark as (
                 select a.{_BATCH} as number, max(l.at) - to_microseconds({lateness // _MICROSECOND}) as at
                 from (select distinct {_BATCH} from arrived) a join largest l on l.number < a.{_BATCH} group by all)
        select a.*, coalesce(a."{stream.event_time}" < w.at, false) as {_LATE}
        from arrived a left join watermark w on w.number = a.{_BATCH}
        """  # noqa: S608 (names of declared streams and columns)
    )
    connection.execute(f'create view "{name}_on_time" as select * from "{name}" where not {_LATE}')  # noqa: S608
    connection.unregister("arrived")


def _late(connection: duckdb.DuckDBPyConnection, select: exp.Select, alias: str, stream: str) -> int:
    trees = [join.args.get("on") for join in select.args.get("joins") or []]
    where = select.args.get("where")
    trees.append(where.this if where is not None else None)
    conjuncts = [one for tree in trees if tree is not None for one in _conjuncts(tree)]
    own = [one for one in conjuncts if {column.table for column in one.find_all(exp.Column)} == {alias}]
    counted = exp.select("count(*)").from_(exp.to_table(stream, alias=alias)).where(_LATE)
    for one in own:
        counted = counted.where(one.copy())
    return int(connection.execute(counted.sql(dialect="duckdb")).fetchall()[0][0])


def _conjuncts(tree: exp.Expr) -> list[exp.Expr]:
    return list(tree.flatten()) if isinstance(tree, exp.And) else [tree]


def _count(connection: duckdb.DuckDBPyConnection, select: exp.Select) -> int:
    joined = select.copy()
    for clause in ("group", "distinct"):
        joined.set(clause, None)
    joined.set("expressions", [exp.Count(this=exp.Star())])
    return int(connection.execute(joined.sql(dialect="duckdb")).fetchall()[0][0])


def _windows(within: timedelta | None, times: Mapping[str, str]) -> list[str]:
    """The window as conditions between every two streams."""
    if within is None:
        return []
    length = f"to_microseconds({within // _MICROSECOND})"
    pairs = [(f'"{a}"."{times[a]}"', f'"{b}"."{times[b]}"') for a, b in combinations(times, 2)]
    return [f"{a} between {b} - {length} and {b} + {length}" for a, b in pairs]


def _naive(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Times without their zone, which is UTC: DuckDB needs an extension for time zones."""
    return column.cast(pa.timestamp("us")) if pa.types.is_timestamp(column.type) else column


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Numbers as one type, so that 1 is 1.00."""
    if pa.types.is_integer(column.type) or pa.types.is_decimal(column.type):
        return column.cast(pa.decimal128(38, 6))
    return _naive(column)
