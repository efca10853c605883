"""Errors that cross from Python workers to the driver as what they are.

Spark hands a worker's exception over as text inside a long trace. Ours are sentences for people, and whether a batch is
tried again depends on their kind; so a worker raises them packed into their own message, and the driver unpacks them.
"""

from __future__ import annotations

import base64
import pickle
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import pyarrow as pa

from etl.errors import FrontstageError

_PACKED = re.compile(r"frontstage-error:([A-Za-z0-9+/=]+):")


class _Packed(Exception):
    """An error of ours on its way to the driver."""


def packed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same batches; an error of ours leaves the worker packed."""
    try:
        yield from batches
    except FrontstageError as error:
        raise _Packed(f"frontstage-error:{base64.b64encode(pickle.dumps(error)).decode()}: {error}") from error


@contextmanager
def unpacked() -> Iterator[None]:
    """In the driver: an error that a worker packed is raised as itself."""
    try:
        yield
    except FrontstageError:
        raise
    except Exception as error:
        found = _PACKED.search(str(error))
        if found is None:
            raise
        # Only our own workers write this text: their code and their data come from this very process.
        raise pickle.loads(base64.b64decode(found.group(1))) from None  # noqa: S301
