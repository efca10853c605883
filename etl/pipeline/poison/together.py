"""Find input that kills only as a whole: no line of it kills by itself, all of it together does.

    all sources die ── bisect their prefixes ──▶ the last straw: those before it survive, and die with it
                                                  ├─ a Parquet file that dies alone: refused as one row
                                                  ├─ the first source: the second half of its lines is left for later
                                                  └─ any other: it and all behind it are left for a later batch

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
        dies_alone = self._survived(state, [straw]) is None
        if dies_alone and self._is_decoded(straw[0]):
            self.tries.require_survival_without_input()
            LineSearch(self.tries).add_poison(straw[0], WHOLE_FILE)
        elif died > 1:
            rest = [source for source, _, _ in sources[died - 1 :]]
            self.tries.leave_whole(rest, "tasks do not survive it together with the rest of the batch")
        elif dies_alone:
            self._halve(straw)
        else:
            return False
        return True

    def _is_decoded(self, source: int | str) -> bool:
        """Whether a source is a Parquet file that is not refused yet."""
        one = self.tries.slice(source)
        return one is not None and self.tries.is_parquet(one) and (source, WHOLE_FILE) not in self.losses.poison

    def _halve(self, part: Part) -> None:
        """Leave the second half of a source's lines for later."""
        source = part[0]
        one = self.tries.slice(source)
        lines = part if one is None or self.tries.is_parquet(one) else self.tries.whole(one)
        if lines is None or lines[1] == lines[2] or lines[2] == NO_END:
            raise self.tries.not_the_lines("and no single line is the cause")
        middle = (lines[1] + lines[2]) // 2
        self.tries.leave(source, middle + 1, "tasks survive parts of it, and not all of it")
