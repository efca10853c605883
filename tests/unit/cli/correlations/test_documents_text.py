"""The plan of a correlation of documents as text."""

from __future__ import annotations

from typing import Any

import pytest

from etl.cli.correlations.documents_text import document_plan_lines


def plan(**changed: Any) -> dict[str, Any]:
    """A plan with partitions and one open window."""
    window = {
        "start": "2026-05-01T10:00:00Z", "documents": 10, "found": 3, "cut": 0, "replication": 1.0, "maximal_load": 0.5,
        "gini": 0.0, "loads": [5, 5], "versions": [1, 2], "repartitions": 1,
    }  # fmt: skip
    whole = {
        "name": "links", "stream": "logs", "lateness_s": 0, "window": {"by": "count", "size": 10, "slide": 10},
        "keep": ["merged"], "max_pairs": 100, "partitions": 2, "since": 1, "joiners": 2, "budget_bytes": 1 << 20,
        "key": [], "meeting": [], "versions": [], "repartitions": 1, "repartition_wanted": False, "theta": 0.2,
        "delta": 3, "constants": [], "left_out": [], "left_out_undecided": False, "attributes": [],
        "windows": [window], "measured": {"batches": 0},
    }  # fmt: skip
    return {**whole, **changed}


@pytest.mark.parametrize(
    ("key", "meeting", "sentence"),
    [
        ([], [], "by all values; documents with a new value go to every joiner"),
        (["User", "Host"], [], "by User + Host; documents without it, or with a new value of it, go to every joiner"),
        (
            ["User"],
            ["Severity", "Host"],
            "by User, documents without it by Severity + Host; documents that lack a part of both, or have a new value "
            "of User, go to every joiner",
        ),
    ],
)
def test_the_routing_says_once_where_documents_without_the_key_go(
    key: list[str], meeting: list[str], sentence: str
) -> None:
    (line,) = [one for one in document_plan_lines(plan(key=key, meeting=meeting)) if one.startswith("routing")]
    assert line == f"routing   {sentence}"


def test_an_open_window_says_by_which_partitions_its_documents_went() -> None:
    text = "\n".join(document_plan_lines(plan()))
    assert "to joiners 5 5, by version 1, 2 (made anew 1 times in it)" in text
