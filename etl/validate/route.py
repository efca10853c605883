"""The decision: where every line of a batch goes. Pure column logic, used once per batch.

refused ─────────────────────────────▶ quarantined
duplicate ───────────────────────────▶ duplicate
candidate ─┬─ every master row found ─▶ accepted
           ├─ was shed ───────────────▶ backlog      (waits for a batch with more room)
           ├─ one is missing ─────────▶ backlog      (waits for the master row)
           └─ … for longer than grace ▶ quarantined  (reason unknown_<master>)
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

SHED = "shed"
"""The flag of orders a join deferred under overload, and their reason in the backlog."""


def decide(enriched: DataFrame, masters: Sequence[str], decided_at: datetime, grace: timedelta) -> DataFrame:
    """Add `route` and complete `reasons`; orders that still wait yield no second row."""
    candidate = F.col("verdict") == "candidate"
    shed = candidate & F.col(SHED)
    unknown = F.array_compact(
        F.array(
            F.when(shed, F.lit(SHED)),
            *[F.when(candidate & ~shed & F.col(name).isNull(), F.lit(f"unknown_{name}")) for name in masters],
        )
    )
    routed = enriched.withColumn("unknown", unknown).withColumns(
        {
            "route": _route(F.lit(decided_at - grace)),
            "reasons": F.when(candidate, F.col("unknown")).otherwise(F.col("reasons")),
            "decided_at": F.lit(decided_at),
        }
    )
    return routed.where(~(F.col("from_backlog") & (F.col("route") == "backlog"))).drop(
        "unknown", "verdict", "waiting_since", SHED
    )


def _route(patience_ends: Column) -> Column:
    return (
        F.when(F.col("verdict") == "refused", "quarantined")
        .when(F.col("verdict") == "duplicate", "duplicate")
        .when(F.size("unknown") == 0, "accepted")
        .when((F.col("waiting_since") < patience_ends) & ~F.col(SHED), "quarantined")
        .otherwise("backlog")
    )
