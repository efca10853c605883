"""A batch held against the ones before it: a warning, or a held batch where that is declared."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from etl.adapters import ledger
from etl.adapters.profiles import NothingUnusual, Profiles
from etl.errors import AuditFailed
from etl.pipeline.inspection.diagnosis import Facts, diagnose, gather
from etl.pipeline.prepare import Preparer
from tests.support.site import Site, order

NOW = datetime(2026, 11, 18, tzinfo=UTC)


def teach(site: Site, batches: int = 14) -> None:
    """A past of steady batches in the ledger, as their audits have left them."""
    site.land("first.jsonl", *[order(number) for number in range(1, 6)])
    site.run()
    profile = site.record(1).audit["profile"]  # type: ignore[index]
    assert set(profile) >= {"volume", "quarantined", "mean:quantity", "mean:unit_price", "hit_ratio:customer"}
    assert "mean:order_id" not in profile, "keys have no meaningful mean"
    for batch in range(2, batches + 1):
        site.execute(
            "insert into etl.batch select pipeline, %s, run_id, state, started_at, decided_at, loaded_at, decision, "
            "counts, master_versions, seconds, joins, audit, freshness from etl.batch where batch = 1",
            batch,
        )


def dear(site: Site) -> int | None:
    site.land("dear.jsonl", *[order(number, unit_price=900 + number) for number in range(11, 16)])
    return site.run()


def unusual(site: Site, batch: int | None) -> list[str]:
    audit = site.record(batch or 0).audit
    assert audit is not None
    return [one["check"] for one in audit["unusual"]]


def test_a_batch_that_differs_is_loaded_with_a_warning_that_a_person_can_acknowledge(site: Site) -> None:
    teach(site)
    batch = dear(site)
    assert batch == 15
    assert unusual(site, batch) == ["mean:unit_price", "mean:amount"]
    with ledger.reading(site.dsn, "orders") as book:
        profiles = Profiles(book)
        with pytest.raises(NothingUnusual, match=r"no check 'volume' to acknowledge; it has mean:unit_price"):
            profiles.acknowledge(batch, "volume", "me", NOW)
        assert profiles.acknowledge(batch, "mean:amount", "me", NOW, "a sale") == ("mean:amount",)
    site.step("report", batch)
    told = json.loads((site.settings.reports / "orders" / "latest.json").read_text())["unusual"]
    assert [(one["check"], one["acknowledged"], one["holds"]) for one in told] == [
        ("mean:unit_price", None, False),
        ("mean:amount", "seen by me", False),
    ]
    assert "the last 14 batches expect" in told[0]["sentence"]


def test_a_new_normal_begins_to_teach_where_it_was_declared(site: Site) -> None:
    teach(site)
    batch = dear(site)
    with ledger.reading(site.dsn, "orders") as book:
        profiles = Profiles(book)
        profiles.acknowledge(batch or 0, None, "me", NOW, new_normal=True)
        past = profiles.past((batch or 0) + 1)
    assert [("mean:unit_price" in one, "volume" in one) for one in past[:2]] == [(True, True), (False, True)]


def test_what_is_declared_to_hold_holds_the_batch_until_it_is_released(site: Site) -> None:
    teach(site)
    strict = site.redeclared(('deadline = "30s"\n', 'deadline = "30s"\nhold_on = ["mean"]\n'))
    with pytest.raises(AuditFailed, match="expect_mean_as_in_the_last_batches"):
        dear(strict)
    assert strict.record(15).state == "held"
    strict.step("ingest", release=15)
    assert strict.run() == 15
    assert strict.record(15).state == "loaded"


def test_the_doctor_reads_what_lies_unread_and_what_is_held(site: Site) -> None:
    site.land("a.jsonl", order(1), order(2, customer_id=77))
    pipeline = Preparer(site.settings, site.dsn).declared("orders")

    def facts(by: timedelta = timedelta()) -> Facts:
        with ledger.reading(site.dsn, "orders") as book:
            return gather(pipeline, site.landing, book, datetime.now(UTC) + by)

    assert (facts().has_run, facts().unread_files, [one.state for one in diagnose(facts())]) == (False, 1, ["well"])
    assert [one.what for one in diagnose(facts(timedelta(hours=2)))] == ["1 file lies unread for 2 hours"]
    site.run()
    site.landing.joinpath("b.jsonl").write_bytes(b'{"order_id": 3, ')
    assert (facts().has_run, facts().unread_files, facts().unloaded) == (True, 0, None)
    assert facts(timedelta(minutes=5)).unread_files == 0, "somebody is still writing the line"
    assert facts(timedelta(hours=2)).unread_files == 1, "nobody is"
    assert [one.what.split(",")[0] for one in diagnose(facts())] == ["1 events wait for a row of a master"]
