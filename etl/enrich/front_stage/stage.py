"""The front stage: the most frequent master rows, kept row by row, in a fixed number of bytes.

    keys ──► probe ──► entry ≥ 0      the row is here               rows(entries)
                       KNOWN_ABSENT   the master has no such row    (until its deadline)
                       MISS, STALE    join by the tactic, then      learn(rows, frequency), learn_absent(keys)

Why rows and not pages: a page of 28 rows kept for one frequent row wastes 27. Why bytes and not entries: rows vary
in size, memory does not. The frequency recorder counts hits of every row; the policy decides on admission.

Invariant: `nbytes` never exceeds the budget; index, recorder, sketch and holes are all counted.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from etl.columnar.keys import I64, Keys, encode
from etl.enrich.front_stage.rows import KNOWN_ABSENT, LEAST_BYTES, MISS, STALE, FrontRows, FrontStageConfig

__all__ = [
    "KNOWN_ABSENT",
    "LEAST_BYTES",
    "MISS",
    "STALE",
    "FrontStage",
    "FrontStageConfig",
    "FrontStageCounts",
]


@dataclass(slots=True)
class FrontStageCounts:
    """Counters since the front stage was created."""

    admissions: int = 0
    evictions: int = 0


class FrontStage:
    """Kept by the caller from batch to batch. Allocated when the first rows arrive, by their size."""

    def __init__(self, config: FrontStageConfig) -> None:
        self.config = config
        self.version: Hashable = None
        self.counts = FrontStageCounts()
        self._inner: FrontRows | None = None

    @property
    def nbytes(self) -> int:
        return 0 if self._inner is None else self._inner.nbytes

    @property
    def threshold(self) -> int:
        return self.config.threshold if self._inner is None else self._inner.policy.threshold

    def __len__(self) -> int:
        return 0 if self._inner is None else self._inner.index.size

    def pin(self, version: Hashable) -> bool:
        """Ties the content to a version of the master. Returns whether that emptied it, as a new version does."""
        changed = version != self.version
        if changed:
            self.clear()
        self.version = version
        return changed

    def clear(self) -> None:
        """Forgets everything."""
        self._inner = None

    def probe(self, keys: Keys, now: float | None = None) -> I64:
        """For each tuple its entry, or `MISS`, `STALE`, `KNOWN_ABSENT`. Changes nothing; see `record`.

        Without a clock (`now` is None) no key is assumed absent, since the assumption could not expire.
        """
        if self._inner is None:
            return np.full(len(keys), MISS, np.int64)
        return self._inner.probe(keys, now)

    def record(self, hits: I64, tuples: int) -> None:
        """Counts the entries that answered, out of `tuples` probes."""
        if self._inner is not None:
            self._inner.record(hits, tuples)

    def recall(self, keys: Keys, counts: I64, tuples: int) -> npt.NDArray[np.bool_]:
        """Adds counts observed by other processes, out of `tuples` probes. Returns which of the keys are inside."""
        if self._inner is None:
            return np.zeros(len(keys), bool)
        return self._inner.recall(keys, counts, tuples)

    def answers(self, hits: I64) -> tuple[pa.Table, I64]:
        """All rows, without a copy, and the row of each hit."""
        assert self._inner is not None, "only a probe gives entries"
        return self._inner.store.every(), self._inner.store.places(hits)

    def learn(self, rows: pa.Table, frequency: I64) -> None:
        """Offers master rows with the number of tuples each has just matched; admits them by the policy."""
        if not rows.num_rows:
            return
        keys = encode(rows.column(0))
        if self._inner is None:
            self._inner = FrontRows.planned(self.config, keys, rows)
        admitted, evicted = self._inner.learn(keys, rows, frequency)
        self.counts.admissions += admitted
        self.counts.evictions += evicted
        if self._inner.cramped:
            self._plan_again()

    def _plan_again(self) -> None:
        """Reallocates for the actual size of rows; counts of keys outside are dropped."""
        saved = self.content()
        assert saved is not None, "a cramped front stage is not empty"
        rows, frequency = saved
        keys = encode(rows.column(0))
        self._inner = FrontRows.planned(self.config, keys, rows)
        self._inner.learn(keys, rows, frequency)

    def learn_absent(self, keys: Keys, now: float | None) -> None:
        """Marks keys as absent for `negative_ttl_s`."""
        if now is not None and len(keys) and self._inner is not None:
            self._inner.absent.add(keys, now + self.config.negative_ttl_s)

    def invalidate(self, keys: Keys) -> None:
        """Drops the entries of keys whose master rows were changed, inserted or deleted."""
        if self._inner is not None and len(keys):
            self._inner.invalidate(keys)

    def content(self) -> tuple[pa.Table, I64] | None:
        """All rows with their frequencies, most frequent first; for saving. None when empty."""
        return None if self._inner is None or not len(self) else self._inner.content()
