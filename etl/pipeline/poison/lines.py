"""Find lines that kill by themselves: halve the input, try each half.

    suspects ─ try ─┬─ survives: innocent
                    └─ dies: two halves, each a suspect ─▶ … ─▶ one line ─▶ poison

Rows of the backlog are searched like lines, and so are rows of a Parquet file, once tasks have decoded it without
parsing any; a file that they do not survive decoding is refused as one row. See ADR 62, 119.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic

from etl.adapters.losses import Losses, Suspects
from etl.pipeline.poison.trial import NotTheLines, T
from etl.pipeline.poison.tries import NO_END, SILENT_DEATHS, Tries
from etl.pipeline.tasks.line_choice import WHOLE_FILE

TRIES = 3
"""Consecutive lost tries before the input is suspected."""
_MOST_LINES = 20  # with more, the lines are not the cause
_FIRST_ROWS = 65_536  # rows that are split off from a part without an end; the next part has twice as many


@dataclass(slots=True)
class LineSearch(Generic[T]):
    """The search for lines; what it knows is in the ledger, so the next process goes on with it."""

    tries: Tries[T]

    @property
    def losses(self) -> Losses:
        return self.tries.losses

    def run(self) -> None:
        """Find all poison lines. Raises `NotTheLines` when tasks die without any input."""
        if self.losses.suspects is None:
            self._begin()
        while self.losses.suspects:
            suspects = self.losses.suspects[-1]
            if suspects.deaths >= SILENT_DEATHS:
                self._halve(suspects)
            elif self.tries.attempt(suspects.parts, suspects) is not None:
                self.losses.suspects.pop()
            elif not self.tries.is_file(suspects.parts):
                suspects.deaths = SILENT_DEATHS  # its death was observed: no second try needed
        self.tries.book.write(self.losses)

    def _begin(self) -> None:
        trial = self.tries.trial
        self.tries.progress(f"batch {trial.batch}: looking for the lines that tasks do not survive")
        self.tries.require_survival_without_input()
        landed = [part for one in trial.slices if (part := self.tries.whole(one)) is not None]
        self.losses.suspects = [Suspects(list(parts)) for parts in (self.tries.backlog(), landed) if parts]

    def _halve(self, suspects: Suspects) -> None:
        assert self.losses.suspects is not None, "a search has begun"  # for the type; what follows fails loudly
        self.losses.suspects.pop()
        parts = suspects.parts
        if len(parts) > 1:
            middle = len(parts) // 2
            self.losses.suspects += [Suspects(parts[middle:]), Suspects(parts[:middle])]
            return
        ((source, first, last),) = parts
        if first == last:
            self.add_poison(source, first)
            return
        middle = _middle(first, last)
        self.losses.suspects += [Suspects([(source, middle + 1, last)]), Suspects([(source, first, middle)])]

    def add_poison(self, source: int | str, line: int) -> None:
        """Refuse a line, or a Parquet file as such."""
        if len(self.losses.poison) >= _MOST_LINES:
            raise self._abandoned(f"because of more than {_MOST_LINES} lines")
        self.losses.poison.append((source, line))
        what = f"line {line}"
        if self.tries.is_file([(source, line, line)]):
            what = "the whole file"
            rows = [(source, WHOLE_FILE + 1, NO_END)]  # not decoded any more, so there is nothing to look for in them
            self.losses.suspects = [one for one in self.losses.suspects or () if one.parts != rows]
        label = self.tries.label(source)
        self.tries.progress(f"{label!a}, {what}: tasks do not survive it, so it is refused as poison")

    def _abandoned(self, why: str) -> NotTheLines:
        """End a search without a result: the next run starts with an ordinary try, as the cause may have been fixed."""
        self.tries.book.write(Losses(lost=TRIES - 1))
        return self.tries.not_the_lines(why)


def _middle(first: int, last: int) -> int:
    """Where a part is split: a file off its rows, rows without a known end in growing steps, others in halves."""
    if last < NO_END:
        return (first + last) // 2
    return WHOLE_FILE if first == WHOLE_FILE else min(2 * first + _FIRST_ROWS - 2, last - 1)
