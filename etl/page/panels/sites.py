"""Panels of correlations over sites: what crossed between sites, and what other plans would have shipped."""

from __future__ import annotations

from etl.contract.sites import SiteCorrelation
from etl.page.panels.panel import Column, Panel, Table
from etl.page.queries.correlations import CorrelationDetail
from etl.report import figures
from etl.report.correlations.page import size

_LISTED = 20


def crossings(one: CorrelationDetail) -> Panel | None:
    """From where to where, in the newest finished batch."""
    declared = one.declared
    if not isinstance(declared, SiteCorrelation):
        return None
    target = "stay at the sites that make them" if declared.target is None else f"are gathered at {declared.target}"
    intro = f"Plan {declared.plan}; results {target}."
    if not one.shipped:
        return Panel("Between sites", f"{intro} No batch is finished yet.")
    last = one.shipped[-1]
    if not last.edges:
        return Panel("Between sites", f"{intro} Nothing crossed in batch {last.batch}.")
    columns = (Column("From"), Column("To"), Column("Shipped", True))
    rows = [[origin, destination, size(amount)] for origin, destination, amount in last.edges]
    return Panel("Between sites", intro, (Table(f"What crossed in batch {last.batch}", columns, rows),))


def shipments(one: CorrelationDetail) -> Panel | None:
    """Batch by batch, beside what other plans would have shipped by the rates that were measured."""
    if not one.shipped:
        return None
    columns = (
        Column("Batch"), Column("Shipped", True), Column("Tuples", True), Column("For a new plan", True),
        Column("Expected", True), Column("All to one site", True), Column("Best single plan", True),
        Column("Rows", True),
    )  # fmt: skip
    rows = [
        [
            str(batch.batch), size(batch.shipped_bytes), figures.number(batch.shipped_tuples),
            size(batch.replayed_bytes), _bytes(batch.expected_bytes), _bytes(batch.centralised_bytes),
            _bytes(batch.optimum_bytes), figures.NOTHING if batch.rows is None else figures.number(batch.rows),
        ]
        for batch in reversed(one.shipped[-_LISTED:])
    ]  # fmt: skip
    intro = "What other plans would have shipped follows from the measured rates."
    return Panel("Shipped, batch by batch", intro, (Table("Bytes that crossed", columns, rows),))


def _bytes(amount: int | None) -> str:
    return figures.NOTHING if amount is None else size(amount)
