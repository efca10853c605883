"""What may enter a run report, and what it derives."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from etl.report import figures
from etl.report.fields import RAW_CHARACTERS
from etl.report.model import HISTORY_BATCHES, Counts, Gate, JoinReport, Percentiles, RunReport, Sample, Totals
from tests.support import reports as samples


@pytest.mark.parametrize("report", [samples.loaded(), samples.held(), samples.empty(), samples.unbalanced(12)])
def test_a_report_survives_its_own_json(report: RunReport) -> None:
    assert RunReport.model_validate_json(report.model_dump_json()) == report


def test_the_json_states_what_a_program_would_otherwise_have_to_derive() -> None:
    result = json.loads(samples.loaded().model_dump_json())
    assert result["totals"]["balanced"] is True
    assert result["hit_ratio"] == pytest.approx(6643 / 7152)
    assert result["joins"][0]["hit_ratio"] == pytest.approx(3301 / 3585)


def test_totals_are_balanced_only_when_every_event_is_in_exactly_one_place() -> None:
    places = {"fact": 5, "quarantine": 3, "backlog_open": 1, "duplicates": 1}
    assert Totals(events_landed=10, **places).balanced
    assert Totals(events_landed=11, **places).missing == 1
    assert not Totals(events_landed=11, **places).balanced
    assert Totals(events_landed=9, **places).missing == -1


def test_open_unmatched_and_shed_events_are_not_counted_again_beside_the_backlog() -> None:
    assert Totals(events_landed=7, fact=2, backlog_open=5, unmatched_open=4, shed_open=1).balanced


def test_nothing_probed_is_no_hit_ratio_rather_than_zero() -> None:
    join = JoinReport(master="customers", tactic="cinlj", master_version="1", probes=0, hits=0, unmatched=0)
    assert join.hit_ratio is None
    assert samples.empty().hit_ratio is None


def test_times_are_kept_in_utc_whatever_zone_they_came_in() -> None:
    there = datetime(2026, 11, 16, 12, 0, tzinfo=timezone(timedelta(hours=2)))
    report = samples.loaded(finished_at=there)
    assert report.finished_at.tzinfo is UTC
    assert report.finished_at.hour == 10


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "../x",
        "a/b",
        "a\\b",
        ".hidden",
        "a b",
        "ü",
        "x" * 129,
        "a\n",
        "index.html",
        "latest.json",
    ],
)
def test_a_batch_name_that_is_no_safe_folder_name_is_refused(name: str) -> None:
    with pytest.raises(ValidationError, match="cannot name a folder"):
        samples.loaded(batch=name)


@pytest.mark.parametrize(
    "link", ["javascript:alert(1)", "https://example.org/x", "//example.org", "/etc/passwd", "a b", ""]
)
def test_a_data_docs_link_that_leaves_the_reports_is_refused(link: str) -> None:
    with pytest.raises(ValidationError, match="not a relative link"):
        Gate(success=True, data_docs=link)


def test_figures_that_cannot_be_true_are_refused() -> None:
    with pytest.raises(ValidationError):
        Counts(landed=-1)
    with pytest.raises(ValidationError):
        Percentiles(p50=float("nan"), p95=1.0)
    with pytest.raises(ValidationError):
        RunReport.model_validate({**samples.loaded().model_dump(), "finished_at": datetime(2026, 11, 16)})


def test_an_order_dated_ahead_of_our_clock_may_have_a_negative_age() -> None:
    assert Percentiles(p50=-3.5, p95=10.0).p50 == -3.5


def test_a_report_cannot_be_changed_once_made() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        samples.loaded().message = "changed"  # type: ignore[misc]


@given(st.text(st.characters(), max_size=700) | st.binary(max_size=700))
def test_any_raw_record_can_be_reported_and_read_back(raw: str | bytes) -> None:
    sample = Sample.model_validate({"reason": "malformed_json", "raw": raw, "source_file": raw})
    assert len(sample.raw) <= RAW_CHARACTERS
    assert Sample.model_validate_json(sample.model_dump_json()) == sample
    assert all(character.isprintable() or character.isspace() for character in figures.visible(sample.raw))


def test_a_lone_surrogate_and_bytes_that_are_not_utf8_become_the_replacement_character() -> None:
    assert "\ufffd" in Sample(reason="r", raw="a\ud800b", source_file="f").raw
    assert Sample.model_validate({"reason": "r", "raw": b"a\xffb", "source_file": "f"}).raw == "a\ufffdb"


def test_a_long_record_is_cut_and_says_so() -> None:
    raw = Sample(reason="r", raw="x" * 301, source_file="f").raw
    assert len(raw) == RAW_CHARACTERS
    assert raw.endswith("x…")
    assert Sample(reason="r", raw="x" * 300, source_file="f").raw == "x" * 300


def test_the_trend_ends_with_this_batch_and_holds_each_batch_once() -> None:
    report = samples.loaded(batch="000005", batches=5)  # its own name is in the history: a repeated run
    batches = [point.batch for point in report.trend()]
    assert batches == ["000001", "000002", "000003", "000004", "000005"]
    assert report.trend()[-1].accepted == report.counts.accepted
    assert len(samples.loaded(batches=90).trend()) == HISTORY_BATCHES
