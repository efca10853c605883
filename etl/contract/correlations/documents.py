"""Declarations of streams of documents and correlations over them, as checked, frozen values.

    Flattening            how JSON documents become attribute-value pairs, where their event time is, their bounds
    DocumentCorrelation   a stream, a window by event time or by count, and the distribution of documents over joiners

The models below are the schema of both kinds of file, which are distinguished by a table `[documents]`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field as Key

from etl.contract.errors import Refusal
from etl.contract.parsing.document import Duration, SourceTable, Table
from etl.contract.words.sizes import size
from etl.contract.words.times import duration

TimeUnit = Literal["s", "ms", "us"]
Part = Literal["merged", "left", "right"]
PARTS: tuple[Part, ...] = ("merged", "left", "right")
EVENT_TIME, DOCUMENT = "event_time", "document"
"""The columns of a stream of documents in the stream log."""
_PATH = re.compile(r"(?:[^\\[]|\\.)+")
"""A path of names: a backslash escapes the next character, and an unescaped `[` begins the place of an item."""
_LONGEST = 65_536  # bytes of a line that is read at all
_WINDOW = "a length of time such as '5 minutes', or a whole number of documents"


@dataclass(frozen=True, slots=True)
class Flattening:
    """How documents become attribute-value pairs. `event_time` is a path; `ignore` are paths that never join."""

    event_time: str
    unit: TimeUnit = "ms"
    arrays: Literal["index", "whole"] = "index"
    nulls: Literal["absent", "value"] = "absent"
    ignore: frozenset[str] = frozenset()
    max_bytes: int = _LONGEST
    max_depth: int = 32
    max_pairs: int = 4096


@dataclass(frozen=True, slots=True)
class DocumentWindow:
    """Size and slide: microseconds of event time, or numbers of documents."""

    by: Literal["time", "count"]
    size: int
    slide: int


Constants = Literal["keep", "leave_out"]
"""The handling of attributes with one value in all documents, which would join everything with everything."""


@dataclass(frozen=True, slots=True)
class DocumentCorrelation:
    """A declared correlation of documents: all pairs of a window that share something and conflict in nothing."""

    name: str
    stream: str
    window: DocumentWindow
    lateness: timedelta = timedelta(0)
    partitions: int = 8
    keep: tuple[Part, ...] = ("merged",)
    theta: float = 0.2  # growth of replication or maximal load that triggers repartitioning
    delta: int = 3  # sightings after which a new pair gets a partition
    budget_bytes: int = 256 * 2**20  # memory of one joiner
    max_pairs: int = 1_000_000  # results of one window
    constants: Constants = "keep"
    file: Path | None = None


class DocumentSourceTable(SourceTable):
    format: Literal["jsonl"] = Key("jsonl", description="Documents are lines of JSON.")


class DocumentStreamTable(Table):
    source: DocumentSourceTable


class FlatteningTable(Table):
    """How documents of any shape are read."""

    event_time: str = Key(min_length=1, description="Path of the event time: `time`, or `meta.at`.")
    unit: TimeUnit = Key("ms", description="Unit of an event time that is a number; a text is ISO 8601.")
    arrays: Literal["index", "whole"] = Key(
        "index", description="Items have paths of their own, or an array is one value."
    )
    nulls: Literal["absent", "value"] = Key("absent", description="Null is no value, or a value like others.")
    ignore: list[str] = Key(default_factory=list, description="Paths that neither join nor conflict.")
    max_bytes: str = Key("64KiB", description="Longer documents are quarantined.")
    max_depth: Annotated[int, Key(ge=1, le=100)] = Key(32, description="Deeper documents are quarantined.")
    max_pairs: Annotated[int, Key(ge=1, le=65536)] = Key(4096, description="Documents of more values are quarantined.")


class DocumentStreamFile(Table):
    """A stream of JSON documents whose fields nobody declares."""

    name: str | None = Key(None, description="The stream's name; the file's name unless said.")
    past: Duration | None = Key(None, description="Documents whose event time is longer ago are quarantined.")
    future: Duration = Key("1h", description="Documents whose event time is further ahead are quarantined.")
    stream: DocumentStreamTable
    documents: FlatteningTable


def _merged() -> list[Part]:
    return ["merged"]


class JoinTable(Table):
    """Which documents meet, where, and what is kept of a pair."""

    stream: str = Key(min_length=1, description="A declared stream of documents.")
    window: Duration | Annotated[int, Key(ge=1)] = Key(description="Length of a window, or its number of documents.")
    slide: Duration | Annotated[int, Key(ge=1)] | None = Key(
        None, description="A whole part of the window; tumbling unless said."
    )
    partitions: Annotated[int, Key(ge=1, le=1024)] = Key(8, description="Joiners that share the documents.")
    keep: list[Part] = Key(default_factory=_merged, description="What a result holds of its documents.")
    theta: Annotated[float, Key(ge=0, strict=False)] = Key(
        0.2, description="Growth of replication or load that asks for new partitions."
    )
    delta: Annotated[int, Key(ge=1)] = Key(3, description="Sightings after which a new value gets a partition.")
    budget: str = Key("256MiB", description="Memory of one joiner.")
    max_pairs: Annotated[int, Key(ge=0)] = Key(1_000_000, description="Results of one window; others are counted.")
    constants: Constants = Key(
        "keep", description="`leave_out`: attributes that are the same in all documents at first do not join."
    )


class DocumentCorrelationFile(Table):
    """Pairs of documents that share at least one value and conflict in none."""

    name: str | None = Key(None, description="The correlation's name; the file's name unless said.")
    lateness: Duration = Key("0s", description="How late a document may come and still be joined.")
    documents: JoinTable


def flattening(table: FlatteningTable) -> Flattening:
    """Build the flattening rules from a stream's file."""
    max_bytes = size(("documents", "max_bytes"), table.max_bytes)
    if max_bytes > _LONGEST:
        raise Refusal(
            ("documents", "max_bytes"), f"max_bytes is {table.max_bytes!r}, but must be at most '64KiB', as lines are"
        )
    if _PATH.fullmatch(table.event_time) is None:
        raise Refusal(
            ("documents", "event_time"),
            f"event_time is {table.event_time!r}, but must be a path of names such as 'meta.at', not an item of an "
            r"array; a '[' in a name is written '\[', and a '\' is written '\\'",
        )
    return Flattening(
        event_time=table.event_time,
        unit=table.unit,
        arrays=table.arrays,
        nulls=table.nulls,
        ignore=frozenset(table.ignore),
        max_bytes=max_bytes,
        max_depth=table.max_depth,
        max_pairs=table.max_pairs,
    )


