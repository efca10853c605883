"""The shared execution of one query, in plain values: its joins, the queries that share them, the state in use."""

from __future__ import annotations

from typing import Any

from etl.correlate.adhoc.plan import edges_of
from etl.streams.adhoc.state import EventClock, QueryState
from etl.streams.adhoc.version import Version

_NAMED = 10  # most queries named per shared join


def plan_of(version: Version, name: str) -> dict[str, Any]:
    """The joins of a query, inner ones first, each with the queries that share it; and its shared scans."""
    choice, sharers = version.plan.choices[name], version.plan.sharers()
    joins = []
    for node in choice.nodes():
        others = sorted(other for other in sharers[node] if other != name)
        joins.append(
            {
                "join": str(node.tree),
                "edge": str(node.tree.edge),
                "group": choice.groups[node.tree.edge],
                "sharers": len(others),
                "shared_with": others[:_NAMED],
            }
        )
    query = version.running[name].query
    readers = {
        stream: sum(1 for each in version.running.values() if stream in each.query.streams) for stream in query.streams
    }
    return {
        "tree": str(choice.tree),
        "window_slots": query.window,
        "joins": joins,
        "scans": readers,
        "partitioned_by": str(choice.tree.edge),
        "indexes": sorted({str(edge.end(stream)) for edge in edges_of(choice.tree) for stream in edge.streams}),
        "queries": len(version.entries),
        "multiplies_out": query.materialises,
    }


def state_of(version: Version, name: str, state: QueryState, clock: EventClock) -> dict[str, Any]:
    """The state of the streams that the query reads, shared by all of their queries."""
    streams = set(version.running[name].query.streams)
    held = [one for one in state.segments if one.stream in streams]
    first = state.first_slot
    return {
        "segments": len(held),
        "shares": state.shares,
        "late_before_us": None if first is None else first * clock.slot_us,
    }
