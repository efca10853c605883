"""The page of a digest: no scripts, no external requests, all foreign text escaped, like run reports."""

from __future__ import annotations

from collections.abc import Sequence

from etl.report import figures, listing
from etl.report.digest.model import Digest, PipelineDigest
from etl.report.listing import Spark
from etl.report.templating import fill


def render(digest: Digest) -> str:
    """The whole page, as text."""
    drawn = [(one, _sparks(one)) for one in digest.pipelines]
    return fill("digest.html.j2", digest=digest, drawn=drawn, size=(listing.SPARK_WIDTH, listing.SPARK_HEIGHT))


def render_list(days: Sequence[str]) -> str:
    """The page that lists all kept digests, newest first."""
    return fill("digest_index.html.j2", days=days)


def _sparks(one: PipelineDigest) -> tuple[Spark, ...]:
    def count(value: float | None) -> str:
        return figures.NOTHING if value is None else figures.number(round(value))

    days = one.trend
    return (
        listing.spark("Landed", "accepted", [float(day.landed) for day in days], count),
        listing.spark("Quarantined", "quarantined", [day.refused_share for day in days], figures.percent),
        listing.spark("Freshness, worst p95", "backlog", [day.freshness_p95_s for day in days], figures.duration),
        listing.spark("Batches", "duplicates", [float(day.batches) for day in days], count),
    )
