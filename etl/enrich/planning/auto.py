"""`auto`: choose the cheapest tactic for every batch, from measured unit costs (ADR 19).

    pending keys ──► price of   lookups   calls · call + keys · key
                                pages     pages touched · page read by key
                                scan      all pages · page read in order, once per H_S full of tuples
                    ──► the cheapest joins this batch; the measured time corrects its price (feedback.py)

Results never depend on the choice. With a clock, unit costs are measured by a short trial, and every round is timed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from etl.columnar.keys import approx_distinct
from etl.enrich.planning.cost import MasterProfile, UnitCosts, pages_touched
from etl.enrich.planning.feedback import Feedback
from etl.enrich.planning.sizing import Sizes
from etl.enrich.spec import TacticName
from etl.enrich.step import UNBOUNDED, BatchBudget, StreamTuples, TacticStep, stacked
from etl.enrich.stream_buffer import StreamBuffer
from etl.enrich.tactics.tactic import Tactic

Clock = Callable[[], float]
_WORDS = {
    "inlj": "look the keys up",
    "hybridjoin": "read the pages that hold them",
    "meshjoin": "read every page once",
}
_SMALL = 64  # rounds with fewer keys are too small to measure


@dataclass(frozen=True, slots=True)
class Choice:
    """The chosen tactic, and the price of each."""

    name: TacticName
    keys: int
    tuples: int
    seconds: Mapping[TacticName, float]

    def explain(self) -> str:
        """The choice and its reasons in words."""
        ranked = sorted(self.seconds.items(), key=lambda item: item[1])
        lines = [f"{self.tuples} tuples with {self.keys} distinct keys to join: {_WORDS[self.name]} ({self.name})"]
        lines += [f"  {name:<11}{seconds * 1e3:>12.1f} ms   {_WORDS[name]}" for name, seconds in ranked]
        return "\n".join(lines)


def prices(
    keys: int, tuples: int, profile: MasterProfile, sizes: Mapping[TacticName, Sizes], units: UnitCosts
) -> dict[TacticName, float]:
    """Estimated seconds of each available tactic for this many distinct keys and tuples."""
    out: dict[TacticName, float] = {}
    for name, size in sizes.items():
        if name == "inlj":
            out[name] = -(-tuples // max(1, size.lookup_tuples)) * units.call_s + keys * units.key_s
        elif name == "hybridjoin":
            pages = pages_touched(keys, profile.page_count) if profile.page_count else keys  # unknown: the worst
            out[name] = pages * units.seek_page_s
        else:
            passes = -(-tuples // max(1, size.capacity))
            out[name] = passes * profile.page_count * units.scan_page_s
    return out


@dataclass(slots=True)
class _Round:
    """A timed round: from the first loaded tuples until the tactic is empty."""

    first: int
    keys: int  # distinct, among the first
    tuples: int = 0
    seconds: float = 0.0


class AutoTactic:
    """Chooses a tactic when idle, then lets it finish the loaded tuples."""

    def __init__(
        self,
        make: Mapping[TacticName, Callable[[], Tactic]],
        sizes: Mapping[TacticName, Sizes],
        profile: MasterProfile,
        feedback: Feedback,
        clock: Clock | None = None,
    ) -> None:
        assert make, "at least one tactic to choose from"
        self._make, self.sizes, self._profile, self._clock = make, sizes, profile, clock
        self.feedback = feedback
        self.choice: Choice | None = None
        self._round: _Round | None = None  # being timed
        self._began: float | None = None  # the step
        self._active: Tactic | None = None
        self._waiting = StreamBuffer()
        self._capacity = max(max(size.capacity, size.lookup_tuples) for size in sizes.values())

    @property
    def room(self) -> int:
        return self._capacity - self.pending

    @property
    def pending(self) -> int:
        return len(self._waiting) + (0 if self._active is None else self._active.pending)

    @property
    def nbytes(self) -> int:
        return self._waiting.nbytes + (0 if self._active is None else self._active.nbytes)

    def load(self, tuples: StreamTuples) -> None:
        if not self.pending:
            self._choose(tuples)
        if self._round is not None:
            self._round.tuples += len(tuples)
        self._waiting.append(tuples)

    def advance(self, *, draining: bool, shedding: bool = False, most: BatchBudget = UNBOUNDED) -> TacticStep:
        if self._active is None:
            return TacticStep()
        self._began = None if self._clock is None else self._clock()
        for part in self._waiting.take_first(self._active.room):
            self._active.load(part)
        return self._active.advance(draining=draining and not len(self._waiting), shedding=shedding, most=most)

    def step_is_over(self) -> None:
        """Ends the timing of a step after the driver has learned from it, so that many small steps count as slower."""
        if self._clock is not None and self._began is not None and self._round is not None:
            self._round.seconds += self._clock() - self._began
            self._learn(self._round)
        self._began = None

    def shed(self, count: int) -> StreamTuples | None:
        self._round = None  # shed tuples took no time: the round is no measurement
        return None if self._active is None else self._active.shed(count)

    def shed_all(self) -> StreamTuples | None:
        self._round = None
        inside = None if self._active is None else self._active.shed_all()
        parts = [*([] if inside is None else [inside]), *self._waiting.take_first(len(self._waiting))]
        return stacked(parts) if parts else None

    def schema(self, key_type: pa.DataType) -> pa.Schema:
        tactic = self._active or next(iter(self._make.values()))()
        return tactic.schema(key_type)

    def _choose(self, tuples: StreamTuples) -> None:
        keys, stats = approx_distinct(tuples.keys), self.feedback.of(len(tuples))
        seconds = stats.priced(self._calculated(keys, len(tuples)))
        timed = self._clock is not None and keys >= _SMALL
        name = stats.choose(seconds, explore=timed)
        if self._active is None or self.choice is None or self.choice.name != name:
            self._active = self._make[name]()  # replaces the previous tactic: one budget, one set of pending tuples
        self.choice = Choice(name, keys, len(tuples), seconds)
        self._round = _Round(len(tuples), keys) if timed else None

    def _calculated(self, keys: int, tuples: int) -> dict[TacticName, float]:
        return prices(keys, tuples, self._profile, self.sizes, self.feedback.units)

    def _learn(self, done: _Round) -> None:
        """Correct the price of the tactic by the time of a finished round."""
        assert self.choice is not None, "somebody was chosen"
        if self.pending:
            return
        name, at_once = self.choice.name, min(done.tuples, self._capacity)
        keys = -(-done.keys * at_once // max(1, done.first))
        expected = self._calculated(keys, at_once)[name] * done.tuples / max(1, at_once)
        stats = self.feedback.of(done.first).after(name, expected, done.seconds, self.choice.seconds)
        self.feedback = self.feedback.with_stats(done.first, stats)
        self._round = None
