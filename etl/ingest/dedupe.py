"""The first acceptable payload of an order id wins; the same again is a duplicate, another one a conflict.

    orders of this batch ─┬─ claimed_hash known from earlier batches ──┐
                          └─ the first clean line of this batch ───────┴─▶ claim ─▶ verdict

A line with reasons is refused and claims nothing, so a corrected order may follow under the same id.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

CONFLICT = "conflicting_payload"


def judge(orders: DataFrame) -> DataFrame:
    """Add `verdict` (candidate | duplicate | refused); conflicts are refused with their reason.

    Expects `order_id`, `payload_hash`, `reasons`, `claimed_hash` (NULL where no earlier batch knows the id) and the
    landing order `landed_at, source_file, line`.
    """
    arrival = ("landed_at", "source_file", "line")
    clean = F.size("reasons") == 0
    of_order = Window.partitionBy("order_id").orderBy(*arrival)
    whole = of_order.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    first_clean = F.first(F.when(clean, F.col("payload_hash")), ignorenulls=True).over(whole)
    copies_before = F.sum(F.when(clean, 1).otherwise(0)).over(of_order.rowsBetween(Window.unboundedPreceding, -1))

    claim = F.coalesce("claimed_hash", "first_clean")
    known = F.col("claimed_hash").isNotNull() | (F.coalesce("copies_before", F.lit(0)) > 0)
    judged = orders.withColumns({"first_clean": first_clean, "copies_before": copies_before})
    conflict = clean & (F.col("payload_hash") != claim)
    return judged.withColumns(
        {
            "reasons": F.when(conflict, F.array(F.lit(CONFLICT))).otherwise(F.col("reasons")),
            "verdict": F.when(~clean | conflict, F.lit("refused"))
            .when(known, F.lit("duplicate"))
            .otherwise(F.lit("candidate")),
        }
    ).drop("first_clean", "copies_before", "claimed_hash")
