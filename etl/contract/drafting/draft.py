"""Draft a first pipeline file from a sample of events and the master tables that enrich them.

    Sample + tables ──draft──▶ text of NAME.toml, commented, which passes `frontstage pipeline check`

The key of a table is matched with fields by name: `person_id` with `person_id`, `id` of `persons` with `person_id`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import pyarrow as pa

from etl.contract.drafting.sample import Sample, SampledField, identifier
from etl.contract.errors import unknown
from etl.contract.words import names as naming
from etl.contract.words.expressions import column_sql
from etl.contract.words.names import LONGEST, RESERVED_FIELDS, RESERVED_MASTERS, VERSION_COLUMNS
from etl.contract.words.types import stored_type
from etl.errors import TerminalError

_VERSIONS = ("updated_at", "modified_at", "changed_at", "last_modified", "last_updated", "version")
"""Columns whose names say that they rise with every change of a row. `valid_from` is none of them: it says since when
something holds, may lie in the future, and stays as it is when a row is corrected."""


class DraftRefused(TerminalError):
    """A draft is impossible from this input."""

    exit_code = 64  # EX_USAGE


@dataclass(frozen=True, slots=True)
class Table:
    """A master table for the draft. `alias` is the given name, if any."""

    store: Literal["postgres", "delta"]
    table: str
    schema: pa.Schema
    key: tuple[str, ...] = ()
    alias: str | None = None

    @property
    def name(self) -> str:
        """The master's name: the table's, in the singular."""
        if self.alias is not None:
            return self.alias
        last = identifier(self.table.rstrip("/").replace("/", ".").rpartition(".")[2])
        if last.endswith("ies"):
            return last[:-3] + "y"
        return last.removesuffix("s") if not last.endswith("ss") and len(last) > 2 else last


Pairs = tuple[tuple[str, str], ...]
"""Fields and the key columns that they match."""


def draft(
    name: str,
    sample: Sample,
    tables: Sequence[Table],
    *,
    key: Sequence[str] = (),
    on: Sequence[tuple[str, str, str]] = (),
) -> str:
    """Draft a file's text. `on` has triples of field, master and column for keys that do not match by name."""
    fields = _distinct(sample.fields)
    masters = [(_free(table, fields), _pairs(table, fields, on)) for table in tables]
    fields = [_typed_like(one, masters) for one in fields]
    keys = _key(name, fields, key)
    fields = [replace(one, required=True) if one.name in keys else one for one in fields]
    parts = [
        _head(name, replace(sample, fields=tuple(fields)), keys),
        _field_lines(fields),
        *(_master(table, pairs) for table, pairs in masters),
        _mart(name, fields, keys, masters),
    ]
    return "\n".join(parts)


def _distinct(fields: Iterable[SampledField]) -> list[SampledField]:
    """Rename fields with duplicate or reserved names."""
    found: dict[str, SampledField] = {}
    for one in fields:
        name = one.name[:LONGEST]
        while name in found or name in RESERVED_FIELDS:
            name = f"{name[: LONGEST - 6]}_field"
        found[name] = replace(one, name=name)
    return list(found.values())


def _free(table: Table, fields: list[SampledField]) -> Table:
    """Rename a master whose name is also a field's."""
    taken = {one.name for one in fields} | RESERVED_MASTERS
    return replace(table, alias=f"{table.name}_row") if table.name in taken else table


def _pairs(table: Table, fields: list[SampledField], on: Sequence[tuple[str, str, str]]) -> Pairs:
    """The fields that match the table's key: as given, else by name."""
    names = [one.name for one in fields]
    called = (table.name, f"{table.name}_row", table.table, table.table.rpartition(".")[2])
    named = tuple((field, column) for field, master, column in on if master in called)
    for field, column in named:
        if field not in names:
            raise DraftRefused(unknown("a field of the sample", field, names, "fields"))
        if column not in table.schema.names:
            raise DraftRefused(unknown(f"a column of {table.table}", column, table.schema.names, "columns"))
    if named:
        return named
    if not table.key:
        hint = f"--on FIELD={table.name}.COLUMN"
        raise DraftRefused(f"{table.table} declares no key, so say which columns events are matched by: {hint}")
    return tuple((_matching(table, column, names), column) for column in table.key)


