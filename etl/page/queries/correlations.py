"""Status of correlations: rates, state, late tuples, scaling; from the figures in decisions.

A list needs two statements whatever the number of correlations; one correlation needs its figures of a few batches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from etl.adapters import postgres
from etl.contract.correlations.sites import SiteCorrelation
from etl.page.queries.reading import rows
from etl.page.queries.sites import Edge, OverSites, edges, shipped

SHOWN_BATCHES = 60
NAME = "correlations"
"""The name under which the ledger knows the batches of all correlations, and the name of their DAG."""


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of one correlation in one batch."""

    batch: int
    at: datetime
    seconds: float
    raw: Mapping[str, Any]

    @property
    def tuples(self) -> int:
        return sum(self.raw.get("selected", {}).values())

    @property
    def late(self) -> int:
        return sum(self.raw.get("late", {}).values())

    @property
    def pairs(self) -> int:
        return int(self.raw.get("pairs", 0))

    @property
    def rows(self) -> int:
        return int(self.raw.get("rows", 0))

    @property
    def state_bytes(self) -> int:
        return int(self.raw.get("state", {}).get("bytes", 0))

    @property
    def scaled(self) -> int:
        return len(self.raw.get("scaling", ()))

    @property
    def tuples_per_s(self) -> float | None:
        return self.tuples / self.seconds if self.seconds else None


@dataclass(frozen=True, slots=True)
class CorrelationNow:
    """One correlation in a list."""

    name: str
    kind: str
    since: int | None = None
    tuples: int = 0
    bytes: int = 0
    units: int = 0
    last: Figures | None = None


@dataclass(frozen=True, slots=True)
class CorrelationDetail:
    """One correlation: its declaration, and its figures of the newest batches, oldest first."""

    name: str
    kind: str
    declared: Any
    since: int | None = None
    batches: Sequence[Figures] = field(default_factory=tuple)
    sites: OverSites | None = None  # of a correlation over sites, which has no other figures
    edges: Sequence[Edge] = field(default_factory=tuple)

    @property
    def last(self) -> Figures | None:
        return self.batches[-1] if self.batches else None


def current(connection: postgres.Connection, kinds: Mapping[str, str]) -> list[CorrelationNow]:
    """The status of every declared correlation; `kinds` has the kind of each."""
    known = {row["name"]: row for row in rows(connection, "page_correlations")}
    newest = rows(connection, "page_figures")
    figures = {} if not newest else newest[0]["correlations"] or {}
    found = []
    for name in sorted(kinds):
        row = known.get(name)
        if row is None:
            found.append(CorrelationNow(name, kinds[name]))
            continue
        last = _figures(newest[0], figures[name]) if name in figures else None
        held = {what: int(row[what]) for what in ("tuples", "bytes")}
        units = len(last.raw.get("units", ())) if last else int(row["units"])
        found.append(CorrelationNow(name, kinds[name], int(row["since"]), **held, units=units, last=last))
    return found


def streams(connection: postgres.Connection) -> Mapping[str, Mapping[str, Any]]:
    """Lines read by the newest batch, by stream."""
    newest = rows(connection, "page_figures")
    return (newest[0]["streams"] or {}) if newest else {}


def detail(connection: postgres.Connection, name: str, kind: str, declared: Any) -> CorrelationDetail:
    """One correlation with its newest batches."""
    if isinstance(declared, SiteCorrelation):
        found = shipped(connection, name, SHOWN_BATCHES)
        return CorrelationDetail(name, kind, declared, found.since, sites=found, edges=edges(connection, name))
    since = next((int(row["since"]) for row in rows(connection, "page_correlations") if row["name"] == name), None)
    read = rows(connection, "page_correlation", name=name, limit=SHOWN_BATCHES)
    return CorrelationDetail(name, kind, declared, since, tuple(_figures(row, row["figures"]) for row in read))


def _figures(row: Mapping[str, Any], raw: Mapping[str, Any]) -> Figures:
    seconds = float((row["seconds"] or {}).get("correlate", 0.0))
    return Figures(int(row["batch"]), row["loaded_at"] or row["decided_at"], seconds, raw)
