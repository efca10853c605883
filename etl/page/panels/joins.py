"""Panels of any correlation: declaration, streams, routing, units, scaling."""

from __future__ import annotations

from datetime import UTC, datetime

from etl.contract.correlations.correlation import Correlation
from etl.page.panels.panel import Column, Panel, Table
from etl.page.queries.correlations import CorrelationDetail
from etl.report import figures
from etl.report.correlations.page import size


def declaration(one: CorrelationDetail) -> Panel | None:
    """The SQL and the window."""
    declared = one.declared
    if not isinstance(declared, Correlation):
        return None
    within = "its full history" if declared.within is None else figures.span(declared.within.total_seconds())
    late = figures.span(declared.lateness.total_seconds())
    return Panel("Query", f"Tuples meet within {within}; a tuple may be late by {late}.", code=declared.sql.strip())


def streams(one: CorrelationDetail) -> Panel | None:
    """Tuples by alias in the newest batch, and event-time progress."""
    if one.last is None:
        return None
    raw = one.last.raw
    table = Table(
        f"Streams in batch {one.last.batch}",
        (Column("Alias"), Column("Tuples", True), Column("Selected", True), Column("Late", True), Column("Watermark")),
        [
            [
                alias, figures.number(count), figures.number(raw.get("selected", {}).get(alias, 0)),
                figures.number(raw.get("late", {}).get(alias, 0)),
                _moment(raw.get("watermarks", {}).get(alias)),
            ]
            for alias, count in raw.get("tuples", {}).items()
        ],
    )  # fmt: skip
    return Panel("Streams", "Late tuples came after their stream's watermark; they are in the late table.", (table,))


def _moment(written: str | None) -> str:
    """An event time as text."""
    return "none yet" if not written else figures.moment(datetime.fromisoformat(written).astimezone(UTC))


def routing(one: CorrelationDetail) -> Panel | None:
    """The plan: routing of tuples to units, and its cost."""
    if one.last is None or not one.last.raw.get("routing"):
        return None
    raw = one.last.raw
    columns = (Column("Join"), Column("Routing"), Column("Why"))
    rows = [[str(step["step"] + 1), str(step["name"]), str(step["reason"])] for step in raw["routing"]]
    sent = "; ".join(
        f"{figures.number(raw.get(what, 0))} {words}"
        for what, words in (
            ("messages", "messages to units"),
            ("probes", "probes"),
            ("candidates", "candidates checked"),
            ("stored", "tuples stored"),
            ("expired", "expired"),
        )
    )
    return Panel("Plan", f"In batch {one.last.batch}: {sent}.", (Table("Routing of each join", columns, rows),))


def units(one: CorrelationDetail) -> Panel | None:
    """State and work of every unit."""
    found = [] if one.last is None else one.last.raw.get("units", [])
    if not found:
        return None
    columns = (
        Column("Unit"), Column("Join"), Column("Stores"), Column("Subgroup"), Column("Tuples", True),
        Column("Bytes", True), Column("Work", True),
    )  # fmt: skip
    rows = [
        [
            f"{unit['unit']}{' (runs empty)' if unit['draining'] else ''}", str(unit["step"] + 1), str(unit["side"]),
            str(unit["subgroup"]), figures.number(unit["tuples"]), size(unit["bytes"]), figures.number(unit["work"]),
        ]
        for unit in found
    ]  # fmt: skip
    held = sum(unit["bytes"] for unit in found)
    fullest = max(unit["bytes"] for unit in found) * len(found) / held if held else 1.0
    intro = f"{len(found)} units hold {size(held)}; the fullest holds {fullest:.2f} times the mean."
    return Panel("Units", intro, (Table("Units", columns, rows),))


def scaling(one: CorrelationDetail) -> Panel | None:
    """When units were added or released, newest first."""
    notes = []
    for batch in reversed(one.batches):
        for event in batch.raw.get("scaling", ()):
            changed = [
                f"units {', '.join(map(str, event[word]))} {word}" for word in ("added", "released") if event[word]
            ]
            where = f"join {event['step'] + 1}, {event['side']}, subgroup {event['subgroup']}"
            notes.append(
                f"Batch {batch.batch}: {where} was at {event['load']:.2f} of its capacity; {'; '.join(changed)}."
            )
    return Panel("Scaling", notes=tuple(notes[:20])) if notes else None
