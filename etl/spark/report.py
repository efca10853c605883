"""A run report from what the ledger knows about a batch."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, get_args

from etl.adapters.ledger import BatchRecord
from etl.model import Step
from etl.report import model
from etl.report.model import RunReport

_DATA_DOCS = "../../data_docs/index.html"


def compose(
    record: BatchRecord,
    totals: dict[str, int],
    history: Sequence[model.HistoryPoint],
    samples: Sequence[model.Sample],
    tactic: str,
) -> RunReport:
    """The report of one batch, in whatever state it is."""
    outcome = {"loaded": "loaded", "held": "held"}.get(record.state, "failed")
    counts = record.counts.as_json()
    return RunReport.model_validate(
        {
            "batch": str(record.batch),
            "run_id": record.run_id,
            "started_at": record.started_at,
            "finished_at": record.loaded_at or datetime.now(UTC),
            "outcome": outcome,
            "message": _message(record),
            "seconds": {step: record.seconds[step] for step in get_args(Step) if step in record.seconds},
            "counts": counts,
            "totals": totals,
            "reasons": record.counts.reasons,
            "quarantine_samples": list(samples),
            "joins": [
                {
                    "master": name,
                    "tactic": _used(tactic, record.engine.get(name, {})),
                    "master_version": str(record.master_versions[name]),
                    **join,
                }
                for name, join in counts["joins"].items()
            ],
            "freshness_s": record.freshness,
            "gate": None if record.gate is None else {**record.gate, "data_docs": _DATA_DOCS},
            "history": list(history),
        }
    )


def _used(tactic: str, engine: dict[str, Any]) -> str:
    """The join that was asked for and, where it chose for itself, what it chose."""
    chosen = sorted(engine.get("tactics", {}))
    return tactic if tactic in chosen or not chosen else f"{tactic}: {', '.join(chosen)}"


def _message(record: BatchRecord) -> str:
    counts = record.counts
    if record.state == "loaded":
        waited = f", {counts.backlog_resolved} of them had waited" if counts.backlog_resolved else ""
        return f"{counts.landed} orders landed; {counts.accepted} went into the warehouse{waited}"
    if record.state == "held":
        return f"the gate holds this batch; `frontstage run --release {record.batch}` lets it pass"
    return f"this batch is {record.state}; the next run goes on with it"
