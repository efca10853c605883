"""Run the tasks of a batch; when they crash repeatedly, find the poison lines by bisection.

    try ─ lost ─ try ─ lost ─ try ─ lost ─▶ search: halve the input, try each half ─▶ lines ─▶ try without them
                                                                                            (refused as `poison`)

A try is lost when its process died or its code raised a foreign exception; our own errors say by their kind whether to
retry. Each try is recorded in the ledger before it starts, so one that kills the driver counts, too, and the next
process continues the search. Rows of the backlog are searched like lines, and so are rows of a Parquet file, once tasks
have decoded it without parsing any; a file that they do not survive decoding is refused as one row. See ADR 62, 119.
"""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

import pyarrow.parquet as pq

from etl.adapters.landing import Slice, SliceReader, format_of, is_range
from etl.adapters.losses import LossBook, Losses, Part, Suspects
from etl.contract.model import Format
from etl.errors import TerminalError
from etl.ingest.lines import LineReader
from etl.model import Progress
from etl.pipeline import decision as decisions
from etl.pipeline.decision import Gathered
from etl.pipeline.tasks.line_choice import WHOLE_FILE, LineChoice
from etl.pipeline.tasks.plan import BatchPlan
from etl.pipeline.tasks.wire import DriverLost, TaskLost

if TYPE_CHECKING:
    from etl.pipeline.microbatch import Executor

TRIES = 3
"""Consecutive lost tries before the input is suspected."""
_SILENT_DEATHS = 2  # of one half, before it is halved: a single one may be a power failure, or cost a whole file
_MOST_LINES = 20  # with more, the lines are not the cause
_NO_END: Final = 2**62  # of a Parquet file: only tasks that decode it know how many rows it has
_FIRST_ROWS = 65_536  # rows that are split off from a part without an end; the next part has twice as many


class NotTheLines(TerminalError):
    """Tasks are lost, and leaving out single lines does not help."""

    def __init__(self, pipeline: str, batch: int, why: str, cause: str) -> None:
        super().__init__(pipeline, batch, why, cause)
        self.pipeline, self.batch, self.why, self.cause = pipeline, batch, why, cause

    def __str__(self) -> str:
        return (
            f"tasks of batch {self.batch} of {self.pipeline} are lost ({self.cause}), {self.why}; nothing was decided"
        )


class Heard(Protocol):
    """The results of a try, as far as the search needs them."""

    @property
    def changed(self) -> Collection[int]:
        """Slices whose files changed while they were read."""
        ...


T = TypeVar("T", bound=Heard)
T_co = TypeVar("T_co", bound=Heard, covariant=True)


class Trial(Protocol[T_co]):
    """A batch whose tasks can be tried on all of its lines, or on some."""

    @property
    def name(self) -> str: ...

    @property
    def batch(self) -> int: ...

    @property
    def slices(self) -> Sequence[Slice]: ...

    def source(self, one: Slice) -> tuple[Path, Format]:
        """The folder of a slice's file, and the stream's format."""
        ...

    def backlog(self) -> Sequence[Part]:
        """All rows of every file of the backlog that is tried again."""
        ...

    def run(self, lines: LineChoice, only: Collection[int | str] | None) -> T_co:
        """One try, with files of its own; `only` these slices and files. Raises `TaskLost` or `DriverLost`."""
        ...


@dataclass(frozen=True, slots=True)
class PlanTrial:
    """The batch of a pipeline."""

    executor: Executor
    plan: BatchPlan

    @property
    def name(self) -> str:
        return self.plan.pipeline.name

    @property
    def batch(self) -> int:
        return self.plan.batch

    @property
    def slices(self) -> Sequence[Slice]:
        return self.plan.slices

    def source(self, one: Slice) -> tuple[Path, Format]:
        return self.plan.places.landing, format_of(one.file.name, self.plan.pipeline.stream.source.format)

    def backlog(self) -> Sequence[Part]:
        files = [(one.path, self.plan.places.waiting(one.path)) for one in self.plan.backlog]
        return [(name, 1, rows) for name, path in files if (rows := pq.read_metadata(path).num_rows)]

    def run(self, lines: LineChoice, only: Collection[int | str] | None) -> Gathered:
        plan = replace(self.plan, attempt=secrets.token_hex(4), lines=lines)
        if only is not None:
            slices = tuple(one for one in plan.slices if one.ordinal in only)
            plan = replace(plan, slices=slices, backlog=tuple(one for one in plan.backlog if one.path in only))
        return decisions.gather(self.executor.run(plan))


def run(executor: Executor, book: LossBook, plan: BatchPlan, progress: Progress) -> Gathered:
    """Run the tasks of a pipeline's batch to success; returns their results."""
    return survive(PlanTrial(executor, plan), book, progress)


def survive(trial: Trial[T], book: LossBook, progress: Progress) -> T:
    """Run the tasks of a batch to success, searching for poison lines if needed; returns their results."""
    return _Search(trial, book, progress, book.read()).run()


def line_choice(losses: Losses, parts: Sequence[Part] = ()) -> LineChoice:
    """Leave out poison lines; `parts`: read these lines only."""
    poison: dict[int | str, set[int]] = defaultdict(set)
    for source, line in losses.poison:
        poison[source].add(line)
    return LineChoice(
        {source: (first, last) for source, first, last in parts},
        {source: frozenset(found) for source, found in poison.items()},
    )


