"""Ad-hoc queries as text: what `show` and `explain` print."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def show_lines(one: Mapping[str, Any]) -> Iterator[str]:
    """A query, its plan and its batches."""
    state = one["state"]
    yield f"{one['name']}, asked for by {one['owner']} at {one['created_at'][:19]}, expires at {one['expires_at'][:19]}"
    yield f"  {' '.join(one['sql'].split())}"
    reason = f": {state['reason']}" if state["reason"] else ""
    yield f"state      {state['name']}{reason}"
    if one["since_batch"] is None:
        yield "in effect  with the next micro-batch"
    else:
        yield f"in effect  since batch {one['since_batch']}, {one['deployment_s']:.1f} s after it was asked for"
    yield f"window     {one['within_s']:.0f} s"
    yield f"answers    {int(one['rows']):,} rows in the last batches, {one['rows_per_s']:.1f} a second"
    yield f"table      {one['table']}"
    if one.get("plan") is not None:
        yield from plan_lines(one["plan"])
        yield f"held       {state['segments']} segments, in {state['shares']} shares of keys, for all who read them"
    for batch in one["batches"][-5:]:
        took = f"all {batch['queries']} running in {batch['seconds']:.3f} s"
        yield f"batch {batch['batch']:<6} {batch['rows']:,} rows; {took}"


def plan_lines(plan: Mapping[str, Any]) -> Iterator[str]:
    """Joins and scans, and with how many others each is shared."""
    yield f"plan       {plan['tree']}"
    for join in plan["joins"]:
        names = ", ".join(join["shared_with"]) + (" …" if join["sharers"] > len(join["shared_with"]) else "")
        others = "1 other" if join["sharers"] == 1 else f"{join['sharers']} others"
        shared = f"shared with {others}: {names}" if join["sharers"] else "by itself"
        yield f"  join     {join['edge']} (group {join['group']}), {shared}"
    scans = ", ".join(f"{stream} (read by {readers})" for stream, readers in plan["scans"].items())
    yield f"  scan     {scans}"
    yield f"  indexes  {', '.join(plan['indexes'])}; tasks take rows by {plan['partitioned_by']}"
    how = "multiplies out what it selects" if plan["multiplies_out"] else "counts and adds up, multiplies nothing out"
    yield f"  sink     {how}"


def explain_lines(found: Mapping[str, Any]) -> Iterator[str]:
    """The plan, and the decisions that led to it."""
    yield f"{found['name']}: {' '.join(found['sql'].split())}"
    if found["plan"] is None:
        yield "it has no plan yet: it is planned with the next micro-batch, or suspended"
    else:
        yield from plan_lines(found["plan"])
    for one in found["decisions"]:
        batch = "" if one["batch"] is None else f"batch {one['batch']}, "
        numbers = ", ".join(f"{name} {_number(value)}" for name, value in one["numbers"].items())
        why = f"{one['words']} ({numbers})" if numbers else one["words"]
        yield f"{one['at'][:19]}  {batch}{one['kind']} {one['subject']}: {why}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 10 or value == int(value) else f"{value:.2f}"
