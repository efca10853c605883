"""The flow of one batch as a drawing: sources and routes of its events, with a count on every edge.

    landed lines ──12,000──▶ ┌───────┐ ──11,200──▶ fact
                             │ batch │ ─────480──▶ quarantine
    backlog ─────────310───▶ └───────┘ ─────400──▶ duplicates
                                       ─────230──▶ backlog

What comes in goes out: lines + resolved = accepted + quarantined + duplicates + added.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from markupsafe import Markup

from etl.model import BatchCounts
from etl.report import figures

WIDTH, HEIGHT = 720, 260
_NODE = (150, 44)
_MIDDLE = (285, 90, 150, 80)


@dataclass(frozen=True, slots=True)
class Edge:
    """One edge of the flow."""

    name: str
    colour: str
    events: int
    incoming: bool
    y: float


def edges(counts: BatchCounts) -> tuple[Edge, ...]:
    """All edges, including those with zero events."""
    return (
        Edge("Landed lines", "accepted", counts.lines, True, 60),
        Edge("From the backlog", "backlog", counts.backlog_resolved, True, 200),
        Edge("Fact", "accepted", counts.accepted, False, 32),
        Edge("Quarantine", "quarantined", counts.quarantined, False, 98),
        Edge("Duplicates", "duplicates", counts.duplicates, False, 164),
        Edge("To the backlog", "backlog", counts.backlog_added, False, 230),
    )


def drawing(batch: int, counts: BatchCounts) -> Markup:
    """The flow as SVG; decoration for those who see it, the page has the counts as a list."""
    left, top, width, height = _MIDDLE
    parts = [f'<svg class="flow" viewBox="0 0 {WIDTH} {HEIGHT}" aria-hidden="true" focusable="false">']
    parts += [_edge(one) for one in edges(counts)]
    parts.append(f'<rect class="box" x="{left}" y="{top}" width="{width}" height="{height}" rx="8"/>')
    parts.append(
        f'<text class="strong" x="{left + width / 2}" y="{top + 34}" text-anchor="middle">Batch {batch}</text>'
    )
    parts.append(f'<text x="{left + width / 2}" y="{top + 56}" text-anchor="middle">rules, claims, joins</text>')
    return Markup("".join([*parts, "</svg>"]))  # noqa: S704 - numbers and words of ours


def _edge(one: Edge) -> str:
    left, top, width, height = _MIDDLE
    middle = top + height / 2 + (one.y - HEIGHT / 2) * 0.25
    box = 1 if one.incoming else WIDTH - _NODE[0] - 1  # the line around it needs room
    first, last = (_NODE[0] + 1, left) if one.incoming else (left + width, box)
    start, end = (one.y, middle) if one.incoming else (middle, one.y)
    thick = 1.5 if not one.events else 2 + 2.5 * math.log10(one.events + 1)
    bend = (first + last) / 2
    path = f"M{first},{start} C{bend},{start} {bend},{end} {last},{end}"
    label_x, label_y = (first + 8, start - 10) if one.incoming else (last - 8, end - 10)
    anchor = "start" if one.incoming else "end"
    faint = "" if one.events else " faint"
    return (
        f'<g class="c-{one.colour}{faint}"><path class="edge" d="{path}" stroke-width="{thick:.1f}"/>'
        f'<rect class="node" x="{box}" y="{one.y - _NODE[1] / 2}" width="{_NODE[0]}" height="{_NODE[1]}" rx="8"/>'
        f'<text x="{box + _NODE[0] / 2}" y="{one.y + 5}" text-anchor="middle">{one.name}</text>'
        f'<text class="strong" x="{label_x}" y="{label_y}" text-anchor="{anchor}">{figures.number(one.events)}</text>'
        "</g>"
    )
