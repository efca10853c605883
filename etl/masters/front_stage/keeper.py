"""Keeps one master's front stage between batches: in the driver's memory, and in the file that workers map (ADR 17).

    before a batch   keeper.ready(reader, rows_id, schema)   bring the rows to the pinned version
    in the batch     workers map the file, record key frequencies
    after it         keeper.learn(notes, reader)            the policy admits and evicts; the file is written again

Doubtful state is discarded or read again: a damaged file, rows of a version whose changes are unknown. Frequencies
survive a new version of the master, because they describe the stream.

The caller bounds the time for reading rows, most frequent keys first; the others are left to a later round (ADR 25).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from etl.columnar.keys import I64, encode, match_rows, to_contiguous
from etl.enrich.build import LOOKUP_FRONT_SHARE
from etl.enrich.front_stage.frequencies import KeyFrequencies, total
from etl.enrich.front_stage.shared import HotRows
from etl.enrich.front_stage.stage import FrontStage, FrontStageConfig
from etl.enrich.ports import MasterReader
from etl.enrich.spec import JoinSpec
from etl.masters.front_stage import file as front_stage_file
from etl.masters.front_stage.file import FrontStageDamaged, Provenance
from etl.masters.front_stage.lookups import PacedLookup

_WORTH_WRITING = 0.002  # share of new rows below which the file is not rewritten
FOLLOW_S = 0.25
"""How long a batch waits for changed rows when a master has a new version."""


def divided(budget_bytes: int, masters: int, join: JoinSpec) -> tuple[int, int]:
    """Divide a budget among so many masters: each one's shared front stage, and one worker's join."""
    front = int(budget_bytes * LOOKUP_FRONT_SHARE) if join.front_stage else 0
    return front // masters, (budget_bytes - front) // masters


@dataclass(frozen=True, slots=True)
class FrontStageStats:
    """A front stage after a batch: its size, admitted and evicted rows, and stale rows that were read again."""

    rows: int
    bytes: int
    admitted: int
    evicted: int
    reread: int

    def as_json(self) -> dict[str, int]:
        return asdict(self)


class FrontStageKeeper:
    """One per master and process; the file outlives both."""

    def __init__(self, path: Path, config: FrontStageConfig) -> None:
        self.path, self.config = path, config
        self._front = FrontStage(config)
        self._belongs: Provenance | None = None
        self._written: Provenance | None = None
        self._file: os.stat_result | None = None  # as last written
        self._unwritten = 0
        self._reread = 0  # stale rows that were read again, since the last `learn`
        self._lookup = PacedLookup()
        self._left: KeyFrequencies | None = None  # looked up, and not read yet

    @property
    def nbytes(self) -> int:
        """Memory held in the driver."""
        return self._front.nbytes

    def __len__(self) -> int:
        return len(self._front)

    def ready(self, reader: MasterReader, rows_id: str, schema: pa.Schema) -> Path | None:
        """The file to map, brought to this version of the master; None while it is empty."""
        now = Provenance(rows_id, () if reader.change_tracking is None else reader.change_tracking.parts)
        if self._belongs is None:
            self._recover()
        if self._belongs is not None and self._belongs != now:
            self._follow(reader, self._belongs, now, schema)
        self._belongs = now
        self._write()
        return self.path if len(self._front) else None

    def learn(
        self, learned: KeyFrequencies, reader: MasterReader, going_on: Callable[[], bool] = lambda: True
    ) -> FrontStageStats:
        """Update the policy with the workers' frequencies, and write the rows for the next batch."""
        left, self._left = self._left, None
        if left is not None and left.keys.type == learned.keys.type:
            learned = total([left, learned])
        keys = encode(learned.keys)
        inside = self._front.recall(keys, learned.counts, learned.tuples)
        before = replace(self._front.counts)
        missing = np.flatnonzero(~inside)
        if len(missing):
            order = missing[np.argsort(-learned.counts[missing], kind="stable")]
            self._read(reader, learned.keys.take(pa.array(order)), learned.counts[order], going_on)
        admitted = self._front.counts.admissions - before.admissions
        evicted = self._front.counts.evictions - before.evictions
        self._unwritten += admitted
        if self._unwritten > _WORTH_WRITING * len(self._front):
            self._written = None
        self._write()
        reread, self._reread = self._reread, 0
        return FrontStageStats(len(self._front), self._front.nbytes, admitted, evicted, reread)

    def _read(self, reader: MasterReader, keys: pa.Array, counts: I64, going_on: Callable[[], bool]) -> int:
        """Offer the rows of these keys to the policy while time permits; returns the number of keys."""
        rows, done = self._lookup.rows(reader, keys, going_on)
        if done < len(keys):
            later = KeyFrequencies(keys.slice(done), counts[done:])
            self._left = later if self._left is None else total([self._left, later])
        place = match_rows(encode(keys.slice(0, done)), encode(rows.column(0)))
        assert (place >= 0).all(), "a lookup gives rows of the keys it was asked for"
        self._front.learn(rows, counts[:done][place])
        return done

    def _recover(self) -> None:
        """Load an earlier process's file; start empty if it is damaged."""
        try:
            hot, belongs = front_stage_file.load(self.path, verify=True)
        except (FileNotFoundError, FrontStageDamaged, pa.ArrowInvalid):
            self.path.unlink(missing_ok=True)
            return
        self._front.learn(hot.rows, hot.frequency)
        self._belongs = belongs

    def _follow(self, reader: MasterReader, before: Provenance, now: Provenance, schema: pa.Schema) -> None:
        """Bring the rows to another version: read the changed ones again, or all if the changes are unknown."""
        saved = self._front.content()
        if before.rows_id == now.rows_id or saved is None:
            return
        rows, frequency = saved
        keys = to_contiguous(rows.column(0))
        if keys.type != schema.types[0]:  # the key's type has changed
            self._front, self._left = FrontStage(self.config), None
            return
        alike = rows.schema.names == schema.names and rows.schema.types == schema.types
        tracking = reader.change_tracking
        touched = None if tracking is None or not alike or not before.parts else tracking.touched(keys, before.parts)
        if touched is None:
            self._front = FrontStage(self.config)
            changed, counts = keys, frequency
        else:
            changed, counts = keys.filter(pa.array(touched)), frequency[touched]
            self._front.invalidate(encode(changed))
        if len(changed):
            until = self._lookup.clock() + FOLLOW_S
            self._reread += self._read(reader, changed, counts, lambda: self._lookup.clock() < until)

    def _write(self) -> None:
        if self._belongs is None or (self._belongs == self._written and self._in_place()):
            return
        saved = self._front.content()
        if saved is None:
            return
        front_stage_file.save(self.path, HotRows.of(*saved), self._belongs)
        self._written, self._unwritten, self._file = self._belongs, 0, self.path.stat()

    def _in_place(self) -> bool:
        """Whether the file is still the one that was written, neither removed nor replaced."""
        try:
            now = self.path.stat()
        except FileNotFoundError:
            return False
        made = self._file
        return made is not None and os.path.samestat(now, made) and now.st_mtime_ns == made.st_mtime_ns
