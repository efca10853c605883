"""The daily digest: a day of all pipelines from the ledger and the run reports that were kept."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from etl.contract.load import load_all
from etl.errors import AuditFailed
from etl.pipeline.inspection import digest
from etl.report.digest import folder
from etl.report.digest.model import TREND_DAYS, Digest
from etl.report.folder import NoReport
from tests.support.site import Site, order

HOSTILE = b'{"order_id": "<script>alert(1)</script>"'


def of_today(site: Site, **back: int) -> Digest:
    own, now = site.settings, datetime.now(UTC) - timedelta(**back)
    digest.write(own, site.dsn, load_all(own.pipelines, own.var).pipelines, now.date(), now)
    return folder.read(own.digests, now.date())


def test_a_day_has_its_counts_its_reasons_with_examples_its_joins_and_its_trend(site: Site) -> None:
    site.land("a.jsonl", order(1), order(1), order(2, customer_id=77), order(3, quantity=-5), HOSTILE)
    site.step("report", site.run())
    (one,) = of_today(site).pipelines
    assert (one.pipeline, one.today.batches, one.today.landed, one.today.accepted) == ("orders", 1, 5, 1)
    assert (one.today.quarantined, one.today.duplicates, one.backlog_open, one.quarantine_open) == (2, 1, 1, 2)
    assert {reason.reason: reason.events for reason in one.reasons} == {
        "malformed_json": 1, "quantity_in_range": 1,
    }  # fmt: skip
    assert [len(reason.examples) for reason in one.reasons] == [1, 1]
    assert [join.master for join in one.joins] == ["customer", "product"]
    assert len(one.trend) == TREND_DAYS
    assert [day.landed for day in one.trend[-2:]] == [0, 5]
    today = datetime.now(UTC).date().isoformat()
    page = (site.settings.digests / today / "index.html").read_text()
    assert "<script" not in page
    assert "&lt;script&gt;" in page, "what came from outside is shown as text"
    assert "http://" not in page
    assert "https://" not in page
    assert f'href="{today}/index.html"' in (site.settings.digests / "index.html").read_text()


def test_sensitive_values_are_masked_in_examples(site: Site) -> None:
    discreet = site.redeclared(("sensitive = [", 'sensitive = ["unit_price", '))
    discreet.land("a.jsonl", order(1, quantity=-5, unit_price=4711.5))
    discreet.step("report", discreet.run())
    of_today(discreet)
    for file in discreet.settings.digests.rglob("*.*"):
        assert "4711" not in file.read_text()
    assert "***" in (discreet.settings.digests / "latest.json").read_text()


def test_a_held_batch_and_a_day_without_events_are_told(site: Site) -> None:
    site.land("a.jsonl", order(1))
    site.run()
    strict = site.redeclared(add='[[expectations]]\ntype = "expect_column_max_to_be_between"\ncolumn = "quantity"\nmax_value = 1\n')  # noqa: E501  # fmt: skip
    strict.land("b.jsonl", order(2))
    with pytest.raises(AuditFailed):
        strict.run()
    (one,) = of_today(strict).pipelines
    assert (one.held, one.tone) == ((2,), "bad")
    assert "1 batch is held" in of_today(strict).headline
    assert of_today(strict, days=3).pipelines[0].today.landed == 0


def test_old_digests_go_and_a_day_that_was_never_written_is_said_so(site: Site) -> None:
    for back in range(3):
        of_today(site, days=back)
    newest = folder.read(site.settings.digests)
    folder.write(newest, site.settings.digests, keep=2)
    kept = sorted(path.name for path in site.settings.digests.iterdir() if path.is_dir())
    assert kept == [(newest.day - timedelta(days=back)).isoformat() for back in (1, 0)]
    with pytest.raises(NoReport):
        folder.read(site.settings.digests, newest.day - timedelta(days=2))
    assert json.loads((site.settings.digests / "latest.json").read_text())["day"] == newest.day.isoformat()
