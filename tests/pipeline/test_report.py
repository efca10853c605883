"""The run report of a batch, from the ledger to the page."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.site import Site, order


def test_a_loaded_batch_has_a_report_with_its_counts_its_joins_and_where_every_event_is(site: Site) -> None:
    site.land("a.jsonl", order(1), order(1), order(2, customer_id=77), b"<b>not json</b>")
    batch = site.run()
    result = site.step("report", batch)
    page = Path(result["report"])
    assert page == site.settings.reports / "orders" / "1" / "index.html"
    assert "<b>not json</b>" not in page.read_text(), "what came from outside is text, not markup"
    told = json.loads((site.settings.reports / "orders" / "latest.json").read_text())
    assert (told["pipeline"], told["batch"], told["outcome"]) == ("orders", "1", "loaded")
    assert (told["counts"]["landed"], told["counts"]["accepted"], told["counts"]["duplicates"]) == (4, 1, 1)
    assert told["reasons"] == {"malformed_json": 1}
    assert told["totals"]["balanced"]
    assert (told["totals"]["backlog_open"], told["totals"]["unmatched_open"], told["totals"]["shed_open"]) == (1, 1, 0)
    assert sorted(join["master"] for join in told["joins"]) == ["customer", "product"]
    assert told["gate"]["success"]
    assert set(told["seconds"]) == {"ingest", "audit", "publish"}
    assert told["freshness_s"]["p95"] >= 0
    (sample,) = told["quarantine_samples"]
    assert (sample["raw"], sample["source_file"]) == ("<b>not json</b>", "a.jsonl")


def test_what_waits_for_room_is_told_apart_and_reports_are_a_history(site: Site) -> None:
    small = site.changed(task_lookups=1, tactic="cinlj")
    small.land("a.jsonl", *[order(number, customer_id=number) for number in range(1, 6)])
    small.step("report", small.run())
    site.step("report", site.run())
    folder = site.settings.reports / "orders"
    first, second = (json.loads((folder / str(batch) / "report.json").read_text()) for batch in (1, 2))
    assert first["totals"]["shed_open"] == first["totals"]["backlog_open"] > 0
    assert second["totals"]["backlog_open"] == 0
    assert [point["batch"] for point in second["history"]] == ["1"]


def test_reporting_again_writes_the_same_page(site: Site) -> None:
    site.land("a.jsonl", order(1))
    batch = site.run()
    for _ in range(2):
        site.step("report", batch)
    assert len(json.loads((site.settings.reports / "orders" / "index.json").read_text())) >= 1
