"""One try at a batch of correlations, with all of its lines or some, for the search for poison lines.

A try has its own plan, so segments and files of two tries never share a name; planning is part of the try because it
reads samples of the input.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from etl.adapters.landing import Slice, format_of
from etl.adapters.losses import Part
from etl.contract.model import Format
from etl.pipeline.tasks.line_choice import LineChoice
from etl.streams import decision as decisions
from etl.streams import publishing
from etl.streams.adhoc.planning import Planned
from etl.streams.decision import Gathered
from etl.streams.documents.second_round import second_round
from etl.streams.ledger import NAME, BatchRecord, KnownCorrelation, KnownDocuments
from etl.streams.planning import plan_batch
from etl.streams.tasks.plan import BatchPlan

if TYPE_CHECKING:
    from etl.streams.microbatch import MicroBatch


@dataclass(frozen=True, slots=True)
class Tried:
    """A plan and the results of its tasks."""

    plan: BatchPlan
    gathered: Gathered
    asked: Planned

    @property
    def changed(self) -> Collection[int]:
        return self.gathered.changed


@dataclass(frozen=True, slots=True)
class BatchTrial:
    """A batch of correlations as an `etl.pipeline.poison.trial.Trial`."""

    of: MicroBatch
    began: BatchRecord
    by_stream: Mapping[str, list[Slice]]
    known: Mapping[str, KnownCorrelation]
    documents: Mapping[str, KnownDocuments]

    @property
    def name(self) -> str:
        return NAME

    @property
    def batch(self) -> int:
        return self.began.batch

    @property
    def slices(self) -> Sequence[Slice]:
        return [one for many in self.by_stream.values() for one in many]

    def source(self, one: Slice) -> tuple[Path, Format]:
        stream = next(name for name, many in self.by_stream.items() if one in many)
        source = self.of.catalog.stream(stream).stream.source
        return source.landing, format_of(one.file.name, source.format)

    def backlog(self) -> Sequence[Part]:
        return ()  # tuples that wait for partners are no input: they were read before

    def settled(self) -> Mapping[int | str, frozenset[int]]:
        return {}

    def run(self, lines: LineChoice, only: Collection[int | str] | None) -> Tried:
        slices = {
            stream: [one for one in many if only is None or one.ordinal in only]
            for stream, many in self.by_stream.items()
        }
        plan = plan_batch(self.of, self.began, slices, self.known, self.documents, lines)
        asked = self.of.queries(plan)
        plan = replace(plan, queries=asked.in_batch(self.of.event_clock, self.of.query_rows_most))
        publishing.prepare(self.of, plan)
        gathered = decisions.gather(plan, self.of.executor.run(plan))
        more = None if gathered.changed else second_round(plan, gathered.documents)
        if more is not None:
            gathered = decisions.gather(more, self.of.executor.run(more), gathered)
        return Tried(plan, gathered, asked)
