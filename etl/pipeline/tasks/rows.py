"""From wire rows to the rows of the pipeline's Delta tables: fact, quarantine, backlog."""

from __future__ import annotations

import json
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from etl.contract.tables import backlog_schema, fact_schema, quarantine_schema
from etl.contract.words.types import TIMESTAMP
from etl.pipeline.tasks import wire
from etl.pipeline.tasks.plan import BatchPlan
from etl.pipeline.tasks.surrogate import fact_key

UNKNOWN_KEY = 0
"""Key of the unknown member of every dimension."""


def fact_rows(accepted: pa.Table, plan: BatchPlan, batch: pa.Array | None = None) -> pa.Table:
    """Facts: event, measures and surrogate keys. `batch`: each row's batch, if it is not the current one."""
    own = _constant(plan.batch, pa.int64(), accepted)
    columns = {"batch": own if batch is None else batch, "landed_at": accepted[wire.LANDED]}
    for master in plan.pipeline.masters:
        if master.history == "none":
            columns |= {f"{master.name}_{name}": accepted[f"{master.name}.{name}"] for name in master.columns}
        else:
            keys = _where_found(fact_key(accepted, master), accepted, f"{master.name}.")
            columns[f"{master.name}_key"] = pc.fill_null(keys, UNKNOWN_KEY) if master.required else keys
    return _shaped(accepted, columns, fact_schema(plan.resolved))


def _where_found(keys: pa.Array, rows: pa.Table, prefix: str) -> pa.Array:
    """Surrogate keys; NULL where an optional master had no row."""
    found = [rows[name].is_valid() for name in rows.column_names if name.startswith(prefix)]
    if not found:
        return keys
    any_found = found[0]
    for flags in found[1:]:
        any_found = pc.or_(any_found, flags)
    return pc.if_else(any_found, keys, pa.scalar(None, keys.type))


def quarantine_rows(rows: pa.Table, reasons: pa.Array, key: tuple[str, ...], batch: int, now: datetime) -> pa.Table:
    """Refused events with their bytes and reasons; `key` names the stream's key fields."""
    raw = rows[wire.RAW]
    columns = {
        "batch": _constant(batch, pa.int64(), rows),
        "key": _keys_as_json(rows, key),
        "reasons": reasons,
        "raw": raw,
        "raw_text": pa.array([(value or b"").decode("utf-8", "replace") for value in raw.to_pylist()], pa.string()),
        "source_file": rows[wire.SOURCE],
        "line": rows[wire.LINE],
        "landed_at": rows[wire.LANDED],
        "decided_at": _constant(now, TIMESTAMP, rows),
        "from_backlog": rows[wire.WAITED_IN].is_valid(),
        "released_from": rows[wire.RELEASED_FROM],
    }
    return _shaped(rows, columns, quarantine_schema())


def backlog_rows(rows: pa.Table, reasons: pa.Array, plan: BatchPlan) -> pa.Table:
    """Waiting events, with all columns that a retry needs."""
    columns = {
        "batch": _constant(plan.batch, pa.int64(), rows),
        "payload_hash": rows[wire.PAYLOAD],
        "key_lo": rows[wire.KEY_LO].combine_chunks().view(pa.int64()),
        "key_hi": rows[wire.KEY_HI].combine_chunks().view(pa.int64()),
        "reasons": reasons,
        "raw": rows[wire.RAW],
        "source_file": rows[wire.SOURCE],
        "line": rows[wire.LINE],
        "landed_at": rows[wire.LANDED],
        "decided_at": _constant(plan.now, TIMESTAMP, rows),
        "released_from": rows[wire.RELEASED_FROM],
    }
    return _shaped(rows, columns, backlog_schema(plan.pipeline))


def _shaped(rows: pa.Table, columns: dict[str, object], schema: pa.Schema) -> pa.Table:
    """Arrange rows by a table's schema; given columns take precedence over those of the rows."""
    arrays = [columns[one.name] if one.name in columns else rows[one.name] for one in schema]
    named = pa.table(arrays, names=schema.names)
    return named.cast(pa.schema([one.with_nullable(True) for one in schema]))


def _constant(value: object, kind: pa.DataType, rows: pa.Table) -> pa.Array:
    return pa.repeat(pa.scalar(value, kind), rows.num_rows)


def _keys_as_json(rows: pa.Table, names: tuple[str, ...]) -> pa.Array:
    """The key as JSON, for searching; NULL where it could not be read, or where the stream has no key."""
    if not names:
        return pa.nulls(rows.num_rows, pa.string())
    columns = [rows[name].cast(pa.string()).to_pylist() for name in names]
    keys = [None if None in key else json.dumps(list(key)) for key in zip(*columns, strict=True)]
    return pa.array(keys, pa.string())
