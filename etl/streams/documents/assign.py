"""The assigner, in the dispatchers: routes every document to its joiners. Creators run here too, when requested.

    documents ─┬─ slot closed ──▶ late table
               └─ partitions of its window ──▶ masks ──▶ one file of all slots ──▶ its name to every task
                        └─ values without a partition, and association groups ──▶ the driver

Partitions are those of the start of the batch, the same in every dispatcher and every try. A document goes by the
newest ones, and by older ones if its window has documents that went by those.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import asdict, replace

import numpy as np
import pyarrow as pa

from etl.adapters.delta.data_files import write_part
from etl.contract.correlations.documents import DOCUMENT
from etl.contract.words.types import TIMESTAMP
from etl.correlate.documents import profile
from etl.correlate.documents.dictionary import I64, U64
from etl.correlate.documents.model import Documents
from etl.correlate.documents.partitioning.assigner import assign
from etl.correlate.documents.partitioning.association import association_groups
from etl.correlate.documents.partitioning.meetings import encounters
from etl.correlate.documents.partitioning.partitions import bit_counts, words
from etl.correlate.documents.partitioning.routing import route
from etl.correlate.prepare import event_times
from etl.pipeline.tasks.wire import Message, json_message
from etl.streams.documents.files import Assigned, open_partitions, write_documents
from etl.streams.documents.state import DocumentPlan, WindowFigures, common_json, watermark
from etl.streams.documents.values import encounters_message, groups_message, unseen_message
from etl.streams.tasks import wire
from etl.streams.tasks.plan import LATE, LATE_SCHEMA, BatchPlan, StreamPlan


def assign_all(
    plan: BatchPlan, stream: StreamPlan, reader: int, rows: pa.RecordBatch, documents: Documents
) -> Iterator[Message]:
    """Assign the documents of one dispatcher, for every correlation over their stream."""
    times = event_times(rows.column(stream.declared.event_time))
    for index, one in enumerate(plan.documents):
        if one.declared.stream == stream.name:
            yield from _Assigner(plan, index, one, reader).assign(rows, documents, times)


def assigned_before(plan: BatchPlan, reader: int) -> Iterator[Message]:
    """In the second round: the batch's documents once more, for the joiners that have more pairs to make."""
    for index, one in enumerate(plan.documents if reader == 0 else ()):
        if one.more is not None:
            addressed = {"correlation": index, "runs": [asdict(run) for run in one.more.runs]}
            for task in sorted({joiner_task(plan, index, joiner) for joiner in one.more.joiners}):
                yield replace(json_message("documents", addressed), part=task)


