"""Find lines that kill by themselves: halve the input, try each half.

    suspects ─ try ─┬─ survives: innocent
                    └─ dies: two halves, each a suspect ─▶ … ─▶ one line ─▶ poison

Rows of the backlog are searched like lines, and so are rows of a Parquet file, once tasks have decoded it without
parsing any; a file that they do not survive decoding is refused as one row. See ADR 62, 119.

The search is bounded: with 20 poison lines in a source, its rest is left for a later batch, which searches on; a
Parquet file, which cannot be read in parts, is refused as one row. With 100 in a batch, all that is still suspected is
left. Each batch refuses what it has found, so every run makes progress. See ADR 127.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic

from etl.adapters.losses import Losses, Suspects
from etl.pipeline.poison.trial import T
from etl.pipeline.poison.tries import NO_END, SILENT_DEATHS, Tries
from etl.pipeline.tasks.line_choice import WHOLE_FILE

TRIES = 3
"""Consecutive lost tries before the input is suspected."""
_MOST_OF_SOURCE = 20  # poison lines of one slice or file that one batch searches for
_MOST_OF_BATCH = 100  # the same of all of them together
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
        """Refuse a line, or a Parquet file as such. Beyond the bounds: leave the rest for a later batch."""
        if self.tries.is_file([(source, line, line)]):
            self._refuse_file(source, "tasks do not survive it")
        elif sum(found == source for found, _ in self.losses.poison) >= _MOST_OF_SOURCE:
            self._stop(source, line)
        else:
            self.losses.poison.append((source, line))
            label = self.tries.label(source)
            self.tries.progress(f"{label!a}, line {line}: tasks do not survive it, so it is refused as poison")
        if len(self.losses.poison) >= _MOST_OF_BATCH and self.losses.suspects:
            self._leave_suspects()

    def _refuse_file(self, source: int | str, why: str) -> None:
        """Refuse a Parquet file as one row; it is not decoded any more, so its rows need not be looked for."""
        self._acquit(source)
        self.losses.poison = [mark for mark in self.losses.poison if mark[0] != source]
        self.losses.poison.append((source, WHOLE_FILE))
        self.tries.progress(f"{self.tries.label(source)!a}, the whole file: {why}, so it is refused as poison")

    def _stop(self, source: int | str, line: int) -> None:
        """End the search in a source: what is before this line is known."""
        one = self.tries.slice(source)
        if one is not None and self.tries.is_parquet(one):
            self._refuse_file(source, f"more than {_MOST_OF_SOURCE} of its rows kill tasks")
            return
        for same in [source, *self.tries.following(source)]:
            self._acquit(same)
        self.tries.leave(source, line, f"more than {_MOST_OF_SOURCE} of its lines kill tasks")

    def _leave_suspects(self) -> None:
        """End the search in all sources."""
        first: dict[int | str, int] = {}
        for source, line, _ in (part for one in self.losses.suspects or () for part in one.parts):
            first[source] = min(line, first.get(source, line))
        self.losses.suspects = []
        for source, line in first.items():
            self.tries.leave(source, max(line, 1), f"more than {_MOST_OF_BATCH} lines kill tasks")

    def _acquit(self, source: int | str) -> None:
        """Look for nothing more in a source."""
        rest = [
            Suspects([part for part in one.parts if part[0] != source], one.deaths)
            for one in self.losses.suspects or ()
        ]
        self.losses.suspects = [one for one in rest if one.parts]


def _middle(first: int, last: int) -> int:
    """Where a part is split: a file off its rows, rows without a known end in growing steps, others in halves."""
    if last < NO_END:
        return (first + last) // 2
    return WHOLE_FILE if first == WHOLE_FILE else min(2 * first + _FIRST_ROWS - 2, last - 1)
