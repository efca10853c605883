"""The charts of a history."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from etl.page.charts import Chart, Series, Value, columns, lines, short_duration, short_number
from etl.page.queries.correlations import Figures
from etl.page.queries.history import History
from etl.page.queries.sites import ShippedBatch
from etl.report import figures

_MIB = 2**20


def of_pipeline(history: History) -> list[Chart]:
    """Routes, freshness, hit ratio, backlog, time spent."""
    points = history.points
    times = [point.at for point in points]
    step_s = history.step.total_seconds()
    routes = [
        Series("accepted", "accepted", [float(one.accepted) for one in points]),
        Series("quarantined", "quarantined", [float(one.quarantined) for one in points]),
        Series("duplicates", "duplicates", [float(one.duplicates) for one in points]),
    ]
    ages = [
        Series("median", "accepted", [one.fresh_p50_s for one in points]),
        Series("95th percentile, worst", "backlog", [one.fresh_p95_s for one in points]),
    ]
    rate: list[Value] = [one.lines / step_s for one in points]
    took: list[Value] = [one.took_s / one.batches if one.batches else None for one in points]
    waits: list[Value] = [None if one.backlog_open is None else float(one.backlog_open) for one in points]
    hits = [Series("hits per probe", "accepted", [one.hit_ratio for one in points])]
    return [
        columns("Events by route", "What became of events, by when they were loaded", times, routes, short_number),
        lines("Events per second", "Lines loaded", times, [Series("lines", "accepted", rate)], short_number),
        lines(
            "Freshness", "Age of events when they became visible", times, ages, figures.duration, axis=short_duration
        ),
        lines("Hit ratio", "Probes answered by the front stage", times, hits, figures.percent, 1.0),
        lines("Backlog", "Events that waited", times, [Series("waiting", "backlog", waits)], short_number),
        lines(
            "Time per batch",
            "All steps together",
            times,
            [Series("mean", "duplicates", took)],
            figures.duration,
            axis=short_duration,
        ),
    ]


def of_correlations(history: History) -> list[Chart]:
    """Tuples, pairs and late tuples of all correlations."""
    times = [point.at for point in history.points]
    tuples = [Series("tuples", "accepted", [float(one.accepted) for one in history.points])]
    pairs = [Series("pairs", "accepted", [float(one.pairs) for one in history.points])]
    late = [Series("late", "backlog", [float(one.late) for one in history.points])]
    took: list[Value] = [one.took_s / one.batches if one.batches else None for one in history.points]
    spent = [Series("mean", "duplicates", took)]
    return [
        columns("Tuples in", "Accepted, of all streams", times, tuples, short_number),
        columns("Pairs out", "Of all correlations", times, pairs, short_number),
        columns("Late tuples", "Kept in the late tables", times, late, short_number),
        lines("Time per batch", "All steps together", times, spent, figures.duration, axis=short_duration),
    ]


def of_correlation(batches: Sequence[Figures]) -> list[Chart]:
    """Figures of one correlation, batch by batch."""
    if len(batches) < 2:
        return []
    times: list[datetime] = [one.at for one in batches]
    tuples = [Series("tuples", "accepted", [float(one.tuples) for one in batches])]
    pairs = [Series("pairs", "accepted", [float(one.pairs) for one in batches])]
    late = [Series("late", "backlog", [float(one.late) for one in batches])]
    held = [Series("MiB", "duplicates", [one.state_bytes / _MIB for one in batches])]
    about = f"The newest {len(batches)} batches"
    return [
        columns("Tuples in", about, times, tuples, short_number),
        columns("Pairs out", about, times, pairs, short_number),
        columns("Late tuples", about, times, late, short_number),
        lines("State in MiB", about, times, held, short_number),
    ]


def of_sites(batches: Sequence[ShippedBatch]) -> list[Chart]:
    """Bytes shipped by one correlation over sites and by other plans, batch by batch."""
    if len(batches) < 2:
        return []
    times, about = [one.at for one in batches], f"The newest {len(batches)} batches"
    plans = (("centralised", "quarantined"), ("optimum without partitions", "backlog"))
    crossed = [Series("shipped", "accepted", [one.shipped_bytes / _MIB for one in batches])]
    for plan, colour in plans:
        values: list[Value] = [one.plans[plan] / _MIB if plan in one.plans else None for one in batches]
        crossed.append(Series(plan, colour, values))
    made: list[Value] = [None if one.rows is None else float(one.rows) for one in batches]
    return [
        lines("Shipped in MiB", about, times, crossed, short_number),
        lines("Rows out", about, times, [Series("rows", "accepted", made)], short_number),
    ]
