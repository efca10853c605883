"""GROUP BY in two phases: partial views per unit and batch, merged into one view.

    joined rows ──partial──► view (keys, counts, sums, minima, maxima) ──merge──► view ──finish──► the columns of the
    query

Partial views are small (a row per group) and merging them is associative: units send one per batch, not a row per
pair. An average is stored as sum and count until it is read. Sums of integers and decimals are
exact; one that does not fit its type is NULL.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from etl.columnar import decimals
from etl.columnar.expression import casts
from etl.correlate.query.output import Aggregation, Grouping

_PARTS: dict[str, tuple[str, ...]] = {
    "count": ("count",), "sum": ("sum",), "avg": ("sum", "count"), "min": ("min",), "max": ("max",),
}  # fmt: skip
_MERGE = {"count": "sum", "sum": "sum", "min": "min", "max": "max"}
_ALL = "everything"  # the key of the only group when there is no GROUP BY
_KNOWN = pc.ScalarAggregateOptions(skip_nulls=True, min_count=1)


def partial(grouping: Grouping, rows: pa.RecordBatch) -> pa.Table:
    """The partial view of joined rows."""
    columns = _keys(grouping, rows)
    wanted = []
    for number, one in enumerate(grouping.aggregates):
        for part in _PARTS[one.function]:
            name = f"{number}_{part}"
            columns[name] = _argument(one, part, rows)
            wanted.append((name, *_function(one, part)))
    return _grouped(pa.table(columns), grouping, wanted)


def merge(grouping: Grouping, views: Sequence[pa.Table]) -> pa.Table:
    """Merge one or more views."""
    names = [f"{number}_{part}" for number, one in enumerate(grouping.aggregates) for part in _PARTS[one.function]]
    wanted = [(name, _MERGE[name.partition("_")[2]], _KNOWN) for name in names]
    return _grouped(pa.concat_tables(views), grouping, wanted)


def finish(grouping: Grouping, view: pa.Table) -> pa.Table:
    """The query's columns."""
    if not grouping.keys and not view.num_rows:
        view = _nothing(view)
    columns = {name: view[f"key_{number}"] for number, (name, _) in enumerate(grouping.keys)}
    columns |= {one.name: _result(one, number, view) for number, one in enumerate(grouping.aggregates)}
    return pa.table({name: columns[name] for name in grouping.order})


def _keys(grouping: Grouping, rows: pa.RecordBatch) -> dict[str, pa.Array]:
    if not grouping.keys:
        return {_ALL: pa.repeat(pa.scalar(0, pa.int8()), rows.num_rows)}
    return {f"key_{number}": expression.evaluate(rows) for number, (_, expression) in enumerate(grouping.keys)}


def _argument(one: Aggregation, part: str, rows: pa.RecordBatch) -> pa.Array:
    if one.argument is None:
        return pa.repeat(pa.scalar(True), rows.num_rows)
    values = one.argument.evaluate(rows)
    return _widened(values) if part == "sum" else values


def _widened(values: pa.Array) -> pa.Array:
    """Widen values for sums: exact types to 38 digits, others to double."""
    if pa.types.is_floating(values.type):
        return values.cast(pa.float64())
    scale = values.type.scale if pa.types.is_decimal(values.type) else 0
    return decimals.to_arrow(decimals.unscaled(values), pa.decimal128(decimals.MAX_PRECISION, scale))


def _function(one: Aggregation, part: str) -> tuple[str, pc.FunctionOptions]:
    if part == "count":
        return "count", pc.CountOptions(mode="all" if one.argument is None else "only_valid")
    return part, _KNOWN


def _grouped(table: pa.Table, grouping: Grouping, wanted: list[tuple[str, str, pc.FunctionOptions]]) -> pa.Table:
    keys = [f"key_{number}" for number in range(len(grouping.keys))] or [_ALL]
    grouped = table.group_by(keys, use_threads=False).aggregate(wanted)
    names = {f"{name}_{function}": name for name, function, _ in wanted}
    return grouped.rename_columns([names.get(name, name) for name in grouped.column_names])


def _nothing(view: pa.Table) -> pa.Table:
    """The one row of an aggregate over no rows: counts are 0, everything else is NULL."""
    row = {name: 0 if name.endswith("_count") else None for name in view.column_names}
    return pa.Table.from_pylist([row], view.schema)


def _result(one: Aggregation, number: int, view: pa.Table) -> pa.Array:
    if one.function in ("count", "min", "max"):
        return view[f"{number}_{one.function}"]
    assert one.argument is not None, "only count(*) has no argument"
    total, given = view[f"{number}_sum"].combine_chunks(), one.argument.type
    if one.function == "sum":
        return _cast(total, _sum_type(given))
    count = view[f"{number}_count"].combine_chunks()
    if not pa.types.is_decimal(given):
        known = pc.if_else(pc.equal(count, 0), pa.scalar(None, pa.int64()), count)
        return pc.divide(_cast(total, pa.float64()), known.cast(pa.float64()))
    wanted = decimals.bounded(given.precision + 4, given.scale + 4)
    return decimals.to_arrow(decimals.divide(decimals.unscaled(total), decimals.unscaled(count), wanted.scale), wanted)


def _sum_type(given: pa.DataType) -> pa.DataType:
    if pa.types.is_decimal(given):
        return pa.decimal128(min(decimals.MAX_PRECISION, given.precision + 10), given.scale)
    return pa.float64() if pa.types.is_floating(given) else pa.int64()


def _cast(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    convert = casts.conversion(array.type, wanted, "UTC")
    assert convert is not None, "numbers convert to numbers"
    return convert(array)
