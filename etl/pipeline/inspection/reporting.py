"""Build a run report from a batch's ledger record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, get_args

import pyarrow.dataset as ds
import pyarrow.parquet as pq

from etl.adapters.ledger import BatchRecord, Ledger
from etl.adapters.profiles import Profiles, findings
from etl.contract.model import Pipeline
from etl.model import Step
from etl.pipeline.inspection.comparison import sentence
from etl.pipeline.prepare import places_of
from etl.pipeline.review.masking import Masking
from etl.pipeline.tasks.plan import QUARANTINE
from etl.report import model
from etl.report.folder import Written, history, write
from etl.report.model import RunReport
from etl.settings import Settings

_DATA_DOCS = "../../../data_docs/index.html"
_SAMPLES = 20
_SHOWN = ["reasons", "raw", "source_file", "landed_at"]


def report(settings: Settings, book: Ledger, record: BatchRecord, pipeline: Pipeline) -> Written:
    """Write the report of one batch, in whatever state it is."""
    folder = settings.reports / record.pipeline
    earlier = history(folder)
    samples = _samples(Masking(pipeline, places_of(settings, pipeline)), record)
    page = compose(record, {**book.totals(), **_waiting(book)}, earlier, samples, settings.tactic)
    page = page.model_copy(update={"unusual": unusual(book, record, pipeline)})
    return write(page, folder, settings.reports_kept)


def unusual(book: Ledger, record: BatchRecord, pipeline: Pipeline) -> tuple[model.Unusual, ...]:
    """Figures that differ from the last batches, and who has acknowledged them."""
    found = findings(record.audit or {})
    seen = Profiles(book).acknowledged(record.batch) if found else {}
    return tuple(
        model.Unusual(
            check=one.check,
            sentence=sentence(one),
            holds=one.kind in pipeline.hold_on,
            acknowledged=f"seen by {seen[one.check].by}" if one.check in seen else None,
        )
        for one in found
    )


def _waiting(book: Ledger) -> dict[str, int]:
    """What open events of the backlog wait for: a master row, or a batch with more room."""
    waiting = {"unmatched_open": 0, "shed_open": 0}
    for file in book.backlog_files():
        waiting["shed_open" if file.cause == "time" else "unmatched_open"] += file.waiting
    return waiting


def compose(
    record: BatchRecord,
    totals: dict[str, int],
    earlier: Sequence[model.HistoryPoint],
    samples: Sequence[model.Sample],
    tactic: str,
) -> RunReport:
    """The content of the report."""
    counts = record.counts.as_json()
    return RunReport.model_validate(
        {
            "pipeline": record.pipeline,
            "batch": str(record.batch),
            "run_id": record.run_id,
            "started_at": record.started_at,
            "finished_at": record.loaded_at or datetime.now(UTC),
            "outcome": {"loaded": "loaded", "held": "held"}.get(record.state, "failed"),
            "message": _message(record),
            "seconds": {step: record.seconds[step] for step in get_args(Step) if step in record.seconds},
            "counts": {**counts, "landed": record.counts.lines},
            "totals": {**totals, "events_landed": totals["lines"]},
            "reasons": record.counts.reasons,
            "added_fields": record.counts.added_fields,
            "unreadable": (record.control or {}).get("unreadable", {}),
            "quarantine_samples": list(samples),
            "joins": [_join(record, name, join, tactic) for name, join in counts["joins"].items()],
            "freshness_s": record.freshness,
            "gate": None if record.audit is None else {**record.audit, "data_docs": _DATA_DOCS},
            "history": list(earlier),
        }
    )


def _join(record: BatchRecord, name: str, counts: dict[str, int], tactic: str) -> dict[str, Any]:
    """Counters of one master's join; for `auto`, also the tactics it chose."""
    chosen = sorted(record.joins.get(name, {}).get("tactics", {}))
    used = tactic if tactic in chosen or not chosen else f"{tactic}: {', '.join(chosen)}"
    return {"master": name, "tactic": used, "master_version": str(record.master_versions.get(name, "")), **counts}


def _message(record: BatchRecord) -> str:
    counts = record.counts
    if record.state == "loaded":
        waited = f", {counts.backlog_resolved} of them had waited" if counts.backlog_resolved else ""
        return f"{counts.lines} lines read; {counts.accepted} events went into the warehouse{waited}"
    if record.state == "held":
        return f"the audit holds this batch; `frontstage run {record.pipeline} --release {record.batch}` lets it pass"
    return f"this batch is {record.state}; the next run goes on with it"


def _samples(masking: Masking, record: BatchRecord) -> list[model.Sample]:
    """A few refused events as they came, sensitive values masked."""
    found: list[model.Sample] = []
    for row in islice(_refused(masking.places.tables / QUARANTINE, record), _SAMPLES):
        shown = masking.masked(row["raw"] or b"", row["source_file"], row["landed_at"])
        found.append(model.Sample(reason=", ".join(row["reasons"]), raw=shown, source_file=row["source_file"]))
    return found


def _refused(folder: Path, record: BatchRecord) -> Iterator[dict[str, Any]]:
    """The first refused rows of a batch: from its own files, or from those into which they were compacted since."""
    paths = [folder / file.path for file in record.decided.of_table(QUARANTINE)]
    if not all(path.exists() for path in paths):
        from deltalake import DeltaTable

        table = DeltaTable(str(folder)).to_pyarrow_dataset()
        yield from table.head(_SAMPLES, columns=_SHOWN, filter=ds.field("batch") == record.batch).to_pylist()
        return
    for path in paths:
        with pq.ParquetFile(path) as source:
            batch = next(source.iter_batches(_SAMPLES, columns=_SHOWN), None)
        yield from [] if batch is None else batch.to_pylist()
