"""From landed lines to typed orders: nothing a line contains can fail the batch.

    value, source_file, landed_at ──▶ raw, line, payload_hash, reasons, and one typed column per field

A line keeps its raw bytes. What cannot be read as JSON, is missing, or has another type becomes a reason, and rows
with reasons go to quarantine. `line` orders the rows of a batch as they landed, so that "the first wins" is decided
the same way whenever the same files are read.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from warehouse.contract import Contract, Field

LONGEST_LINE = 65_536
"""Bytes. An order has a few hundred; whatever waits in the backlog is bounded by this."""
_CORRUPT = "_corrupt"


def with_origin(lines: DataFrame) -> DataFrame:
    """The lines of a text source with the file they came in and when it landed. Works on a stream."""
    return lines.select(
        F.col("value"),
        F.col("_metadata.file_name").alias("source_file"),
        F.col("_metadata.file_modification_time").alias("landed_at"),
    )


def numbered(lines: DataFrame) -> DataFrame:
    """The lines of a batch in the order they are read; blank lines are not orders."""
    blank = F.trim(F.regexp_replace(F.make_valid_utf8("value"), r"\s", "")) == ""
    return lines.withColumn("line", F.monotonically_increasing_id()).where(~blank)


def parse(lines: DataFrame, contract: Contract) -> DataFrame:
    """Typed orders with the reasons why a line is not one."""
    names = [field.name for field in contract.fields]
    texts = ", ".join(f"`{name}` STRING" for name in [*names, _CORRUPT])
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT, "allowSingleQuotes": "false"}
    readable = F.when(F.is_valid_utf8("value"), F.col("value"))
    text = lines.withColumn("text", F.from_json(readable, texts, options))
    typed = text.select(
        F.col("value").cast("binary").alias("raw"),
        "source_file",
        "landed_at",
        "line",
        F.xxhash64(F.to_json(F.struct(*[F.col(f"text.{name}") for name in names]))).alias("payload_hash"),
        _unreadable().alias("unreadable"),
        "text",
        *[_typed(field) for field in contract.fields],
    )
    return typed.withColumn("reasons", _reasons(contract.fields)).drop("unreadable", "text")


def _unreadable() -> Column:
    """Why the line is not one JSON object of an order's size; NULL when it is.

    `from_json` stops reading after the first object. A second one glued to it, or any other rest, shows when the line
    is read as the content of an array: then it is not an array of exactly one.
    """
    no_object = F.col("text").isNull() | F.col(f"text.{_CORRUPT}").isNotNull()
    alone = F.coalesce(F.json_array_length(F.concat(F.lit("["), "value", F.lit("]"))), F.lit(0)) == 1
    with_rest = F.json_object_keys("value").isNotNull() & ~alone
    return (
        F.when(F.octet_length("value") > LONGEST_LINE, F.lit("line_too_long"))
        .when(~F.is_valid_utf8("value"), F.lit("bad_utf8"))
        .when(no_object | with_rest, F.lit("malformed_json"))
    )


def _typed(field: Field) -> Column:
    """The field's value, or NULL: casts under ANSI rules would fail the batch, `try_cast` does not."""
    return F.expr(f"try_cast(text.`{field.name}` AS {field.type}) AS `{field.name}`")


def _reasons(fields: Iterable[Field]) -> Column:
    per_field = [
        F.when(F.col(f"text.{field.name}").isNull(), F.lit(f"{field.name}_missing")).when(
            F.col(field.name).isNull(), F.lit(f"{field.name}_invalid")
        )
        for field in fields
    ]
    return F.when(F.col("unreadable").isNotNull(), F.array("unreadable")).otherwise(
        F.array_compact(F.array(*per_field))
    )
