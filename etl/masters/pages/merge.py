"""Merge rows of several runs over one range of keys; the newest run wins."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from etl.masters.rows import key_codec
from etl.masters.rows.shape import DELETED, Shape, deleted_of


def newest_first(shape: Shape, parts: Sequence[pa.Table]) -> tuple[pa.Table, key_codec.Mask]:
    """Stored rows, newest run first → one row per key in key order, and which of them are tombstones."""
    columns = [name for name in parts[0].schema.names if name != DELETED]
    table = pa.concat_tables([part.select(columns) for part in parts])
    deleted = np.concatenate([deleted_of(part) for part in parts])
    keys = key_codec.concat([shape.codes(part) for part in parts])
    order = key_codec.argsort(keys)  # stable: among equal keys the newest stays first
    order = order[key_codec.first_of_equals(key_codec.take(keys, order))]
    return table.take(pa.array(order)), deleted[order]


def visible(shape: Shape, parts: Sequence[pa.Table]) -> pa.Table | None:
    """The visible rows among stored rows, given newest run first; None if there are no rows at all."""
    parts = [part for part in parts if part.num_rows]
    if not parts:
        return None
    if len(parts) == 1 and DELETED not in parts[0].schema.names:
        return parts[0]
    table, deleted = newest_first(shape, parts)
    return table.filter(pa.array(~deleted)) if deleted.any() else table
