"""From rows to aims: what was asked for, what was measured, and whether that is it.

An aim whose rows are missing has `measured: null` and is not met: silence is no success.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from bench.measured import aim, aim_line
from bench.pipeline.plan import MASTERS, UNCHECKED

Row = dict[str, Any]
Result = dict[str, Any]
NOTES = {
    "before": "the pipeline at the last commit before this core, its own code and settings, one resident session",
    "plain": "one resident Spark session, adaptive planning, whole-stage code, 512 MB of code cache, as many shuffle "
    "partitions as cores, masters cached and laid out by key, parsed and joined rows cached, COPY from partitions; "
    "no guarantees, and of two objects on one line its reader loses the second",
    UNCHECKED: "the same script on other batches of the same session, without its Great Expectations checkpoint",
    "ours": "the pipeline of this tree: claims, backlog, audit with Data Docs, exactly-once loads, report; "
    "without a deadline, as the others",
    "batches": "the same files for everybody, 3 % of the lines dirty, late or repeated; none repeats another batch",
    "time": "from landed files to the mart, with checkpoint or report where there is one; median of the timed batches "
    "after warm-up; who ends with rows that differ from the generator's has no time",
    "warm-up": "3 batches of 100 orders, then one of each larger size, for every variant of every contender; `before` "
    "has none for 500,000 orders, and fewer timed batches",
    "bytes": "growth of the folder of Delta tables, and of Postgres' write-ahead log",
}
AROUND = 5
"""Batches whose median stands for batch 10, and for batch 200: the last of them is that batch."""


class Seconds:
    """Rows by contender, batch size and masters."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = {(row["contender"], row["batch"], row["masters"]): row for row in rows}
        self._larger = max((row["masters"] for row in rows), default=MASTERS)

    def of(self, contender: str, batch: int, masters: int = MASTERS) -> float | None:
        row = self._rows.get((contender, batch, masters))
        return None if row is None else float(row["seconds"])

    def ratio(self, above: str, below: str, batch: int) -> float | None:
        return quotient(self.of(above, batch), self.of(below, batch))

    def by_masters(self, contender: str, batch: int) -> float | None:
        """What the larger masters cost."""
        if self._larger == MASTERS:
            return None
        return quotient(self.of(contender, batch, self._larger), self.of(contender, batch))


def quotient(above: float | None, below: float | None) -> float | None:
    return None if above is None or not below else round(above / below, 3)


def aims(result: Result) -> list[dict[str, Any]]:
    """Every aim with what was measured for it."""
    took, rows = Seconds(result["rows"]), result["rows"]
    ours = [row for row in rows if row["contender"] == "ours" and row["batch"]]
    jobs = [row.get("most_spark_jobs", row["spark_jobs"]) for row in ours]
    jobs += [row["spark_jobs"] for row in result["history"] if "spark_jobs" in row]
    empty = [row["spark_jobs"] + row["log_entries"] for row in rows if row["contender"] == "ours" and not row["batch"]]
    fresh = {row["batch"]: row["p95_s"] for row in result["freshness"]}
    return [
        aim("before / ours, 50,000 orders", took.ratio("before", "ours", 50_000), least=8.0),
        aim("before / ours, 100 orders", took.ratio("before", "ours", 100), least=8.0),
        aim("ours / plain, 50,000 orders", took.ratio("ours", "plain", 50_000), most=0.5),
        aim(f"ours / {UNCHECKED}, 50,000 orders", took.ratio("ours", UNCHECKED, 50_000), most=1.0),
        aim(f"ours / {UNCHECKED}, 500,000 orders", took.ratio("ours", UNCHECKED, 500_000), most=1.0),
        aim("Spark jobs per batch, the most", max(jobs, default=None), most=6),
        aim("batch 200 / batch 10", growth(result["history"]), most=1.2),
        aim("memory the driver's Python gains per batch from 100 to 200, KiB", gained(result["history"]), most=100),
        aim("larger masters / masters, 50,000 orders", took.by_masters("ours", 50_000), most=1.3),
        aim("larger masters / masters, 100 orders", took.by_masters("ours", 100), most=1.3),
        aim("Spark jobs and log entries of an empty run", max(empty, default=None), most=0),
        aim("freshness p95 through Airflow, 50,000 orders every 30 s, seconds", fresh.get(50_000), most=20.0),
        aim("freshness p95 through Airflow, 100 orders, seconds", fresh.get(100), most=8.0),
    ]


def growth(history: Sequence[Row]) -> float | None:
    """Batch 200 over batch 10 of one warehouse."""
    took = {row["number"]: float(row["seconds"]) for row in history}

    def around(number: int) -> float | None:
        known = [took[one] for one in range(number - AROUND + 1, number + 1) if one in took]
        return statistics.median(known) if len(known) == AROUND else None

    return quotient(around(200), around(10))


def gained(history: Sequence[Row]) -> float | None:
    """KiB per batch, by a line through the second hundred batches of one warehouse."""
    late = [(row["number"], row["driver_bytes"] / 1024) for row in history if 100 <= row["number"] <= 200]
    if len(late) < 101:
        return None
    numbers, sizes = zip(*late, strict=True)
    return round(float(statistics.linear_regression(numbers, sizes).slope), 1)


def table(result: Result) -> str:
    """The result for people: one line per row, then the aims."""
    lines = [
        f"{'contender':<22}{'masters':>10}{'orders':>9}{'seconds':>10}{'jobs':>6}{'stages':>7}{'log':>5}{'MiB':>8}"
    ]
    for row in result["rows"]:
        size = (row["delta_bytes"] + row["wal_bytes"]) / 2**20
        lines.append(
            f"{row['contender']:<22}{row['masters']:>10,}{row['batch']:>9,}{row['seconds']:>10.2f}"
            f"{row['spark_jobs']:>6}{row['spark_stages']:>7}{row['log_entries']:>5}{size:>8.1f}"
        )
    lines += map(aim_line, result["aims"])
    return "\n".join([*lines, *(f"NOT MEASURED {what}: {why}" for what, why in result["not_measured"].items())])
