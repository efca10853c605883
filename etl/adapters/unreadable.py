"""Landed files that cannot be opened: which, and why.

    folder, files, consumed ── find ──▶ Unreadable(file, reason) ──▶ a sentence, the run report, `frontstage doctor`

Such a file waits where it landed and holds up no other. It is tried again by every batch, so it is loaded by itself
once it can be read (ADR 116).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from etl.adapters.landing import Consumed, LandedFile, Slice
from etl.adapters.regular_file import RegularFile, reason_of

_NAMED = 3
"""Files that a sentence names."""
REMEDY: Final = (
    "let the account that runs Frontstage read them (`chmod`, `chown`), then they are loaded by themselves; "
    "or take them out of the landing folder"
)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A landed file that waits because it cannot be opened."""

    file: LandedFile
    reason: str

    def __str__(self) -> str:
        return f"{self.file.label!a} ({self.reason})"


def find(folder: Path, files: Iterable[LandedFile], consumed: Mapping[bytes, Consumed]) -> tuple[Unreadable, ...]:
    """The files with unread bytes that cannot be opened, each with the reason."""
    found = []
    for file in files:
        before = consumed.get(file.name)
        reason = None if before is not None and before.covers(file) else _refusal(folder, file)
        if reason is not None:
            found.append(Unreadable(file, reason))
    return tuple(found)


def _refusal(folder: Path, file: LandedFile) -> str | None:
    """Why a file cannot be opened; None when it can, or when it is no longer there."""
    try:
        with RegularFile(folder, file.name):
            return None
    except FileNotFoundError:
        return None
    except OSError as error:
        return reason_of(error)


def waiting_sentence(files: Sequence[Unreadable]) -> str:
    """How many files cannot be read, and the first of them with their reasons."""
    count = "1 file cannot be read and waits" if len(files) == 1 else f"{len(files)} files cannot be read and wait"
    return f"{count}: {_named(files)}"


def left_out_sentence(slices: Iterable[Slice], changed: Collection[int], reasons: Mapping[int, str]) -> str:
    """How many files changed while they were read, by the ordinals of their slices; and which can no longer be read."""
    file_of = {one.ordinal: one.file for one in slices}
    count = len({file_of[ordinal] for ordinal in changed})
    gone = {file_of[ordinal]: reason for ordinal, reason in reasons.items()}
    why = f": {_named([Unreadable(*one) for one in gone.items()])}" if gone else ""
    return f"{count} files changed while they were read and are left for the next batch{why}"


def _named(files: Sequence[Unreadable]) -> str:
    more = f" and {len(files) - _NAMED} more" if len(files) > _NAMED else ""
    return ", ".join(str(one) for one in files[:_NAMED]) + more
