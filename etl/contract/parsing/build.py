"""From a well-formed document to a `Pipeline`: parses types, values and paths, and expands shortcuts to rules.

Collects all mistakes, so that a person who corrects a file sees them at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path, PurePosixPath
from typing import Any

from etl.contract.errors import Mistake, Refusal, TomlPath, unknown
from etl.contract.model import (
    Expectation,
    ExpressionRule,
    Field,
    MartTable,
    Master,
    Pipeline,
    Rule,
    Source,
    Stream,
    Topic,
)
from etl.contract.parsing import fields as field_tables
from etl.contract.parsing.document import Document, FieldTable, MasterTable, RuleTable, SourceTable
from etl.contract.words import times
from etl.contract.words.delimiters import is_delimiter

_LIMITS = ("min", "max", "after", "before", "one_of", "pattern")
_OF_TOPICS = ("servers", "start", "tombstones", "on_loss")
_TOPIC = re.compile(r"(?!\.\.?$)[A-Za-z0-9._-]{1,249}")
_SERVERS = re.compile(r"[^\s,:@/]+:[0-9]{1,5}(,[^\s,:@/]+:[0-9]{1,5})*")


@dataclass(slots=True)
class StreamBuilder:
    """Builds a stream and its rules from a document. `rule_paths` has the path of each rule's declaration."""

    fields_of: Mapping[str, FieldTable]
    rules_of: Mapping[str, RuleTable]
    home: Path
    mistakes: list[Mistake] = field(default_factory=list)
    rule_paths: list[TomlPath] = field(default_factory=list)

    @contextmanager
    def collecting(self) -> Iterator[None]:
        try:
            yield
        except Refusal as refusal:
            self.mistakes.append(refusal.mistake)

    def fields(self) -> tuple[Field, ...]:
        found = []
        for name, table in self.fields_of.items():
            with self.collecting():
                found.append(field_tables.field(("stream", "fields", name), name, table))
        return tuple(found)

    def rules(self, stream: Stream) -> Iterator[Rule]:
        """Rules of fields first, in the order of fields; then named ones."""
        known = {one.name: one for one in stream.fields}
        for name, declared in known.items():
            table: FieldTable = self.fields_of[name]
            path: TomlPath = ("stream", "fields", name)
            with self.collecting():
                for rule in field_tables.rules(path, declared, table):
                    self.rule_paths.append(path)
                    yield rule
        for name, named in self.rules_of.items():
            with self.collecting():
                rule = _named_rule(("rules", name), name, named, known)
                self.rule_paths.append(("rules", name))
                yield rule

    def source(self, table: SourceTable) -> Source:
        """A folder of files; only pipelines read topics."""
        path: TomlPath = ("stream", "source")
        with self.collecting():
            _check_files(path, table)
        self._check_delimiter(path, table)
        return Source(self.home / (table.landing or ""), table.format, table.delimiter or ",")

    def _check_delimiter(self, path: TomlPath, table: SourceTable) -> None:
        if table.delimiter is not None and table.format != "csv":
            sentence = f"a source of format {table.format!r} has no delimiter; only csv has one"
            self.mistakes.append(Mistake((*path, "delimiter"), sentence))
        if table.delimiter is not None and (not is_delimiter(table.delimiter) or table.delimiter in "'\\"):
            sentence = f"delimiter {table.delimiter!r} has another meaning in CSV, or is not ASCII; use , ; | or a tab"
            self.mistakes.append(Mistake((*path, "delimiter"), sentence))

    def duration(self, key: str, given: str) -> timedelta:
        length = times.duration(given)
        if length is None or not length:
            allowed = "a length of time such as '30s', '5 minutes', '24h' or '7d'"
            self.mistakes.append(Mistake((key,), f"{key} is {given!r}, but must be {allowed}"))
        return length or timedelta(seconds=1)


@dataclass(slots=True)
class Builder(StreamBuilder):
    """Builds a pipeline from its document."""

    document: Document = field(kw_only=True)

    @classmethod
    def of(cls, document: Document, home: Path) -> Builder:
        return cls(document.stream.fields, document.rules, home, document=document)

    def pipeline(self, name: str) -> Pipeline:
        document = self.document
        declared = self.fields()
        table = document.stream.source
        source = self.source(table) if table.topic is None else self._topic(table, name)
        stream = Stream(source, declared, tuple(document.stream.key), document.stream.event_time)
        return Pipeline(
            name=name,
            stream=stream,
            rules=tuple(self.rules(stream)),
            masters=tuple(self._masters()),
            measures=document.fact.measures,
            mart=tuple(MartTable(name, one.columns, one.group_by, one.values) for name, one in document.mart.items()),
            expectations=tuple(Expectation(one.type, _plain(one.model_extra or {})) for one in document.expectations),
            sensitive=frozenset(document.sensitive),
            schedule=self._schedule(),
            deadline=self.duration("deadline", document.deadline),
            freshness=None if document.freshness is None else self.duration("freshness", document.freshness),
            shedding=document.shedding,
            grace=self.duration("grace", document.grace),
            schema_drift=document.schema_drift,
            after_grace=document.after_grace,
            held=document.held,
            hold_on=frozenset(document.hold_on),
        )

    def _topic(self, table: SourceTable, name: str) -> Source:
        path: TomlPath = ("stream", "source")
        with self.collecting():
            _check_topic(path, table)
        self._check_delimiter(path, table)
        topic = Topic(
            table.topic or "",
            table.servers,
            table.start or "earliest",
            table.tombstones or "quarantine",
            table.on_loss or "stop",
        )
        return Source(self.home / "landing" / f"{name}.kafka", table.format, table.delimiter or ",", topic)

    def _masters(self) -> Iterator[Master]:
        for name, table in self.document.master.items():
            with self.collecting():
                yield _master(("master", name), name, table)

    def _schedule(self) -> str:
        given = self.document.schedule
        if not times.is_schedule(given):
            allowed = f"{', '.join(times.SCHEDULES)}, or a cron expression such as '*/5 * * * *'"
            self.mistakes.append(Mistake(("schedule",), f"schedule {given!r} is not one; allowed are {allowed}"))
        return given


