"""Maintenance of sites: segments in use, files of removed correlations, old figures."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from etl.streams.sites.query import site_query

if TYPE_CHECKING:
    from etl.streams.sites.work import SiteWork


def needed_segments(work: SiteWork) -> set[int]:
    """Segments that a correlation over sites reads, or may replay through a new plan."""
    needed, known = set[int](), work.ledger.known()
    for declared in work.catalog.over_sites:
        if declared.name not in known:
            continue
        query = site_query(declared, work.catalog.streams, work.catalog.sites.found)
        streams = sorted({source.stream for source in query.sql.sources.values()})
        one = known[declared.name]
        found = work.ledger.segments(streams, one.since + one.live)
        needed |= {segment.number for many in found.values() for segment in many}
    return needed


def remove_gone(work: SiteWork, *, dry_run: bool) -> list[str]:
    """Remove files of correlations that were reset or are no longer declared, except at unreachable sites."""
    work.forget_undeclared()
    gone = work.ledger.gone()
    for token in () if dry_run else gone:
        for folder in work.folders.values():
            if folder.is_there():
                folder.remove(token)
        if not work.away():
            work.ledger.forget_gone(token)
    return gone


def forget_history(work: SiteWork, before: datetime, *, dry_run: bool) -> int:
    return 0 if dry_run else work.ledger.forget_history(before)
