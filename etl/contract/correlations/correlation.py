"""Declarations of streams and correlations as checked, frozen values.

    LoggedStream   a stream like a pipeline's, kept in the stream log for correlations
    Correlation    SQL over such streams, a window, how late a tuple may be, and how many units share the work

The models below are the schema of both kinds of file, for the first check and for editors. The SQL is
checked when it is compiled (`etl.streams.declared`).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Literal

import pyarrow as pa
from pydantic import Field as Key

from etl.contract.correlations.documents import Flattening
from etl.contract.model import Rule, Stream
from etl.contract.parsing.document import Duration, RuleTable, Short, StreamTable, Table, _table_of

RoutingMode = Literal["auto", "hash", "random", "contrand"]
IN_BOUNDS = "event_time_in_bounds"
"""The name of the rule on event times too far from now, which is also the reason in the quarantine."""


@dataclass(frozen=True, slots=True)
class LoggedStream:
    """A declared stream for correlations. The last of `rules` are the bounds on event time."""

    name: str
    stream: Stream
    rules: tuple[Rule, ...]
    file: Path | None = None
    flattening: Flattening | None = None  # of a stream of documents
    site: str | None = None  # the site of its tuples; None: the default root

    @property
    def event_time(self) -> str:
        assert self.stream.event_time is not None, "a stream's file says which field the event time is"
        return self.stream.event_time

    @property
    def schema(self) -> pa.Schema:
        """The columns of its tuples."""
        return self.stream.accepted_schema


@dataclass(frozen=True, slots=True)
class Correlation:
    """A declared correlation. `units` and `subgroups` are of the left and the right side of every join."""

    name: str
    sql: str
    within: timedelta | None = None  # None: full history, or what the SQL says of event times
    lateness: timedelta = timedelta(0)
    routing: RoutingMode = "auto"
    units: tuple[int, int] = (2, 2)
    subgroups: tuple[int, int] | None = None  # of contrand
    period: timedelta | None = None  # None: a tenth of the window
    capacity_bytes: int = 256 * 2**20
    elastic: bool = True
    file: Path | None = None


class LoggedStreamTable(StreamTable):
    key: list[str] = Key(default_factory=list, description="Fields that name a tuple in the quarantine.")
    event_time: str = Key(description="The date or timestamp field that windows are over.")


class StreamDocument(Table):
    """A stream that correlations look at."""

    name: str | None = Key(None, description="The stream's name; the file's name unless said.")
    past: Duration | None = Key(None, description="Tuples whose event time is longer ago are quarantined.")
    future: Duration = Key("1h", description="Tuples whose event time is further ahead are quarantined.")
    site: str | None = Key(None, description="The site of sites.toml that the stream belongs to.")
    stream: LoggedStreamTable
    rules: dict[
        str, Annotated[RuleTable, _table_of("sql"), Short("sql", "True for a tuple that is accepted.")]
    ] = Key(default_factory=dict, description="Why a tuple is refused, by name.")  # fmt: skip


Units = Annotated[int, Key(ge=1, le=4096)]


class CorrelationDocument(Table):
    """SQL over two or more streams, answered batch by batch."""

    name: str | None = Key(None, description="The correlation's name; the file's name unless said.")
    sql: str = Key(min_length=1, description="A SELECT in Spark's dialect that joins declared streams.")
    within: Duration | None = Key(None, description="How far event times of joined tuples may lie apart.")
    lateness: Duration = Key("0s", description="How late a tuple may come and still be joined.")
    routing: RoutingMode = Key("auto", description="How tuples are spread over units; auto looks at the first keys.")
    units: Units | list[Units] = Key(2, description="Units per side, or [left, right].")
    subgroups: list[Units] | None = Key(None, description="Subgroups [left, right] of routing contrand.")
    period: Duration | None = Key(None, description="Event time that one sub-index covers.")
    capacity: str = Key("256MiB", description="Memory of one unit, by which units are added and released.")
    elastic: bool = Key(True, description="Whether units are added and released as state grows and shrinks.")
