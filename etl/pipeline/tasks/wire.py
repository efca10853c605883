"""Messages from readers to routers and from tasks to the driver: Arrow and JSON in binary columns.

    reader ── (part, kind, payload) ── one shuffle by part ──▶ router ── (kind, payload) ──▶ driver

A payload is a whole record batch, so Spark moves a handful of rows however many events there are, and converts none of
them into its own row format. Only data crosses: an error is encoded by kind and text, never pickled.
"""

from __future__ import annotations

import errno
import json
import os
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

from etl.contract.model import Stream
from etl.contract.words.types import TIMESTAMP
from etl.errors import FrontstageError, TerminalError, TransientError

Kind = Literal["rows", "slice", "result", "notes", "error", "documents", "values", "segments", "partials"]

SHUFFLED = pa.schema([("part", pa.int32()), ("kind", pa.string()), ("name", pa.string()), ("payload", pa.binary())])
SHUFFLED_DDL = "part int, kind string, name string, payload binary"
TOLD_DDL = "kind string, name string, payload binary"

RAW, REASONS, SOURCE, SLICE, LINE = "$raw", "$reasons", "$source", "$slice", "$line"
LANDED, PAYLOAD, KEY_LO, KEY_HI = "$landed_at", "$payload", "$lo", "$hi"
WAITED_IN, WAITING_SINCE = "$backlog", "$since"
RELEASED_FROM = "$released"


def wire_schema(stream: Stream) -> pa.Schema:
    """The schema of wire rows: events on their way from reader to router."""
    return pa.schema(
        [
            *stream.schema,
            ("extra", pa.string()),
            (RAW, pa.binary()),
            (REASONS, pa.list_(pa.string())),
            (SOURCE, pa.string()),
            (SLICE, pa.int32()),
            (LINE, pa.int64()),
            (LANDED, TIMESTAMP),
            (PAYLOAD, pa.int64()),
            (KEY_LO, pa.uint64()),
            (KEY_HI, pa.uint64()),
            (WAITED_IN, pa.string()),  # the backlog file an event waited in; NULL: newly landed
            (WAITING_SINCE, TIMESTAMP),
            (RELEASED_FROM, pa.string()),  # the refused line it was released from; NULL: not a released line
        ]
    )


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a task."""

    kind: Kind
    payload: bytes | pa.Buffer
    name: str = ""
    part: int = 0

    def json(self) -> Any:
        return json.loads(bytes(self.payload))


def json_message(kind: Kind, value: Any, name: str = "") -> Message:
    return Message(kind, json.dumps(value).encode(), name)


def rows_message(rows: pa.RecordBatch, part: int) -> Message:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_batch(rows)
    return Message("rows", sink.getvalue(), part=part)


def rows_of(message: Message) -> pa.Table:
    return pa.ipc.open_stream(pa.py_buffer(message.payload)).read_all()


def to_batch(messages: Iterable[Message]) -> pa.RecordBatch:
    """Messages as a record batch for Spark."""
    found = list(messages)
    return pa.RecordBatch.from_arrays(
        [
            pa.array([one.part for one in found], pa.int32()),
            pa.array([one.kind for one in found], pa.string()),
            pa.array([one.name for one in found], pa.string()),
            pa.array([bytes(one.payload) for one in found], pa.binary()),
        ],
        schema=SHUFFLED,
    )


def from_batch(batch: pa.RecordBatch) -> Iterator[Message]:
    """The messages in a record batch from Spark."""
    for kind, name, payload in zip(
        batch.column("kind").to_pylist(), batch.column("name").to_pylist(), batch.column("payload"), strict=True
    ):
        yield Message(kind, payload.as_buffer(), name)


class WorkerFailed(TerminalError):
    """A task failed with a terminal error."""


class WorkerRefused(TransientError):
    """A task failed with a transient error."""


class TaskLost(TransientError):
    """A task crashed for an unknown cause: by accident, or because of a line it read."""


class DriverLost(TransientError):
    """The process that runs the tasks has died."""


def error_message(error: Exception) -> Message:
    """Encode a task's error by kind and text."""
    if isinstance(error, FrontstageError):
        kind = "terminal" if isinstance(error, TerminalError) else "transient"
        return json_message("error", {"kind": kind, "text": str(error)})
    if isinstance(error, OSError) and error.errno in _SHORTAGES:
        return json_message(
            "error", {"kind": "transient", "text": f"a task could not go on: {os.strerror(error.errno)}"}
        )
    return json_message("error", {"kind": "lost", "text": f"{type(error).__name__} at {_place(error)}"})


_SHORTAGES = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM})
"""Temporary shortages of the machine: transient, and not caused by a line."""


def _place(error: Exception) -> str:
    """The location of an error; never its message, which may contain values of events."""
    frames = traceback.extract_tb(error.__traceback__)[-3:]
    return " < ".join(f"{frame.filename.rpartition('/')[2]}:{frame.lineno}" for frame in reversed(frames))


_RAISED = {"terminal": WorkerFailed, "transient": WorkerRefused, "lost": TaskLost}


def raise_error(message: Message) -> None:
    """Raise the error that a message encodes."""
    error = message.json()
    raise _RAISED[error["kind"]](error["text"])
