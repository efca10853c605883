"""What a system must do with a batch, and how the pairs of all systems are compared.

The pairs of every timed batch are (r.id, s.id, both notes), on disk when the batch is over. Their count and a checksum
over mixed ids stand for them. What met while the window was filled does not count: systems that keep rows and no pairs
need not join them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from bench.biclique.peers.data import FILLS, FIRST_TIMED_ID, Step
from bench.measured import progress

_PRIME = (1 << 61) - 1


class Contender(Protocol):
    """One system, ready for the first batch."""

    def run(self, step: Step) -> None:
        """Join a batch with what the window holds and leave the pairs on disk; timed."""
        ...

    def stop(self) -> None:
        """End the batch under way, which then fails; called from another thread when the time is over."""
        ...

    def pairs(self) -> Iterable[pa.Table]:
        """Columns r_id and s_id of every pair so far, from disk."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Digest:
    """Stands for a set of pairs."""

    pairs: int = 0
    checksum: int = 0

    @classmethod
    def of(cls, tables: Iterable[pa.Table]) -> Digest:
        pairs = checksum = 0
        for table in tables:
            r, s = (np.asarray(table[name].combine_chunks()).astype(np.uint64) for name in ("r_id", "s_id"))
            timed = (r >= FIRST_TIMED_ID) | (s >= FIRST_TIMED_ID)
            r, s = r[timed], s[timed]
            mixed = (r * np.uint64(0x9E3779B97F4A7C15)) ^ (s * np.uint64(0xBF58476D1CE4E5B9))
            mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0x94D049BB133111EB)
            pairs += len(r)
            halves = (mixed >> np.uint64(32), mixed & np.uint64(0xFFFFFFFF))  # so that sums stay within 64 bits
            checksum = (checksum + sum(int(half.sum(dtype=np.uint64)) << 20 for half in halves)) % _PRIME
        return cls(pairs, checksum)


@dataclass(frozen=True, slots=True)
class Measured:
    """Seconds of every step of the fill and of every timed batch, and all pairs.

    No timed batch: too slow to be waited for. Fewer steps of the fill than there are: it did not even get there.
    """

    fills: list[float]
    seconds: list[float]
    digest: Digest

    @property
    def filled(self) -> bool:
        return len(self.fills) == FILLS

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> Measured:
        return cls(stored["fills"], stored["seconds"], Digest(**stored["digest"]))


def measure(name: str, contender: Contender, steps: list[Step], bound_s: float = 600.0) -> Measured:
    """The steps of a plan. What is not over within the bound is stopped; pairs are counted if all steps ran."""
    fills, seconds, began = list[float](), list[float](), time.monotonic()
    for step in steps:
        start = time.perf_counter()
        if not _within(contender, step, began + bound_s - time.monotonic()):
            progress(f"peers  {name:14} {step.name}  stopped: all of it took longer than {bound_s:.0f} s")
            return Measured(fills, seconds, Digest())
        spent = time.perf_counter() - start
        (seconds if step.timed else fills).append(round(spent, 4))
        progress(f"peers  {name:14} {step.name}  {spent:7.2f} s")
    return Measured(fills, seconds, Digest.of(contender.pairs()))


def _within(contender: Contender, step: Step, seconds: float) -> bool:
    """Runs a step; False if it had to be stopped."""
    if seconds <= 0:
        return False
    over = threading.Event()

    def stop() -> None:
        over.set()
        contender.stop()

    timer = threading.Timer(seconds, stop)
    timer.start()
    try:
        contender.run(step)
    except Exception:
        if not over.is_set():
            raise
        return False
    finally:
        timer.cancel()
    return True


def parquet(folder: Path) -> Iterable[pa.Table]:
    """Pairs in Parquet files."""
    for batch in ds.dataset(folder, format="parquet", exclude_invalid_files=True).to_batches(columns=["r_id", "s_id"]):
        yield pa.Table.from_batches([batch])
