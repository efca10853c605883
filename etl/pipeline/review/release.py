"""Release or reject refused lines; the verdict is final.

    release    verdicts and the file's name in one commit ─▶ a note ─▶ the file, in the landing folder ─▶ the next batch
    reject     verdicts in one commit; the lines stay where they are

Note and file are written after the commit; if that fails, `settle`, which runs before every batch under the same lock,
writes them. The file is written once: not again when it exists or when a batch has read it. A ledger that was restored
from a backup takes its verdicts back from the notes (`put_back`), and from nothing else. See ADR 60.
"""

from __future__ import annotations

import secrets
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from etl.adapters.durable import write_durably
from etl.adapters.landing import release_name
from etl.adapters.ledger import Ledger, Writer
from etl.adapters.verdicts import RowId, Verdict, Word
from etl.errors import TerminalError, TransientError
from etl.ingest.lines import LONGEST_LINE
from etl.pipeline.input.released import ReleasedLine, encode
from etl.pipeline.review.quarantine import Quarantine, RefusedLine, RowUnknown, Selection
from etl.pipeline.review.release_notes import ReleaseNote, ReleaseNotes
from etl.pipeline.tasks.line_choice import WHOLE_FILE

_FILE_BYTES = 8 * 2**20  # of lines per file, less than a batch splits
_NOT_KEPT_WHOLE = frozenset({"line_too_long", "malformed_parquet"})
Checkpoint = Callable[[str], None]


class NothingChosen(TerminalError):
    """The selection is empty, or it is every line there is."""

    exit_code = 64

    def __str__(self) -> str:
        return "no line is chosen; name lines such as 12-3, or say which with --batch, --reason or --key"


class LinesNotFound(TransientError):
    """Released lines that the quarantine table does not show, so their file cannot be written."""

    def __init__(self, pipeline: str, file: str, found: int, released: int) -> None:
        super().__init__(pipeline, file, found, released)
        self.pipeline, self.file, self.found, self.released = pipeline, file, found, released

    def __str__(self) -> str:
        return (
            f"{self.released} lines of {self.pipeline} were released into {self.file} and {self.found} of them are in "
            f"quarantine now; run the pipeline, which completes a restored ledger, and try again"
        )


