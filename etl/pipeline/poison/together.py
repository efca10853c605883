"""Find input that kills only as a whole: no line of it kills by itself, all of it together does.

    all sources die ── bisect their prefixes ──▶ the last straw: with it they die, without it they survive
                                                  ├─ dies alone ─┬─ a Parquet file: refused as one row
                                                  │              └─ lines: the second half is left for a later batch
                                                  └─ survives alone: it is left for a later batch

A part is blamed after two lost tries. What is found is in the ledger before the next try, so the next process goes on
with it. Every round makes the batch smaller, so that the others are decided. See ADR 125.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic

from etl.adapters.losses import Losses, Part, Together
from etl.pipeline.poison.lines import LineSearch
from etl.pipeline.poison.trial import T
from etl.pipeline.poison.tries import NO_END, SILENT_DEATHS, Tries
from etl.pipeline.tasks.line_choice import WHOLE_FILE

_BY_CHANCE = 3  # rounds in which all died together and nothing did when it was looked at


@dataclass(slots=True)
class TogetherSearch(Generic[T]):
    """Tries without poison lines, and the search when these die, too."""

    tries: Tries[T]

    @property
    def losses(self) -> Losses:
        return self.tries.losses

    def run(self) -> T | None:
        """The results of a try that survived. None: some input was left for a later batch."""
        by_chance = 0
        while by_chance < _BY_CHANCE:
            state = self.losses.together = self.losses.together or Together()
            if state.died is None:
                survived = self._survived(state, None)
                if survived is not None:
                    return survived
                state.died = len(self._sources())
            by_chance += not self._found(state)
            self.losses.together = None
            if self.losses.later:
                return None
        raise self.tries.not_the_lines("and no part of the input is the cause")

    def _survived(self, state: Together, parts: Sequence[Part] | None) -> T | None:
        """The results of a part; None when it has died often enough to be blamed."""
        while state.deaths < SILENT_DEATHS:
            results = self.tries.attempt(parts, state)
            if results is not None:
                state.deaths = 0
                return results
        state.deaths = 0
        return None

    def _sources(self) -> list[Part]:
        """All that is read, each as a whole."""
        landed: list[Part] = [(one.ordinal, 0, NO_END) for one in self.tries.trial.slices]
        return [*landed, *self.tries.backlog()]

    def _found(self, state: Together) -> bool:
        """Whether there is a last straw; it is refused, or marked to be left for a later batch."""
        sources, died = self._sources(), state.died or 0
        while died - state.survived > 1:
            middle = (state.survived + died) // 2
            if self._survived(state, sources[:middle]) is None:
                state.died = died = middle
            else:
                state.survived = middle
        if not sources:
            raise self.tries.not_the_lines("also without any input")
        straw = sources[min(died, len(sources)) - 1]
        if self._survived(state, [straw]) is None:
            self._divide(straw)
        elif died > 1:
            self.tries.leave(straw[0], 1, "tasks do not survive it together with the rest of the batch")
        else:
            return False
        return True

    def _divide(self, part: Part) -> None:
        """A source that dies alone: refuse a Parquet file, halve others."""
        source = part[0]
        one = self.tries.slice(source)
        if one is not None and self.tries.is_parquet(one):
            if (source, WHOLE_FILE) in self.losses.poison:
                raise self.tries.not_the_lines("and no part of the input is the cause")
            self.tries.require_survival_without_input()
            LineSearch(self.tries).add_poison(source, WHOLE_FILE)
            return
        lines = part if one is None else self.tries.whole(one)
        if lines is None or lines[1] == lines[2]:
            raise self.tries.not_the_lines("and no single line is the cause")
        middle = (lines[1] + lines[2]) // 2
        self.tries.leave(source, middle + 1, "tasks survive parts of it, and not all of it")
