"""Release or reject refused lines; the verdict is final.

    release    verdicts and the file's name in one commit ─▶ the file, in the landing folder ─▶ the next batch reads it
    reject     verdicts in one commit; the lines stay where they are

A file is written after its commit; if that fails, `land_pending`, which runs before every batch under the same lock,
writes it. It is written once: not again when it exists or when a batch has read it. See ADR 60.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from etl.adapters.durable import write_durably
from etl.adapters.landing import is_release, release_name
from etl.adapters.ledger import Ledger, Writer
from etl.adapters.verdicts import RowId, Verdict, Word
from etl.errors import TerminalError
from etl.ingest.lines import LONGEST_LINE
from etl.pipeline.input.released import ReleasedLine, decode, encode
from etl.pipeline.review.quarantine import Quarantine, RefusedLine, RowUnknown, Selection

_FILE_BYTES = 8 * 2**20  # of lines per file, less than a batch splits
_NOT_KEPT_WHOLE = frozenset({"line_too_long", "malformed_parquet"})
Checkpoint = Callable[[str], None]


class NothingChosen(TerminalError):
    """The selection is empty, or it is every line there is."""

    exit_code = 64

    def __str__(self) -> str:
        return "no line is chosen; name lines such as 12-3, or say which with --batch, --reason or --key"


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
    chosen = [line.id for line in _chosen(quarantine, wanted)]
    with ledger.transaction():
        done = quarantine.verdicts.add(chosen, person.says("rejected"))
    return _outcome(chosen, done)


def release(
    quarantine: Quarantine, writer: Writer, wanted: Selection, person: Person, checkpoint: Checkpoint
) -> Outcome:
    """Release lines: they land again."""
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
    """Write committed files of released lines that do not exist yet. The caller holds the pipeline's lock."""
    verdicts = quarantine.verdicts
    for file in verdicts.pending():
        path = quarantine.places.landing / file
        if not path.exists() and not verdicts.was_read(file):
            rows = frozenset(verdicts.rows_in(file))
            lines = quarantine.find(Selection(rows, open_only=False))
            write_durably(
                path, encode(_released_line(quarantine, line) for line in sorted(lines, key=lambda one: one.id))
            )
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
    """Before a batch: write the files of committed releases."""
    if quarantine.verdicts.pending():
        land_pending(quarantine)


def put_back(quarantine: Quarantine, ledger: Ledger, at: datetime) -> None:
    """After the ledger was restored from a backup: record the lines in files of released lines as released."""
    verdicts, places = quarantine.verdicts, quarantine.places
    for folder in (places.landing, places.archive):
        for path in sorted(folder.rglob("frontstage-release-*")):
            if not is_release(path.name.encode()):
                continue
            name = path.name.partition("~")[0]
            rows = [line.origin for _, line in decode(path.read_bytes()) if line.origin is not None]
            with ledger.transaction():
                verdicts.add_file(name)
                verdicts.land(name)
                verdicts.add(rows, Verdict("released", "restored", at, "put back from its file", name))
