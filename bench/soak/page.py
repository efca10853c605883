"""The section of the performance page about a soak."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from bench.measured import AIM_HEAD, aim_cells
from bench.soak.load import BURST, BURST_S, PERIOD_S


def section(result: Mapping[str, Any], table: Callable[..., str]) -> str:
    words = [
        f"{row['minutes']:g} minutes of the whole stack, {row['rate_per_s']:,.0f} orders a second, every "
        f"{PERIOD_S:.0f} s {BURST} times as many for {BURST_S:.0f} s: {row['lines']:,} orders in {row['batches']:,} "
        f"batches, which Airflow started as orders landed; {row['maintained']} rounds of maintenance. One order in a "
        f"hundred waited for its customer; at most {row['backlog']:,.0f} did at a time. From landing to mart half of "
        f"all orders took {row['p50']:.1f} s at most, 95 % {row['p95']:.1f} s, {row['settled_s']:.0f} s after the last "
        f"one nothing waited any more. Processes that live for one task are not judged by their sum."
        for row in result["rows"]
    ]
    return "\n\n".join([*words, table(AIM_HEAD, aim_cells(result))])