def _matching(table: Table, column: str, names: list[str]) -> str:
    plain = identifier(column)
    for name in (f"{table.alias}_{plain}" if table.alias else plain, plain, f"{table.name}_{plain}", table.name):
        if name in names:
            return name
    hint = f"say --on FIELD={table.name}.{column}"
    raise DraftRefused(
        f"no field of the sample looks like {column!r} of {table.table}; {hint}; fields are {', '.join(names)}"
    )


def _typed_like(field: SampledField, masters: list[tuple[Table, Pairs]]) -> SampledField:
    """Change the type of a field that matches a key column to that column's kind."""
    for table, pairs in masters:
        for name, column in pairs:
            if name != field.name:
                continue
            kind = stored_type(table.schema.field(column).type)
            if kind == pa.string():
                return replace(field, type="string", format=None, strip="")
            if kind is None or not pa.types.is_integer(kind) or field.type not in ("int", "bigint"):
                given = f"field {name!r} looks like {field.type} and {column!r} of {table.table} is {kind}"
                raise DraftRefused(f"{given}; whole numbers match whole numbers, and texts match texts")
    return field


def _key(name: str, fields: list[SampledField], asked: Sequence[str]) -> tuple[str, ...]:
    names = [one.name for one in fields]
    for field in asked:
        if field not in names:
            raise DraftRefused(unknown("a field of the sample", field, names, "fields"))
    if asked:
        return tuple(asked)
    single = name.removesuffix("s")
    unique = [one for one in fields if one.unique and one.type in ("int", "bigint", "string")]
    ranked = sorted(
        unique, key=lambda one: (one.name not in (f"{single}_id", f"{name}_id", "id"), not one.name.endswith("id"))
    )
    if not ranked:
        raise DraftRefused("no field of the sample is different in every event; say which are the key: --key FIELD")
    return (ranked[0].name,)


def _head(name: str, sample: Sample, key: tuple[str, ...]) -> str:
    delimiter = f", delimiter = {_text(sample.delimiter)}" if sample.format == "csv" and sample.delimiter != "," else ""
    moment = _event_time(sample.fields)
    lines = [
        f"# Pipeline {name}, drafted from a sample of events: read it, correct what is guessed, then run",
        "# `frontstage pipeline check`. docs/pipelines.md explains every key.",
        "",
        f"name = {_text(name)}",
        'schedule = "on_arrival"      # or "none", "@continuous", a cron expression',
        'deadline = "30s"             # a batch that would take longer defers its dearest events',
        'grace = "7d"                 # how long an event waits for a required master row',
        'sensitive = []               # columns to mask in reports, such as "person.phone"',
        "",
        "[stream]",
        f"source = {{ landing = {_text(f'landing/{name}')}, format = {_text(sample.format)}{delimiter} }}",
        f"key = {json.dumps(list(key))}",
        *([f"event_time = {_text(moment)}"] if moment else []),
        "",
    ]
    return "\n".join(lines)


def _field_lines(fields: list[SampledField]) -> str:
    lines = ["[stream.fields]"]
    for one in fields:
        extras = [f"type = {_text(one.type)}"]
        extras += [f"from = {_text(one.source)}"] if one.source != one.name else []
        extras += [f"format = {_text(one.format)}"] if one.format else []
        extras += [f"strip = {_text(one.strip)}"] if one.strip else []
        extras += ["required = false"] if not one.required else []
        value = _text(one.type) if len(extras) == 1 else f"{{ {', '.join(extras)} }}"
        remarks = [json.dumps(one.example, ensure_ascii=True)] if one.example else []
        remarks += [one.note] if one.note else []
        lines.append(f"{one.name} = {value}" + (f"  # {': '.join(remarks)}" if remarks else ""))
    lines += ["", "# [rules]", '# quantity_in_range = { column = "quantity", min = 1 }', ""]
    return "\n".join(lines)


