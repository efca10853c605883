"""Constants: numbers, texts, NULL, intervals; dates and timestamps come from casts of texts.

An integer is int32 or int64, beyond that a decimal; `1.50` is decimal(3, 2), `1e3` a double. Intervals of fixed length
(weeks to microseconds) are durations in microseconds; months and years are a number of months, which only a date or a
timestamp can be shifted by.
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

import pyarrow as pa
from sqlglot import exp

from etl.columnar.expression.compiler import Compiler, Handler
from etl.columnar.expression.node import Literal, Node, constant

MONTHS = pa.month_day_nano_interval()  # the type of intervals that are months
_MICROSECONDS = {
    "MICROSECOND": 1, "MILLISECOND": 1_000, "SECOND": 1_000_000, "MINUTE": 60_000_000, "HOUR": 3_600_000_000,
    "DAY": 86_400_000_000, "WEEK": 604_800_000_000,
}  # fmt: skip
_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}


def number(value: int | float | Decimal) -> Node:
    if isinstance(value, float):
        return constant(value, pa.float64())
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        return constant(value, pa.int32() if -(2**31) <= value < 2**31 else pa.int64())
    _, digits, exponent = Decimal(value).as_tuple()
    scale = max(0, -int(exponent))
    return constant(Decimal(value), pa.decimal128(max(len(digits), scale), scale))


def literal(compiler: Compiler, tree: exp.Literal) -> Node:
    if tree.is_string:
        return constant(tree.this, pa.string())
    text: str = tree.this
    if text.isdigit():
        value: int | float | Decimal = int(text)
    else:
        value = float(text) if "e" in text.lower() else Decimal(text)
    if isinstance(value, Decimal | int) and len(text.replace(".", "")) > 38:
        compiler.refuse(tree, f"{text} has more than 38 digits")
    return number(value)


def integer(compiler: Compiler, tree: exp.Expr, part: exp.Expr | None, default: int = 0) -> int:
    """An argument that must be a constant integer."""
    if part is None:
        return default
    node = compiler.node(part)
    if node.literal is None or not isinstance(node.literal.value, int):
        compiler.refuse(tree, f"`{part.sql(dialect='spark')}` must be a constant integer")
    return node.literal.value


def text(compiler: Compiler, tree: exp.Expr, part: exp.Expr) -> str:
    """An argument that must be a constant text."""
    node = compiler.node(part)
    if node.literal is None or not isinstance(node.literal.value, str):
        compiler.refuse(tree, f"`{part.sql(dialect='spark')}` must be a constant text")
    return node.literal.value


def interval(compiler: Compiler, tree: exp.Interval) -> Node:
    unit = tree.text("unit").upper().removesuffix("S")
    try:
        amount = Decimal(tree.this.name)
    except (InvalidOperation, AttributeError):
        compiler.refuse(tree, "an interval is a number and a unit, as in `interval 30 minutes`")
    if unit in _MONTHS and amount == int(amount):
        months = int(amount) * _MONTHS[unit]
        scalar = pa.scalar((months, 0, 0), MONTHS)
        return Node(MONTHS, lambda _: scalar, literal=Literal(months))
    if unit not in _MICROSECONDS:
        compiler.refuse(tree, f"{unit.lower() or 'nothing'!r} is not a unit of time; write weeks, days, … microseconds")
    return constant(int(amount * _MICROSECONDS[unit]), pa.duration("us"))


HANDLERS: dict[type[exp.Expr], Handler] = {
    exp.Literal: literal,
    exp.Boolean: lambda _, tree: constant(bool(tree.this), pa.bool_()),
    exp.Null: lambda _, __: constant(None, pa.null()),
    exp.Interval: interval,
}
