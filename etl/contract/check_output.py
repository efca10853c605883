"""Checks of a pipeline's outputs: measures, columns of fact and dimensions, mart, expectations, sensitive columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable, Iterator

import pyarrow as pa

from etl.contract import check_expectations
from etl.contract.errors import Mistake, TomlPath, unknown
from etl.contract.model import MartTable, Master, Pipeline
from etl.contract.words import names
from etl.contract.words.expressions import Names
from etl.contract.words.types import TIMESTAMP


def mistakes(pipeline: Pipeline, row: Names) -> Iterator[Mistake]:
    """All mistakes of the tables a pipeline declares, as far as the types of its `row` are known."""
    known = yield from _measures(pipeline, row)
    yield from _fact_columns(pipeline)
    for master in pipeline.masters:
        yield from _dimension_columns(master)
    for table in pipeline.mart:
        yield from _mart(table, pipeline, known)
    listed = all(one.columns for one in pipeline.masters)
    types = {name: fact_type(pipeline, name, known) for name in fact_columns(pipeline)} if listed else None
    for number, expectation in enumerate(pipeline.expectations):
        yield from check_expectations.mistakes(("expectations", number), expectation, types)
    yield from _sensitive(pipeline, known)


def _measures(pipeline: Pipeline, row: Names) -> Generator[Mistake, None, Names]:
    """Yields mistakes; returns the names that the mart may use."""
    types: dict[str, pa.DataType | None] = {}
    for name, sql in pipeline.measures.items():
        path = ("fact", "measures", name)
        yield from names.plain(path, "a measure", name, names.RESERVED_FIELDS)
        try:
            types[name] = row.type_of(sql)
        except ValueError as wrong:
            types[name] = None
            yield Mistake(path, f"measure {name!r}: {wrong}")
    typed = row.typed
    for name, kind in types.items():
        typed = typed if kind is None or name in typed.names else typed.append(pa.field(name, kind))
    untyped = row.untyped | {name for name, kind in types.items() if kind is None}
    return Names(typed, untyped, row.open)


def row_names(pipeline: Pipeline) -> Names:
    """The names that measures may use: fields, and columns of masters."""
    untyped = {f"{master.name}.{column}" for master in pipeline.masters for column in master.columns}
    undeclared = {master.name for master in pipeline.masters if not master.columns}
    return Names(pipeline.stream.schema, frozenset(untyped), frozenset(undeclared))


def fact_columns(pipeline: Pipeline) -> Iterator[str]:
    """The columns of the fact in order."""
    yield from (one.name for one in pipeline.stream.fields)
    yield from pipeline.measures
    for master in pipeline.masters:
        if master.history == "none":
            yield from (f"{master.name}_{column}" for column in master.columns)
        else:
            yield f"{master.name}_key"
    yield from names.FACT_COLUMNS


def fact_type(pipeline: Pipeline, column: str, known: Names) -> pa.DataType | None:
    """The type of a column of the fact; None when it is not known before the masters are."""
    for master in pipeline.masters:
        named = column.removeprefix(f"{master.name}_")
        if master.history == "none" and named in master.columns and named != column:
            column = f"{master.name}.{named}"
        elif master.history != "none" and column == f"{master.name}_key":
            return pa.int64()
    if column in known.typed.names:
        return known.typed.field(column).type
    return {"extra": pa.string(), "batch": pa.int64(), "landed_at": TIMESTAMP}.get(column)


def dimension_columns(master: Master) -> Iterator[str]:
    """The columns of a master's dimension in order."""
    versioned = master.history == "scd2"
    yield f"{master.name}_key"
    yield from master.key_columns
    yield from (column for column in master.columns if not (versioned and column == master.version))
    yield from names.VERSION_COLUMNS if versioned else ()


def _dimension_columns(master: Master) -> Iterator[Mistake]:
    """Columns of a master that its dimension has already. Tables tell names apart by letters, not by their case."""
    if master.history == "none":
        return
    for name in _alike(dimension_columns(master)):
        number = next((at for at, one in enumerate(master.columns) if one.lower() == name), None)
        path: TomlPath = ("master", master.name) if number is None else ("master", master.name, "columns", number)
        sentence = f"dimension 'dim_{master.name}' would have two columns called {name!r}"
        yield Mistake(path, f"{sentence}; give the columns of master {master.name!r} that you need, without it")


