"""What crossed between sites, and what it would have cost otherwise: a question to Postgres, for pages and reports."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from etl.adapters import postgres
from etl.streams.sites.ledger import SiteLedger


@dataclass(frozen=True, slots=True)
class ShippedBatch:
    """One finished batch of a correlation. Bytes that other plans would have shipped are by the measured rates."""

    correlation: str
    batch: int  # of the ledger, as everywhere
    finished_at: datetime
    shipped_bytes: int
    shipped_tuples: int
    replayed_bytes: int  # to fill the windows of a new plan before it
    expected_bytes: int | None  # None: its results are not gathered yet
    centralised_bytes: int | None
    optimum_bytes: int | None  # of the best plan without partitions
    rows: int | None
    edges: tuple[tuple[str, str, int], ...]  # origin, destination, bytes


def shipped(connection: postgres.Connection, batches: int = 50) -> dict[str, list[ShippedBatch]]:
    """By correlation over sites, its newest finished batches, oldest first."""
    ledger = SiteLedger(connection)
    return {name: _batches(ledger, name, batches) for name in sorted(ledger.known())}


def _batches(ledger: SiteLedger, name: str, limit: int) -> list[ShippedBatch]:
    rows = ledger.batches(name, limit)
    crossed = ledger.shipments(name, rows[0]["number"]) if rows else []
    found = []
    for row in rows:
        mine = [one for one in crossed if one["number"] == row["number"]]
        once = [one for one in mine if not one["replayed"]]
        edges: dict[tuple[str, str], int] = {}
        for one in once:
            edge = one["origin"], one["destination"]
            edges[edge] = edges.get(edge, 0) + one["bytes"]
        figures = row["figures"] or {}
        cost = figures.get("bytes", {})
        found.append(
            ShippedBatch(
                correlation=name,
                batch=row["batch"],
                finished_at=row["finished_at"],
                shipped_bytes=sum(one["bytes"] for one in once),
                shipped_tuples=sum(one["tuples"] for one in once),
                replayed_bytes=sum(one["bytes"] for one in mine if one["replayed"]),
                expected_bytes=cost.get("expected"),
                centralised_bytes=cost.get("centralised"),
                optimum_bytes=cost.get("optimum without partitions"),
                rows=figures.get("rows"),
                edges=tuple((*edge, amount) for edge, amount in sorted(edges.items())),
            )
        )
    return found
