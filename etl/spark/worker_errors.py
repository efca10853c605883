"""Errors of ours that cross from Python workers to the driver inside Spark's own error text.

Spark hands a worker's exception over as text in a long trace. Ours are sentences for people, and whether a batch is
tried again depends on their kind; so a worker raises kind and sentence as JSON, and the driver reads them. Only data
crosses: whatever else has such a text in it can change a message, never run anything.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import pyarrow as pa

from etl.errors import FrontstageError, TerminalError
from etl.pipeline.wire import WorkerFailed, WorkerRefused

_ENCODED = re.compile(r"frontstage-error:([A-Za-z0-9+/=]+):")


class _Encoded(Exception):
    """An error of ours on its way to the driver."""


def encode_error(error: FrontstageError) -> str:
    """Kind and sentence of an error, as text that survives a trace."""
    kind = "terminal" if isinstance(error, TerminalError) else "transient"
    told = json.dumps({"kind": kind, "text": str(error)}).encode()
    return f"frontstage-error:{base64.b64encode(told).decode()}: {error}"


def encoded(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same batches; an error of ours leaves the worker as data."""
    try:
        yield from batches
    except FrontstageError as error:
        raise _Encoded(encode_error(error)) from error


@contextmanager
def raise_errors() -> Iterator[None]:
    """In the driver: an error that a worker told is raised as one of ours."""
    try:
        yield
    except FrontstageError:
        raise
    except Exception as error:
        found = _ENCODED.search(str(error))
        told = _decoded(found.group(1)) if found else None
        if told is None:
            raise
        raise (WorkerFailed if told["kind"] == "terminal" else WorkerRefused)(told["text"]) from None


def _decoded(text: str) -> dict[str, str] | None:
    try:
        told = json.loads(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError):
        return None
    return told if isinstance(told, dict) and {"kind", "text"} <= told.keys() else None
