"""What people decide, as tests say it: about refused lines and about held batches."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from etl.adapters.verdicts import RowId
from etl.pipeline.review.desk import open_desk
from etl.pipeline.review.quarantine import Selection
from etl.pipeline.review.release import Outcome, Person
from tests.support.site import Ended, Site

ADA = Person("ada", datetime(2026, 11, 17, tzinfo=UTC), "checked")
WIDER = ("max = 100_000", "max = 1_000_000")
"""Declares the widest of ranges, so that lines refused before are taken."""


def rows(*texts: str) -> Selection:
    return Selection(frozenset(map(RowId.parse, texts)))


def release(site: Site, wanted: Selection, checkpoint: str = "") -> Outcome:
    def reached(name: str) -> None:
        if name == checkpoint:
            raise Ended(name)

    with open_desk(site.settings, site.dsn, site.pipeline, reached) as desk:
        return desk.release(wanted, ADA, patience_s=0)


def shown(site: Site, wanted: Selection) -> list[dict[str, Any]]:
    with open_desk(site.settings, site.dsn, site.pipeline) as desk:
        return [desk.quarantine.shown(line) for line in desk.quarantine.find(wanted)]


def says(site: Site, batch: int, word: str) -> bool:
    with site.writing() as run:
        return run.ledger.judge(batch, {"word": word, "by": "ann", "at": "2026-11-18T00:00:00Z", "note": "why"})
