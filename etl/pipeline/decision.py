"""Aggregate the results of all tasks into one decision: counts, files, claims."""

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
from etl.pipeline.tasks import wire
from etl.pipeline.tasks.join_notes import MasterNotes, Notes
from etl.pipeline.tasks.wire import Message


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
class Gathered:
    """The results of all tasks of one try."""

    slices: list[tuple[int, str, int]] = field(default_factory=list)  # ordinal, digest, lines
    changed: frozenset[int] = frozenset()
    unreadable: dict[int, str] = field(default_factory=dict)  # the reason, by slice; these have changed, too
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


def gather(messages: Iterable[Message]) -> Gathered:
    """Collect the messages of all tasks; raises the first error among them."""
    gathered = Gathered()
    for message in messages:
        if message.kind == "error":
            wire.raise_error(message)
        elif message.kind == "slice":
            seen = message.json()
            gathered.slices.append((seen["ordinal"], seen["digest"], seen["lines"]))
            gathered.seen += Observed.from_json(seen["seen"])
            if seen["changed"]:
                gathered.changed |= {seen["ordinal"]}
            if seen["reason"]:
                gathered.unreadable[seen["ordinal"]] = seen["reason"]
        elif message.kind == "result":
            _add_result(gathered, message.json())
        elif message.kind == "notes":
            notes = MasterNotes.from_message(message)
            gathered.notes[message.name] = (
                gathered.notes[message.name] + notes if message.name in gathered.notes else notes
            )
    return gathered


def _add_result(gathered: Gathered, result: Mapping[str, Any]) -> None:
    gathered.files += [DataFile(**one) for one in result["files"]]
    for table, names in result["mart"].items():
        gathered.mart.setdefault(table, []).extend(names)
    for table, name in result["replaced"].items():
        gathered.replaced.setdefault(table, []).append(name)
    gathered.corrected.update(result["corrected"])
    if result["claims"] is not None:
        gathered.claims.append(ClaimRun(**result["claims"]))
    gathered.counts.append(BatchCounts.from_json(result["counts"]))
    gathered.resolved.update(result["resolved"])
    gathered.deferred.update(result["deferred"])


def decide(gathered: Gathered, versions: Mapping[str, int]) -> Decision:
    """Build the decision: line counts come from the readers, everything else from the routers."""
    sums: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    joins: dict[str, JoinCounts] = {}
    for one in gathered.counts:
        sums.update({name: getattr(one, name) for name in _SUMMED})
        reasons.update(one.reasons)
        for name, fared in one.joins.items():
            joins[name] = joins.get(name, JoinCounts()) + fared
    counts = BatchCounts(
        lines=sum(lines for _, _, lines in gathered.slices),
        **sums,
        reasons=dict(sorted(reasons.items())),
        joins=joins,
        added_fields=dict(gathered.seen.added.most_common()),
    )
    return Decision(
        files=tuple(gathered.files),
        mart={table: tuple(names) for table, names in gathered.mart.items()},
        counts=counts,
        master_versions=dict(versions),
        claims=tuple(gathered.claims),
        slices=tuple(sorted(gathered.slices)),
        resolved=dict(gathered.resolved),
        deferred=dict(gathered.deferred),
        corrected=dict(gathered.corrected),
        replaced={table: tuple(names) for table, names in gathered.replaced.items()},
    )


def require_schema(gathered: Gathered, pipeline: Pipeline, batch: int) -> None:
    """Raise `SchemaDrift` for a batch whose events no longer match the declared schema."""
    lost = tuple(departed(gathered.seen, pipeline.stream.fields))
    if lost and pipeline.schema_drift == "stop":
        raise SchemaDrift(pipeline.name, batch, lost, tuple(gathered.seen.added))


_SUMMED = ("accepted", "quarantined", "duplicates", "backlog_added", "backlog_resolved", "shed", "unknown", "corrected")