@dataclass(frozen=True, slots=True)
class Person:
    """Who decides, when, and why."""

    by: str
    at: datetime
    note: str = ""

    def says(self, word: Word, file: str | None = None) -> Verdict:
        return Verdict(word, self.by, self.at, self.note, file)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of an action on the selected lines."""

    done: tuple[RowId, ...]
    decided_before: tuple[RowId, ...]  # their verdict stays as it was
    impossible: tuple[tuple[RowId, str], ...] = ()  # with the reason why
    files: tuple[str, ...] = ()

    def as_json(self) -> dict[str, object]:
        return {
            "done": [str(row) for row in self.done],
            "decided_before": [str(row) for row in self.decided_before],
            "impossible": {str(row): why for row, why in self.impossible},
            "files": list(self.files),
        }


def reject(quarantine: Quarantine, ledger: Ledger, wanted: Selection, person: Person) -> Outcome:
    """Reject lines for good."""
    put_back(quarantine, ledger)
    chosen = [line.id for line in _chosen(quarantine, wanted)]
    with ledger.transaction():
        done = quarantine.verdicts.add(chosen, person.says("rejected"))
    return _outcome(chosen, done)


def release(
    quarantine: Quarantine, writer: Writer, wanted: Selection, person: Person, checkpoint: Checkpoint
) -> Outcome:
    """Release lines: they land again."""
    put_back(quarantine, writer.ledger)
    chosen = _chosen(quarantine, wanted)
    land_pending(quarantine)
    impossible: list[tuple[RowId, str]] = []
    asked: list[RowId] = []
    done: list[RowId] = []
    files = []

    def possible() -> Iterator[RefusedLine]:
        for line in chosen:
            why = None if line.verdict is not None else _impossible(quarantine, line)
            if why is not None:
                impossible.append((line.id, why))
                continue
            asked.append(line.id)
            yield line

    for part in _parts(possible()):
        file, rows = _commit_release(quarantine, writer, part, person)
        if rows:
            checkpoint("after the release is decided")
            land_pending(quarantine, checkpoint)
            files.append(file)
            done += rows
    return _outcome(asked, done, impossible, files)


def _chosen(quarantine: Quarantine, wanted: Selection) -> Iterable[RefusedLine]:
    """The selected lines; those of many batches are read lazily."""
    if wanted.is_everything:
        raise NothingChosen
    if not wanted.rows:
        return quarantine.find(wanted)
    found = list(quarantine.find(replace(wanted, open_only=False)))  # decided lines as well, to report them
    for row in sorted(wanted.rows.difference(line.id for line in found)):
        raise RowUnknown(quarantine.pipeline.name, row)
    return found


def _impossible(quarantine: Quarantine, line: RefusedLine) -> str | None:
    """Why a line cannot be released with its original bytes; None if it can."""
    kept_as_json = quarantine.pipeline.stream.source.format == "parquet"
    if kept_as_json and line.line == WHOLE_FILE:
        return "a whole file was refused as one line; land it again instead"
    if _NOT_KEPT_WHOLE.intersection(line.reasons) or (kept_as_json and len(line.raw) >= LONGEST_LINE):
        return "only its beginning was kept; land the corrected event instead"
    if quarantine.pipeline.stream.source.format == "csv" and quarantine.header(line) is None:
        return "the file with its header is no longer there; land the event under a header instead"
    return None


def _parts(lines: Iterable[RefusedLine]) -> Iterator[list[RefusedLine]]:
    part: list[RefusedLine] = []
    size = 0
    for line in lines:
        if size >= _FILE_BYTES:
            yield part
            part, size = [], 0
        part.append(line)
        size += len(line.raw)
    if part:
        yield part


def _commit_release(
    quarantine: Quarantine, writer: Writer, lines: Sequence[RefusedLine], person: Person
) -> tuple[str, list[RowId]]:
    """ONE commit: these lines are released, and this is the file in which they come back."""
    verdicts = quarantine.verdicts
    with writer.ledger.transaction():
        writer.ledger.fence(writer.epoch)
        file = release_name(verdicts.next_file(), secrets.token_hex(8), quarantine.pipeline.stream.source.format)
        verdicts.add_file(file)
        rows = verdicts.add([line.id for line in lines], person.says("released", file))
        if not rows:
            verdicts.land(file)  # every line has its verdict already: there is nothing to write
    return file, rows


def land_pending(quarantine: Quarantine, checkpoint: Checkpoint = lambda _: None) -> None:
    """Write committed files of released lines that do not exist yet, each after its note.

    The caller holds the pipeline's lock.
    """
    verdicts = quarantine.verdicts
    for file in verdicts.pending():
        path = quarantine.places.landing / file
        rows = _note(quarantine, file).rows
        if rows and not _is_file(path) and not verdicts.was_read(file):
            lines = sorted(quarantine.find(Selection(frozenset(rows), open_only=False)), key=lambda one: one.id)
            if len(lines) != len(rows):  # the ledger was restored to the middle of the batch that refused them
                raise LinesNotFound(quarantine.pipeline.name, file, len(lines), len(rows))
            write_durably(path, encode(_released_line(quarantine, line) for line in lines))
        checkpoint("after the release has landed")
        verdicts.land(file)


def _released_line(quarantine: Quarantine, line: RefusedLine) -> ReleasedLine:
    csv = quarantine.pipeline.stream.source.format == "csv"
    return ReleasedLine(line.id, line.raw, quarantine.header(line) if csv else None)


def _outcome(
    chosen: Sequence[RowId],
    done: Sequence[RowId],
    impossible: Sequence[tuple[RowId, str]] = (),
    files: Sequence[str] = (),
) -> Outcome:
    before = tuple(row for row in chosen if row not in set(done))
    return Outcome(tuple(done), before, tuple(impossible), tuple(files))


# ── around a batch ─────────────────────────────────────────────────────────────────────────────────────────────


def settle(quarantine: Quarantine) -> None:
    """Before a batch: write notes and files of committed releases."""
    verdicts = quarantine.verdicts
    for file in sorted(verdicts.files() - ReleaseNotes(quarantine.places.releases).files()):
        _note(quarantine, file)
    if verdicts.pending():
        land_pending(quarantine)


def put_back(quarantine: Quarantine, ledger: Ledger) -> None:
    """Record the releases that are noted beside the data and that the ledger, restored from a backup, does not know.

    A file that nobody finds is left pending: it had not landed, or batches that read it are still to be put back.
    """
    verdicts, notes = quarantine.verdicts, ReleaseNotes(quarantine.places.releases)
    noted = notes.files()  # listed first: a release that is noted meanwhile was committed before
    for file in sorted(noted - verdicts.files()) if noted else ():
        note = notes.read(file)
        with ledger.transaction():
            verdicts.add_file(file)
            if note.verdict is not None:
                verdicts.add(note.rows, note.verdict)
            if note.verdict is None or _has_landed(quarantine, file):
                verdicts.land(file)


def _note(quarantine: Quarantine, file: str) -> ReleaseNote:
    """Write the note of a committed release."""
    verdicts = quarantine.verdicts
    note = ReleaseNote(verdicts.rows_in(file), verdicts.verdict_in(file))
    ReleaseNotes(quarantine.places.releases).write(file, note)
    return note


def _has_landed(quarantine: Quarantine, file: str) -> bool:
    places = quarantine.places
    return any(_is_file(path) for path in (places.landing / file, *places.archive.glob(f"*/{file}")))


def _is_file(path: Path) -> bool:
    """Whether this is a file, and no link to one."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except FileNotFoundError:
        return False
