"""The join operator: stream buffers, front stage, shedding and one tactic (ADR 20).

    offer ──► SB1 ──► front stage ──hit──────────────────────────► matched
               │         │ miss (until the tactic's room w_B is filled)
               │         ▼
               │        SB2 ──► tactic ──► matched | unmatched
               │                  │   └──► rows and their frequencies ──► front stage learns
               └── overload ──────┴──► shed, to be offered again

"C" is composition: cinlj = SemiStreamJoin(front_stage, IndexNestedLoop(…)), inlj = SemiStreamJoin(None, …).
One `step` is one outer iteration of the paper: 1 shed or reload, 2 front-stage phase, 3 tactic phase, 4 learn.

Invariant, after every call: offered = matched + unmatched + shed - offered again + pending.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from etl.columnar.keys import I64, encode, to_contiguous, valid
from etl.enrich.front_stage.port import FrontStagePort
from etl.enrich.front_stage.stage import KNOWN_ABSENT, MISS, STALE
from etl.enrich.shedding import SheddingConfig, measure
from etl.enrich.step import (
    NO_TICKETS,
    UNBOUNDED,
    BatchBudget,
    Cost,
    Matches,
    Metrics,
    Step,
    StreamTuples,
    TacticStep,
    stacked,
)
from etl.enrich.stream_buffer import StreamBuffer
from etl.enrich.tactics.tactic import Tactic, Timed


@dataclass(slots=True)
class _Round:
    """Intermediate results of one step."""

    hit_tickets: list[I64] = field(default_factory=list)
    hit_entries: list[I64] = field(default_factory=list)
    matched: list[Matches] = field(default_factory=list)
    missed: list[StreamTuples] = field(default_factory=list)  # SB2
    known_absent: list[I64] = field(default_factory=list)
    missing: int = 0
    probes: int = 0
    shed: list[StreamTuples] = field(default_factory=list)
    reload: int = 0


class SemiStreamJoin:
    """Joins offered keys with master rows, step by step."""

    def __init__(
        self, front_stage: FrontStagePort | None, tactic: Tactic, shedding: SheddingConfig | None = None
    ) -> None:
        self.front_stage = front_stage
        self.tactic = tactic
        self.shedding = shedding or SheddingConfig()
        self._sb1 = StreamBuffer()
        self._next_ticket = 0
        self._offered = self._reloaded = 0  # since the last step
        self._nulls: list[I64] = []
        self._stale = NO_TICKETS  # pending tuples that missed because of a stale entry
        self._lately = np.ones(2)  # front-stage misses and probes, with exponential decay

    @property
    def pending(self) -> int:
        """Tuples offered and neither answered nor shed."""
        return len(self._sb1) + self.tactic.pending + sum(len(tickets) for tickets in self._nulls)

    @property
    def nbytes(self) -> int:
        """All memory the join holds."""
        front = 0 if self.front_stage is None else self.front_stage.nbytes
        return front + self.tactic.nbytes + self._sb1.nbytes

    def offer(self, keys: pa.Array | pa.ChunkedArray) -> I64:
        """Takes in stream tuples and returns their tickets. NULL keys are allowed; they match nothing."""
        keys = to_contiguous(keys)
        tickets = np.arange(self._next_ticket, self._next_ticket + len(keys))
        self._next_ticket += len(keys)
        self._offered += len(keys)
        whole = valid(keys)
        if whole.all():
            self._sb1.append(StreamTuples(tickets, encode(keys)))
        else:
            self._nulls.append(tickets[~whole])
            self._sb1.append(StreamTuples(tickets[whole], encode(keys.filter(pa.array(whole)))))
        return tickets

    def offer_again(self, tuples: StreamTuples) -> None:
        """Takes back tuples that were shed; they keep their tickets."""
        self._sb1.append(tuples)
        self._reloaded += len(tuples)

    def step(self, now: float | None = None, most: BatchBudget = UNBOUNDED) -> Step:
        """One outer iteration. `now`, a clock in seconds, is needed to remember absent keys for a while.

        `most`: what it may read of the master.
        """
        before = self._front_counts()
        round_ = _Round()
        self._shed_or_reload(round_)  # 1
        self._front_phase(round_, self.tactic.room, now)  # 2
        if round_.missed:
            self.tactic.load(stacked(round_.missed))
        tuned = bool(round_.shed) and self.shedding.tuned
        found = self.tactic.advance(draining=not len(self._sb1), shedding=tuned, most=most)  # 3
        self._learn(found, now)  # 4
        if isinstance(self.tactic, Timed):
            self.tactic.step_is_over()
        return self._report(round_, found, before)

    def give_up(self, now: float | None = None) -> Step:
        """Ends a batch whose budget is spent: answers front-stage hits and sheds the rest."""
        before = self._front_counts()
        round_ = _Round()
        pending = self.tactic.shed_all()
        self._front_phase(round_, len(self._sb1), now)
        round_.shed = [*([] if pending is None else [pending]), *round_.missed]
        return self._report(round_, TacticStep(), before)

    def forget(self) -> None:
        """Drops all pending tuples; the front stage keeps its content."""
        self.tactic.shed_all()
        self._sb1 = StreamBuffer()
        self._nulls, self._stale = [], NO_TICKETS
        self._offered = self._reloaded = 0

    # --- phases -----------------------------------------------------------------------------------------------

    def _shed_or_reload(self, round_: _Round) -> None:
        if self.shedding.policy == "none":
            return
        load = measure(len(self._sb1), self.tactic.room)
        if load.excess and self.shedding.policy != "keep":
            dearest = self.tactic.shed(load.excess)
            round_.shed.extend([] if dearest is None else [dearest])
            left = load.excess if dearest is None else 0  # a tactic without a queue sheds upfront
            round_.shed.extend(self._sb1.take_last(left))
        elif load.excess:
            round_.shed.extend(self._sb1.take_last(load.excess))
        round_.shed.extend(self._sb1.take_last(len(self._sb1) - self.shedding.most_waiting))
        round_.reload = min(load.reload, self.shedding.most_waiting - len(self._sb1)) if not round_.shed else 0

    def _front_phase(self, round_: _Round, room: int, now: float | None) -> None:
        """Reads SB1 until it is empty or `room` tuples have missed."""
        while len(self._sb1) and round_.missing < room:
            left = room - round_.missing
            most = left if self.front_stage is None else _expected(left, self._lately[0] / self._lately[1])
            tuples = self._sb1.first(most)
            if self.front_stage is None:
                entry = np.full(len(tuples), MISS, np.int64)
            else:
                entry = self.front_stage.probe(tuples.keys, now)
                round_.probes += len(tuples)
            missed = (entry == MISS) | (entry == STALE)
            taken = _until_full(missed, left)
            self._sb1.drop_first(taken)
            self._sort_out(round_, tuples.take(slice(0, taken)), entry[:taken], missed[:taken])
            self._lately = 0.5 * self._lately + np.array([np.count_nonzero(missed), len(missed)])
        self._collect_hits(round_)

    def _collect_hits(self, round_: _Round) -> None:
        """The rows of all hits."""
        tickets = _all(round_.hit_tickets)
        if self.front_stage is not None and len(tickets):
            rows, row = self.front_stage.answers(_all(round_.hit_entries))
            round_.matched.append(Matches(tickets, row, rows, front=True))

    def _sort_out(self, round_: _Round, tuples: StreamTuples, entry: I64, missed: npt.NDArray[np.bool_]) -> None:
        front = self.front_stage
        if front is not None:
            hit = np.flatnonzero(entry >= 0)
            front.record(entry[hit], len(entry))
            round_.hit_tickets.append(tuples.tickets[hit])
            round_.hit_entries.append(entry[hit])
            round_.known_absent.append(tuples.tickets[entry == KNOWN_ABSENT])
            self._stale = np.concatenate([self._stale, tuples.tickets[entry == STALE]])
        count = int(np.count_nonzero(missed))
        if count:
            round_.missed.append(tuples if count == len(tuples) else tuples.take(np.flatnonzero(missed)))
            round_.missing += count

    def _learn(self, found: TacticStep, now: float | None) -> None:
        if self.front_stage is None:
            return
        if found.matched.rows is not None:
            self.front_stage.learn(found.matched.rows, found.frequency)
        if found.unmatched is not None:
            self.front_stage.learn_absent(found.unmatched.keys, now)

    # --- report -----------------------------------------------------------------------------------------------

    def _front_counts(self) -> tuple[int, int]:
        counts = None if self.front_stage is None else self.front_stage.counts
        return (0, 0) if counts is None else (counts.admissions, counts.evictions)

    def _report(self, round_: _Round, found: TacticStep, before: tuple[int, int]) -> Step:
        absent = NO_TICKETS if found.unmatched is None else found.unmatched.tickets
        known = _all(round_.known_absent)
        nulls, self._nulls = _all(self._nulls), []
        shed = stacked(round_.shed) if round_.shed else None
        if shed is not None:
            self._take_stale(shed.tickets)  # when they come back they are probed anew
        metrics = self._metrics(round_, found, absent, len(known), len(nulls), before)
        matched = (*round_.matched, found.matched) if len(found.matched) else tuple(round_.matched)
        self._offered = self._reloaded = 0
        return Step(matched, np.concatenate([absent, known, nulls]), known, shed, round_.reload, metrics)

    def _metrics(
        self, round_: _Round, found: TacticStep, lost: I64, known: int, nulls: int, before: tuple[int, int]
    ) -> Metrics:
        absent = len(lost)
        front, after = self.front_stage, self._front_counts()
        hits = sum(len(matches) for matches in round_.matched)
        stale_found, stale_absent = self._take_stale(found.matched.tickets), self._take_stale(lost)
        return Metrics(
            tuples=self._offered,
            nulls=nulls,
            front_hits=hits,
            negative_hits=known,
            misses_stale=stale_found + stale_absent,
            misses_absent=absent - stale_absent,
            misses_capacity=len(found.matched) - stale_found,
            matched=hits + len(found.matched),
            unmatched=absent + known + nulls,
            shed=sum(len(part) for part in round_.shed),
            reloaded=self._reloaded,
            steps=1,
            admissions=after[0] - before[0],
            evictions=after[1] - before[1],
            cost=found.cost + Cost(front_probes=round_.probes),
            threshold=0 if front is None else front.threshold,
            front_bytes=0 if front is None else front.nbytes,
            front_rows=0 if front is None else len(front),
            pending=self.tactic.pending,
            waiting=len(self._sb1),
            state_bytes=self.nbytes,
        )

    def _take_stale(self, answered: I64) -> int:
        """Counts the answered tuples that had missed because of a stale entry, and removes them from that set."""
        if not len(self._stale):
            return 0
        mine = np.isin(self._stale, answered)
        self._stale = self._stale[~mine]
        return int(np.count_nonzero(mine))


def _expected(misses: int, miss_ratio: float) -> int:
    """How many tuples to probe for this many misses; slightly more for large numbers, to avoid a second probe."""
    tuples = misses / max(miss_ratio, 0.02)
    return int(tuples + (2 * tuples**0.5 if tuples > 1000 else 0)) + 2


def _until_full(missed: npt.NDArray[np.bool_], room: int) -> int:
    """How many tuples to consume so that no more than `room` of them missed."""
    if len(missed) <= room:
        return len(missed)
    where = np.flatnonzero(missed)
    return len(missed) if len(where) <= room else int(where[room])


def _all(parts: list[I64]) -> I64:
    return np.concatenate(parts) if parts else NO_TICKETS
