"""Status of correlations over sites: bytes shipped by the newest finished batches, and estimates for other plans.

A list needs one statement whatever the number of correlations. Estimates for other plans use the rates that were
measured when the batch was gathered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from etl.adapters import postgres
from etl.page.queries.reading import rows


@dataclass(frozen=True, slots=True)
class ShippedBatch:
    """One finished batch of a correlation. `figures` are None while its results are not gathered."""

    batch: int
    at: datetime
    shipped_bytes: int
    shipped_tuples: int
    replayed_bytes: int  # to fill the windows of a new plan before it
    figures: Mapping[str, Any] | None

    @property
    def rows(self) -> int | None:
        return None if self.figures is None else int(self.figures.get("rows", 0))

    @property
    def late(self) -> int | None:
        return None if self.figures is None else int(self.figures.get("late", 0))

    @property
    def plans(self) -> Mapping[str, int]:
        """Bytes of this batch by plan: `expected` of its own, and of others."""
        return {} if self.figures is None else self.figures.get("bytes", {})


@dataclass(frozen=True, slots=True)
class Edge:
    """Shipments from one site to another."""

    streams: str
    origin: str
    destination: str
    tuples: int
    bytes: int
    replayed: bool


@dataclass(frozen=True, slots=True)
class OverSites:
    """One correlation over sites; its batches are the newest, oldest first."""

    name: str
    since: int | None = None
    batches: Sequence[ShippedBatch] = field(default_factory=tuple)

    @property
    def last(self) -> ShippedBatch | None:
        return self.batches[-1] if self.batches else None


def over_sites(connection: postgres.Connection, names: Sequence[str]) -> list[OverSites]:
    """Declared correlations over sites with their newest finished batch."""
    begun = _read(connection, None, 1) if names else {}
    return [begun.get(name, OverSites(name)) for name in sorted(names)]


def shipped(connection: postgres.Connection, name: str, limit: int) -> OverSites:
    """One correlation with its `limit` newest finished batches."""
    return _read(connection, name, limit).get(name, OverSites(name))


def edges(connection: postgres.Connection, name: str) -> list[Edge]:
    """Shipments of the newest finished batch, largest first."""
    return [Edge(**row) for row in rows(connection, "page_site_edges", name=name)]


def _read(connection: postgres.Connection, name: str | None, limit: int) -> dict[str, OverSites]:
    found: dict[str, list[ShippedBatch]] = {}
    since = {}
    for row in rows(connection, "page_sites", name=name, limit=limit):
        since[row["name"]] = int(row["since"])
        mine = found.setdefault(row["name"], [])
        if row["batch"] is not None:
            crossed = {what: int(row[what]) for what in ("shipped_bytes", "shipped_tuples", "replayed_bytes")}
            mine.append(ShippedBatch(int(row["batch"]), row["finished_at"], figures=row["figures"], **crossed))
    return {one: OverSites(one, since[one], tuple(batches)) for one, batches in found.items()}
