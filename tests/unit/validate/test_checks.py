"""Row rules: which rows break them, in every type."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from etl.columnar.expression import ExpressionRefused
from etl.columnar.labels import label_lists
from etl.contract.model import ExpressionRule, PatternRule, RangeRule, RelativeTime, Rule, SetRule
from etl.contract.words.types import arrow_type
from etl.validate.checks import Checks, RuleColumnUnknown

NOW = datetime(2026, 11, 17, 12, tzinfo=UTC)


def breaks(rule: Rule, declared: str, values: list[Any]) -> list[Any]:
    """The values that break a rule about the column x."""
    batch = pa.record_batch({"x": pa.array(values, arrow_type(declared))})
    broken = Checks.compile([rule], batch.schema, NOW).broken(batch).to_pylist()
    assert all(names in ([], ["r"]) for names in broken)
    return [value for value, names in zip(values, broken, strict=True) if names]


def within(low: Any = None, high: Any = None) -> RangeRule:
    return RangeRule("r", "x", low, high)


D = Decimal
RANGES: list[tuple[str, RangeRule, list[Any], list[Any]]] = [
    ("int", within(1, 3), [0, 1, 3, 4, None], [0, 4]),
    ("int", within(0.5), [0, 1], [0]),
    ("int", within(high=2.5), [2, 3], [3]),
    ("int", within(-(10**12), 10**12), [-(2**31), 2**31 - 1], []),
    ("int", within(10**12), [2**31 - 1, None], [2**31 - 1]),
    ("bigint", within("5"), [4, 5], [4]),
    ("decimal(18,4)", within(0), [D("-0.0001"), D("0.0000"), None], [D("-0.0001")]),
    (
        "decimal(18,4)",
        within("0.00005", "0.00019"),
        [D("0.0000"), D("0.0001"), D("0.0002")],
        [D("0.0000"), D("0.0002")],
    ),
    ("decimal(4,2)", within(-1000, 1000), [D("99.99"), D("-99.99")], []),
    ("decimal(4,2)", within(high=-1000), [D("-99.99")], [D("-99.99")]),
    ("decimal(38,10)", within("0.1", 10**30), [D("0.1"), D("0.0999999999")], [D("0.0999999999")]),
    ("double", within(0, 1.5), [-0.1, 0.0, 1.5, 1.6, None], [-0.1, 1.6]),
    (
        "timestamp",
        within(datetime(2000, 1, 1, tzinfo=UTC), RelativeTime(timedelta(hours=24))),
        [
            datetime(1999, 12, 31, 23, tzinfo=UTC),
            NOW,
            NOW + timedelta(days=1),
            NOW + timedelta(days=1, microseconds=1),
            None,
        ],
        [datetime(1999, 12, 31, 23, tzinfo=UTC), NOW + timedelta(days=1, microseconds=1)],
    ),
    (
        "timestamp",
        within("2000-01-01"),
        [datetime(1999, 12, 31, tzinfo=UTC), datetime(2000, 1, 1, tzinfo=UTC)],
        [datetime(1999, 12, 31, tzinfo=UTC)],
    ),
    (
        "date",
        within("2026-01-01", RelativeTime(timedelta(0))),
        [date(2025, 12, 31), date(2026, 11, 17), date(2026, 11, 18)],
        [date(2025, 12, 31), date(2026, 11, 18)],
    ),
    ("string", within("b", "d"), ["a", "b", "e"], ["a", "e"]),
]


@pytest.mark.parametrize(("declared", "rule", "values", "broken"), RANGES)
def test_ranges_include_both_ends(declared: str, rule: RangeRule, values: list[Any], broken: list[Any]) -> None:
    assert breaks(rule, declared, values) == broken


@pytest.mark.parametrize(
    ("declared", "allowed", "values", "broken"),
    [
        ("string", ("a", "b"), ["a", "c", None, ""], ["c", ""]),
        ("int", (1, 2), [1, 3, None], [3]),
        ("decimal(9,2)", ("1.5", 2, "0.001"), [D("1.50"), D("2.00"), D("0.00")], [D("0.00")]),
        ("boolean", (True,), [True, False], [False]),
        ("date", ("2026-11-17",), [date(2026, 11, 17), date(2026, 11, 18)], [date(2026, 11, 18)]),
        ("timestamp", ("2026-11-17T12:00:00Z",), [NOW, NOW + timedelta(1)], [NOW + timedelta(1)]),
        ("double", (0.5, 1), [0.5, 1.0, 2.0], [2.0]),
    ],
)
def test_sets_are_compared_in_the_columns_type(
    declared: str, allowed: Any, values: list[Any], broken: list[Any]
) -> None:
    assert breaks(SetRule("r", "x", allowed), declared, values) == broken


def test_a_pattern_is_about_all_of_the_text() -> None:
    assert breaks(PatternRule("r", "x", "a|bc"), "string", ["a", "bc", "abc", "a\n", "", None]) == ["abc", "a\n", ""]


def test_an_expression_that_is_null_is_broken() -> None:
    assert breaks(ExpressionRule("r", "x > 1"), "int", [1, 2, None]) == [1, None]


def test_expressions_see_only_rows_without_a_reason_and_reasons_come_first() -> None:
    batch = pa.record_batch({"x": pa.array([None, 0, 5, None], pa.int32()), "y": [1, 1, 1, 1]})
    rules = [ExpressionRule("expression", "x > 1"), RangeRule("range", "y", 2), RangeRule("fine", "y", 0)]
    reasons = label_lists([("x_missing", batch.column("x").is_null().to_numpy(False) & [True, False, False, False])], 4)
    found = Checks.compile(rules, batch.schema, NOW).add(batch, reasons)
    assert found.to_pylist() == [["x_missing", "range"], ["expression", "range"], ["range"], ["expression", "range"]]


def test_mistakes_in_rules_are_named() -> None:
    schema = pa.schema({"x": pa.int32()})
    with pytest.raises(RuleColumnUnknown, match="rule 'r' is about 'z'; allowed are x"):
        Checks.compile([RangeRule("r", "z", 1)], schema, NOW)
    with pytest.raises(ExpressionRefused):
        Checks.compile([ExpressionRule("r", "x + 1")], schema, NOW)


def test_an_empty_batch_and_no_rules_are_fine() -> None:
    batch = pa.record_batch({"x": pa.array([], pa.int32())})
    assert Checks.compile([within(1)], batch.schema, NOW).broken(batch).to_pylist() == []
    assert Checks.compile([], batch.schema, NOW).broken(batch).to_pylist() == []
