"""The types expressions compute with, and the type two operands meet in.

    integers      compute as int64: `int * int` does not overflow at 2^31 as Spark's does
    decimal       exact, Spark's result types; with an integer it stays decimal, with a float it becomes float64
    float         float64
    timestamp     microseconds; one without a zone that meets one with a zone is in the expression's time zone
    string        meets only strings, but a *literal* string meets a date or timestamp as such

Anything else is refused: a number and a string never compare.
"""

from __future__ import annotations

import pyarrow as pa

from etl.columnar import decimals
from etl.columnar.expression.node import Node

_DIGITS = {pa.int8(): 3, pa.int16(): 5, pa.int32(): 10, pa.int64(): 19, pa.uint8(): 3, pa.uint16(): 5, pa.uint32(): 10}

_NAMES = {
    "boolean": pa.bool_(), "tinyint": pa.int8(), "smallint": pa.int16(), "int": pa.int32(), "bigint": pa.int64(),
    "float": pa.float32(), "double": pa.float64(), "text": pa.string(), "varchar": pa.string(), "char": pa.string(),
    "date": pa.date32(), "binary": pa.binary(),
}  # fmt: skip


def named(name: str, parameters: list[int], timezone: str) -> pa.DataType | None:
    """The Arrow type of a SQL type name as sqlglot spells it, None if expressions do not know it."""
    lowered = name.lower()
    if lowered == "decimal":
        precision, scale = (*parameters, *(10, 0)[len(parameters) :])
        return pa.decimal128(precision, scale) if 0 <= scale <= precision <= 38 and precision else None
    if lowered in ("timestamp", "timestamptz", "timestampltz"):
        return pa.timestamp("us", timezone)
    if lowered == "timestampntz":
        return pa.timestamp("us")
    return _NAMES.get(lowered)


def is_text(type_: pa.DataType) -> bool:
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_))


def is_number(type_: pa.DataType) -> bool:
    return bool(pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_))


def is_moment(type_: pa.DataType) -> bool:
    return bool(pa.types.is_date(type_) or pa.types.is_timestamp(type_))


def as_decimal(node: Node) -> pa.DataType:
    """The decimal type of an integer or decimal node; a literal integer takes only the digits it has."""
    if pa.types.is_decimal(node.type):
        return node.type
    if node.literal is not None and isinstance(node.literal.value, int):
        return pa.decimal128(max(1, len(str(abs(node.literal.value)))), 0)
    return pa.decimal128(_DIGITS.get(node.type, 20), 0)


def numeric(a: Node, b: Node) -> pa.DataType:
    """What two numbers compute in: int64, float64, or decimal (whose precision is the operation's matter)."""
    if pa.types.is_floating(a.type) or pa.types.is_floating(b.type):
        return pa.float64()
    if pa.types.is_decimal(a.type) or pa.types.is_decimal(b.type):
        return decimals.common_type(as_decimal(a), as_decimal(b))
    return pa.int64()


def common(a: Node, b: Node, timezone: str) -> pa.DataType | None:
    """The type in which both can be compared or stand in one column, None if there is none."""
    if pa.types.is_null(a.type) or a.type == b.type:
        return b.type
    if pa.types.is_null(b.type):
        return a.type
    if is_number(a.type) and is_number(b.type):
        return numeric(a, b)
    if is_text(a.type) and is_text(b.type):
        return pa.large_string() if pa.large_string() in (a.type, b.type) else pa.string()
    if is_moment(a.type) and is_moment(b.type):
        return _moment(a.type, b.type, timezone)
    if a.literal is not None and is_text(a.type) and is_moment(b.type):
        return b.type
    if b.literal is not None and is_text(b.type) and is_moment(a.type):
        return a.type
    return None


def _moment(a: pa.DataType, b: pa.DataType, timezone: str) -> pa.DataType:
    if pa.types.is_date(a) and pa.types.is_date(b):
        return pa.date32()
    aware = any(pa.types.is_timestamp(one) and one.tz for one in (a, b))
    return pa.timestamp("us", timezone if aware else None)
