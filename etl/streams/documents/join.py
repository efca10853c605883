"""The task of joiners: joins new documents with each other, and with those of the same window from earlier batches.

    names of files ── open ── documents of this joiner ─┬─ new with stored ─┐
                                                        └─ new with new ────┴─ pairs ──▶ results

A pair is produced by the joiner with the smallest number that both documents went to. A joiner has its part of what is
left of the window's bound on results. Further pairs are counted, and made in a second round if others leave some of
theirs (ADR 122).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from etl.correlate.documents.dictionary import U64
from etl.correlate.documents.errors import JoinerBudgetExceeded
from etl.correlate.documents.joining.expand import Made
from etl.correlate.documents.joining.fp_join import FPTreeJoin, Stored, total
from etl.correlate.documents.joining.tree import tree_bytes
from etl.correlate.documents.model import Pairs
from etl.correlate.documents.partitioning.partitions import below, holds
from etl.pipeline.tasks.wire import Message
from etl.streams.documents.assign import joiner_task
from etl.streams.documents.files import Assigned, DocumentReader
from etl.streams.documents.results import DocumentResults
from etl.streams.documents.state import Allotted, DocumentPlan
from etl.streams.state.state_files import StateRun
from etl.streams.tasks import wire
from etl.streams.tasks.plan import BatchPlan


def join_documents(plan: BatchPlan, task: int, messages: list[Message]) -> Iterator[Message]:
    """All joiners of one task."""
    fresh: dict[int, list[StateRun]] = {}
    for message in messages:
        value = message.json()
        fresh.setdefault(value["correlation"], []).extend(StateRun(**run) for run in value["runs"])
    for index, runs in sorted(fresh.items()):
        one = plan.documents[index]
        numbers = range(one.joiners) if one.more is None else sorted(one.more.joiners)
        joiners = [number for number in numbers if joiner_task(plan, index, number) == task]
        yield from _Task(plan, one, task, runs).join(joiners)


@dataclass(slots=True)
class _Joined:
    """The result of one joiner for one slot."""

    documents: int
    bytes: int
    made: Made


@dataclass(slots=True)
class _Task:
    """The joiners of one correlation in one task. Files are opened once; joiners run one after the other."""

    plan: BatchPlan
    one: DocumentPlan
    task: int
    fresh: list[StateRun]
    reader: DocumentReader = field(init=False)
    new: dict[int, list[Assigned]] = field(default_factory=dict)
    old: dict[int, list[Assigned]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.reader = DocumentReader(self.plan.places.store)
        # The order of codes decides the order of pairs: both rounds, and a repeated batch, must read in the same order.
        for run in sorted(self.fresh, key=lambda run: run.name):
            self.new.setdefault(run.period, []).append(self.reader.read(run))
        for run in self.one.state.stored:
            if any(abs(run.period - slot) < self.one.window.slots for slot in self.new):
                self.old.setdefault(run.period, []).append(self.reader.read(run))

    def join(self, joiners: list[int]) -> Iterator[Message]:
        results = DocumentResults(self.plan, self.one, self.task)
        for number in joiners:
            joiner = _Joiner(self.one, number, self._held(self.new, number), self._held(self.old, number))
            held = joiner.documents(self.reader)
            for slot, joined in joiner.join():
                results.add(held, joined.made.pairs)
                yield wire.result("joined", self._figures(number, slot, joined))
        yield from results.written()

    def _held(self, parts: dict[int, list[Assigned]], joiner: int) -> dict[int, Assigned]:
        """A joiner's documents by slot."""
        found = {}
        for slot, many in parts.items():
            mine = [one.take(np.flatnonzero(_went_to(one, joiner))) for one in many]
            whole = self.reader.together(mine)
            if len(whole.times):
                found[slot] = whole
        return found

    def _figures(self, joiner: int, slot: int, joined: _Joined) -> dict[str, object]:
        counts = {"documents": joined.documents, "bytes": joined.bytes}
        pairs = {"found": joined.made.found, "kept": len(joined.made.pairs)}
        return {"correlation": self.one.name, "joiner": joiner, "slot": slot, **counts, **pairs}


def _went_to(one: Assigned, joiner: int) -> npt.NDArray[np.bool_]:
    if joiner // 64 >= one.masks.shape[1]:  # assigned when there were fewer joiners
        return np.zeros(len(one.times), np.bool_)
    return holds(one.masks, joiner)


@dataclass(slots=True)
class _Joiner:
    """One joiner in one batch: probes trees of its stored documents with new ones, slot by slot."""

    one: DocumentPlan
    number: int
    new: dict[int, Assigned]
    old: dict[int, Assigned]
    trees: dict[int, list[FPTreeJoin]] = field(default_factory=dict)
    needed_bytes: int = 0

    def join(self) -> Iterator[tuple[int, _Joined]]:
        """The pairs of every slot with new documents."""
        for slot, held in self.old.items():
            if any(abs(slot - other) < self.one.window.slots for other in self.new):
                self._hold(held)
                self.trees[slot] = [FPTreeJoin([Stored.of(held.documents, self._lower(held))])]
        for slot, fresh in sorted(self.new.items()):
            self._hold(fresh)
            if self.one.more is None:
                yield slot, _Joined(len(fresh.times), self.needed_bytes, self._meet(slot, fresh, self._part(slot)))
                continue
            allotted = self.one.more.allotted.get((slot, self.number), Allotted(0, 0))
            pairs = self._meet(slot, fresh, allotted.last).pairs
            rest = Pairs(pairs.left[allotted.first :], pairs.right[allotted.first :])
            yield slot, _Joined(0, self.needed_bytes, Made(rest, 0))  # counted in the first round

    def _meet(self, slot: int, fresh: Assigned, allowed: int) -> Made:
        lower = self._lower(fresh)
        made: list[Made] = []
        for other, trees in self.trees.items():
            for tree in trees if abs(other - slot) < self.one.window.slots else ():
                made.append(tree.probe(fresh.documents, lower, allowed - _kept(made)))
        own = FPTreeJoin()
        made.append(own.insert(fresh.documents, lower, allowed - _kept(made)))
        self.trees.setdefault(slot, []).append(own)
        return total(made)

    def _hold(self, part: Assigned) -> None:
        self.needed_bytes += tree_bytes(part.documents)
        if self.needed_bytes > self.one.declared.budget_bytes:
            documents = sum(len(one.times) for one in (*self.new.values(), *self.old.values()))
            raise JoinerBudgetExceeded(self.needed_bytes, self.one.declared.budget_bytes, documents, bool(self.old))

    def _lower(self, part: Assigned) -> U64:
        width = self.number // 64 + 1
        wide = np.zeros((len(part.times), max(width, part.masks.shape[1])), np.uint64)
        wide[:, : part.masks.shape[1]] = part.masks
        return below(wide, self.number)

    def _part(self, slot: int) -> int:
        """How many pairs this joiner makes: an even part of what is left of the bound."""
        left, joiners = self.one.left(slot), self.one.joiners
        return left // joiners + (self.number < left % joiners)

    def documents(self, reader: DocumentReader) -> Assigned:
        """All documents of this joiner, by id."""
        return reader.together([*self.old.values(), *self.new.values()])


def _kept(made: list[Made]) -> int:
    return sum(len(one.pairs) for one in made)
