"""The audit agrees with the row rules, whatever the types, and shows nothing of sensitive columns."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from etl.adapters.great_expectations.audit import Audit
from etl.contract.load import load
from etl.contract.model import Pipeline

NOW = datetime(2026, 11, 17, 12, tzinfo=UTC)
HEAD = """
name = "readings"
sensitive = ["owner", "badge"]
[stream]
source = { landing = "landing/readings", format = "jsonl" }
key = [KEY]
[stream.fields]
day = { type = "date", after = "2010-01-01", before = "now + 1d" }
badge = { type = "string", pattern = "[[:alpha:]]{3}[0-9]+" }
kind = { type = "string", one_of = ["a", "b"] }
level = { type = "decimal(9,2)", min = 0.1, max = 99.9, required = false }
small = { type = "int", min = -2_147_483_648, required = false }
owner = { type = "string", pattern = "(?i)[a-z ]+" }
"""
GOOD: dict[str, Any] = {
    "day": datetime(2026, 11, 18).date(),
    "badge": "abc1",
    "kind": "a",
    "level": pa.scalar("0.10").cast(pa.decimal128(9, 2)).as_py(),
    "small": None,
    "owner": "Jane Doe",
}


def pipeline(tmp_path: Path, key: str = '"day", "badge"', more: str = "") -> Pipeline:
    file = tmp_path / "readings.toml"
    file.write_text(HEAD.replace("KEY", key) + more)
    return load(file, tmp_path)


def audit(declared: Pipeline, rows: list[dict[str, Any]], tmp_path: Path) -> tuple[dict[str, Any], str]:
    """The verdict, and all that was stored or is shown of it."""
    accepted = pa.Table.from_pylist(rows, declared.stream.schema)
    audits = Audit(tmp_path / "results", tmp_path / "docs", 5)
    verdict = audits.check(accepted, declared, NOW, 1, len(rows))
    audits.build_docs(declared.name, 1)
    files = [path for root in ("results", "docs") for path in (tmp_path / root).rglob("*") if path.is_file()]
    assert any(path.suffix == ".html" for path in files)
    return verdict, json.dumps(verdict) + "".join(path.read_text(errors="replace") for path in files)


def failed(verdict: dict[str, Any]) -> list[str]:
    return [one["column"] for one in verdict["expectations"] if not one["success"]]


def test_rows_on_the_very_bounds_of_days_and_decimals_pass(tmp_path: Path):
    rows = [GOOD, GOOD | {"day": datetime(2010, 1, 1).date(), "badge": "xyz9"}, GOOD | {"badge": "abc2", "level": None}]
    more = "[rules]\nlevel_or_a = \"level is null or kind = 'a'\"\n"
    verdict, _ = audit(pipeline(tmp_path, more=more), rows, tmp_path)
    assert verdict["success"], failed(verdict)
    assert any(one["column"] == "rule level_or_a" for one in verdict["expectations"])


@pytest.mark.parametrize(
    ("change", "column"),
    [
        ({"day": datetime(2026, 11, 19).date()}, "day"),
        ({"day": datetime(2009, 12, 31).date()}, "day"),
        ({"level": pa.scalar("99.91").cast(pa.decimal128(9, 2)).as_py()}, "level"),
        ({"badge": "ab1"}, "rule badge_matches_pattern"),
        ({"badge": "abc1\n"}, "rule badge_matches_pattern"),
        ({"kind": "c"}, "kind"),
        ({"owner": None}, "owner"),
    ],
)
def test_a_row_that_breaks_a_rule_fails_the_audit(tmp_path: Path, change: dict[str, Any], column: str):
    verdict, _ = audit(pipeline(tmp_path), [GOOD, GOOD | {"badge": "abc2"} | change], tmp_path)
    assert failed(verdict) == [column]


def test_values_of_sensitive_columns_are_in_no_result_and_on_no_page(tmp_path: Path):
    more = """
[[expectations]]
type = "expect_column_values_to_be_in_set"
column = "owner"
value_set = ["nobody"]
[[expectations]]
type = "expect_column_most_common_value_to_be_in_set"
column = "owner"
value_set = ["nobody"]
"""
    rows = [GOOD | {"owner": "Secret Person"}, GOOD | {"owner": "Secret Person"}]  # their key is the same, too
    verdict, shown = audit(pipeline(tmp_path, more=more), rows, tmp_path)
    assert "Secret" not in shown
    assert "abc1" not in shown
    assert len(failed(verdict)) == 3
    counts = [one["unexpected"] for one in verdict["expectations"] if not one["success"]]
    assert counts == [2, 2, 0], "how many is no secret"


def test_values_of_other_columns_are_shown(tmp_path: Path):
    verdict, shown = audit(pipeline(tmp_path), [GOOD | {"kind": "curious"}], tmp_path)
    assert failed(verdict) == ["kind"]
    assert "curious" in shown