def _named_rule(path: TomlPath, name: str, table: RuleTable, known: dict[str, Field]) -> Rule:
    """A rule of `[rules]`: an expression, or one kind of limit on one field."""
    given = [key for key in (*_LIMITS, "not_null") if getattr(table, key) is not None]
    if table.sql is not None:
        if given or table.column is not None:
            raise Refusal(path, f"rule {name!r} has sql and {(given or ['column'])[0]}; give it one of them")
        return ExpressionRule(name, table.sql)
    if table.column is None:
        raise Refusal(path, f'rule {name!r} says no column; give it column = "…" or write a SQL expression')
    if table.column not in known:
        raise Refusal((*path, "column"), unknown("a field", table.column, known, "fields"))
    if not given:
        raise Refusal(path, f"rule {name!r} demands nothing; give it one of {', '.join((*_LIMITS, 'not_null'))}")
    pairs = {"min", "max"}, {"after", "before"}
    if len(given) > 1 and set(given) not in pairs:
        raise Refusal(
            path, f"rule {name!r} has {' and '.join(given)}; make a rule of each, so that each has its reason"
        )
    about = known[table.column]
    if table.one_of is not None:
        return field_tables.set_rule(path, name, about, table.one_of)
    if table.pattern is not None:
        return field_tables.pattern_rule(path, name, about, table.pattern)
    if table.not_null is not None:
        return ExpressionRule(name, f"`{table.column}` is not null")
    return field_tables.range_rule(path, name, about, table)


def _check_files(path: TomlPath, table: SourceTable) -> None:
    if table.topic is not None:
        raise Refusal((*path, "topic"), 'streams of correlations read files; give landing = "…" in place of a topic')
    given = [key for key in _OF_TOPICS if getattr(table, key) is not None]
    if given:
        raise Refusal((*path, given[0]), f'{given[0]} is about a topic; give topic = "…", or leave it out')
    if table.landing is None:
        raise Refusal(path, "[stream.source] has no 'landing' and no 'topic'; it needs one of them")
    _check_landing((*path, "landing"), table.landing)


def _check_topic(path: TomlPath, table: SourceTable) -> None:
    if table.landing is not None:
        raise Refusal((*path, "landing"), "events come from files or from a topic; give landing or topic, not both")
    if not _TOPIC.fullmatch(table.topic or ""):
        allowed = "up to 249 letters, digits, dots, underscores and hyphens"
        raise Refusal((*path, "topic"), f"topic is {table.topic!r}, but must be {allowed}")
    if table.servers is not None and not _SERVERS.fullmatch(table.servers):
        allowed = "'host:port', more of them after commas, without names or passwords"
        raise Refusal((*path, "servers"), f"servers is {table.servers!r}, but must be {allowed}")
    if table.format == "parquet":
        raise Refusal((*path, "format"), "messages of a topic are 'jsonl' or 'csv'; parquet is for files")


def _check_landing(path: TomlPath, landing: str) -> None:
    parts = PurePosixPath(landing)
    if parts.is_absolute() or ".." in parts.parts or "\\" in landing or "\0" in landing or not parts.parts:
        raise Refusal(path, f"landing is {landing!r}, but must be a folder within `var`, such as 'landing/visits'")


def _master(path: TomlPath, name: str, table: MasterTable) -> Master:
    store, _, place = table.table.partition(":")
    if store == "postgres":
        parts = place.split(".")
        if len(parts) != 2 or not all(part.replace("_", "a").isalnum() for part in parts):
            raise Refusal(
                (*path, "table"), f"table {table.table!r} must name schema and table, as 'postgres:master.people'"
            )
        kind: Any = "postgres"
    else:
        parsed = PurePosixPath(place)
        if "://" not in place and (".." in parsed.parts or "\0" in place):
            raise Refusal((*path, "table"), f"table {table.table!r} must be a path without '..', or a URL")
        kind = "delta"
    columns = tuple(table.columns or ())
    if table.history == "scd2" and columns and table.version is not None and table.version not in columns:
        columns = (*columns, table.version)  # facts derive the version's surrogate key from it
    return Master(
        name, kind, place, tuple(table.on.items()), columns, table.required, table.version, table.history, table.follow
    )


def _plain(arguments: dict[str, Any]) -> dict[str, Any]:
    """Arguments in Great Expectations' types: floats for decimals, text for dates."""

    def convert(given: Any) -> Any:
        if isinstance(given, Decimal):
            return float(given)
        if isinstance(given, date):
            return given.isoformat()
        if isinstance(given, list):
            return [convert(one) for one in given]
        return {key: convert(one) for key, one in given.items()} if isinstance(given, dict) else given

    return {name: convert(given) for name, given in arguments.items()}
