"""The audit agrees with the row rules, whatever the types, and shows nothing of sensitive columns."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
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


EXACT = """
name = "exact"
[stream]
source = { landing = "landing/exact", format = "jsonl" }
key = [KEY]
[stream.fields]
number = "decimal(20,0)"
text = "string"
other = "string"
account = { type = "bigint", one_of = [4611686018427387905, 4611686018427387907], required = false }
code = { type = "string", pattern = PATTERN, required = false }
"""


def exact(tmp_path: Path, key: str, pattern: str = "'.*'", more: str = "") -> Pipeline:
    file = tmp_path / "exact.toml"
    file.write_text(EXACT.replace("KEY", key).replace("PATTERN", pattern) + more)
    return load(file, tmp_path)


def rows_of(*changes: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"number": Decimal(n), "text": "a", "other": "b"} | change for n, change in enumerate(changes)]


@pytest.mark.parametrize("key", ['"number"', '"number", "text"'])
def test_large_decimals_of_a_key_are_told_apart(tmp_path: Path, key: str):
    numbers = [Decimal(12345678901234567890), Decimal(12345678901234567891)]
    verdict, _ = audit(exact(tmp_path, key), rows_of(*({"number": one} for one in numbers)), tmp_path)
    assert verdict["success"], failed(verdict)
    verdict, _ = audit(exact(tmp_path, key), rows_of({"number": numbers[0]}, {"number": numbers[0]}), tmp_path)
    assert failed(verdict) == ["key_of_the_event"]


def test_keys_of_texts_with_control_characters_are_told_apart(tmp_path: Path):
    rows = rows_of({"text": "a\x1f", "other": "b"}, {"text": "a", "other": "\x1fb"}, {"text": "a\\", "other": "x1fb"})
    verdict, _ = audit(exact(tmp_path, '"text", "other"'), rows, tmp_path)
    assert verdict["success"], failed(verdict)


@pytest.mark.parametrize(("last", "good"), [(4611686018427387907, True), (4611686018427387906, False)])
def test_large_integers_are_told_apart_where_others_are_null(tmp_path: Path, last: int, good: bool):
    more = """
[[expectations]]
type = "expect_column_values_to_be_unique"
column = "account"
"""
    rows = rows_of({"account": 4611686018427387905}, {"account": None}, {"account": last})
    verdict, _ = audit(exact(tmp_path, '"number"', more=more), rows, tmp_path)
    assert failed(verdict) == ([] if good else ["rule account_in_set"])


def test_columns_with_large_integers_and_nulls_are_compared_with_others(tmp_path: Path):
    more = """
[[expectations]]
type = "expect_column_pair_values_to_be_equal"
column_A = "account"
column_B = "number"
ignore_row_if = "either_value_is_missing"
"""
    rows = rows_of({"account": 4611686018427387905, "number": Decimal(4611686018427387905)}, {"account": None})
    verdict, _ = audit(exact(tmp_path, '"number"', more=more), rows, tmp_path)
    assert verdict["success"]


@pytest.mark.parametrize(
    ("pattern", "value"),
    [("'\\S'", "\x0b"), ("'a{,3}'", "a{,3}"), ("'[[:alpha:]]'", "x"), ("'(a*)*b|a*c'", "a" * 40 + "c")],
)
def test_patterns_mean_what_they_mean_to_the_rules(tmp_path: Path, pattern: str, value: str):
    verdict, _ = audit(exact(tmp_path, '"number"', pattern), rows_of({"code": value}, {"code": None}), tmp_path)
    assert verdict["success"], failed(verdict)