@dataclass(slots=True)
class _Search(Generic[T]):
    trial: Trial[T]
    book: LossBook
    progress: Progress
    losses: Losses
    cause: str = "the process died"

    def run(self) -> T:
        while self.losses.lost < TRIES:
            gathered = self._try(line_choice(self.losses))
            if gathered is not None:
                return gathered
            self.progress(f"a try at batch {self.trial.batch} was lost ({self.cause})")
        if self.losses.suspects != []:
            self._search()
        gathered = self._try(line_choice(self.losses))
        if gathered is None:
            raise self._not_the_lines("and no single line is the cause")
        return gathered

    def _try(self, lines: LineChoice, parts: Sequence[Part] | None = None) -> T | None:
        """One try, recorded before it begins; None when it was lost. `parts`: read these lines only."""
        self.losses.lost += 1
        self.book.write(self.losses)
        try:
            gathered = self.trial.run(lines, None if parts is None else {source for source, _, _ in parts})
            if gathered.changed:
                self._uncount_try()  # the batch is retried with the rest of its input
            return gathered
        except TaskLost as lost:
            self.cause = str(lost)
            return None
        except DriverLost:
            raise  # no results from the tasks: this counts as a loss
        except BaseException:
            with suppress(Exception):  # the first error is the one to report
                self._uncount_try()
            raise

    def _uncount_try(self) -> None:
        """The last try was not lost: take back the loss that was counted before it."""
        self.losses.lost -= 1
        self.book.write(self.losses)

    # ── the search ─────────────────────────────────────────────────────────────────────────────────────────────

    def _search(self) -> None:
        if self.losses.suspects is None:
            self.progress(f"batch {self.trial.batch}: looking for the lines that tasks do not survive")
            if self._try(line_choice(self.losses), ()) is None:
                raise self._not_the_lines("also without any input")
            landed = [part for one in self.trial.slices if (part := self._whole(one)) is not None]
            self.losses.suspects = [Suspects(list(parts)) for parts in (self.trial.backlog(), landed) if parts]
        while self.losses.suspects:
            suspects = self.losses.suspects[-1]
            if suspects.deaths >= _SILENT_DEATHS:
                self._halve(suspects)
                continue
            suspects.deaths += 1
            if self._try(line_choice(self.losses, suspects.parts), suspects.parts) is not None:
                self.losses.suspects.pop()
            elif not self._is_file(suspects.parts):
                suspects.deaths = _SILENT_DEATHS  # its death was observed: no second try needed
        self.book.write(self.losses)

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
            self._add_poison(source, first)
            return
        middle = _middle(first, last)
        self.losses.suspects += [Suspects([(source, middle + 1, last)]), Suspects([(source, first, middle)])]

    def _add_poison(self, source: int | str, line: int) -> None:
        if len(self.losses.poison) >= _MOST_LINES:
            raise self._abandoned(f"because of more than {_MOST_LINES} lines")
        self.losses.poison.append((source, line))
        what = f"line {line}"
        if self._is_file([(source, line, line)]):
            what = "the whole file"
            rows = [(source, WHOLE_FILE + 1, _NO_END)]  # not decoded any more, so there is nothing to look for in them
            self.losses.suspects = [one for one in self.losses.suspects or () if one.parts != rows]
        self.progress(f"{self._label(source)!a}, {what}: tasks do not survive it, so it is refused as poison")

    def _is_file(self, parts: Sequence[Part]) -> bool:
        """Whether these are no rows, but a Parquet file as such."""
        files = [(one.ordinal, WHOLE_FILE, WHOLE_FILE) for one in self.trial.slices if self._is_parquet(one)]
        return len(parts) == 1 and parts[0] in files

    def _is_parquet(self, one: Slice) -> bool:
        return not is_range(one.file.name) and self.trial.source(one)[1] == "parquet"

    def _label(self, source: int | str) -> str:
        return next((one.file.label for one in self.trial.slices if one.ordinal == source), str(source))

    def _whole(self, one: Slice) -> Part | None:
        """All lines of a slice; a Parquet file is decoded by tasks only. The lines of a topic are its offsets.

        None for a file that cannot be read any longer: tasks cannot read it either, and leave it out.
        """
        if is_range(one.file.name):
            return (one.ordinal, one.first, one.last - 1) if one.first < one.last else None
        if self._is_parquet(one):
            return (one.ordinal, WHOLE_FILE, _NO_END)
        folder, _ = self.trial.source(one)
        reader, last, source = LineReader(), 0, SliceReader(folder, one)
        for block in source.blocks():
            last = max(last, int(reader.feed(block).number.max(initial=0)))
        last = max(last, int(reader.finish().number.max(initial=0)))
        return (one.ordinal, 1, last) if last and not source.changed else None

    def _abandoned(self, why: str) -> NotTheLines:
        """End a search without a result: the next run starts with an ordinary try, as the cause may have been fixed."""
        self.book.write(Losses(lost=TRIES - 1))
        return self._not_the_lines(why)

    def _not_the_lines(self, why: str) -> NotTheLines:
        return NotTheLines(self.trial.name, self.trial.batch, why, self.cause)


def _middle(first: int, last: int) -> int:
    """Where a part is split: a file off its rows, rows without a known end in growing steps, others in halves."""
    if last < _NO_END:
        return (first + last) // 2
    return WHOLE_FILE if first == WHOLE_FILE else min(2 * first + _FIRST_ROWS - 2, last - 1)
