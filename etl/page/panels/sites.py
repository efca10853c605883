"""Panels of correlations over sites: declaration, shipments, cost of other plans."""

from __future__ import annotations

from etl.contract.correlations.sites import SiteCorrelation
from etl.page.panels.panel import Column, Panel, Table
from etl.page.queries.correlations import CorrelationDetail
from etl.report import figures
from etl.report.correlations.page import size


def declaration(one: CorrelationDetail) -> Panel | None:
    """The SQL, the planning options and the target of results."""
    declared = one.declared
    if not isinstance(declared, SiteCorrelation):
        return None
    parts = f", {declared.partitions} partitions by {declared.partition_by}" if declared.plan == "pmjoin" else ""
    target = "stay where they are made" if declared.target is None else f"are gathered at {declared.target}"
    return Panel("Query", f"Planned by {declared.plan}{parts}; results {target}.", code=declared.sql.strip())


def crossed(one: CorrelationDetail) -> Panel | None:
    """Shipments of the newest finished batch by edge, and those of other plans."""
    last = one.sites.last if one.sites is not None else None
    if last is None:
        return None
    tuples = f"{size(last.shipped_bytes)} with {figures.number(last.shipped_tuples)} tuples crossed"
    notes = ["Its results are not in the table yet: a site has to do its part."] if last.figures is None else []
    if last.replayed_bytes:
        notes.append(f"{size(last.replayed_bytes)} more filled the windows of a new plan.")
    edges = Table(
        f"Shipments of batch {last.batch}",
        (Column("Streams"), Column("From"), Column("To"), Column("Tuples", True), Column("Bytes", True)),
        [
            [
                edge.streams + (" (replayed)" if edge.replayed else ""), edge.origin, edge.destination,
                figures.number(edge.tuples), size(edge.bytes),
            ]
            for edge in one.edges
        ],
    )  # fmt: skip
    plans = Table(
        f"What plans ship in batch {last.batch}",
        (Column("By the measured rates"), Column("Bytes", True)),
        [[plan, size(amount)] for plan, amount in last.plans.items()],
    )
    tables = tuple(table for table in (plans, edges) if table.rows)
    return Panel("Shipped between sites", f"In batch {last.batch}: {tuples}.", tables, tuple(notes))
