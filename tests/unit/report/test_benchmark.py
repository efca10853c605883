"""The page of a benchmark: its figures inside, its JSON beside, its words as text."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from etl.report import benchmark

NOW = datetime(2026, 11, 18, tzinfo=UTC)


def test_figures_are_inside_the_page_and_results_beside_it(tmp_path: Path) -> None:
    (tmp_path / "a.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    (tmp_path / "a.json").write_text("{}")
    results = [tmp_path / "a.svg", tmp_path / "a.json"]
    page = benchmark.write("cold", "12 <b>times</b>\n" * 500, results, tmp_path / "pages", NOW)
    text = page.read_text()
    assert 'src="data:image/svg+xml;base64,' in text
    assert "<b>times" not in text
    assert text.count("&lt;b&gt;times") == 200, "the last lines are enough"
    assert (page.parent / "a.json").read_text() == "{}"
    benchmark.write("grid", "", [], tmp_path / "pages", NOW)
    listed = (tmp_path / "pages" / "index.html").read_text()
    assert 'href="cold/index.html"' in listed
    assert 'href="grid/index.html"' in listed
