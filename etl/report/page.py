"""The page of one run report.

    RunReport ──► tiles, places, charts, tables ──► run.html.j2 ──► one file, no script, no request

The page can be opened as a file, in light and dark mode, on a phone and in print. All foreign text (events,
file names, messages) is escaped; a content security policy is the second line of defence.
"""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from etl.report import charts, figures
from etl.report.model import Counts, RunReport, Totals
from etl.report.templating import fill

SAMPLES_SHOWN = 40


@dataclass(frozen=True, slots=True)
class Tile:
    """One key figure with a note for comparison."""

    label: str
    value: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Place:
    """One of the places an event can be in, with the events that are there."""

    key: str
    label: str
    events: int
    note: str


def render(report: RunReport) -> str:
    """The whole page, as text."""
    drawn = [(chart, None if chart.svg is None else Markup(chart.svg)) for chart in charts.of(report)]  # noqa: S704
    return fill(
        "run.html.j2",
        report=report,
        tiles=_tiles(report),
        places=_places(report.totals),
        verdict=_verdict(report.totals),
        charts=drawn,
        trend=report.trend()[::-1],
        samples=sorted(report.quarantine_samples, key=lambda sample: sample.reason)[:SAMPLES_SHOWN],
        failed_expectations=sum(not e.success for e in report.gate.expectations) if report.gate else 0,
    )


def _tiles(report: RunReport) -> tuple[Tile, ...]:
    counts, fresh = report.counts, report.freshness_s
    probes = sum(join.probes for join in report.joins)
    return (
        Tile("Events landed", figures.number(counts.landed), "in this batch"),
        Tile("Accepted", figures.number(counts.accepted), _of_landed(counts.accepted, counts.landed)),
        Tile("Quarantined", figures.number(counts.quarantined), _of_landed(counts.quarantined, counts.landed)),
        Tile("Duplicates", figures.number(counts.duplicates), _of_landed(counts.duplicates, counts.landed)),
        Tile("Open backlog", figures.number(report.totals.backlog_open), _moved(counts)),
        Tile(
            "Hit ratio",
            figures.percent(report.hit_ratio),
            f"of {figures.number(probes)} probes" if probes else "no probes",
        ),
        Tile(
            "Freshness",
            figures.duration(fresh.p50 if fresh else None),
            f"median; p95 {figures.duration(fresh.p95)}" if fresh else "nothing was loaded",
        ),
        Tile("Duration", figures.duration(report.duration_s), _pace(report)),
    )


def _of_landed(part: int, landed: int) -> str:
    # Accepted events may come out of the backlog, so a part can exceed what landed.
    return f"{figures.share(part, landed)} of landed" if 0 < part <= landed else ""


def _moved(counts: Counts) -> str:
    if not counts.backlog_added and not counts.backlog_resolved:
        return "unchanged"
    return f"+{figures.number(counts.backlog_added)} new, −{figures.number(counts.backlog_resolved)} resolved"


def _pace(report: RunReport) -> str:
    if not report.counts.landed or not report.duration_s:
        return "from start to finish"
    return f"{figures.number(round(report.counts.landed / report.duration_s))} events per second"


def _places(totals: Totals) -> tuple[Place, ...]:
    unmatched, shed = figures.number(totals.unmatched_open), figures.number(totals.shed_open)
    waiting = f"{unmatched} unmatched, {shed} shed"
    places = (
        Place("accepted", "Fact", totals.fact, "enriched, checked and loaded"),
        Place("quarantined", "Quarantine", totals.quarantine, "broke a rule; kept with the reason"),
        Place("backlog", "Backlog", totals.backlog_open, waiting),
        Place("duplicates", "Duplicates", totals.duplicates, "exact repeats; counted and dropped"),
    )
    if totals.missing > 0:
        return (*places, Place("missing", "Nowhere", totals.missing, "landed, but in none of the places"))
    return places


def _verdict(totals: Totals) -> str:
    if totals.balanced:
        return "Every event is in exactly one place"
    events = "1 event is" if abs(totals.missing) == 1 else f"{figures.number(abs(totals.missing))} events are"
    return f"{events} {'nowhere' if totals.missing > 0 else 'in more than one place'}"
