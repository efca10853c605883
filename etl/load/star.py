"""From accepted rows to the star: dimension versions, their history, and facts. DataFrame in, DataFrame out.

A dimension row is one version of a master row: its key is derived from the natural key and the time the master row
changed. Facts compute the same key from what they were enriched with, so they need no look-up, and repeating a load
gives the same rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F


def version_key(master: str) -> Column:
    """The surrogate key of the master version a row was enriched with."""
    return F.xxhash64(F.col(f"{master}_id"), F.col(f"{master}.updated_at"))


def facts(accepted: DataFrame) -> DataFrame:
    """Fact rows, with the dimension rows they met."""
    return accepted.withColumns(
        {
            "amount": (F.col("quantity") * F.col("unit_price")).cast("decimal(28,4)"),
            "date_key": F.date_format("ordered_at", "yyyyMMdd").cast("int"),
            "customer_key": version_key("customer"),
            "product_key": version_key("product"),
        }
    )


def versions(accepted: DataFrame, master: str, columns: Sequence[str]) -> DataFrame:
    """The distinct versions of a master that a batch met."""
    key, natural = f"{master}_key", f"{master}_id"
    attributes = [name for name in columns if name != "updated_at"]
    return accepted.select(
        version_key(master).alias(key),
        natural,
        *[F.col(f"{master}.{name}") for name in attributes],
        F.col(f"{master}.updated_at").alias("valid_from"),
    ).dropDuplicates([key])


def first_versions(met: DataFrame) -> DataFrame:
    """Versions of natural keys the dimension has not seen: valid from the start and still."""
    return met.withColumns({"valid_to": F.lit(None).cast("timestamp"), "is_current": F.lit(True)})


def history(met: DataFrame, dimension: DataFrame, master: str) -> DataFrame:
    """Every version, old and new, of the natural keys that `met` touches, with validity closed and opened anew."""
    key, natural = f"{master}_key", f"{master}_id"
    touched = met.select(natural).distinct()
    known = dimension.join(touched, natural, "left_semi").drop("valid_to", "is_current")
    chain = known.unionByName(met).dropDuplicates([key])
    succession = Window.partitionBy(natural).orderBy("valid_from")
    closed = chain.withColumn("valid_to", F.lead("valid_from").over(succession))
    return closed.withColumn("is_current", F.col("valid_to").isNull())
