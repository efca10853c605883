"""Reports of correlations: what the page says of a batch, and the folder that holds them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from etl.report.correlations import page
from etl.report.correlations.folder import points, read, write
from etl.report.correlations.model import BatchReport
from etl.report.folder import NoReport

START = datetime(2026, 11, 16, 9, tzinfo=UTC)
HOSTILE = "<script>alert(1)</script>"


def result(batch: int = 1, **changed: Any) -> dict[str, Any]:
    """As the last step of a batch returns it."""
    started = START + timedelta(minutes=batch)
    units = [
        {"step": 0, "unit": unit, "side": side, "subgroup": 0, "draining": unit == 3, "tuples": 100 * unit,
         "bytes": 4000 * unit, "runs": 2, "work": 10}
        for unit, side in enumerate(("left", "left", "right", "right"))
    ]  # fmt: skip
    correlation = {
        "tuples": {"o": 900, "p": 700}, "selected": {"o": 900, "p": 650}, "late": {"o": 4, "p": 3}, "unmatchable": 2,
        "pairs": 512, "rows": 512, "groups": 0, "messages": 3100, "probes": 1550, "candidates": 600, "stored": 1543,
        "expired": 80, "state": {"tuples": 600, "bytes": 24_000, "runs": 8}, "units": units,
        "watermarks": {"o": started.isoformat(), "p": None},
        "scaling": [{"step": 0, "side": "left", "subgroup": 0, "load": 0.91, "added": [4], "released": []}],
    }  # fmt: skip
    whole = {
        "batch": batch, "run_id": "manual-1", "state": "loaded", "started_at": started.isoformat(),
        "decided_at": (started + timedelta(seconds=2)).isoformat(),
        "loaded_at": (started + timedelta(seconds=3)).isoformat(),
        "seconds": {"ingest": 0.5, "correlate": 1.5, "load": 0.25},
        "streams": {
            "orders_placed": {"lines": 910, "accepted": 900, "quarantined": 10, "segments": 2, "segment_bytes": 50_000,
                              "reasons": {"ordered_at_missing": 6, HOSTILE: 4}},
            "payments": {"lines": 700, "accepted": 700, "quarantined": 0, "segments": 2, "segment_bytes": 40_000},
        },
        "correlations": {"paid_orders": correlation},
    }  # fmt: skip
    return {**whole, **changed}


def report(**changed: Any) -> BatchReport:
    whole = result(**changed)
    return BatchReport.model_validate({**whole, "batch": str(whole["batch"])})


def test_the_page_shows_rates_state_per_unit_late_tuples_and_scaling() -> None:
    text = page.render(report())
    for shown in ("1,600", "512", "7 late", "paid_orders", "23.4 KiB", "units 4 added", "load 0.91", "runs empty"):
        assert shown in text, shown
    assert "711 tuples per second" in text


def test_text_from_outside_is_escaped() -> None:
    text = page.render(report(correlations={HOSTILE: result()["correlations"]["paid_orders"]}))
    assert HOSTILE not in text
    assert "&lt;script&gt;" in text


def test_a_batch_without_correlations_has_a_page() -> None:
    assert "Nothing was quarantined" in page.render(report(streams={}, correlations={}, seconds={}))


def test_a_batch_that_is_not_loaded_says_so() -> None:
    assert "Decided, not loaded yet" in page.render(report(state="decided", loaded_at=None))


def test_balance_is_the_fullest_unit_over_the_mean_of_its_side() -> None:
    balance = report().correlations["paid_orders"].balance
    assert balance == pytest.approx(2.0), "units of the left side hold 0 and 4,000 bytes"


def test_reports_are_listed_newest_first_and_trends_grow(tmp_path: Path) -> None:
    for batch in (1, 2, 3):
        written = write(result(batch), tmp_path, keep=10)
        assert written.html.exists()
    assert [point.batch for point in points(tmp_path)] == ["3", "2", "1"]
    assert [point.batch for point in read(tmp_path).history] == ["1", "2"]
    assert "Pairs out" in (tmp_path / "3" / "index.html").read_text()
    assert '<a href="3/index.html">' in (tmp_path / "index.html").read_text()
    assert json.loads((tmp_path / "latest.json").read_text())["batch"] == "3"


def test_a_repeated_report_replaces_the_first(tmp_path: Path) -> None:
    write(result(1, state="decided", loaded_at=None), tmp_path, keep=10)
    write(result(1), tmp_path, keep=10)
    (point,) = points(tmp_path)
    assert point.state == "loaded"


def test_only_the_newest_reports_are_kept(tmp_path: Path) -> None:
    for batch in range(1, 6):
        write(result(batch), tmp_path, keep=2)
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == ["4", "5"]
    with pytest.raises(NoReport, match="'1'"):
        read(tmp_path, 1)


def test_a_lost_list_is_rebuilt_from_the_reports(tmp_path: Path) -> None:
    for batch in (1, 2):
        write(result(batch), tmp_path, keep=10)
    (tmp_path / "index.json").write_text("damaged")
    assert [point.batch for point in points(tmp_path)] == ["2", "1"]
