"""The types that a file may declare, and their equivalents in Arrow (for rows), Delta and Postgres.

    declared           Arrow                 Delta (through Arrow)   Postgres
    int, bigint        int32, int64          integer, long           integer, bigint
    decimal(p,s)       decimal128(p,s)       decimal(p,s)            numeric(p,s)
    double, boolean    float64, bool         double, boolean         double precision, boolean
    string             string                string                  text
    date, timestamp    date32, us in UTC     date, timestamp         date, timestamptz

Types of master columns are not declared: they come from the master itself, as Arrow types.
"""

from __future__ import annotations

import re
from typing import Final

import pyarrow as pa

from etl.errors import TerminalError

TIMESTAMP: Final = pa.timestamp("us", "UTC")
SIMPLE: Final[dict[str, pa.DataType]] = {
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "string": pa.string(),
    "date": pa.date32(),
    "timestamp": TIMESTAMP,
}
_DECIMAL: Final = re.compile(r"decimal\((\d{1,2}),\s*(\d{1,2})\)")
ALLOWED: Final = (*SIMPLE, "decimal(p,s)")


class UnknownType(TerminalError):
    """A declared type that does not exist."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f"type {self.text!r} is unknown; allowed are {', '.join(ALLOWED)} with p at most 38 and s at most p"


def arrow_type(declared: str) -> pa.DataType:
    """The Arrow type of a declared one."""
    name = declared.strip().lower()
    if name in SIMPLE:
        return SIMPLE[name]
    found = _DECIMAL.fullmatch(name)
    if found and 1 <= int(found[1]) <= 38 and int(found[2]) <= int(found[1]):
        return pa.decimal128(int(found[1]), int(found[2]))
    raise UnknownType(declared)


def declared_name(kind: pa.DataType) -> str:
    """How a file declares an Arrow type."""
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    return next((name for name, one in SIMPLE.items() if one == kind), str(kind))


def stored_type(kind: pa.DataType) -> pa.DataType | None:
    """The type in which tables store a master's values; None for nested and other unsupported types.

    Times are microseconds in UTC (a time without a zone is taken to be in UTC), texts are `string`.
    """
    if pa.types.is_dictionary(kind):
        return stored_type(kind.value_type)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_timestamp(kind):
        return TIMESTAMP
    if pa.types.is_date(kind):
        return pa.date32()
    if pa.types.is_integer(kind):
        return pa.int64() if kind.bit_width > 32 or kind == pa.uint32() else pa.int32()
    if pa.types.is_floating(kind):
        return pa.float64()
    return kind if pa.types.is_boolean(kind) or pa.types.is_decimal128(kind) else None


def postgres_type(kind: pa.DataType) -> str:
    """The Postgres type that holds the values of an Arrow type."""
    if pa.types.is_decimal(kind):
        return f"numeric({kind.precision}, {kind.scale})"
    if pa.types.is_timestamp(kind):
        return "timestamptz" if kind.tz else "timestamp"
    if pa.types.is_integer(kind):
        return "bigint" if kind.bit_width > 32 else "integer"
    if pa.types.is_floating(kind):
        return "double precision"
    if pa.types.is_boolean(kind):
        return "boolean"
    if pa.types.is_date(kind):
        return "date"
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return "bytea"
    return "text"
