"""Dates and timestamps: parts, truncation, distances, shifts by an interval.

Parts and truncation are those of the wall clock in the expression's time zone.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from etl.columnar.expression import casts, literals, types
from etl.columnar.expression.compiler import Compiler, Handler
from etl.columnar.expression.node import Datum, Node, on_arrays

_DAY = 86_400_000_000
_PARTS: dict[type[exp.Expr], Callable[[Datum], Datum]] = {
    exp.Year: pc.year, exp.Quarter: pc.quarter, exp.Month: pc.month, exp.Day: pc.day, exp.DayOfMonth: pc.day,
    exp.DayOfYear: pc.day_of_year, exp.Hour: pc.hour, exp.Minute: pc.minute, exp.Second: pc.second,
}  # fmt: skip
_EXTRACT = {kind.__name__.upper(): function for kind, function in _PARTS.items()}
_UNITS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second", "millisecond", "microsecond")


def concerns(left: Node, right: Node) -> bool:
    """Whether + or - of these is about time."""
    return any(types.is_moment(node.type) or pa.types.is_duration(node.type) or node.type == literals.MONTHS
               for node in (left, right))  # fmt: skip


def shift(compiler: Compiler, tree: exp.Binary, left: Node, right: Node) -> Node:
    """moment ± interval, interval + moment, moment - moment, interval ± interval."""
    minus = isinstance(tree, exp.Sub)
    if types.is_moment(left.type) and types.is_moment(right.type) and minus:
        return _distance(compiler, tree, left, right)
    if types.is_moment(right.type) and not minus:
        left, right = right, left
    if types.is_moment(left.type) and pa.types.is_duration(right.type):
        return _by_duration(compiler, tree, left, right, minus)
    if types.is_moment(left.type) and right.type == literals.MONTHS:
        return _by_months(compiler, left, right, minus)
    if pa.types.is_duration(left.type) and pa.types.is_duration(right.type):
        return compiler.total(left.type, [left, right], pc.subtract if minus else pc.add)
    return compiler.refuse(tree, f"{left.type} {'-' if minus else '+'} {right.type} is not defined")


def _distance(compiler: Compiler, tree: exp.Expr, left: Node, right: Node) -> Node:
    zone = any(pa.types.is_timestamp(node.type) and node.type.tz for node in (left, right))
    stamp = pa.timestamp("us", compiler.timezone if zone else None)
    both = [compiler.cast(tree, node, stamp) for node in (left, right)]
    return compiler.total(pa.duration("us"), both, pc.subtract)


def _by_duration(compiler: Compiler, tree: exp.Expr, left: Node, right: Node, minus: bool) -> Node:
    days = right.literal is not None and isinstance(right.literal.value, int) and right.literal.value % _DAY == 0
    wanted = left.type if pa.types.is_timestamp(left.type) else pa.timestamp("us")
    if pa.types.is_timestamp(wanted) and wanted.unit != "us":
        wanted = pa.timestamp("us", wanted.tz)
    stamp = compiler.cast(tree, left, wanted)
    moved = compiler.total(wanted, [stamp, right], pc.subtract if minus else pc.add)
    return compiler.cast(tree, moved, pa.date32()) if pa.types.is_date(left.type) and days else moved


def _by_months(compiler: Compiler, left: Node, right: Node, minus: bool) -> Node:
    """The same day of another month, or that month's last day."""
    assert right.literal is not None, "months are literals"
    assert isinstance(right.literal.value, int), "months are a number"
    months = -right.literal.value if minus else right.literal.value
    wanted, zone = left.type, compiler.timezone

    def apply(array: pa.Array) -> pa.Array:
        local = casts.moment(array, pa.timestamp("us"), zone)
        stamps = np.asarray(local.fill_null(0)).astype("M8[us]")
        month = stamps.astype("M8[M]")
        day = stamps - month.astype("M8[us]")
        target = month + months
        last = (target + 1).astype("M8[D]") - target.astype("M8[D]") - np.timedelta64(1, "D")
        whole_days = np.minimum(day.astype("m8[D]"), last)
        moved = target.astype("M8[us]") + whole_days + (day - day.astype("m8[D]"))
        return casts.moment(pa.array(moved, pa.timestamp("us"), mask=np.asarray(local.is_null())), wanted, zone)

    return compiler.total(wanted, [left], on_arrays(apply))


