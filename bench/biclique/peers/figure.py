"""All contenders on the same files: one process each, one after the other, then ratios and aims of this one run."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from typing import Any

from bench.biclique.peers.contender import Measured
from bench.biclique.peers.data import KINDS, Kind, Plan
from bench.biclique.result import Aim, Figure, at_least, at_most
from bench.measured import progress

BATCH, BATCHES = 100_000, 5
STORED = (1_000_000, 5_000_000)
BOUND_S = 110.0
"""After which a contender begins no further batch: eighteen of them stay within the 25 minutes."""
RUN: dict[Kind, tuple[str, ...]] = {
    "equality": ("ours", "duckdb", "spark-window", "spark-join", "spark-join-v4"),
    "band": ("ours", "duckdb", "spark-window"),
}
SPARK: dict[Kind, tuple[str, ...]] = {"equality": ("spark-join", "spark-join-v4"), "band": ("spark-window",)}
REASON = (
    "Batches of 100,000 tuples of both streams together, about one pair per tuple whatever the window holds. Timed "
    "from landed files to pairs on disk; ours includes the stream log, its ledger in Postgres and a Delta commit, the "
    "others write Parquet. `spark-join` is Structured Streaming's join on RocksDB (state format 3; v4: format 4, which "
    "Spark 4.2 offers for testing); `spark-window` joins each batch, broadcast, with the window's rows, bands by bins; "
    "`duckdb` does the same natively, its window in memory and nothing else kept."
)


class Disagreement(Exception):
    """Two contenders returned different pairs: their speed means nothing."""


@dataclass(slots=True)
class Comparison:
    """What the contenders measured, by condition, name and stored tuples."""

    measured: dict[tuple[Kind, str, int], Measured] = field(default_factory=dict)

    def add(self, kind: Kind, name: str, stored: int, one: Measured) -> None:
        """Refuses pairs that differ from those of the contenders before."""
        self.measured[kind, name, stored] = one
        digests = {
            other: found.digest for (what, other, size), found in self.measured.items()
            if (what, size) == (kind, stored) and found.digest.pairs
        }  # fmt: skip
        if len(set(digests.values())) > 1:
            raise Disagreement(f"pairs of {kind} over {stored:,} tuples differ: {digests}")

    def rate(self, kind: Kind, name: str, stored: int) -> float:
        """Tuples per second of the median batch; of one that was stopped, what it cannot have exceeded."""
        one = self.measured[kind, name, stored]
        return BATCH / (statistics.median(one.seconds) if one.seconds else BOUND_S)

    def times_spark(self, kind: Kind, stored: int) -> float:
        """Ours over the fastest of Spark's own."""
        best = max(self.rate(kind, name, stored) for name in SPARK[kind])
        return self.rate(kind, "ours", stored) / best

    def growth(self, kind: Kind) -> float:
        """Cost of the largest window over that of the smallest."""
        small, large = (self.rate(kind, "ours", stored) for stored in (STORED[0], STORED[-1]))
        return small / large

    def aims(self) -> tuple[Aim, ...]:
        against = [
            at_least(f"{kind}: tuples per second over Spark's, {_millions(stored)} stored", ratio, 5.0)
            for kind in KINDS for stored in STORED if (ratio := self.times_spark(kind, stored))
        ]  # fmt: skip
        growth = [
            at_most(f"{kind}: a batch over a window five times as large costs", self.growth(kind), 1.5)
            for kind in KINDS
        ]
        return (*against, *growth)

    def figure(self) -> Figure:
        series: dict[str, list[tuple[str, float]]] = {}
        details: dict[tuple[str, Any], dict[str, Any]] = {}
        for kind, name, stored in self.measured:
            x, one = f"{kind}, {_millions(stored)}", self.measured[kind, name, stored]
            series.setdefault(name, []).append((x, self.rate(kind, name, stored) / 1e3))
            details[name, x] = {
                "condition": kind, "stored": stored, "batch": BATCH, "seconds": one.seconds, "fill_seconds": one.fill_s,
                "pairs": one.digest.pairs, "stopped": not one.digest.pairs,
            }  # fmt: skip
        worst = min(self.times_spark(kind, stored) for kind in KINDS for stored in STORED)
        ours = {f"{kind}, {_millions(s)}: ours / Spark": self.times_spark(kind, s) for kind in KINDS for s in STORED}
        title = f"Whole micro-batches: at least {worst:.1f} times as fast as Spark's own ways"
        return Figure(
            "peers", title, "condition and stored tuples", "thousand tuples per second", series, ours, {}, REASON,
            self.aims(), details, "time",
        )  # fmt: skip


def compared(_scale: float) -> Figure:
    """Everything, smallest windows first."""
    comparison = Comparison()
    for stored in STORED:
        for kind in KINDS:
            for name in RUN[kind]:
                comparison.add(kind, name, stored, _in_its_process(name, kind, Plan(stored, BATCH, BATCHES)))
    return comparison.figure()


def _in_its_process(name: str, kind: Kind, plan: Plan) -> Measured:
    progress(f"peers  {name}, {kind}, {plan.stored:,} tuples stored")
    options = ["--condition", kind, "--stored", plan.stored, "--batch", plan.batch, "--batches", plan.batches]
    command = [sys.executable, "-m", "bench.biclique.peers", name, *map(str, options), "--bound", str(BOUND_S)]
    with (
        tempfile.TemporaryFile("w+") as complaints,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=complaints, text=True) as process,
    ):
        assert process.stdout is not None, "it is piped"
        last = ""
        for last in process.stdout:
            if not last.startswith("{"):
                print(last, end="", flush=True)
        process.wait()
        complaints.seek(0)
        if process.returncode or not last.startswith("{"):
            raise RuntimeError(f"{name} ended with code {process.returncode}: {complaints.read()[-2000:]}")
    return Measured.from_json(json.loads(last))


def _millions(stored: int) -> str:
    return f"{stored / 1e6:g} M"
