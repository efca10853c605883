"""What a system must do with a batch, and how the pairs of all systems are compared.

The pairs of every timed batch are (r.id, s.id, both notes), on disk as Parquet when the batch is over. Their count and
two sums over the ids stand for them: the sums are taken modulo a prime, and systems that differ in one pair differ in
them but by a chance of one in 2^61.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from bench.biclique.peers.data import Step
from bench.measured import progress

_PRIME = (1 << 61) - 1


class Contender(Protocol):
    """One system, ready for the first batch."""

    def run(self, step: Step) -> None:
        """Join a batch with what the window holds and leave the pairs on disk; timed."""
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
            mixed = (r * np.uint64(0x9E3779B97F4A7C15)) ^ (s * np.uint64(0xBF58476D1CE4E5B9))
            mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0x94D049BB133111EB)
            pairs += len(r)
            halves = (mixed >> np.uint64(32), mixed & np.uint64(0xFFFFFFFF))  # so that sums stay within 64 bits
            checksum = (checksum + sum(int(half.sum(dtype=np.uint64)) << 20 for half in halves)) % _PRIME
        return cls(pairs, checksum)


@dataclass(frozen=True, slots=True)
class Measured:
    """Seconds of the fill and of every timed batch, and all pairs. No timed batch: too slow to be waited for."""

    fill_s: float
    seconds: list[float]
    digest: Digest

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> Measured:
        return cls(stored["fill_s"], stored["seconds"], Digest(**stored["digest"]))


def measure(name: str, contender: Contender, steps: list[Step], bound_s: float = 600.0) -> Measured:
    """The steps of a plan, as many as begin within the bound; pairs are counted if all of them did."""
    fill_s, seconds, began = 0.0, [], time.monotonic()
    for step in steps:
        if time.monotonic() - began > bound_s:
            progress(f"peers  {name:14} stopped before {step.name}: it took longer than {bound_s:.0f} s")
            return Measured(round(fill_s, 3), seconds, Digest())
        start = time.perf_counter()
        contender.run(step)
        spent = time.perf_counter() - start
        if step.timed:
            seconds.append(round(spent, 4))
        else:
            fill_s += spent
        progress(f"peers  {name:14} {step.name}  {spent:7.2f} s")
    return Measured(round(fill_s, 3), seconds, Digest.of(contender.pairs()))


def parquet(folder: Path) -> Iterable[pa.Table]:
    """Pairs in Parquet files."""
    for batch in ds.dataset(folder, format="parquet", exclude_invalid_files=True).to_batches(columns=["r_id", "s_id"]):
        yield pa.Table.from_batches([batch])
