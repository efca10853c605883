"""What the direct adapters check and arrange about rows they have read, whichever place these came from."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from etl.adapters.pages import codes
from etl.adapters.pages.codes import Rows
from etl.adapters.pages.shape import Shape
from etl.enrich.errors import DuplicateMasterKey


def refuse_repeated_keys(shape: Shape, rows: pa.Table) -> None:
    """Raise when two rows claim one key: a stream tuple would have two answers."""
    if rows.num_rows < 2:
        return
    keys = shape.codes(rows)
    order = codes.argsort(keys)
    again = np.flatnonzero(~codes.first_of_equals(codes.take(keys, order)))
    if len(again):
        raise DuplicateMasterKey(shape.store, shape.key_text(rows, int(order[again[0]])))


def stretches(pages: Rows) -> Iterator[tuple[int, int]]:
    """Rising page numbers as stretches of neighbours: first page, and the one after the last."""
    if len(pages):
        for stretch in np.split(pages, np.flatnonzero(np.diff(pages) != 1) + 1):
            yield int(stretch[0]), int(stretch[-1]) + 1
