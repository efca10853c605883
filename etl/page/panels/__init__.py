"""The panels on the page of one correlation. A new kind of correlation or query adds a function here.

    CorrelationDetail ─▶ each of PANELS ─▶ Panel (tiles, tables, notes) or None ─▶ one template for all of them

A panel has plain values: the template escapes all text and shows invisible characters.
"""

from __future__ import annotations

from collections.abc import Callable

from etl.page.panels import documents, joins, sites
from etl.page.panels.panel import Panel
from etl.page.queries.correlations import CorrelationDetail

PANELS: tuple[Callable[[CorrelationDetail], Panel | None], ...] = (
    joins.declaration,
    joins.streams,
    joins.routing,
    joins.units,
    joins.scaling,
    documents.partitions,
    documents.windows,
    sites.declaration,
    sites.crossed,
)
"""In the order of the page."""


def panels(one: CorrelationDetail) -> list[Panel]:
    """The panels that a correlation has."""
    return [panel for make in PANELS if (panel := make(one)) is not None]
