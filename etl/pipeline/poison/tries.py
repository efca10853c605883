"""Tries of a batch. Each is recorded in the ledger before it begins, so one that kills the driver counts, too."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, Generic

from etl.adapters.landing import Slice, is_range
from etl.adapters.losses import LossBook, Losses, Part, Suspects, Together
from etl.adapters.slice_reader import SliceReader
from etl.ingest.lines import LineReader
from etl.model import Progress
from etl.pipeline.poison.trial import NotTheLines, T, Trial
from etl.pipeline.tasks.line_choice import WHOLE_FILE, LineChoice
from etl.pipeline.tasks.wire import DriverLost, TaskLost

SILENT_DEATHS = 2
"""Lost tries of a part before it is blamed: a single one may be a power failure, or cost a whole file."""
NO_END: Final = 2**62
"""Of a Parquet file: only tasks that decode it know how many rows it has."""


def line_choice(
    losses: Losses, parts: Sequence[Part] = (), settled: Mapping[int | str, frozenset[int]] | None = None
) -> LineChoice:
    """Leave out poison lines, and those of the backlog that are for later; `parts`: read these lines only."""
    poison: dict[int | str, set[int]] = defaultdict(set)
    for source, line in losses.poison:
        poison[source].add(line)
    only: dict[int | str, tuple[int, int]] = {path: (1, line - 1) for path, line in losses.left.items()}
    return LineChoice(
        only | {source: (first, last) for source, first, last in parts},
        {source: frozenset(found) for source, found in poison.items()},
        settled or {},
    )


@dataclass(slots=True)
class Tries(Generic[T]):
    """The tries of one batch."""

    trial: Trial[T]
    book: LossBook
    progress: Progress
    losses: Losses
    cause: str = "the process died"
    settled: Mapping[int | str, frozenset[int]] = field(default_factory=dict)  # not read any more, once tries are lost

    def attempt(self, parts: Sequence[Part] | None = None, blamed: Suspects | Together | None = None) -> T | None:
        """One try; None when it was lost. `parts`: read these lines only. `blamed` counts its death, too."""
        self._count(blamed, 1)
        try:
            only = None if parts is None else {source for source, _, _ in parts}
            gathered = self.trial.run(line_choice(self.losses, parts or (), self.settled), only)
            if gathered.changed:
                self._count(blamed, -1)  # the batch is retried with the rest of its input
            return gathered
        except TaskLost as lost:
            self.cause = str(lost)
            return None
        except DriverLost:
            raise  # no results from the tasks: this counts as a loss
        except BaseException:
            with suppress(Exception):  # the first error is the one to report
                self._count(blamed, -1)
            raise

    def require_survival_without_input(self) -> None:
        """Raise `NotTheLines` when tasks die without any input: then no input is to blame."""
        if self.attempt(()) is None:
            raise self.not_the_lines("also without any input")

    def _count(self, blamed: Suspects | Together | None, tries: int) -> None:
        """Count a try before it begins, or take back one that was not lost."""
        self.losses.lost += tries
        if blamed is not None:
            blamed.deaths += tries
        self.book.write(self.losses)

    def leave(self, source: int | str, line: int, why: str) -> None:
        """Mark lines for a later batch, from this one on."""
        self.losses.later.append((source, line))
        rest = "" if line == 1 else f" from line {line} on"
        self.progress(f"{self.label(source)!a} is left for a later batch{rest}: {why}")

    def leave_whole(self, sources: Sequence[int | str], why: str) -> None:
        """Mark sources for a later batch, the cause first."""
        self.losses.later += [(source, 1) for source in sources]
        others = f", and with it {len(sources) - 1} behind it" if len(sources) > 1 else ""
        self.progress(f"{self.label(sources[0])!a} is left for a later batch{others}: {why}")

    # ── sources: slices by their ordinals, files of the backlog by their paths ─────────────────────────────────

    def slice(self, source: int | str) -> Slice | None:
        """The slice of a source; None for a file of the backlog."""
        return next((one for one in self.trial.slices if one.ordinal == source), None)

    def backlog(self) -> list[Part]:
        """The rows of every file of the backlog that the batch tries: from the first that waits to the last."""
        found: list[Part] = []
        for one, first, last in self.trial.backlog():
            settled = self.settled.get(one, frozenset())
            end = min(last, self.losses.left.get(str(one), NO_END) - 1)
            waits = [row for row in range(first, end + 1) if row not in settled]
            if waits:
                found.append((one, waits[0], waits[-1]))
        return found

    def following(self, source: int | str) -> list[int]:
        """The later slices of the same file, or partition."""
        one = self.slice(source)
        if one is None:
            return []
        return [other.ordinal for other in self.trial.slices if other.file == one.file and other.first > one.first]

    def label(self, source: int | str) -> str:
        one = self.slice(source)
        return str(source) if one is None else one.file.label

    def is_parquet(self, one: Slice) -> bool:
        return not is_range(one.file.name) and self.trial.source(one)[1] == "parquet"

    def is_file(self, parts: Sequence[Part]) -> bool:
        """Whether these are no rows, but a Parquet file as such."""
        files = [(one.ordinal, WHOLE_FILE, WHOLE_FILE) for one in self.trial.slices if self.is_parquet(one)]
        return len(parts) == 1 and parts[0] in files

    def whole(self, one: Slice) -> Part | None:
        """All lines of a slice; a Parquet file is decoded by tasks only. The lines of a topic are its offsets.

        None for a file that cannot be read any longer: tasks cannot read it either, and leave it out.
        """
        if is_range(one.file.name):
            return (one.ordinal, one.first, one.last - 1) if one.first < one.last else None
        if self.is_parquet(one):
            return (one.ordinal, WHOLE_FILE, NO_END)
        folder, _ = self.trial.source(one)
        reader, last, source = LineReader(), 0, SliceReader(folder, one)
        for block in source.blocks():
            last = max(last, int(reader.feed(block).number.max(initial=0)))
        last = max(last, int(reader.finish().number.max(initial=0)))
        return (one.ordinal, 1, last) if last and not source.changed else None

    def not_the_lines(self, why: str) -> NotTheLines:
        return NotTheLines(self.trial.name, self.trial.batch, why, self.cause)