def _master(table: Table, pairs: Pairs) -> str:
    columns = _columns(table, pairs)
    left = [one.name for one in table.schema if not _fits(one)]
    clashing = [one.name for one in table.schema if _fits(one) and one.name not in {*columns, *dict(pairs).values()}]
    if not columns and (left or clashing):
        given = f"no column of {table.table} besides its key can be given to events: {', '.join([*left, *clashing])}"
        raise DraftRefused(f"{given}; leave the table out, or give it such a column")
    version = _version(table)
    lines = [
        f"[master.{table.name}]",
        f"table = {_text(f'{table.store}:{table.table}')}",
        f"on = {{ {', '.join(f'{field} = {_text(column)}' for field, column in pairs)} }}",
        f"columns = {json.dumps(columns)}" if columns else "# no columns: the table has only its key",
        *([f"# left out, for no table can hold them under their names or types: {json.dumps(left)}"] if left else []),
        *([f"# left out, for the dimension has columns of these names: {json.dumps(clashing)}"] if clashing else []),
        "required = true              # false: events without a row go on with NULLs",
        *([f"version = {_text(version)}"] if version else _version_remark(table)),
        f'history = "{"scd2" if version else "scd1"}"             # scd1 newest values, scd2 all versions, or none',
        "",
    ]
    return "\n".join(lines)


def _columns(table: Table, pairs: Pairs) -> list[str]:
    """The columns for events: those that the dimension can have beside its own, whose case does not count."""
    key = [column for _, column in pairs]
    own = VERSION_COLUMNS if _version(table) else ()
    taken = {f"{table.name}_key", *own, *(column.lower() for column in key)}
    found = []
    for one in table.schema:
        if _fits(one) and one.name not in key and one.name.lower() not in taken:
            taken.add(one.name.lower())
            found.append(one.name)
    return found


def _version(table: Table) -> str | None:
    """The column that dates a row: by its name and type."""
    return next((one for one in _VERSIONS if _is_time(table, one)), None)


def _version_remark(table: Table) -> list[str]:
    """What to look at where a column might date rows, and might not."""
    if not _is_time(table, "valid_from"):
        return []
    return ['# version = "valid_from"     # only if it rises with every change of a row; then history may be "scd2"']


def _fits(column: pa.Field) -> bool:
    """Whether tables of the warehouse support the column's type."""
    return stored_type(column.type) is not None and not [*naming.column((), column.name)]


def _is_time(table: Table, column: str) -> bool:
    return column in table.schema.names and pa.types.is_timestamp(table.schema.field(column).type)


def _mart(name: str, fields: list[SampledField], key: tuple[str, ...], masters: list[tuple[Table, Pairs]]) -> str:
    lines = [f"[mart.{name}.columns]"]
    lines += [f"{one.name} = {_text(column_sql(one.name))}" for one in fields]
    lines += [f"{new} = {_text(sql)}" for new, sql in _described(masters, {one.name for one in fields})]
    moment = _event_time(fields)
    if moment:
        sums = [one.name for one in fields if one.type.startswith("decimal") and one.name not in key]
        values = [
            'events = "count(*)"',
            *(f"{one} = {_text(f'sum({column_sql(one)})')}" for one in sums if one != "events"),
        ]
        lines += ["", f"[mart.{name}_daily]", f"group_by = {{ day = {_text(f'date({column_sql(moment)})')} }}"]
        lines += [f"values = {{ {', '.join(one for one in values if not one.startswith('day '))} }}"]
    return "\n".join([*lines, ""])


def _described(masters: list[tuple[Table, Pairs]], taken: set[str]) -> Iterator[tuple[str, str]]:
    """The first columns of text of every master, for the mart."""
    taken = {*taken, *naming.MART_COLUMNS}
    for table, pairs in masters:
        texts = [one for one in _columns(table, pairs) if stored_type(table.schema.field(one).type) == pa.string()]
        for column in texts[:3]:
            name = identifier(f"{table.name}_{column}")
            if name not in taken and len(name) <= LONGEST:
                taken.add(name)
                yield name, f"{column_sql(table.name)}.{column_sql(column)}"


def _event_time(fields: Iterable[SampledField]) -> str | None:
    moments = sorted(
        (one for one in fields if one.type in ("timestamp", "date") and one.required), key=lambda one: one.type
    )
    return moments[-1].name if moments else None


def _text(value: str | None) -> str:
    """A TOML string."""
    return json.dumps(value, ensure_ascii=False)
