"""Cut input off a batch, for a later one: lines from a certain one on, and what follows them in the same file.

slice of lines, of a topic    ends where the first line begins that is left; the next batch reads on from there
slice of a Parquet file       is left as a whole
file of the backlog           its rows stay in it; a mark lets the next batch try them again
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from etl.adapters.landing import LandedFile, Slice, is_range
from etl.adapters.losses import LossBook, Losses
from etl.adapters.slice_reader import start_of_line
from etl.pipeline.poison.trial import Trial
from etl.pipeline.tasks.line_choice import WHOLE_FILE


def cut_off(trial: Trial[Any], book: LossBook, losses: Losses) -> None:
    """Make the batch smaller by what is marked for later, in one commit. Repeating it changes nothing."""
    marks = dict(sorted(losses.later, key=lambda mark: -mark[1]))  # the first line counts
    cuts = dict(_cuts(trial, marks))
    paths = {source: line for source, line in marks.items() if isinstance(source, str)}
    losses.left |= paths
    losses.later, losses.together = [], None
    with book.ledger.transaction():
        book.ledger.shorten(book.batch, {ordinal: last for ordinal, last in cuts.items() if last is not None})
        book.ledger.exclude(book.batch, [ordinal for ordinal, last in cuts.items() if last is None])
        book.ledger.retry(list(paths))
        book.write(losses)


def _cuts(trial: Trial[Any], marks: dict[int | str, int]) -> Iterator[tuple[int, int | None]]:
    """Where slices end from now on; None for those that are left as a whole."""
    cut: set[LandedFile] = set()  # files and partitions; their slices come in order
    for one in trial.slices:
        if one.file in cut:
            yield one.ordinal, None
        elif one.ordinal in marks:
            yield one.ordinal, _end(trial, one, marks[one.ordinal])
            cut.add(one.file)


def _end(trial: Trial[Any], one: Slice, line: int) -> int | None:
    """Where a slice ends that is cut before a line; None when nothing of it is left."""
    folder, format = trial.source(one)
    if is_range(one.file.name):
        end = line
    elif format == "parquet" or line <= WHOLE_FILE + 1:
        return None
    else:
        end = start_of_line(folder, one, line)
    return end if end > one.first else None