class _Assigner:
    """One correlation in one dispatcher."""

    def __init__(self, plan: BatchPlan, index: int, one: DocumentPlan, reader: int) -> None:
        self._plan, self._index, self._one, self._reader = plan, index, one, reader
        self._in_force = {run.period: open_partitions(plan.places.store, run) for run in one.state.versions}
        self._newest = one.state.versions[-1].period

    def assign(self, rows: pa.RecordBatch, documents: Documents, times: I64) -> Iterator[Message]:
        numbers = self._one.state.documents + np.arange(len(documents), dtype=np.int64)
        slots = self._one.window.slot(numbers if self._one.counted else times)
        first = self._one.first_slot
        late = np.zeros(len(slots), np.bool_) if first is None else slots < first
        yield wire.result("assigned", self._counts(len(slots), int(late.sum())))
        if late.any():
            yield self._late(rows, np.flatnonzero(late))
        on_time = np.flatnonzero(~late)
        if len(on_time):
            joining = profile.without(documents, self._one.state.left_out)
            yield from self._sent(joining.take(on_time), times[on_time], slots[on_time])

    def _counts(self, documents: int, late: int) -> dict[str, object]:
        return {"correlation": self._one.name, "documents": documents, "late": late}

    def _sent(self, documents: Documents, times: I64, slots: I64) -> Iterator[Message]:
        by_slot = {slot: self._versions(slot) for slot in np.unique(slots).tolist()}
        masks, unseen = np.zeros((len(documents), words(self._one.joiners)), np.uint64), [np.zeros(0, np.uint64)]
        counts: dict[tuple[int, ...], int] = {}
        for versions in sorted(set(by_slot.values())):
            here = np.flatnonzero(np.isin(slots, [slot for slot, used in by_slot.items() if used == versions]))
            assignment = assign(documents.take(here), [self._in_force[version] for version in versions])
            masks[here, : assignment.masks.shape[1]] = assignment.masks
            unseen.append(assignment.unseen)
            counts[versions] = assignment.partitions
        whole = Assigned(documents, times, masks)
        parts = {slot: whole.take(np.flatnonzero(slots == slot)) for slot in by_slot}
        runs = write_documents(self._plan.places.store, self._file(), parts, self._newest)
        addressed = {"correlation": self._index, "runs": [asdict(run) for run in runs]}
        for task in range(min(self._plan.tasks, max(counts.values()))):
            part = joiner_task(self._plan, self._index, task)
            yield replace(json_message("documents", addressed), part=part)
        common = common_json(profile.CommonCounts.of(documents))
        figures = {
            str(slot): asdict(_figures(one, counts[by_slot[slot]], by_slot[slot])) for slot, one in parts.items()
        }
        stored = {"runs": addressed["runs"], "windows": figures, "common": common}
        yield wire.result("stored", {"correlation": self._one.name, **stored})
        yield from self._values(documents, np.concatenate(unseen))

    def _versions(self, slot: int) -> tuple[int, ...]:
        """The newest partitions, and the newest ones of every stored document in a common window."""
        state, reach = self._one.state, self._one.window.slots
        used = {run.unit for run in state.stored if abs(run.period - slot) < reach}
        return tuple(sorted({*used, self._newest}))

    def _file(self) -> str:
        nonce = secrets.token_hex(4)  # a retried task must not overwrite a file that the first try has reported
        return self._plan.documents_name(self._one.name, "documents", self._reader, nonce)

    def _values(self, documents: Documents, unseen: U64) -> Iterator[Message]:
        if len(unseen):
            yield unseen_message(self._index, route(documents, self._in_force[self._newest].routing), unseen)
        if self._one.creators is not None:
            yield groups_message(self._index, association_groups(route(documents, self._one.creators)))
            yield encounters_message(self._index, encounters(documents, self._one.creators))

    def _late(self, rows: pa.RecordBatch, positions: I64) -> Message:
        plan, one, n = self._plan, self._one, len(positions)
        some = rows.take(pa.array(positions))
        table = pa.table(
            [
                pa.repeat(pa.scalar(plan.batch, pa.int64()), n),
                pa.repeat(pa.scalar(one.declared.stream), n),
                pa.repeat(pa.scalar(one.declared.stream), n),
                some.column("event_time").cast(TIMESTAMP),
                pa.repeat(pa.scalar(watermark(one.declared, one.state), pa.int64()).cast(TIMESTAMP), n),
                some.column(DOCUMENT),
            ],
            schema=LATE_SCHEMA,
        )
        root = plan.places.correlations / one.name
        file = write_part(root, LATE, plan.part_name("r", self._reader), table)
        return wire.result("document_file", {"correlation": one.name, "file": asdict(file)})


def joiner_task(plan: BatchPlan, correlation: int, joiner: int) -> int:
    """The task that runs a joiner."""
    return (joiner + correlation) % plan.tasks


def _figures(one: Assigned, partitions: int, versions: tuple[int, ...]) -> WindowFigures:
    loads = bit_counts(one.masks)[:partitions]
    sent = np.unpackbits(np.ascontiguousarray(one.masks, "<u8").view(np.uint8), axis=1).sum(axis=1)
    everywhere = int((sent == partitions).sum()) if partitions > 1 else 0
    return WindowFigures(len(one.times), everywhere, loads=tuple(loads.tolist()), versions=versions)
