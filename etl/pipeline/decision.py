"""From what the tasks tell to one decision: sums, files, claims."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from etl.adapters.claims import ClaimRun
from etl.adapters.ledger import DataFile, Decision
from etl.contract.model import Pipeline
from etl.errors import TerminalError
from etl.ingest.drift import Observed, departed
from etl.model import BatchCounts, JoinCounts
from etl.pipeline import wire
from etl.pipeline.join_notes import MasterNotes, Notes
from etl.pipeline.wire import Message


class SchemaDrift(TerminalError):
    """Nearly all lines of a batch lack a field, or have it in another type: their schema has changed."""

    def __init__(self, pipeline: str, batch: int, lost: tuple[str, ...], added: tuple[str, ...]) -> None:
        super().__init__(pipeline, batch, lost, added)
        self.pipeline, self.batch, self.lost, self.added = pipeline, batch, lost, added

    def __str__(self) -> str:
        new = f" (not declared: {', '.join(map(ascii, self.added[:5]))})" if self.added else ""
        return (
            f"events of {self.pipeline} have changed, so batch {self.batch} is not decided: "
            f"{'; '.join(self.lost)}{new}; declare what they are now in {self.pipeline}.toml, "
            'take the files away, or let these lines be refused with schema_drift = "quarantine"'
        )


@dataclass(slots=True)
class Told:
    """All that the tasks of one try told."""

    slices: list[tuple[int, str, int]] = field(default_factory=list)  # ordinal, digest, lines
    changed: frozenset[int] = frozenset()
    files: list[DataFile] = field(default_factory=list)
    mart: dict[str, list[str]] = field(default_factory=dict)
    claims: list[ClaimRun] = field(default_factory=list)
    counts: list[BatchCounts] = field(default_factory=list)
    resolved: Counter[str] = field(default_factory=Counter)
    deferred: Counter[str] = field(default_factory=Counter)
    corrected: Counter[str] = field(default_factory=Counter)
    replaced: dict[str, list[str]] = field(default_factory=dict)
    notes: Notes = field(default_factory=dict)
    seen: Observed = field(default_factory=Observed)


def gather(messages: Iterable[Message]) -> Told:
    """Put together what tasks told; raises the first error that one of them met."""
    told = Told()
    for message in messages:
        if message.kind == "error":
            wire.raise_error(message)
        elif message.kind == "slice":
            seen = message.json()
            told.slices.append((seen["ordinal"], seen["digest"], seen["lines"]))
            told.seen += Observed.from_json(seen["seen"])
            if seen["changed"]:
                told.changed |= {seen["ordinal"]}
        elif message.kind == "result":
            _add_result(told, message.json())
        elif message.kind == "notes":
            notes = MasterNotes.from_message(message)
            told.notes[message.name] = told.notes[message.name] + notes if message.name in told.notes else notes
    return told


def _add_result(told: Told, result: Mapping[str, Any]) -> None:
    told.files += [DataFile(**one) for one in result["files"]]
    for table, names in result["mart"].items():
        told.mart.setdefault(table, []).extend(names)
    for table, name in result["replaced"].items():
        told.replaced.setdefault(table, []).append(name)
    told.corrected.update(result["corrected"])
    if result["claims"] is not None:
        told.claims.append(ClaimRun(**result["claims"]))
    told.counts.append(BatchCounts.from_json(result["counts"]))
    told.resolved.update(result["resolved"])
    told.deferred.update(result["deferred"])


def decide(told: Told, versions: Mapping[str, int]) -> Decision:
    """The decision: lines as the readers counted them, the rest as the routers wrote it."""
    sums: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    joins: dict[str, JoinCounts] = {}
    for one in told.counts:
        sums.update({name: getattr(one, name) for name in _SUMMED})
        reasons.update(one.reasons)
        for name, fared in one.joins.items():
            joins[name] = joins.get(name, JoinCounts()) + fared
    counts = BatchCounts(
        lines=sum(lines for _, _, lines in told.slices),
        **sums,
        reasons=dict(sorted(reasons.items())),
        joins=joins,
        added_fields=dict(told.seen.added.most_common()),
    )
    return Decision(
        files=tuple(told.files),
        mart={table: tuple(names) for table, names in told.mart.items()},
        counts=counts,
        master_versions=dict(versions),
        claims=tuple(told.claims),
        slices=tuple(sorted(told.slices)),
        resolved=dict(told.resolved),
        deferred=dict(told.deferred),
        corrected=dict(told.corrected),
        replaced={table: tuple(names) for table, names in told.replaced.items()},
    )


def require_schema(told: Told, pipeline: Pipeline, batch: int) -> None:
    """Refuse to decide a batch whose events are no longer what is declared."""
    lost = tuple(departed(told.seen, pipeline.stream.fields))
    if lost and pipeline.schema_drift == "stop":
        raise SchemaDrift(pipeline.name, batch, lost, tuple(told.seen.added))


_SUMMED = ("accepted", "quarantined", "duplicates", "backlog_added", "backlog_resolved", "shed", "unknown", "corrected")
