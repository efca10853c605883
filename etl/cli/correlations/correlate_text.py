"""The plan of a correlation as text: joins, routing, units and costs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

_BAR = 24
_INDEXES = {
    "hash": "hash sub-indexes: tuples are found by their key",
    "sorted": "sorted sub-indexes: tuples are found by a range of values",
    "block": "blocks: every stored tuple in the window is compared",
}
_INTERVAL = re.compile(r"INTERVAL '(-?)(\d+)' MICROSECONDS", re.IGNORECASE)


def plan_lines(plan: Mapping[str, Any]) -> Iterator[str]:
    """The whole plan, line by line."""
    yield f"{plan['name']}: returns {plan['output']}; tuples may come {_length(plan['lateness_s'])} late"
    for line in plan["sql"].strip().splitlines():
        yield f"    {line}"
    yield ""
    for alias, source in plan["sources"].items():
        chosen = f", only where {source['selection']}" if source["selection"] else ""
        yield f"{alias:<10}{source['stream']} by {source['event_time'].partition('.')[2]}{chosen}"
    for step in plan["steps"]:
        yield ""
        yield from _step(step)
    yield ""
    yield from _measured(plan)


def _step(step: Mapping[str, Any]) -> Iterator[str]:
    right = " ⋈ ".join(step["right"])
    yield f"join {step['step'] + 1}    {step['left']} ⋈ {f'({right})' if len(step['right']) > 1 else right}"
    yield f"  on        {readable(step['condition'])}"
    yield f"  index     {_INDEXES[step['index']]}"
    yield f"  window    {_window(step['window'])}"
    if step["residual"]:
        yield f"  checked   {readable(step['residual'])}, on the rows themselves"
    if "routing" not in step:
        yield "  routing   chosen when the first batch has come"
        return
    yield f"  routing   {step['routing']}: {step['why']}"
    expected = step["expected"]
    yield (
        f"  messages  {expected['messages_per_left_tuple']:g} for a left tuple, "
        f"{expected['messages_per_right_tuple']:g} for a right one: one stores it, the others probe"
    )
    yield from _units(step["units"])


def readable(sql: str) -> str:
    """A condition without quotes, microseconds as a duration."""
    short = _INTERVAL.sub(lambda found: f"{'−' if found[1] else ''}{_length(int(found[2]) / 1e6)}", sql)
    return short.replace("`", "")


def _units(units: list[dict[str, Any]]) -> Iterator[str]:
    most = max((one["bytes"] for one in units), default=0) or 1
    for one in units:
        filled = round(_BAR * one["bytes"] / most)
        bar = "█" * filled + "·" * (_BAR - filled)
        note = ", runs empty" if one["draining"] else ""
        yield (
            f"  unit {one['unit']:<5}{one['side']:<6} {bar} {one['tuples']:>12,} tuples {size(one['bytes']):>10}"
            f"  subgroup {one['subgroup']}{note}"
        )


def _measured(plan: Mapping[str, Any]) -> Iterator[str]:
    measured = plan["measured"]
    if not measured["batches"]:
        yield "measured  nothing yet: no batch has run"
        return
    yield f"measured  over {measured['batches']} batches since batch {plan['since']}"
    yield f"  {measured['tuples']:,} tuples, {measured['messages']:,} messages, {measured['probes']:,} probes"
    yield f"  {measured['candidates']:,} candidates, {measured['pairs']:,} pairs, {measured['expired']:,} expired"
    rate = measured["tuples_per_s"]
    if rate:
        yield f"  {rate:,} tuples per second; {measured['messages_per_tuple']:g} messages per tuple"


def _window(window: Mapping[str, float | None]) -> str:
    lower, upper = window["lower_s"], window["upper_s"]
    if lower is None and upper is None:
        return "full history: nothing ever leaves"
    low = "any time before" if lower is None else _signed(lower)
    high = "any time after" if upper is None else _signed(upper)
    return f"from {low} to {high}, of the right event time to the left one"


def _signed(seconds: float) -> str:
    return f"{'−' if seconds < 0 else '+'}{_length(abs(seconds))}"


def _length(seconds: float) -> str:
    return str(timedelta(seconds=seconds))


def size(count: int) -> str:
    """`12.3 MiB`."""
    for unit, word in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if count >= unit:
            return f"{count / unit:.1f} {word}"
    return f"{count} bytes"
