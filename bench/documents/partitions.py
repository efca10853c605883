"""Figures 6 to 10: replication, load balance, maximal load and repartitions, by partitions, window and threshold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from bench.documents.data import MINUTE, SETS, ideal_windows, window_stream, windows
from bench.measured import progress
from etl.correlate.documents.model import Documents
from etl.correlate.documents.topology import Topology, TopologyOptions, WindowReport

PARTITIONS, MINUTES, THRESHOLDS = (5, 8, 10, 20), (3, 6, 9), (0.2, 0.6)
DEFAULT = {"m": 8, "w": 6, "theta": 0.2}
MEASURED_WINDOWS = 6
# AG chooses its routing; the others are as the paper has them: all pairs, with attribute expansion where needed.
METHODS = {
    "AG": {"method": "ag", "routing": "planned"},
    "AG, all pairs": {"method": "ag", "routing": "expansion"},
    "SC": {"method": "sc", "routing": "expansion"},
    "DS": {"method": "ds", "routing": "expansion"},
    "DS, key of AG": {"method": "ds", "routing": "planned"},
}  # fmt: skip
Row = dict[str, Any]


def settings() -> Iterator[Row]:
    """One parameter varies, the others keep their default."""
    yield from ({**DEFAULT, "m": m} for m in PARTITIONS)
    yield from ({**DEFAULT, "w": w} for w in MINUTES if w != DEFAULT["w"])
    yield from ({**DEFAULT, "theta": theta} for theta in THRESHOLDS if theta != DEFAULT["theta"])


def measure(scale: int = 1) -> list[Row]:
    """All rows of figures 6 to 9, then those of figure 10; `scale` divides the documents of a minute."""
    rows, minute = [], MINUTE // scale
    for name in SETS:
        stream = window_stream(name, max(MINUTES) * minute * (MEASURED_WINDOWS + 1))
        for setting in settings():
            progress(f"figures 6-9  {name}  m={setting['m']} w={setting['w']} θ={setting['theta']}")
            parts = windows(stream, setting["w"], MEASURED_WINDOWS + 1, minute)
            rows += [_row("6-9", name, method, setting, parts) for method in METHODS]
    stream = window_stream("rwData", 8 * minute)
    for m in PARTITIONS:
        progress(f"figure 10    rwData  m={m}")
        parts = ideal_windows(stream, DEFAULT["w"], MEASURED_WINDOWS + 1, minute)
        rows += [_row("10", "rwData", method, {**DEFAULT, "m": m}, parts) for method in METHODS]
    return rows


def _row(figure: str, name: str, method: str, setting: Row, parts: list[Documents]) -> Row:
    options = TopologyOptions(
        partitions=setting["m"], theta=setting["theta"], creators=2, assigners=6,
        **METHODS[method],  # type: ignore[arg-type]
    )  # fmt: skip
    topology = Topology(options)
    made = topology.repartition(parts[0])
    promised = topology.promised
    assert promised is not None
    reports = [_window(topology, part) for part in parts[1:]]
    return {
        "figure": figure, "data": name, "method": method, **setting,
        "routing": " + ".join(made.routing.key) or "all pairs", "meeting": ", ".join(made.routing.meeting),
        "replication": _mean(reports, "replication"), "maximal_load": _mean(reports, "maximal_load"),
        "gini": _mean(reports, "gini"),
        "sample_replication": promised.replication, "sample_gini": promised.gini,
        "sample_maximal_load": promised.maximal_load,
        "repartitions": sum(report.repartition for report in reports) / len(reports),
        "broadcast": sum(report.broadcast for report in reports) / sum(map(len, parts[1:])),
    }  # fmt: skip


def _window(topology: Topology, part: Documents) -> WindowReport:
    """A window is assigned, not joined."""
    if topology.sample is not None:
        topology.sample.append(part)
    topology.window.append(topology.assign(part))
    return topology.end_window()


def _mean(reports: list[WindowReport], metric: str) -> float:
    return float(np.mean([getattr(report.quality, metric) for report in reports]))
