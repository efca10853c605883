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
from bench.biclique.peers.data import FILLS, KINDS, Kind, Plan
from bench.biclique.result import Aim, Figure, at_least, at_most
from bench.measured import progress

BATCH, BATCHES = 100_000, 5
STORED = (1_000_000, 5_000_000)
QUICK = (20_000, 100_000)
"""Windows that show that everything runs, and nothing else."""
BOUND_S = 60.0
"""After which a contender is stopped that joins by hand, or natively; what it is bound to take is little."""
JOIN_BOUND_S = 270.0
"""The same for Spark's own join and for ours: they also join while the window is filled."""
RUN: dict[Kind, tuple[str, ...]] = {
    "equality": ("ours", "duckdb", "spark-window", "spark-join", "spark-join-v4"),
    "band": ("ours", "duckdb", "spark-bins", "spark-window"),
}
FORMATS = ("spark-join", "spark-join-v4")
SPARK: dict[Kind, tuple[str, ...]] = {"equality": FORMATS, "band": ("spark-window",)}
REASON = (
    "Batches of 100,000 tuples of both streams together, about one pair per tuple whatever the window holds. Timed "
    "from landed files to pairs on disk; ours includes the stream log, its ledger in Postgres and a Delta commit, the "
    "others write Parquet. `spark-join` is Structured Streaming's join on RocksDB (state format 3; v4: format 4, which "
    "Spark 4.2 offers for testing); `spark-window` joins each batch, broadcast, with the window's rows on the "
    "condition as it is written, `spark-bins` on bins as wide as the band, made by hand; `duckdb` does that natively, "
    "its window in memory and nothing else kept. Both state formats run with the smallest window, the faster one with "
    "the others. *<*: stopped, it had not finished one batch within the time; its rate is the most it can have been, "
    "or, where not even the window was filled, that of its fastest step of the fill."
)


class Disagreement(Exception):
    """Two contenders returned different pairs: their speed means nothing."""


@dataclass(slots=True)
class Comparison:
    """What the contenders measured, by condition, name and stored tuples."""

    measured: dict[tuple[Kind, str, int], Measured] = field(default_factory=dict)
    windows: tuple[int, ...] = STORED

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
        if one.seconds:
            return batch_of(stored) / statistics.median(one.seconds)
        if one.filled:
            return batch_of(stored) / (bound_of(name) - sum(one.fills))
        return stored / FILLS / min(one.fills, default=bound_of(name))

    def runs(self, kind: Kind, name: str, stored: int) -> bool:
        """Whether a contender is worth running: of two state formats the slower one is known after the first window."""
        smallest = self.windows[0]
        if name not in FORMATS or stored == smallest:
            return True
        return name == max(FORMATS, key=lambda one: self.rate(kind, one, smallest))

    def times_spark(self, kind: Kind, stored: int) -> float:
        """Ours over the fastest of Spark's own."""
        ran = [name for name in SPARK[kind] if (kind, name, stored) in self.measured]
        best = max(self.rate(kind, name, stored) for name in ran)
        return self.rate(kind, "ours", stored) / best

    def growth(self, kind: Kind) -> float:
        """Cost of the largest window over that of the smallest."""
        small, large = (self.rate(kind, "ours", stored) for stored in (self.windows[0], self.windows[-1]))
        return small / large

    def aims(self) -> tuple[Aim, ...]:
        against = [
            at_least(f"{kind}: tuples per second over Spark's, {_millions(stored)} stored", ratio, 5.0)
            for kind in KINDS for stored in self.windows if (ratio := self.times_spark(kind, stored))
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
                "condition": kind, "stored": stored, "batch": batch_of(stored), "seconds": one.seconds,
                "fill_seconds": one.fills, "pairs": one.digest.pairs, "stopped": not one.digest.pairs,
            }  # fmt: skip
        worst = min(self.times_spark(kind, stored) for kind in KINDS for stored in self.windows)
        ours = {
            f"{kind}, {_millions(s)}: ours / Spark": self.times_spark(kind, s) for kind in KINDS for s in self.windows
        }
        for s in self.windows:
            ratio = self.rate("band", "ours", s) / self.rate("band", "spark-bins", s)
            ours[f"band, {_millions(s)}: ours / bins made by hand"] = ratio
        title = f"Whole micro-batches: at least {worst:.1f} times as fast as Spark's own ways"
        return Figure(
            "peers", title, "condition and stored tuples", "thousand tuples per second", series, ours, {}, REASON,
            self.aims(), details, "time",
        )  # fmt: skip


def batch_of(stored: int) -> int:
    """Tuples of a batch: the same for all windows that are measured."""
    return min(BATCH, stored // 5)


def bound_of(name: str) -> float:
    return JOIN_BOUND_S if name == "ours" or name in FORMATS else BOUND_S


def compared(_scale: float, windows: tuple[int, ...] = STORED) -> Figure:
    """Everything, smallest windows first."""
    comparison = Comparison(windows=windows)
    for stored in windows:
        plan = Plan(stored, batch_of(stored), BATCHES)
        for kind in KINDS:
            for name in RUN[kind]:
                if comparison.runs(kind, name, stored):
                    comparison.add(kind, name, stored, _in_its_process(name, kind, plan))
    return comparison.figure()


def _in_its_process(name: str, kind: Kind, plan: Plan) -> Measured:
    progress(f"peers  {name}, {kind}, {plan.stored:,} tuples stored")
    options = ["--condition", kind, "--stored", plan.stored, "--batch", plan.batch, "--batches", plan.batches]
    command = [sys.executable, "-m", "bench.biclique.peers", name, *map(str, options), "--bound", str(bound_of(name))]
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