def document_correlation(document: DocumentCorrelationFile, path: Path) -> DocumentCorrelation:
    """Build a correlation from its file; the stream's existence is checked where streams are known."""
    table = document.documents
    window = _window(table)
    lateness = duration(document.lateness)
    if lateness is None:
        raise Refusal(("lateness",), f"lateness is {document.lateness!r}, but must be a length of time such as '30s'")
    if lateness and window.by == "count":
        raise Refusal(("lateness",), "a window of so many documents knows no lateness; leave it out")
    return DocumentCorrelation(
        name=document.name if document.name is not None else path.stem,
        stream=table.stream,
        window=window,
        lateness=lateness,
        partitions=table.partitions,
        keep=_kept(table.keep),
        theta=float(table.theta),
        delta=table.delta,
        budget_bytes=size(("documents", "budget"), table.budget),
        max_pairs=table.max_pairs,
        constants=table.constants,
        file=path,
    )


def _kept(given: list[Part]) -> tuple[Part, ...]:
    if len(set(given)) < len(given):
        raise Refusal(("documents", "keep"), f"keep is {given}, but must name every part once: {', '.join(PARTS)}")
    return tuple(part for part in PARTS if part in given)


def _window(table: JoinTable) -> DocumentWindow:
    size_of = _length("window", table.window)
    slide = size_of if table.slide is None else _length("slide", table.slide)
    counted = isinstance(table.window, int)
    if table.slide is not None and isinstance(table.slide, int) != counted:
        raise Refusal(("documents", "slide"), "slide must be said as window is: as a length of time, or as a number")
    if slide > size_of or size_of % slide:
        raise Refusal(
            ("documents", "slide"), f"slide is {table.slide!r}, but must be a whole part of the window {table.window!r}"
        )
    return DocumentWindow("count" if counted else "time", size_of, slide)


def _length(key: str, given: str | int) -> int:
    if isinstance(given, int):
        return given
    length = duration(given)
    if not length:
        raise Refusal(("documents", key), f"{key} is {given!r}, but must be {_WINDOW}, and positive")
    return length // timedelta(microseconds=1)
