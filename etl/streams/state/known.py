"""Correlations that have run, checked before the next batch.

A batch is refused if one of them would miss it because its file is broken, or if its declaration has changed in a way
that its state does not allow.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from etl.streams.ledger import KnownCorrelation, KnownDocuments
from etl.streams.state.change import refuse_change, refuse_document_change, refuse_kind

if TYPE_CHECKING:
    from etl.streams.microbatch import MicroBatch


def known_correlations(run: MicroBatch) -> dict[str, KnownCorrelation]:
    """Correlations that have run; raises if one of them would miss the batch."""
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
    """The same for correlations of documents."""
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
    """An undeclared correlation would miss the batch for good; so raise if it may be in one of the broken files."""
    missing = sorted(set(known) - run.catalog.names)
    if missing and run.catalog.broken:
        raise run.catalog.broken[0]
    for name in missing:
        run.progress(f"{name} is not declared any more: it misses this batch, so its state goes")
