"""Planned by the driver before a batch: the partitions in force, and whether creators look for new ones.

no documents yet               partitions from a sample of landed documents
more partitions are declared   the same, beside those in force
enough documents were seen     the same: what all of them have with one value is left out, if that is wanted (ADR 94)
a window went badly            creators: every dispatcher reports its association groups; the routing is chosen here,
                               by a sample, and the new partitions are in force from the next batch on
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from etl.adapters.landing import Slice
from etl.adapters.slice_reader import SliceReader
from etl.contract.correlations.correlation import LoggedStream
from etl.contract.correlations.documents import DocumentCorrelation
from etl.correlate.documents import profile
from etl.correlate.documents.model import Documents, concat
from etl.correlate.documents.partitioning.fitting import Fitted, fitting
from etl.correlate.documents.partitioning.partitions import Partitions, words
from etl.correlate.documents.partitioning.planner import choose_routing, make_partitions
from etl.correlate.documents.partitioning.routing import Routing
from etl.pipeline.tasks.line_choice import ALL_LINES, LineChoice
from etl.streams.documents.files import write_partitions
from etl.streams.documents.read import DocumentReader
from etl.streams.documents.state import (
    FEWEST,
    MOST_PARTITIONS,
    NEAR_BUDGET,
    PARTITIONS,
    DocumentPlan,
    DocumentState,
    Promise,
)
from etl.streams.storage.files import FileStore

_SAMPLE_BYTES = 2 << 20
_SHOWN = 20  # most attributes reported


@dataclass(frozen=True, slots=True)
class Planner:
    """Makes the plans of correlations over streams of documents."""

    store: FileStore
    batch: int
    lines: LineChoice = ALL_LINES

    def plan(
        self,
        declared: DocumentCorrelation,
        known: DocumentState | None,
        stream: LoggedStream,
        slices: Sequence[Slice],
    ) -> DocumentPlan:
        """The plan of one correlation for tasks."""
        begins = known is None or not known.documents  # it has not run, or there are no documents yet
        state = DocumentState(self.batch if known is None else known.since) if known is None or begins else known
        undecided = declared.constants == "leave_out" and not state.left_out_decided
        begins = begins or declared.partitions > state.joiners
        if not (begins or undecided or (state.wanted is not None and slices)):
            return DocumentPlan(declared, state)
        sample = sample_of(stream, slices, self.lines)
        if undecided:
            state = _with_left_out(state, sample)
            begins = begins or bool(state.left_out)  # the partitions in force may route by what is left out
        sample = profile.without(sample, state.left_out)
        if begins:
            return DocumentPlan(declared, self._begun(declared, state, sample, slices))
        if state.wanted is not None and slices:
            routing = choose_routing(sample, state.wanted) if len(sample) else Routing()
            return DocumentPlan(declared, _described(state, sample), routing)
        return DocumentPlan(declared, state)

    def _begun(
        self, declared: DocumentCorrelation, state: DocumentState, sample: Documents, slices: Sequence[Slice]
    ) -> DocumentState:
        """A state with partitions for a sample; earlier ones stay in force for stored documents."""
        partitions, promise = empty(declared.partitions), None
        if len(sample):
            fitted = _fitted(declared, sample, slices)
            partitions, quality = fitted.partitions, fitted.quality
            promise = Promise(quality.documents, tuple(quality.loads.tolist()))
        version = state.versions[-1].period + 1 if state.versions else 0
        name = f"state/{declared.name}/{self.batch:09d}-partitions-{secrets.token_hex(8)}.arrow"
        run = write_partitions(self.store, name, version, partitions)
        earlier = [one for one in state.runs if state.stored or one.step != PARTITIONS]
        joiners = max(state.joiners if state.stored else 0, partitions.count)
        begun = replace(
            state, joiners=joiners, promise=promise, routing=partitions.routing, wanted=None, runs=(*earlier, run)
        )
        return _described(begun, sample)


def _fitted(declared: DocumentCorrelation, sample: Documents, slices: Sequence[Slice]) -> Fitted:
    """Partitions by which the batch that the sample begins fits its joiners, if any do."""

    def make(count: int) -> Partitions:
        return make_partitions(sample, choose_routing(sample, count), count)

    landed = sum(one.last - one.first for one in slices)
    times = max(1.0, landed / _SAMPLE_BYTES)
    budget = int(NEAR_BUDGET * declared.budget_bytes)  # with more the next batch would ask for more partitions
    return fitting(sample, make, declared.partitions, MOST_PARTITIONS, budget, times)


def empty(count: int) -> Partitions:
    """Partitions without values: every document is broadcast."""
    no_hashes, no_masks = np.zeros(0, np.uint64), np.zeros((0, words(count)), np.uint64)
    return Partitions(Routing(), count, no_hashes, no_masks, np.zeros(count, np.int64))


def _described(state: DocumentState, sample: Documents) -> DocumentState:
    """The state with a description of the sample, for people."""
    if not len(sample):
        return state
    shown = [(one.path, round(one.presence, 4), one.values) for one in profile.attributes(sample)[:_SHOWN]]
    return replace(state, attributes=tuple(shown))


def _with_left_out(state: DocumentState, sample: Documents) -> DocumentState:
    """What all documents so far, and this sample, have with one value is left out; undecided while they are few."""
    seen = state.common.plus(profile.CommonCounts.of(sample))
    if seen.documents < FEWEST:
        return state
    left_out = tuple(sorted({pair.path for pair in seen.constants()}))
    return replace(state, left_out=left_out, left_out_decided=True, common=profile.CommonCounts())


def sample_of(stream: LoggedStream, slices: Sequence[Slice], lines: LineChoice = ALL_LINES) -> Documents:
    """A sample: documents from the beginning of the landed input."""
    assert stream.flattening is not None, "only streams of documents are sampled for documents"
    read = DocumentReader.of(stream.stream, stream.flattening, lines)
    found = [read.encoder.encode([], np.zeros(0, np.int64)).documents]
    left = _SAMPLE_BYTES
    for one in slices:
        part = Slice(one.ordinal, one.file, one.first, min(one.last, one.first + left))
        found += [block.documents for block in read.read(part, SliceReader(stream.stream.source.landing, part))]
        left -= part.last - part.first
        if left <= 0:
            break
    whole = concat(found)
    return replace(whole, ids=np.arange(len(whole), dtype=np.int64))
