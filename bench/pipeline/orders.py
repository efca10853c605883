"""The orders that all contenders read: files made once, each batch with the generator's count of what is in it.

    var/bench/pipeline/orders/masters-100000/   000050000-007-0000.jsonl …   lines as they would land
                                                000050000-007.json           lines by kind: the truth

A batch repeats orders of its own and of no other batch, so a script that drops duplicates within a batch only can be
right. Batches differ in their lines, not in which customers are popular: a front stage may learn, nobody can have
learned a batch by heart.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

LINES_PER_FILE = 25_000
_START = datetime(2026, 11, 1, tzinfo=UTC)
_APART = 1_000_000
"""Batches of one size at most: their lines, and with them their order ids, never meet those of another size."""

GLUED = "glued"
"""Among the malformed lines: two objects on one line. Spark's JSON reader stops after the first."""

Kinds = dict[str, int]


@dataclass(frozen=True, slots=True)
class Batch:
    """Some order files, and how many of their lines are of which kind."""

    size: int
    number: int
    files: tuple[Path, ...]
    kinds: Kinds


@dataclass(frozen=True, slots=True)
class Orders:
    """All batches over masters of some size, on disk."""

    root: Path
    masters: int

    @property
    def folder(self) -> Path:
        return self.root / f"masters-{self.masters}"

    def batch(self, size: int, number: int) -> Batch:
        """A batch that was made before; one of size 0 has no files."""
        if size == 0:
            return Batch(0, number, (), {})
        name = _name(size, number)
        files = tuple(sorted(self.folder.glob(f"{name}-*.jsonl")))
        return Batch(size, number, files, json.loads((self.folder / f"{name}.json").read_text()))

    def make(self, size: int, numbers: range) -> int:
        """Make the batches that are not there yet. Returns how many those were."""
        missing = [number for number in numbers if size and not (self.folder / f"{_name(size, number)}.json").exists()]
        if not missing:
            return 0
        self.folder.mkdir(parents=True, exist_ok=True)
        for number, (parts, kinds) in zip(missing, _rendered(self.masters, size, missing), strict=True):
            name = _name(size, number)
            for index, data in enumerate(parts):
                (self.folder / f"{name}-{index:04}.jsonl").write_bytes(data)
            (self.folder / f"{name}.json").write_text(json.dumps(kinds))  # last: it says that the files are whole
        return len(missing)


def _name(size: int, number: int) -> str:
    return f"{size:09}-{number:03}"


def _rendered(masters: int, size: int, numbers: list[int]) -> Iterator[tuple[list[bytes], Kinds]]:
    # The generator of the tree under test; a contender from another tree only reads files.
    from etl.samples import OrderConfig, OrderStream, Tally, Wave

    class Apart(OrderStream):
        """A stream whose waves know nothing of each other."""

        def at(self, first: int, count: int) -> Wave:
            self._spans.clear()
            self._lines = first
            return self.wave(count, _START, timedelta(minutes=1))

    assert all(number < _APART for number in numbers), "there are so many batches of a size, and no more"
    stream = Apart(OrderConfig(customers=masters))
    for number in numbers:
        parts = list(stream.at(size * (_APART + number), size).parts(min(LINES_PER_FILE, size)))
        tally = sum((part.tally for part in parts), Tally())
        yield [bytes(part.data) for part in parts], {**tally.kinds, GLUED: tally.varieties.get("glued", 0)}


def with_backlog(kinds: Kinds) -> Kinds:
    """Where a pipeline with claims and a backlog has to put the lines."""
    return {
        "fact": _sum(kinds, "clean"),
        "rejects": _sum(kinds, "malformed", "out_of_range", "conflict"),
        "backlog": _sum(kinds, "unknown_customer", "late_customer"),
        "duplicates": _sum(kinds, "duplicate"),
    }


def without_backlog(kinds: Kinds) -> Kinds:
    """Where a plain script has to put them: who is unknown is rejected, any second line of an id is dropped, and of two
    objects on a line the first is a fact."""
    refused = _sum(kinds, "malformed", "out_of_range", "unknown_customer", "late_customer")
    return {
        "fact": _sum(kinds, "clean", GLUED),
        "rejects": refused - _sum(kinds, GLUED),
        "backlog": 0,
        "duplicates": _sum(kinds, "duplicate", "conflict"),
    }


def _sum(kinds: Kinds, *names: str) -> int:
    return sum(kinds.get(name, 0) for name in names)
