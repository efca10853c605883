"""Every expectation that a file may declare: data that passes, and data that does not."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from etl.adapters.great_expectations.audit import Audit
from etl.contract.load import load
from etl.contract.words.expectation_types import EXPECTATIONS

NOW = datetime(2026, 11, 17, 12, tzinfo=UTC)
HEAD = """
name = "declared"
[stream]
source = { landing = "landing/declared", format = "jsonl" }
key = ["id"]
[stream.fields]
id = "bigint"
n = { type = "int", required = false }
x = { type = "double", required = false }
price = { type = "decimal(10,2)", required = false }
day = { type = "date", required = false }
at = { type = "timestamp", required = false }
kind = { type = "string", required = false }
done = { type = "boolean", required = false }
"""
ROW: dict[str, Any] = {
    "n": 1, "x": 1.5, "price": Decimal("0.30"), "day": date(2020, 5, 1), "at": datetime(2020, 5, 1, 10, tzinfo=UTC),
    "kind": "a", "done": True,
}  # fmt: skip
ROWS = [ROW | {"id": 0}, ROW | {"id": 1, "n": 2, "x": 2.5, "kind": "b"}, {"id": 2}]
EARLY, LATE = datetime(2019, 12, 31, tzinfo=UTC), datetime(2020, 5, 2, tzinfo=UTC)
SINCE = "min_value = 2020-01-01"

MEDIAN = "quantile_ranges = { quantiles = [0.5], value_ranges = [[1, 2.5]] }"
Z_SCORE = "threshold = 1\ndouble_sided = true"
PAIRS = 'column_B = "price"\nvalue_pairs_set = [["a", 0.3], ["b", 0.3]]'
LAST = date(2021, 1, 1)
SUM = 'column_list = ["x", "n"]\nsum_total = 2.5\nmostly = 0.3\n'
IF_BOTH, IF_ALL = 'ignore_row_if = "either_value_is_missing"', 'ignore_row_if = "any_value_is_missing"'

# The expectation, what it is about, and rows that it is not true for.
CASES: list[tuple[str, str, list[dict[str, Any]]]] = [
    ("column_distinct_values_to_be_in_set", 'column = "kind"\nvalue_set = ["a", "b"]', [{"kind": "c"}]),
    ("column_distinct_values_to_be_in_set", 'column = "day"\nvalue_set = [2020-05-01]', [{"day": date(2020, 5, 2)}]),
    ("column_distinct_values_to_contain_set", 'column = "day"\nvalue_set = [2020-05-01]', [{"day": date(2020, 5, 2)}]),
    ("column_distinct_values_to_equal_set", 'column = "day"\nvalue_set = [2020-05-01]', [{"day": date(2020, 5, 2)}]),
    ("column_distinct_values_to_contain_set", 'column = "n"\nvalue_set = [1]', [{"n": 2}]),
    ("column_distinct_values_to_equal_set", 'column = "n"\nvalue_set = [1, 2]', [{"n": 1}]),
    ("column_max_to_be_between", 'column = "day"\n' + SINCE, [{"day": date(2019, 12, 31)}]),
    ("column_max_to_be_between", 'column = "price"\nmax_value = 0.3', [{"price": Decimal("0.31")}]),
    ("column_mean_to_be_between", 'column = "x"\nmin_value = 1\nmax_value = 2', [{"x": 5.0}]),
    ("column_mean_to_be_between", 'column = "at"\n' + SINCE, [{"at": EARLY}]),
    ("column_median_to_be_between", 'column = "n"\nmin_value = 1\nmax_value = 2', [{"n": 5}]),
    ("column_min_to_be_between", 'column = "at"\nmin_value = 2020-05-01T10:00:00Z', [{"at": EARLY}]),
    ("column_min_to_be_between", 'column = "at"\nmin_value = "2020-05-01T12:00:00+02:00"', [{"at": EARLY}]),
    ("column_most_common_value_to_be_in_set", 'column = "price"\nvalue_set = [0.3]', [{"price": Decimal("0.31")}]),
    ("column_pair_values_a_to_be_greater_than_b", 'column_A = "x"\ncolumn_B = "n"\n' + IF_BOTH, [{"x": 0.0, "n": 1}]),
    ("column_pair_values_to_be_equal", 'column_A = "kind"\ncolumn_B = "kind"', []),
    ("column_pair_values_to_be_equal", 'column_A = "n"\ncolumn_B = "x"\nmostly = 0', []),
    ("column_pair_values_to_be_in_set", 'column_A = "kind"\n' + PAIRS, [{"kind": "c"}]),
    ("column_proportion_of_non_null_values_to_be_between", 'column = "n"\nmin_value = 0.5', [{"n": None}]),
    ("column_proportion_of_unique_values_to_be_between", 'column = "n"\nmin_value = 0.9', [{"n": 1}, {"n": 1}]),
    ("column_quantile_values_to_be_between", 'column = "x"\n' + MEDIAN, [{"x": 9.0}]),
    ("column_stdev_to_be_between", 'column = "x"\nmax_value = 1', [{"x": 1.0}, {"x": 99.0}]),
    ("column_sum_to_be_between", 'column = "n"\nmin_value = 3\nmax_value = 3', [{"n": 9}]),
    ("column_unique_value_count_to_be_between", 'column = "kind"\nmin_value = 2', [{"kind": "a"}]),
    ("column_value_lengths_to_be_between", 'column = "kind"\nmax_value = 1', [{"kind": "aa"}]),
    ("column_value_lengths_to_equal", 'column = "kind"\nvalue = 1', [{"kind": "aa"}]),
    ("column_value_z_scores_to_be_less_than", 'column = "x"\n' + Z_SCORE, [{"x": 1.0}] * 9 + [{"x": 99.0}]),
    ("column_values_to_be_between", 'column = "day"\n' + SINCE + '\nmax_value = "2020-12-31"', [{"day": LAST}]),
    ("column_values_to_be_between", 'column = "at"\nmin_value = 2020-01-01T00:00:00', [{"at": EARLY}]),
    ("column_values_to_be_between", 'column = "price"\nmin_value = 0.3\nmax_value = 0.3', [{"price": Decimal("0.29")}]),
    ("column_values_to_be_between", 'column = "price"\nmin_value = 0.295', [{"price": Decimal("0.29")}]),
    ("column_values_to_be_in_set", 'column = "day"\nvalue_set = [2020-05-01]', [{"day": date(2020, 5, 2)}]),
    ("column_values_to_be_in_set", 'column = "done"\nvalue_set = [true]', [{"done": False}]),
    ("column_values_to_be_null", 'column = "n"\nmostly = 0.3', [{"n": 1}]),
    ("column_values_to_be_unique", 'column = "n"', [{"n": 1}, {"n": 1}]),
    ("column_values_to_match_regex", 'column = "kind"\nregex = "^[ab]$"', [{"kind": "c"}]),
    ("column_values_to_match_regex_list", 'column = "kind"\nregex_list = ["a", "b"]', [{"kind": "c"}]),
    ("column_values_to_not_be_in_set", 'column = "at"\nvalue_set = ["2020-05-02"]', [{"at": LATE}]),
    ("column_values_to_not_be_null", 'column = "n"\nmostly = 0.6', [{"n": None}]),
    ("column_values_to_not_match_regex", 'column = "kind"\nregex = "c"', [{"kind": "c"}]),
    ("column_values_to_not_match_regex_list", 'column = "kind"\nregex_list = ["c", "d"]', [{"kind": "c"}]),
    ("compound_columns_to_be_unique", 'column_list = ["kind", "n"]', [{"kind": "a", "n": 1}, {"kind": "a", "n": 1}]),
    ("multicolumn_sum_to_equal", SUM + IF_ALL, [{"x": 9.0, "n": 1}]),
    ("select_column_values_to_be_unique_within_record", 'column_list = ["x", "n"]\n' + IF_ALL, [{"x": 1.0, "n": 1}]),
    ("table_row_count_to_be_between", "max_value = 3", [{}] * 4),
    ("table_row_count_to_equal", "value = 3", [{}]),
]  # fmt: skip


def test_every_expectation_is_here() -> None:
    assert {f"expect_{name}" for name, _, _ in CASES} == set(EXPECTATIONS)


@pytest.mark.parametrize(("name", "about", "wrong"), CASES, ids=[f"{name}-{n}" for n, (name, _, _) in enumerate(CASES)])
def test_an_expectation_passes_on_good_rows_and_fails_on_others(
    tmp_path: Path, name: str, about: str, wrong: list[dict[str, Any]]
) -> None:
    file = tmp_path / "declared.toml"
    file.write_text(f'{HEAD}[[expectations]]\ntype = "expect_{name}"\n{about}\n')
    declared = load(file, tmp_path)
    audit = Audit(tmp_path / "results", tmp_path / "docs", 5)
    for batch, (rows, good) in enumerate(((ROWS, True), ([{"id": n} | row for n, row in enumerate(wrong)], False)), 1):
        if rows:
            accepted = pa.Table.from_pylist(rows, declared.stream.schema)
            verdict = audit.check(accepted, declared, NOW, batch, len(rows))
            audit.build_docs("declared", batch)
            assert [one["name"] for one in verdict["expectations"] if not one["success"]] == (
                [] if good else [f"expect_{name}"]
            )
