"""The audit: Great Expectations holds a batch that fails, and a person may let it pass."""

from __future__ import annotations

import pytest

from etl.errors import AuditFailed, TerminalError
from tests.support.site import STRICT, Site, order


def test_a_failed_audit_holds_the_line_until_somebody_releases_the_batch(site: Site) -> None:
    strict = site.redeclared(add=STRICT)
    strict.land("a.jsonl", order(1))
    batch = strict.decide()
    with pytest.raises(AuditFailed, match="expect_column_max_to_be_between"):
        strict.step("audit", batch)
    with pytest.raises(TerminalError, match="is held; only one that passed is published"):
        strict.step("publish", batch)
    strict.land("b.jsonl", order(2, quantity=1))
    assert strict.decide() == batch, "nothing overtakes a held batch"
    result = strict.step("report", batch)
    assert result["state"] == "held"
    assert (strict.settings.data_docs / "index.html").exists()
    assert strict.step("ingest", release=batch)["batch"] == batch
    strict.step("ingest", release=batch)  # a retried task says it again
    strict.step("audit", batch)
    strict.step("publish", batch)
    with pytest.raises(TerminalError, match="batch 99 of orders is not in the ledger"):
        strict.step("ingest", release=99)
    assert strict.run() == 2
    assert strict.totals()["fact"] == 2


def test_only_a_held_batch_can_be_released(site: Site) -> None:
    site.land("a.jsonl", order(1))
    batch = site.decide()
    with pytest.raises(TerminalError, match="is not held, so there is nothing to release"):
        site.step("ingest", release=batch)


def test_a_held_batch_passes_when_the_expectation_was_what_was_wrong(site: Site) -> None:
    strict = site.redeclared(add=STRICT)
    strict.land("a.jsonl", order(1))
    with pytest.raises(AuditFailed):
        strict.run()
    mended = strict.redeclared(("max_value = 1\n", "max_value = 10\n"))
    assert mended.run() == 1
    assert mended.totals()["fact"] == 1


def test_the_suite_follows_from_the_declared_fields_rules_and_masters(site: Site) -> None:
    site.land("a.jsonl", order(1), order(2))
    site.run()
    verdict = site.record(1).audit
    assert verdict is not None
    checked = {(one["name"], one["column"]) for one in verdict["expectations"]}
    assert ("expect_column_values_to_be_unique", "order_id") in checked
    assert ("expect_column_values_to_not_be_null", "customer_key") in checked
    assert ("expect_column_values_to_be_between", "ordered_at") in checked
    assert ("expect_column_values_to_be_between", "unit_price") in checked
    assert all(one["success"] for one in verdict["expectations"])


def test_a_batch_without_accepted_events_has_nothing_to_prove(site: Site) -> None:
    site.land("a.jsonl", b"{")
    assert site.run() == 1
    verdict = site.record(1).audit
    assert verdict is not None
    assert (verdict["success"], verdict["expectations"]) == (True, [])
