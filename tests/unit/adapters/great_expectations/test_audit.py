"""The audit's suite agrees with the row rules: what they accept passes, what they refuse does not."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from etl.adapters.great_expectations.audit import Audit
from etl.contract.resolve import ResolvedPipeline
from etl.contract.tables import fact_schema
from tests.support.declared import NOW, resolve

PIPELINE = """
name = "audited"
[stream]
source = { landing = "audited" }
key = ["day", "id"]
[stream.fields]
id = "bigint"
day = { type = "date", after = "2026-01-01", before = "now + 1d" }
at = { type = "timestamp", after = "2026-01-01", before = "now + 1h" }
price = { type = "decimal(10,2)", min = 0, max = 99.99, required = false }
rate = { type = "double", min = 0.5, max = 1e9, required = false }
kind = { type = "string", one_of = ["a", "b"] }
size = { type = "decimal(4,1)", one_of = [1, 2.5], required = false }
code = { type = "string", pattern = "[A-Z]{2}", required = false }
tiny = { type = "int", max = 2147483647, required = false }
"""
GOOD = {
    "id": 1, "day": date(2026, 11, 18), "at": NOW + timedelta(hours=1), "price": Decimal("99.99"), "rate": 0.5,
    "kind": "a", "size": Decimal("2.5"), "code": "CH", "tiny": 2**31 - 1, "batch": 1, "landed_at": NOW,
}  # fmt: skip
WRONG = {
    "day": [date(2026, 11, 19), date(2025, 12, 31), None],
    "at": [NOW + timedelta(hours=1, microseconds=1), datetime(2025, 12, 31, tzinfo=UTC)],
    "price": [Decimal("100.00"), Decimal("-0.01")],
    "rate": [0.49],
    "kind": ["c", None],
    "size": [Decimal("2.4")],
    "code": ["ch", "CHF"],
}
FLAGGED = {"code": "rule code_matches_pattern"}


@pytest.fixture(scope="module")
def resolved(tmp_path_factory: pytest.TempPathFactory) -> ResolvedPipeline:
    return resolve(tmp_path_factory.mktemp("audited"), PIPELINE)


def check(resolved: ResolvedPipeline, folder: Path, *rows: dict[str, Any], expected: int | None = None) -> list[str]:
    """The columns of expectations that failed, or their names where they are about the table."""
    schema = pa.schema([field.with_nullable(True) for field in fact_schema(resolved)])
    table = pa.Table.from_pylist(list(rows), schema)
    audit = Audit(folder / "results", folder / "docs", 3)
    verdict = audit.check(table, resolved.pipeline, NOW, 1, len(rows) if expected is None else expected)
    failed = [one for one in verdict["expectations"] if not one["success"]]
    assert verdict["success"] == (not failed)
    return [one["column"] or one["name"] for one in failed]


def test_what_the_rules_accept_passes_up_to_their_bounds(resolved: ResolvedPipeline, tmp_path: Path) -> None:
    optional = dict.fromkeys(("price", "rate", "size", "code", "tiny"))
    lowest = {"day": date(2026, 1, 1), "at": datetime(2026, 1, 1, tzinfo=UTC), "price": Decimal(0), "size": Decimal(1)}
    assert check(resolved, tmp_path, GOOD, {**GOOD, "id": 2, **optional}, {**GOOD, "id": 3, **lowest}) == []


@pytest.mark.parametrize(("column", "value"), [(name, value) for name, values in WRONG.items() for value in values])
def test_what_a_rule_refuses_fails_and_names_the_column(
    resolved: ResolvedPipeline, tmp_path: Path, column: str, value: object
) -> None:
    assert check(resolved, tmp_path, GOOD, {**GOOD, "id": 2, column: value}) == [FLAGGED.get(column, column)]


def test_a_key_that_comes_twice_and_a_row_that_is_missing_are_found(resolved: ResolvedPipeline, tmp_path: Path) -> None:
    assert check(resolved, tmp_path, GOOD, {**GOOD, "day": date(2026, 11, 17)}) == []
    assert check(resolved, tmp_path, GOOD, GOOD) == ["key_of_the_event"]
    assert check(resolved, tmp_path, GOOD, expected=2) == ["expect_table_row_count_to_equal"]


def test_pages_are_rendered_apart_and_only_the_newest_are_kept(resolved: ResolvedPipeline, tmp_path: Path) -> None:
    audit = Audit(tmp_path / "results", tmp_path / "docs", 2)
    table = pa.Table.from_pylist([GOOD], pa.schema([one.with_nullable(True) for one in fact_schema(resolved)]))
    for batch in range(1, 5):
        audit.check(table, resolved.pipeline, NOW, batch, 1)
        assert (tmp_path / "docs" / "index.html").exists() == (batch > 1)
        audit.build_docs("audited", batch)
    pages = [path.parts[-3] for path in (tmp_path / "docs" / "validations").rglob("*.html")]
    assert "audited-4" in pages
    assert "audited-1" not in pages
    assert "audited-4" in (tmp_path / "docs" / "index.html").read_text()
