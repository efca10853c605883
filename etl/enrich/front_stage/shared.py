"""A read-only front stage shared by many joins: the same hot rows, mapped into every worker (ADR 17).

    file ──map──► HotRows ──► SharedFrontStage (one per join)   probe, rows      as any front stage
                                 └─► snapshot()                 observed frequencies, summed by the keeper

A worker needs no copy of the rows and starts warm. Its frequencies do not change the rows of this batch; the keeper
uses them for the next one. Within a batch the master is one version, so a key found absent stays absent.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from etl.columnar.hash_index import HashIndex
from etl.columnar.keys import I64, Keys, distinct, encode, to_contiguous
from etl.enrich.front_stage.expiring_keys import ExpiringKeys
from etl.enrich.front_stage.frequencies import FrequencyCollector, KeyFrequencies, disjoint
from etl.enrich.front_stage.rows import KNOWN_ABSENT, MISS
from etl.enrich.front_stage.stage import FrontStageCounts

_ABSENT_KEYS = 4096


@dataclass(frozen=True, slots=True)
class HotRows:
    """The rows of a front stage at one version of the master, with the index that finds them."""

    rows: pa.Table  # key column first, most frequent row first
    frequency: npt.NDArray[np.int64]
    index: HashIndex

    @classmethod
    def of(cls, rows: pa.Table, frequency: I64) -> HotRows:
        """Build the index for these rows."""
        keys = encode(rows.column(0))
        index = HashIndex(len(keys), two_lanes=keys.hi is not None)
        index.add(keys, np.arange(len(keys), dtype=np.int32))
        return cls(rows, frequency, index)


class SharedFrontStage:
    """One join's view of the shared rows. Its own memory is counters and frequencies, all bounded."""

    threshold = 0

    def __init__(self, hot: HotRows | None, version: Hashable = None) -> None:
        self.version = version
        self.counts = FrontStageCounts()
        self._hot = hot
        size = 0 if hot is None else hot.rows.num_rows
        self._wanted = np.zeros(size, np.int32)
        self._absent: ExpiringKeys | None = None
        self._notes = FrequencyCollector()
        self._tuples = 0

    @property
    def nbytes(self) -> int:
        """Its own memory, without the shared, mapped rows."""
        absent = 0 if self._absent is None else self._absent.nbytes
        return self._wanted.nbytes + self._notes.nbytes + absent

    def __len__(self) -> int:
        return len(self._wanted)

    def probe(self, keys: Keys, now: float | None = None) -> I64:  # noqa: ARG002 - one version has no time
        """For each tuple its row, or `MISS`, or `KNOWN_ABSENT`."""
        entry = np.full(len(keys), MISS, np.int64) if self._hot is None else self._hot.index.find(keys)
        if self._absent is not None:
            missed = np.flatnonzero(entry < 0)
            entry[missed] = np.where(self._absent.until(keys.take(missed)) > 0, KNOWN_ABSENT, MISS)
        return entry

    def record(self, hits: I64, tuples: int) -> None:
        """Counts the rows that answered, out of `tuples` probes."""
        self._wanted += np.bincount(hits, minlength=len(self._wanted)).astype(np.int32)
        self._tuples += tuples

    def answers(self, hits: I64) -> tuple[pa.Table, I64]:
        """All shared rows, without a copy, and the row of each hit."""
        assert self._hot is not None, "only a probe gives entries"
        return self._hot.rows, hits

    def learn(self, rows: pa.Table, frequency: I64) -> None:
        """Counts the keys of rows that missed."""
        if rows.num_rows:
            wanted = np.flatnonzero(frequency > 0)
            self._notes.note(rows.column(0).take(pa.array(wanted)), frequency[wanted])

    def learn_absent(self, keys: Keys, now: float | None) -> None:  # noqa: ARG002 - one version has no time
        """Remembers that this version of the master has no such rows."""
        if not len(keys):
            return
        if self._absent is None:
            self._absent = ExpiringKeys(_ABSENT_KEYS, two_lanes=keys.hi is not None)
        self._absent.add(keys.take(distinct(keys).first), np.inf)

    def snapshot(self) -> KeyFrequencies | None:
        """All observed frequencies: hits on the shared rows, and keys that missed. No key is both."""
        missed = self._notes.snapshot()
        if self._hot is None:
            return None if missed is None else replace(missed, tuples=self._tuples)
        hit = np.flatnonzero(self._wanted)
        keys = to_contiguous(self._hot.rows.column(0).take(pa.array(hit)))
        seen = KeyFrequencies(keys, self._wanted[hit].astype(np.int64), self._tuples)
        return seen if missed is None else disjoint([seen, missed])
