"""Queries and their plan as one sealed file: written when a query starts or ends, opened by every task, parsed once.

    state/_queries/<batch>-<try>-<nonce>.json      {"queries": [...], "plan": {...}}

The file's name is in the plan of a batch, so all tasks switch to a new version at the same batch.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from typing import Any

import pyarrow as pa

from etl.contract.correlations.correlation import LoggedStream
from etl.correlate.adhoc.errors import QueryRefused
from etl.correlate.adhoc.plan import Plan, plan_as_data, plan_from_data
from etl.correlate.adhoc.query.model import Edge, Query, Stream
from etl.correlate.adhoc.query.parse import parse_query
from etl.correlate.adhoc.run.components import Running
from etl.streams.storage.files import FileStore

FOLDER = "_queries"


@dataclass(frozen=True, slots=True)
class Entry:
    """A running query in the file."""

    id: int
    name: str
    sql: str
    window: int  # in slots
    number: int  # of its bit
    created: int  # the first batch it sees

    @property
    def folder(self) -> str:
        """The folder of its table: names may be reused, ids never are."""
        return f"{self.name}-{self.id}"


@dataclass(frozen=True, slots=True)
class LastJoin:
    """The queries with the same last join: its key determines the task that produces a result (ADR 44)."""

    edge: Edge
    running: Mapping[str, Running]
    streams: frozenset[str]
    since: int  # the first batch that one of them sees
    window: int  # the longest, in slots


@dataclass(frozen=True)
class Version:
    """The running queries, compiled. Derived values are cached: a thousand queries may be idle."""

    entries: Mapping[str, Entry]
    running: Mapping[str, Running]
    plan: Plan

    @cached_property
    def last_joins(self) -> dict[Edge, LastJoin]:
        """Queries by the edge of their last join."""
        found: dict[Edge, dict[str, Running]] = {}
        for name, choice in self.plan.choices.items():
            found.setdefault(choice.tree.edge, {})[name] = self.running[name]
        return {
            edge: LastJoin(
                edge,
                running,
                frozenset(stream for each in running.values() for stream in each.query.streams),
                min(each.created for each in running.values()),
                max(each.query.window for each in running.values()),
            )
            for edge, running in found.items()
        }

    @cached_property
    def columns(self) -> dict[str, list[str]]:
        """The columns that buckets need, by stream."""
        found: dict[str, set[str]] = {}
        for each in self.running.values():
            for stream in each.query.streams:
                found.setdefault(stream, set()).update(each.query.columns_used(stream))
        return {stream: sorted(names) for stream, names in found.items()}

    @cached_property
    def windows(self) -> dict[str, int]:
        """The longest window in slots, by stream."""
        found: dict[str, int] = {}
        for each in self.running.values():
            for stream in each.query.streams:
                found[stream] = max(found.get(stream, 0), each.query.window)
        return found


def write_version(store: FileStore, batch: int, attempt: str, entries: Sequence[Entry], plan: Plan) -> str:
    """Write queries and plan; returns the file's name."""
    name = f"state/{FOLDER}/{batch:09d}-{attempt}-{secrets.token_hex(4)}.json"
    content = {"queries": [asdict(one) for one in entries], "plan": plan_as_data(plan)}
    store.write(name, pa.py_buffer(json.dumps(content).encode()))
    return name


def open_version(store: FileStore, name: str, streams: tuple[LoggedStream, ...]) -> Version:
    """The queries and the plan of a file."""
    return _compiled(store, name, streams)


def open_readable(store: FileStore, name: str, streams: tuple[LoggedStream, ...]) -> tuple[Version, dict[int, str]]:
    """The same after streams have changed: queries that still compile, and the reasons for others, by id."""
    value: Mapping[str, Any] = store.open(name, _parsed)
    entries, refused = dict[str, Entry](), dict[int, str]()
    for one in (Entry(**each) for each in value["queries"]):
        try:
            compiled_query(one.name, one.sql, one.window, streams)
            entries[one.name] = one
        except QueryRefused as error:
            refused[one.id] = str(error)
    plan = {each: value["plan"][each] for each in entries}
    return _version(entries, plan, streams), refused


@lru_cache(maxsize=8)
def _compiled(store: FileStore, name: str, streams: tuple[LoggedStream, ...]) -> Version:
    value: Mapping[str, Any] = store.open(name, _parsed)
    return _version({one["name"]: Entry(**one) for one in value["queries"]}, value["plan"], streams)


def _version(entries: Mapping[str, Entry], plan: Mapping[str, Any], streams: tuple[LoggedStream, ...]) -> Version:
    running = {
        one.name: Running(compiled_query(one.name, one.sql, one.window, streams), one.number, one.created)
        for one in entries.values()
    }
    return Version(entries, running, plan_from_data(plan))


def _parsed(content: pa.Buffer, _: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads(content.to_pybytes())
    return found


@lru_cache(maxsize=4096)
def compiled_query(name: str, sql: str, window: int, streams: tuple[LoggedStream, ...]) -> Query:
    """Compile a query's text, once per process."""
    return parse_query(name, sql, window, streams_for_queries(streams))


@lru_cache(maxsize=4)
def streams_for_queries(streams: tuple[LoggedStream, ...]) -> Mapping[str, Stream]:
    """Streams as queries see them: those that declare their fields."""
    return {
        one.name: Stream(one.name, {field.name: field.type for field in one.schema})
        for one in streams
        if one.flattening is None
    }
