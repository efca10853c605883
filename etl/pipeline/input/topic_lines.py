"""Count the topic messages that batches have read again, in the archive.

Every offset counts once, and only up to the last decided offset: copies of an undecided batch, or of batches that a
restored ledger does not know, are not counted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable
from pathlib import Path

import numpy as np

from etl.adapters.kafka.copies import Copy, copies_in, copy_path, read_copy
from etl.adapters.kafka.offsets import partition_of
from etl.adapters.landing import Slice, is_range
from etl.adapters.ledger import Ledger
from etl.contract.model import Pipeline

_Part = tuple[str, int, int]
"""Topic, id of the topic, partition."""


def messages(pipeline: Pipeline, days: Iterable[Path], ledger: Ledger) -> int:
    """Messages in copies of these days of the archive, as far as they are events."""
    topic = pipeline.stream.source.topic
    by_part: dict[_Part, list[Copy]] = defaultdict(list)
    for day in days:
        for one in copies_in(day):
            by_part[(one.topic, one.topic_id, one.partition)].append(one)
    if not by_part:
        return 0
    ends, empty_count = _ends(ledger), topic is None or topic.tombstones == "quarantine"
    return sum(_of_part(copies, ends.get(part, 2**62), empty_count) for part, copies in by_part.items())


def _of_part(copies: Iterable[Copy], end: int, empty_count: bool) -> int:
    count = reached = 0
    for one in sorted(copies, key=lambda copy: (copy.first, copy.last)):
        for records in read_copy(one.path):
            offset = records.column("offset").to_numpy()
            mine = (offset >= reached) & (offset < end)
            if not empty_count:
                mine &= np.asarray(records.column("value").is_valid())
            count += int(mine.sum())
        reached = max(reached, one.last)
    return count


def _ends(ledger: Ledger) -> dict[_Part, int]:
    """The end offset of the decided batches in the ledger, by part."""
    undecided = _undecided(ledger)
    ends: dict[_Part, int] = {}
    for batch, one in _ranges(ledger):
        part = _part(one)
        ends[part] = max(ends.get(part, 0), one.first if batch == undecided else one.last)
    return ends


def copies_missing(archive: Path, ledger: Ledger, removed: Container[str]) -> tuple[str, ...]:
    """Offsets that batches have read and whose copy is missing in the archive. `removed`: days without files."""
    undecided = _undecided(ledger)
    return tuple(
        f"{one.file.label} {one.first} to {one.last - 1}"
        for batch, one in _ranges(ledger)
        if batch != undecided and not (path := copy_path(archive, one)).exists() and path.parent.name not in removed
    )


def _undecided(ledger: Ledger) -> int | None:
    begun = ledger.oldest_unloaded()
    return begun.batch if begun is not None and begun.decision is None else None


def _ranges(ledger: Ledger) -> Iterable[tuple[int, Slice]]:
    return [(batch, one) for batch, one in ledger.all_slices() if is_range(one.file.name)]


def _part(one: Slice) -> _Part:
    return one.file.label.rpartition("/")[0], one.file.inode, partition_of(one.file.name)
