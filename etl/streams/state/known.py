"""Correlations that have run, as the next batch finds them.

A batch that one of them would miss, because its file is broken, or that would find it changed in a way its state does
not survive, is refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from etl.streams.ledger import Known, KnownDocuments
from etl.streams.state.change import refuse_change, refuse_document_change, refuse_kind

if TYPE_CHECKING:
    from etl.streams.microbatch import MicroBatch


def known_correlations(run: MicroBatch) -> dict[str, Known]:
    """Correlations that have run; refuses a batch that one of them would miss."""
    known = run.ledger.known()
    _refuse_missing(run, known.keys())
    for one in run.catalog.correlations:
        if one.name in known:
            refuse_change(known[one.name].declared, one, run.query(one))
    for over in run.catalog.documents:
        if over.name in known:
            refuse_kind(over.name, "SQL", "documents")
    for at_sites in run.catalog.over_sites:
        if at_sites.name in known:
            refuse_kind(at_sites.name, "SQL", "sites")
    return known


def known_documents(run: MicroBatch) -> dict[str, KnownDocuments]:
    """The same of correlations of documents."""
    known = run.ledger.known_documents()
    _refuse_missing(run, known.keys())
    for one in run.catalog.documents:
        if one.name in known:
            refuse_document_change(known[one.name].declared, one, run.catalog.stream(one.stream))
    for other in run.catalog.correlations:
        if other.name in known:
            refuse_kind(other.name, "documents", "SQL")
    for at_sites in run.catalog.over_sites:
        if at_sites.name in known:
            refuse_kind(at_sites.name, "documents", "sites")
    return known


def _refuse_missing(run: MicroBatch, known: Iterable[str]) -> None:
    """A correlation that no file declares misses the batch for good; a broken file may be its."""
    missing = sorted(set(known) - run.catalog.names)
    if missing and run.catalog.broken:
        raise run.catalog.broken[0]
    for name in missing:
        run.progress(f"{name} is not declared any more: it misses this batch, so its state goes")
