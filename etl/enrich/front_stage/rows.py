"""The rows of a front stage with allocated arrays: `capacity` entries within a byte budget.

    entry ──► key lanes, frequency, size                    the frequency recorder
          └─► row store                                     the row itself
    key   ──► hash index ──► entry
          ├─► absent     known to have no master row, until a deadline
          └─► withdrawn  had a row that was invalidated

Victims are taken from a queue of the least frequent entries, refilled in bulk: a small step need not sort all entries.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from etl.columnar.hash_index import HashIndex
from etl.columnar.keys import I64, Keys
from etl.enrich.errors import BudgetTooSmall
from etl.enrich.front_stage.expiring_keys import ExpiringKeys
from etl.enrich.front_stage.policy import Entries, Free, Policy, PolicyName, make_policy, policy_bytes_per_row
from etl.enrich.front_stage.row_store import LIVE_SHARE, RowStore, row_bytes

MISS, KNOWN_ABSENT, STALE = -1, -2, -3
LEAST_BYTES = 16 * 1024
_REMEMBERED_SHARE = 1 / 32  # of the budget, for each of the two sets of expiring keys
_CLEANING_SHARE = 1 / 32  # of the budget, kept free for the segment being cleaned


@dataclass(frozen=True, slots=True)
class FrontStageConfig:
    """Size and policy of a front stage."""

    budget_bytes: int
    policy: PolicyName = "tinylfu"
    threshold: int = 2  # initial value, for the paper's policy
    window: float = 128.0  # tuples per row held after which tinylfu halves its counts
    negative_ttl_s: float = 60.0  # how long a key is assumed absent

    def __post_init__(self) -> None:
        if self.budget_bytes < LEAST_BYTES:
            raise BudgetTooSmall("the front stage", self.budget_bytes, LEAST_BYTES)


class FrontRows:
    """The allocated part of a front stage: `capacity` entries within its byte budget."""

    def __init__(self, config: FrontStageConfig, capacity: int, *, two_lanes: bool) -> None:
        remembered = int(config.budget_bytes * _REMEMBERED_SHARE / ExpiringKeys.bytes_per_key(two_lanes=two_lanes))
        self.capacity = capacity
        self.index = HashIndex(capacity, two_lanes=two_lanes)
        self.policy: Policy = make_policy(
            config.policy, threshold=config.threshold, window=config.window, rows=capacity
        )
        self.absent = ExpiringKeys(remembered, two_lanes=two_lanes)
        self.withdrawn = ExpiringKeys(remembered, two_lanes=two_lanes)
        self.frequency = np.zeros(capacity, np.float32)
        self._lo = np.zeros(capacity, np.uint64)
        self._hi = np.zeros(capacity, np.uint64) if two_lanes else None
        self._size = np.zeros(capacity, np.int32)
        self._live = np.zeros(capacity, bool)
        self._free = np.arange(capacity, dtype=np.int32)[::-1].copy()
        self._free_count = capacity
        self._left = 0  # rows evicted since the last `learn`
        self._live_bytes = 0
        self._victims: I64 = np.zeros(0, np.int64)
        self._since = _Since()
        fixed = self._fixed_bytes()
        self._row_budget = int(config.budget_bytes * (1 - _CLEANING_SHARE)) - fixed
        self.store = RowStore(capacity, self._row_budget)
        self._live_limit = int((self._row_budget - capacity * RowStore.overhead_per_entry()) * LIVE_SHARE)

    @classmethod
    def planned(cls, config: FrontStageConfig, keys: Keys, rows: pa.Table) -> FrontRows:
        """Allocate for rows of this size."""
        two = keys.hi is not None
        mean = float(np.mean(row_bytes(rows)))
        own = (
            HashIndex.bytes_for(1000, two_lanes=two) / 1000 + (33 if two else 25) + policy_bytes_per_row(config.policy)
        )
        per_row = mean / LIVE_SHARE + own + RowStore.overhead_per_entry()
        room = config.budget_bytes * (1 - 2 * _REMEMBERED_SHARE - _CLEANING_SHARE)
        capacity = int(room / per_row)
        if capacity < 4:
            raise BudgetTooSmall(
                "a front stage of four rows",
                config.budget_bytes,
                int(config.budget_bytes * 5 / capacity) if capacity else int(per_row * 8),
            )
        return cls(config, capacity, two_lanes=two)

    @property
    def nbytes(self) -> int:
        return self._fixed_bytes() + self.store.nbytes

    def _fixed_bytes(self) -> int:
        arrays = (
            self.frequency,
            self._lo,
            self._size,
            self._live,
            self._free,
            *(() if self._hi is None else (self._hi,)),
        )
        parts = (self.index, self.absent, self.withdrawn, self.policy)
        return sum(int(array.nbytes) for array in arrays) + sum(int(part.nbytes) for part in parts)

    @property
    def cramped(self) -> bool:
        """Whether rows are smaller than planned: all entries are used, but bytes are left."""
        return not self._free_count and self._live_bytes < 0.7 * self._live_limit

    def _keys_of(self, entries: I64) -> Keys:
        return Keys(self._lo[entries], None if self._hi is None else self._hi[entries], None, None)

    def probe(self, keys: Keys, now: float | None) -> I64:
        entry = self.index.find(keys)
        if len(self.absent) or len(self.withdrawn):
            missed = np.flatnonzero(entry < 0)
            entry[missed] = self._miss_kinds(keys.take(missed), now)
        return entry

    def record(self, hits: I64, tuples: int) -> None:
        np.add.at(self.frequency, hits, np.float32(1))
        self._since.tuples += tuples
        self._since.hits += len(hits)

    def recall(self, keys: Keys, counts: I64, tuples: int) -> npt.NDArray[np.bool_]:
        entry = self.index.find(keys)
        inside = entry >= 0
        self.frequency[entry[inside]] += counts[inside].astype(np.float32)
        self._since.tuples += tuples
        self._since.hits += int(counts[inside].sum())
        return np.asarray(inside, bool)

    def _miss_kinds(self, keys: Keys, now: float | None) -> I64:
        until = self.absent.until(keys)
        believed = np.zeros(len(keys), bool) if now is None else until > now
        stale = ~believed & ((until > -np.inf) | (self.withdrawn.until(keys) > -np.inf))
        return np.where(believed, KNOWN_ABSENT, np.where(stale, STALE, MISS)).astype(np.int64)

    def learn(self, keys: Keys, rows: pa.Table, frequency: I64) -> tuple[int, int]:
        """Admits rows by the policy. Returns how many rows entered and left."""
        entry = self.index.find(keys)
        inside, new = np.flatnonzero(entry >= 0), np.flatnonzero(entry < 0)
        self.frequency[entry[inside]] += frequency[inside].astype(np.float32)  # admitted since they missed
        keys, counts = keys.take(new), frequency[new]
        self.absent.remove(keys)
        self.withdrawn.remove(keys)
        tuples, hits = self._take_tuples()
        halvings = self.policy.fade(tuples, hits, self.index.size)
        if halvings:
            self.frequency *= np.float32(0.5**halvings)
        candidates = Entries(self.policy.estimate(keys, counts), row_bytes(rows)[new])
        enter, leave = self._choose(candidates)
        self._evict(leave)
        self._admit(keys.take(enter), rows.take(pa.array(new[enter])), candidates, enter)
        self._since.refused += len(new) - len(enter)
        self._adapt()
        left, self._left = self._left, 0
        return len(enter), left

    def _choose(self, candidates: Entries) -> tuple[I64, I64]:
        free = Free(self._live_limit - self._live_bytes, self._free_count)
        order = self._least_frequent(len(candidates.size))
        victims = Entries(self.frequency[order], self._size[order].astype(np.int64))
        enter, leaving = self.policy.choose(candidates, victims, free)
        return enter, order[:leaving]

    def _least_frequent(self, candidates: int) -> I64:
        """Possible victims for this many candidates, least frequent first."""
        want = max(64, 2 * candidates)
        queue = self._victims
        if len(queue) < min(want, self.index.size):
            queue = np.flatnonzero(self._live)
            most = max(want, len(queue) // 16)
            if most < len(queue):
                queue = queue[np.argpartition(self.frequency[queue], most - 1)[:most]]
            queue = queue[np.argsort(self.frequency[queue])]
        self._victims = queue
        head = queue[:want]
        return head[np.argsort(self.frequency[head], kind="stable")]

    def _admit(self, keys: Keys, rows: pa.Table, candidates: Entries, chosen: I64) -> None:
        if not len(chosen):
            return
        self._free_count -= len(chosen)
        entries = self._free[self._free_count : self._free_count + len(chosen)].astype(np.int64)
        self.index.add(keys, entries)
        self._lo[entries] = keys.lo
        if self._hi is not None and keys.hi is not None:
            self._hi[entries] = keys.hi
        self.frequency[entries], self._size[entries] = candidates.frequency[chosen], candidates.size[chosen]
        self._live[entries] = True
        self._live_bytes += int(candidates.size[chosen].sum())
        self.store.put(entries, rows)
        self._shrink_to_fit()

    def _shrink_to_fit(self) -> None:
        """Cleans holes; if the bytes still exceed the budget, evicts the least frequent rows."""
        self.store.clean(self._row_budget)
        while self.store.nbytes > self._row_budget and self.index.size:
            live = np.flatnonzero(self._live)
            few = max(1, len(live) // 16)
            self._evict(live[np.argsort(self.frequency[live])[:few]])
            self.store.clean(self._row_budget)

    def _evict(self, entries: I64) -> None:
        if not len(entries):
            return
        keys = self._keys_of(entries)
        self.policy.forget(keys, self.frequency[entries])
        self._since.evicted += len(entries)
        self._left += len(entries)
        self._remove(entries, keys)

    def _remove(self, entries: I64, keys: Keys) -> None:
        self.index.remove(keys)
        self.store.drop(entries)
        self._live[entries] = False
        self._victims = self._victims[self._live[self._victims]]  # now: the entry will be reused for another key
        self._live_bytes -= int(self._size[entries].sum())
        self._free[self._free_count : self._free_count + len(entries)] = entries
        self._free_count += len(entries)

    def invalidate(self, keys: Keys) -> None:
        entry = self.index.find(keys)
        entries = np.unique(entry[entry >= 0])
        known = (entry >= 0) | (self.absent.until(keys) > -np.inf)
        self.absent.remove(keys)
        self.withdrawn.add(keys.take(known), np.inf)
        if len(entries):
            self._remove(entries, self._keys_of(entries))

    def content(self) -> tuple[pa.Table, I64]:
        live = np.flatnonzero(self._live)
        order = live[np.argsort(-self.frequency[live], kind="stable")]
        return self.store.take(order), np.ceil(self.frequency[order]).astype(np.int64)

    def _take_tuples(self) -> tuple[int, int]:
        """Numbers of probed and answered tuples since the last call."""
        since = self._since
        tuples, hits = since.tuples, since.hits
        since.tuples = since.hits = 0
        since.adapting += tuples
        return tuples, hits

    def _adapt(self) -> None:
        if self._since.adapting < max(1000, self.capacity):
            return
        since = self._since
        full = self._live_bytes > 0.9 * self._live_limit or since.evicted > 0
        self.policy.adapt(full=full, evicted=since.evicted, refused=since.refused, rows=self.index.size)
        self._since = _Since()


@dataclass(slots=True)
class _Since:
    """Counts since the policy was last adapted."""

    tuples: int = 0
    hits: int = 0
    adapting: int = 0
    evicted: int = 0
    refused: int = 0