def _alike(columns: Iterable[str]) -> list[str]:
    """Names that several columns have, in small letters."""
    return [name for name, times in Counter(one.lower() for one in columns).items() if times > 1]


def _fact_columns(pipeline: Pipeline) -> Iterator[Mistake]:
    declared = {*pipeline.stream.schema.names, *pipeline.measures}
    for name in _alike(fact_columns(pipeline)):
        if name not in names.FACT_COLUMNS or name not in declared:  # these are refused where they are declared
            path, remedy = _declaration(pipeline, name), "rename a field, measure or master"
            yield Mistake(path, f"the fact would have two columns called {name!r}; {remedy}")
    for name in dict.fromkeys(fact_columns(pipeline)):
        path = _declaration(pipeline, name)
        if len(name) > names.LONGEST_COLUMN:
            limit = f"longer than {names.LONGEST_COLUMN} characters"
            yield Mistake(path, f"the fact's column {name!r} is {limit}; shorten the master's name")


def _declaration(pipeline: Pipeline, column: str) -> TomlPath:
    """The declaration of a column of the fact."""
    if column in pipeline.measures:
        return ("fact", "measures", column)
    for master in pipeline.masters:
        if column.startswith(f"{master.name}_"):
            return ("master", master.name)
    return ("stream", "fields", column)


def _mart(table: MartTable, pipeline: Pipeline, known: Names) -> Iterator[Mistake]:
    path: TomlPath = ("mart", table.name)
    yield from names.plain(path, "a mart table", table.name)
    if bool(table.columns) == bool(table.values) or (table.columns and table.group_by):
        sentence = "needs either columns (a row per event), or group_by and values (an aggregate)"
        yield Mistake(path, f"mart table {table.name!r} {sentence}")
        return
    if table.values and not table.group_by:
        yield Mistake(path, f"aggregate {table.name!r} has no group_by; give it at least one group")
    for part in ("columns", "group_by", "values"):
        for name, sql in getattr(table, part).items():
            place = (*path, part, name)
            yield from names.plain(place, "a mart column", name, frozenset(names.MART_COLUMNS if table.columns else ()))
            yield from expression(place, f"{name!r} of {table.name!r}", sql, known, aggregate=part == "values")
    if table.values and pipeline.after_grace == "unknown" and any(one.required for one in pipeline.masters):
        yield from _correctable(path, table)
    for name in sorted(set(table.group_by) & set(table.values)):
        yield Mistake((*path, "values", name), f"{table.name!r} has a group and a value called {name!r}; rename one")
    missing = [key for key in pipeline.stream.key if table.columns and not is_column(table.columns.get(key, ""), key)]
    if missing:
        sentence = f'needs the event\'s key among its columns, unchanged: {missing[0]} = "{missing[0]}" is missing'
        yield Mistake((*path, "columns"), f"mart table {table.name!r} {sentence}")


def _correctable(path: TomlPath, table: MartTable) -> Iterator[Mistake]:
    """The requirements on an aggregate from which rows can be subtracted."""
    values = {name: sql.lower().replace(" ", "") for name, sql in table.values.items()}
    why = 'with after_grace = "unknown" rows are corrected'
    for name, sql in values.items():
        if sql.startswith(("min(", "max(")):
            sentence = f"{why}, and nothing can be taken out of {sql[:3]}; leave it out or use a table of rows"
            yield Mistake((*path, "values", name), f"{name!r} of {table.name!r}: {sentence}")
    if "count(*)" not in values.values():
        sentence = f"{why}, and only a count(*) tells when a group is empty; give it one"
        yield Mistake((*path, "values"), f"aggregate {table.name!r}: {sentence}")


def is_column(sql: str, name: str) -> bool:
    """Whether an expression is just a column."""
    return sql.strip().strip("`").lower() == name


def expression(
    path: TomlPath, what: str, sql: str, known: Names, wanted: pa.DataType | None = None, *, aggregate: bool = False
) -> Iterator[Mistake]:
    try:
        if aggregate:
            known.aggregate_type(sql)
        else:
            known.type_of(sql, wanted)
    except ValueError as wrong:
        yield Mistake(path, f"{what}: {wrong}")


def _sensitive(pipeline: Pipeline, known: Names) -> Iterator[Mistake]:
    allowed = [*known.typed.names, *sorted(known.untyped)]
    for name in sorted(pipeline.sensitive):
        if name not in allowed and name.partition(".")[0] not in known.open:
            yield Mistake(("sensitive",), unknown("a column", name, allowed, "columns"))
