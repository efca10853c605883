"""What tasks report to the driver about their joins: counters and key frequencies, in bounded size.

These figures are for learning and reports; the outcome of each event is in the rows themselves.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import pyarrow as pa

from etl.enrich.front_stage.frequencies import KeyFrequencies, total
from etl.enrich.step import Cost, Metrics
from etl.masters.front_stage.keeper import FrontStageStats
from etl.pipeline.tasks.wire import Message

_MANY_PARTS = 16


@dataclass(frozen=True, slots=True)
class MasterNotes:
    """Counters of one master's joins, and the frequencies of the keys they looked up."""

    metrics: Metrics = field(default_factory=Metrics)
    tactics: Mapping[str, int] = field(default_factory=dict)  # tuples joined, by tactic
    state_bytes: int = 0  # peak memory of the joins, summed over tasks
    seconds: float = 0.0  # in the joins, summed over tasks
    learned_parts: tuple[KeyFrequencies, ...] = ()  # one per task, summed lazily

    @property
    def learned(self) -> KeyFrequencies | None:
        """The key frequencies of all tasks."""
        return total(list(self.learned_parts)) if self.learned_parts else None

    def after(self, metrics: Metrics, tactic: str, seconds: float) -> MasterNotes:
        """These notes plus one more call of a join."""
        tactics = {**self.tactics, tactic: self.tactics.get(tactic, 0) + metrics.tuples}
        return replace(
            self,
            metrics=self.metrics + metrics,
            tactics=tactics,
            state_bytes=max(self.state_bytes, metrics.state_bytes),
            seconds=self.seconds + seconds,
        )

    def with_learned(self, learned: KeyFrequencies | None) -> MasterNotes:
        return replace(self, learned_parts=() if learned is None else (learned,))

    def __add__(self, other: MasterNotes) -> MasterNotes:
        """Fast, because Spark's scheduler waits for it: key frequencies are merged only once there are many parts."""
        names = self.tactics.keys() | other.tactics.keys()
        parts = (*self.learned_parts, *other.learned_parts)
        return MasterNotes(
            self.metrics + other.metrics,
            {name: self.tactics.get(name, 0) + other.tactics.get(name, 0) for name in names},
            self.state_bytes + other.state_bytes,
            self.seconds + other.seconds,
            parts if len(parts) < _MANY_PARTS else (total(list(parts)),),
        )

    def message(self, name: str) -> Message:
        """These notes as one message to the driver: keys as Arrow, counters beside them."""
        learned = self.learned
        counters = {
            "metrics": asdict(self.metrics),
            "tactics": dict(self.tactics),
            "state_bytes": self.state_bytes,
            "seconds": self.seconds,
            "tuples": None if learned is None else learned.tuples,
        }
        keys = pa.array([], pa.int64()) if learned is None else learned.keys
        counts = pa.array([], pa.int64()) if learned is None else pa.array(learned.counts)
        rows = pa.table({"key": keys, "count": counts}).replace_schema_metadata({"notes": json.dumps(counters)})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema) as writer:
            writer.write_table(rows)
        return Message("notes", sink.getvalue(), name)

    @classmethod
    def from_message(cls, message: Message) -> MasterNotes:
        """The inverse of `message`."""
        rows = pa.ipc.open_stream(pa.py_buffer(message.payload)).read_all()
        counters = json.loads(rows.schema.metadata[b"notes"])
        metrics = dict(counters["metrics"])
        notes = cls(
            Metrics(**{**metrics, "cost": Cost(**metrics["cost"])}),
            counters["tactics"],
            counters["state_bytes"],
            counters["seconds"],
        )
        if counters["tuples"] is None:
            return notes
        counts = rows["count"].to_numpy()
        return notes.with_learned(KeyFrequencies(rows["key"].combine_chunks(), counts, counters["tuples"]))

    def as_json(self, kept: FrontStageStats | None = None) -> dict[str, Any]:
        """The counters, for the ledger and the run report; `kept` are the front stage's statistics after the batch."""
        counted = self.metrics
        return {
            "tactics": dict(self.tactics),
            "tuples": counted.tuples,
            "front_hits": counted.front_hits,
            "misses_capacity": counted.misses_capacity,
            "misses_absent": counted.misses_absent,
            "misses_stale": counted.misses_stale,
            "pages": counted.cost.pages,
            "lookups": counted.cost.lookups,
            "shed": counted.shed,
            "state_bytes": self.state_bytes,
            "seconds": round(self.seconds, 6),
            "front_stage": None if kept is None else kept.as_json(),
        }


Notes = dict[str, MasterNotes]
"""By master."""
