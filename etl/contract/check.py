"""Checks across the parts of a pipeline, when its file is read. Each check yields its mistakes.

Types of master columns are not known yet: what depends on them is checked by `resolve.check_against`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import pyarrow as pa

from etl.contract import check_output
from etl.contract.errors import Mistake, TomlPath, unknown
from etl.contract.model import ExpressionRule, Master, Pipeline
from etl.contract.words import dag_ids, names
from etl.contract.words.expressions import Names
from etl.contract.words.types import declared_name
from etl.contract.words.values import is_moment


def mistakes(pipeline: Pipeline, rule_paths: list[TomlPath]) -> Iterator[Mistake]:
    """All mistakes of a pipeline whose single values are valid."""
    yield from dag_ids.pipeline_name(("name",), pipeline.name)
    yield from alike(pipeline, rule_paths)


def alike(pipeline: Pipeline, rule_paths: list[TomlPath]) -> Iterator[Mistake]:
    """The mistakes of all but the name: streams of correlations are checked for these, too."""
    yield from _stream(pipeline)
    for master in pipeline.masters:
        yield from _master(master, pipeline)
    yield from _rules(pipeline, rule_paths)
    yield from check_output.mistakes(pipeline, check_output.row_names(pipeline))


def _stream(pipeline: Pipeline) -> Iterator[Mistake]:
    stream = pipeline.stream
    fields = {one.name: one for one in stream.fields}
    for name in fields:
        yield from names.plain(("stream", "fields", name), "a field", name, names.RESERVED_FIELDS)
    yield from _repeated(("stream", "key"), stream.key)
    for number, name in enumerate(stream.key):
        path = ("stream", "key", number)
        if name not in fields:
            yield Mistake(path, unknown("a field", name, fields, "fields"))
            continue
        if not fields[name].required:
            yield Mistake(path, f"{name!r} is part of the key, so it must be required and have no default")
        if pa.types.is_floating(fields[name].type):
            yield Mistake(path, f"{name!r} is double and cannot be part of a key; use decimal, int, bigint or string")
    if stream.event_time is None:
        return
    if stream.event_time not in fields:
        yield Mistake(("stream", "event_time"), unknown("a field", stream.event_time, fields, "fields"))
    elif not is_moment(fields[stream.event_time].type):
        kind = declared_name(fields[stream.event_time].type)
        yield Mistake(
            ("stream", "event_time"), f"event_time {stream.event_time!r} is {kind}; it must be date or timestamp"
        )


def _master(master: Master, pipeline: Pipeline) -> Iterator[Mistake]:
    path: TomlPath = ("master", master.name)
    fields = {one.name: one for one in pipeline.stream.fields}
    yield from names.plain(path, "a master", master.name, names.RESERVED_MASTERS)
    if master.name in fields:
        yield Mistake(path, f"{master.name!r} is the name of a field and of a master; give the master another name")
    for field, column in master.on:
        place = (*path, "on", field)
        yield from names.column(place, column)
        if field not in fields:
            yield Mistake(place, unknown("a field", field, fields, "fields"))
        elif not (pa.types.is_integer(fields[field].type) or pa.types.is_string(fields[field].type)):
            kind = declared_name(fields[field].type)
            given = f"{field!r} is {kind} and cannot be looked up by"
            yield Mistake(place, f"{given}; use int, bigint, or string with a column of text in the master")
    yield from _repeated((*path, "on"), master.key_columns)
    yield from _repeated((*path, "columns"), [one.lower() for one in master.columns])
    for number, column in enumerate(master.columns):
        yield from names.column((*path, "columns", number), column)
        if column in master.key_columns:
            sentence = (
                f"{column!r} is a key column of {master.name!r}; events have it already, so leave it out of columns"
            )
            yield Mistake((*path, "columns", number), sentence)
    yield from _versions(path, master)


def _versions(path: TomlPath, master: Master) -> Iterator[Mistake]:
    if master.history == "scd2" and master.version is None:
        yield Mistake(
            (*path, "history"), f"history 'scd2' of {master.name!r} needs a column that dates rows: version = \"…\""
        )
    if master.version is not None:
        yield from names.column((*path, "version"), master.version)
    if master.follow == "updated_at" and master.store == "delta":
        sentence = f"{master.name!r} is in Delta, which has a change feed of its own; 'follow' is for Postgres"
        yield Mistake((*path, "follow"), sentence)
    elif master.follow == "updated_at" and master.version is None:
        yield Mistake((*path, "follow"), f"follow 'updated_at' of {master.name!r} needs the column: version = \"…\"")


def _rules(pipeline: Pipeline, paths: list[TomlPath]) -> Iterator[Mistake]:
    known = Names(pipeline.stream.schema)
    taken = names.RESERVED_REASONS | field_reasons(pipeline)
    seen: set[str] = set()
    for rule, path in zip(pipeline.rules, paths, strict=True):
        yield from names.plain(path, "a rule", rule.name)
        if rule.name in taken:
            yield Mistake(path, f"{rule.name!r} is a reason that exists already; give the rule another name")
        if rule.name in seen:
            yield Mistake(path, f"there are two rules called {rule.name!r}; give this one another name")
        seen.add(rule.name)
        if isinstance(rule, ExpressionRule):
            yield from check_output.expression(path, f"rule {rule.name!r}", rule.sql, known, pa.bool_())


def field_reasons(pipeline: Pipeline) -> frozenset[str]:
    """Reasons that follow from fields and masters: missing, invalid, unknown."""
    fields = {f"{one.name}_{what}" for one in pipeline.stream.fields for what in ("missing", "invalid")}
    return frozenset(fields | {f"unknown_{master.name}" for master in pipeline.masters})


def _repeated(path: TomlPath, given: Iterable[str]) -> Iterator[Mistake]:
    for name, times in Counter(given).items():
        if times > 1:
            yield Mistake(path, f"{name!r} is there {times} times; give it once")
