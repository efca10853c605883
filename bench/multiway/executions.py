"""Real executions: five streams at three sites as folders, one million tuples, and the bytes that really crossed.

    site A   S0, S1         site B   S2, S3         site C   S4

Sets of streams:
    apart      the hot values of the sites differ, as in example 1: each site's streams have 96 % of their tuples on
               values that are rare at the other sites
    far apart  the same with 99.5 %: so little is left to ship that the heads of files weigh more than the tuples
    uniform, normal, zipf, self-similar, mixed   all streams from one distribution of section 4, or each from another

The first batches (50 seconds) fill the windows; what is compared is shipped after them. The model is compared twice: as
a forecast from the sketches of the 250 seconds before, and with the distribution that the tuples were drawn from.
A plan that ships few tuples is executed with several draws of the same distribution, and their mean is compared.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench.multiway import distributions
from etl.correlate.multiway.codes import mix
from etl.correlate.multiway.execution.book import FolderBook
from etl.correlate.multiway.execution.executor import Executor
from etl.correlate.multiway.execution.folder import SiteFolder
from etl.correlate.multiway.execution.observe import heads_per_s, measured_model, observe
from etl.correlate.multiway.execution.report import Shipped
from etl.correlate.multiway.execution.segments import FolderSegments
from etl.correlate.multiway.explain import expected_bytes, explain
from etl.correlate.multiway.planning.planner import PlanOptions, make_plan
from etl.correlate.multiway.planning.pmjoin import plan_pmjoin
from etl.correlate.multiway.planning.tree import Node, PMJoin, Shipment
from etl.correlate.multiway.query import Column, Equality, JoinQuery, Site, Stream, TimeWindow
from etl.correlate.multiway.rates import F64, I64, Histogram, HistogramSelectivity, RateModel
from etl.correlate.multiway.statistics import StreamStatistics

SITES = ("A", "A", "B", "B", "C")
SCHEMA = pa.schema([("at", pa.int64()), ("key", pa.int64()), ("id", pa.int64())])
BATCHES, WARM = 25, 5
VALUES = 1000
PARTITIONS = (2, 10, 100, 1000)
LEARN = 1_000_000  # the draw that sketches learn from
ENOUGH_TUPLES, MOST_DRAWS = 5_000, 10


@dataclass(frozen=True)
class Workload:
    """Tuples of all streams, cut into batches of `batch_s` seconds; rates are equal."""

    name: str
    shares: F64
    tuples: int
    window_s: float
    seed: int = 0

    @property
    def batch_s(self) -> float:
        return 10.0

    def batches(self, draw: int = 0, count: int = BATCHES) -> Iterator[dict[int, pa.Table]]:
        """Batches of one draw; draw 0 is what all plans are executed with, draw `LEARN` what is known before."""
        rng = np.random.default_rng((3, self.seed, draw) if draw else (3, self.seed))
        rows = self.tuples // (len(SITES) * BATCHES)
        for number in range(count):
            yield {i: self._segment(rng, i, number, rows) for i in range(len(SITES))}

    @cached_property
    def codes(self) -> I64:
        """The values, spread over a range ten times as large."""
        return np.random.default_rng((4, self.seed)).permutation(10 * VALUES)[: self.shares.shape[1]].astype(np.int64)

    def true_model(self, sampled: RateModel) -> RateModel:
        """The model that knows the distribution instead of a sample of it."""
        selectivity = HistogramSelectivity(len(SITES), (Histogram.exact(self.shares, self.codes),))
        return RateModel(sampled.streams, selectivity, sampled.size_bytes)

    def _segment(self, rng: np.random.Generator, stream: int, number: int, rows: int) -> pa.Table:
        at = np.sort(rng.uniform(number * self.batch_s, (number + 1) * self.batch_s, rows) * 1e6).astype(np.int64)
        values = np.searchsorted(np.cumsum(self.shares[stream])[:-1], rng.random(rows))
        ids = np.arange(rows, dtype=np.int64) + number * rows
        return pa.table([at, self.codes[values], ids], schema=SCHEMA)


def apart(tuples: int, name: str = "apart", cold: float = 0.04) -> Workload:
    """Three groups of hot values, one for each site; `cold` is the share of the other two."""
    group = np.arange(VALUES) % 3
    shares = np.stack([np.where(group == "ABC".index(site), 1 - cold, cold / 2) for site in SITES])
    return Workload(name, shares / shares.sum(axis=1, keepdims=True), tuples, 3.0)


def section_4(tuples: int) -> list[Workload]:
    rng = np.random.default_rng(4)
    mixed = np.stack([distributions.uniform(VALUES), distributions.normal(VALUES, 0.1), distributions.zipf(VALUES, 0.8),
                      distributions.self_similar(VALUES, 0.2), distributions.self_similar(VALUES, 0.8)])  # fmt: skip
    alike = {
        "uniform": distributions.uniform(VALUES), "normal": distributions.normal(VALUES, 0.15),
        "zipf": distributions.zipf(VALUES, 0.9), "self-similar": distributions.self_similar(VALUES, 0.35),
    }  # fmt: skip
    made = [Workload(name, np.stack([shares] * 5), tuples, 0.3) for name, shares in alike.items()]
    return [*made, Workload("mixed", mixed[rng.permutation(5)], tuples, 0.3)]


def query(workload: Workload, root: Path) -> JoinQuery:
    sites = tuple(Site(name, str(root / name)) for name in "ABC")
    window = TimeWindow(timedelta(seconds=workload.window_s))
    streams = tuple(Stream(f"S{i}", site, SCHEMA, "at", window, ("id",)) for i, site in enumerate(SITES))
    equalities = tuple(Equality(Column("S0", "key"), Column(f"S{i}", "key")) for i in range(1, 5))
    return JoinQuery("bench", sites, streams, equalities)


@dataclass(frozen=True)
class Execution:
    """What a plan shipped after the first batches, and what the model expected of it."""

    workload: str
    plan: str
    measured_bytes: float
    measured_tuples: float
    expected_bytes: float
    true_expected_bytes: float
    results: int
    checksum: int
    planning_s: float
    seconds: float
    plans: int
    explanation: str
    draws: int = 1

    def row(self) -> dict[str, Any]:
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "explanation"}
        return fields | {
            "measured_over_expected": round(self.measured_bytes / max(self.expected_bytes, 1.0), 4),
            "measured_over_true_model": round(self.measured_bytes / max(self.true_expected_bytes, 1.0), 4),
        }


def learn(workload: Workload, asked: JoinQuery, batches: int = BATCHES) -> RateModel:
    """What the sketches know after some batches."""
    statistics = [StreamStatistics(half_life_s=3600.0) for _ in SITES]
    for batch in workload.batches(LEARN, batches):
        observe(asked, statistics, batch, workload.batch_s)
    return measured_model(asked, statistics)


def learning(workload: Workload, asked: JoinQuery) -> list[dict[str, Any]]:
    """How far the forecast for one plan is off the model that knows the distribution, by the seconds learned."""
    plan = make_plan(learn(workload, asked), PlanOptions("optimal"))
    rows = []
    for batches in (WARM, BATCHES, 4 * BATCHES):
        model = learn(workload, asked, batches)
        forecast, truth = (
            sum(sum(one.values()) for one in _expected(plan, each, asked, workload))
            for each in (model, workload.true_model(model))
        )
        seconds = batches * workload.batch_s
        rows.append({"workload": workload.name, "seconds": seconds, "forecast_over_true": round(forecast / truth, 4)})
    return rows


def strategies(model: RateModel, head: float, every: bool) -> Iterator[tuple[str, float, Node]]:
    """Every plan with the seconds it took to make."""
    for name in ("centralised", "simple", "algorithm1", "optimal"):
        began = time.perf_counter()
        plan = make_plan(model, PlanOptions(name))  # type: ignore[arg-type]
        yield name, time.perf_counter() - began, plan
    for by in ("hash", "range", "rate") if every else ("rate",):
        for count in PARTITIONS if every else (100,):
            began = time.perf_counter()
            plan = make_plan(model, PlanOptions("pmjoin", by, count, head))  # type: ignore[arg-type]
            yield f"{by}, {count} partitions", time.perf_counter() - began, plan
    if every:
        began = time.perf_counter()
        plan = plan_pmjoin(model, 0, "rate", VALUES, method="optimal", shipment_bytes_per_s=head)
        yield "optimum per value", time.perf_counter() - began, plan


def repeated(workload: Workload, name: str, plan: Node, model: RateModel, planning_s: float) -> Execution:
    """The mean of as many draws as it takes to ship enough tuples; results are those of the first."""
    first = execute(workload, name, plan, model, planning_s)
    done = [first]
    while sum(one.measured_tuples for one in done) < ENOUGH_TUPLES and len(done) < MOST_DRAWS:
        done.append(execute(workload, name, plan, model, planning_s, len(done)))
    return replace(
        first,
        measured_bytes=round(sum(one.measured_bytes for one in done) / len(done), 1),
        measured_tuples=round(sum(one.measured_tuples for one in done) / len(done), 1),
        draws=len(done),
    )


def execute(workload: Workload, name: str, plan: Node, model: RateModel, planning_s: float, draw: int = 0) -> Execution:
    with tempfile.TemporaryDirectory(prefix="multiway-") as folder:
        root = Path(folder)
        for site in ("A", "B", "C", "home"):
            (root / site).mkdir()
        asked = query(workload, root)
        folders = {site.name: SiteFolder(site, durable=False) for site in asked.sites}
        segments = FolderSegments(asked, folders)
        home = SiteFolder(Site("home", str(root / "home")), durable=False)
        for each in (home, *folders.values()):
            each.create()
        executor = Executor(asked, FolderBook(asked.name, home), folders, segments)
        executor.adopt(plan)
        shipped: list[Shipped] = []
        results, check, began = 0, 0, time.perf_counter()
        for number, batch in enumerate(workload.batches(draw)):
            for stream, segment in batch.items():
                segments.write(stream, number, segment)
            executor.begin(batch)
            report = executor.run()
            assert report.finished == [number], f"every batch is done at once, but {report.waiting[:3]}"
            shipped += report.shipped if number >= WARM else []
            made = executor.results(number)
            results, check = results + made.num_rows, (check + checksum(made)) % 2**64
        seconds = time.perf_counter() - began
        return _measured(workload, name, plan, model, asked, shipped, (results, check), planning_s, seconds)


def _measured(
    workload: Workload, name: str, plan: Node, model: RateModel, asked: JoinQuery, shipped: list[Shipped],
    results: tuple[int, int], planning_s: float, seconds: float,
) -> Execution:  # fmt: skip
    covered = workload.batch_s * (BATCHES - WARM)
    expected, heads = _expected(plan, model, asked, workload)
    truth = sum(sum(one.values()) for one in _expected(plan, workload.true_model(model), asked, workload)) * covered
    measured: dict[Shipment, float] = {}
    for one in shipped:
        edge = Shipment(one.streams, one.origin, one.destination)
        measured[edge] = measured.get(edge, 0.0) + one.bytes / covered
    whole = (sum(expected.values()) + sum(heads.values())) * covered
    return Execution(
        workload.name, name, sum(one.bytes for one in shipped), sum(one.tuples for one in shipped), whole, truth,
        *results, round(planning_s, 4), round(seconds, 2),
        len(set(plan.plans)) if isinstance(plan, PMJoin) else 1, explain(plan, model, measured, ["key"], heads),
    )  # fmt: skip


def _expected(
    plan: Node, model: RateModel, asked: JoinQuery, workload: Workload
) -> tuple[dict[Shipment, float], dict[Shipment, float]]:
    """Bytes per second by shipment: of tuples, and of the heads of their files."""
    return expected_bytes(plan, model), heads_per_s(asked, plan, model, workload.batch_s)


def checksum(results: pa.Table) -> int:
    """The same for the same rows in any order."""
    rows = np.zeros(results.num_rows, np.uint64)
    for column in results.columns:
        rows = mix((rows ^ column.to_numpy().view(np.uint64)).view(np.int64))
    return int(rows.sum(dtype=np.uint64))