def part(compiler: Compiler, tree: exp.Func) -> Node:
    return _part(compiler, tree, compiler.node(_undated(tree.this)), _PARTS[type(tree)])


def extract(compiler: Compiler, tree: exp.Extract) -> Node:
    function = _EXTRACT.get(tree.name.upper())
    if function is None:
        compiler.refuse(tree, f"{tree.name.lower()!r} cannot be extracted; {', '.join(_EXTRACT).lower()} can")
    return _part(compiler, tree, compiler.node(tree.expression), function)


def _part(compiler: Compiler, tree: exp.Expr, node: Node, function: Callable[[Datum], Datum]) -> Node:
    node = _local(compiler, tree, node)
    return compiler.total(pa.int32(), [node], on_arrays(lambda array: function(array).cast(pa.int32())))


def _undated(tree: exp.Expr) -> exp.Expr:
    """sqlglot wraps the argument of year() and others into a cast to a date, which would hide its type."""
    return tree.this if isinstance(tree, exp.TsOrDsToDate) else tree


def _local(compiler: Compiler, tree: exp.Expr, node: Node) -> Node:
    """Wall-clock time of a date or timestamp."""
    if types.is_text(node.type) and node.literal is not None:
        node = compiler.cast(tree, node, pa.timestamp("us"))
    if not types.is_moment(node.type):
        compiler.refuse(tree, f"{node.type} is neither a date nor a timestamp")
    return compiler.cast(tree, node, pa.timestamp("us"))


def truncate(compiler: Compiler, tree: exp.TimestampTrunc | exp.DateTrunc) -> Node:
    """date_trunc(unit, timestamp) is a timestamp, trunc(date, unit) a date; weeks begin on Monday."""
    unit = tree.text("unit").lower()
    unit = {"mon": "month", "mm": "month", "yyyy": "year", "yy": "year"}.get(unit, unit)
    if unit not in _UNITS:
        compiler.refuse(tree, f"{unit!r} is not a unit of time; {', '.join(_UNITS)} are")
    node = compiler.node(_undated(tree.this))
    local = _local(compiler, tree, node)
    cut = compiler.total(local.type, [local], on_arrays(lambda array: pc.floor_temporal(array, unit=unit)))
    if isinstance(tree, exp.DateTrunc):
        return compiler.cast(tree, cut, pa.date32())
    aware = pa.types.is_timestamp(node.type) and node.type.tz is not None
    return compiler.cast(tree, cut, pa.timestamp("us", compiler.timezone)) if aware else cut


def to_date(compiler: Compiler, tree: exp.TsOrDsToDate) -> Node:
    if tree.args.get("format") is not None:
        compiler.refuse(tree, "to_date() takes one argument here: an ISO date")
    return compiler.cast(tree, compiler.node(tree.this), pa.date32(), lossy=bool(tree.args.get("safe")))


def days_between(compiler: Compiler, tree: exp.DateDiff) -> Node:
    dates = [compiler.cast(tree, compiler.node(_undated(one)), pa.date32()) for one in (tree.this, tree.expression)]
    days = lambda a, b: pc.subtract(a.cast(pa.int32()), b.cast(pa.int32()))  # noqa: E731
    return compiler.total(pa.int32(), dates, days)


def add_days(compiler: Compiler, tree: exp.TsOrDsAdd) -> Node:
    date = compiler.cast(tree, compiler.node(_undated(tree.this)), pa.date32())
    days = compiler.cast(tree, compiler.node(tree.expression), pa.int32())
    add = on_arrays(lambda a, b: pc.add(a.cast(pa.int32()), b).cast(pa.date32()))
    return compiler.total(pa.date32(), [date, days], add)


HANDLERS: dict[type[exp.Expr], Handler] = {
    **dict.fromkeys(_PARTS, part),
    exp.Extract: extract, exp.TimestampTrunc: truncate, exp.DateTrunc: truncate, exp.TsOrDsToDate: to_date,
    exp.DateDiff: days_between, exp.TsOrDsAdd: add_days,
}  # fmt: skip
