"""One event of a site, followed."""

from __future__ import annotations

from etl.adapters import ledger
from etl.pipeline.inspection.event_trace import EventTrace, Tracer
from etl.pipeline.prepare import Preparer
from tests.support.site import Site


def trace(site: Site, *key: str) -> EventTrace:
    declared = Preparer(site.settings, site.dsn).declared(site.pipeline)
    with ledger.reading(site.dsn, site.pipeline) as book:
        return Tracer(declared, site.places, book, site.dsn, key).trace(site.steps.clock())
