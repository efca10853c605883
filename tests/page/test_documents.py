"""The panels of a correlation of documents: what is left out, and the partitions of every window."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from etl.page.app import create_app
from etl.report.correlations.folder import write
from etl.streams.tasks.in_process import InProcess
from tests.support.document_site import DocumentSite, seconds
from tests.support.page_access import DAGS, Client, MemoryAccess

HOSTILE = "<script>alert(1)</script>"
SHOWN = "&lt;script&gt;alert(1)&lt;/script&gt;"


def rows(first: int, count: int) -> list[dict[str, Any]]:
    return [{"time": seconds(0), HOSTILE: 1, f"u{i % 50}": 1, "n": {"id": i}} for i in range(first, first + count)]


def test_a_correlation_shows_what_is_left_out_and_the_partitions_of_every_window(tmp_path: Path, database: str) -> None:
    site = DocumentSite.under(tmp_path, database, InProcess())
    for batch, partitions in enumerate((2, 4)):
        options = {"stream": "logs", "window": "1 minute", "partitions": partitions, "theta": 9.0}
        site.declare("kept", documents=options)
        site.declare("left", documents={**options, "constants": "leave_out"})
        site.land(str(batch), rows(200 * batch, 120))
        result = site.run()
    browser = Client(create_app(site.steps.settings, lambda: database, MemoryAccess({"a": frozenset(DAGS)})), "a")
    left, kept = browser.get("/c/of/left").text, browser.get("/c/of/kept").text
    assert f"{SHOWN} was the same in all documents at first, and is left out." in left
    assert f"{SHOWN} is the same in nearly all documents" in kept
    for text in (left, kept):
        assert HOSTILE not in text
        assert re.search(r"<td>version 0, version 1</td><td class=\"n\">1</td>", text)
    report = write(result, tmp_path / "reports", 3).html.read_text()
    assert HOSTILE not in report
    assert f"{SHOWN} was the same in all documents at first" in report
    assert '<td class="nowrap">version 0, version 1</td><td class="n">1</td>' in report
