"""The Great Expectations types that a file may use, with their arguments, as data: reading a file imports little.

Left out are those that make no sense for a batch's accepted rows: types and presence of columns (declared already),
other tables, queries, the order of rows. A test compares this list with the installed library.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Arguments(NamedTuple):
    """Names of an expectation's arguments."""

    needed: tuple[str, ...]
    optional: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return self.needed + self.optional


COLUMN_ARGUMENTS: Final = ("column", "column_A", "column_B", "column_list")
COMMON: Final = ("severity", "notes", "description")
SEVERITIES: Final = ("critical", "warning", "info")

_RANGE = ("min_value", "max_value", "strict_min", "strict_max")
_COLUMN_RANGE = Arguments(("column",), _RANGE)
_SET = Arguments(("column", "value_set"))
_MOSTLY_SET = Arguments(("column", "value_set"), ("mostly",))
_MOSTLY = Arguments(("column",), ("mostly",))
_ROWS = ("mostly", "ignore_row_if")
_REGEX = Arguments(("column", "regex"), ("mostly",))

EXPECTATIONS: Final[dict[str, Arguments]] = {
    "expect_column_distinct_values_to_be_in_set": _SET,
    "expect_column_distinct_values_to_contain_set": _SET,
    "expect_column_distinct_values_to_equal_set": _SET,
    "expect_column_max_to_be_between": _COLUMN_RANGE,
    "expect_column_mean_to_be_between": _COLUMN_RANGE,
    "expect_column_median_to_be_between": _COLUMN_RANGE,
    "expect_column_min_to_be_between": _COLUMN_RANGE,
    "expect_column_most_common_value_to_be_in_set": Arguments(("column", "value_set"), ("ties_okay",)),
    "expect_column_pair_values_a_to_be_greater_than_b": Arguments(("column_A", "column_B"), (*_ROWS, "or_equal")),
    "expect_column_pair_values_to_be_equal": Arguments(("column_A", "column_B"), _ROWS),
    "expect_column_pair_values_to_be_in_set": Arguments(("column_A", "column_B", "value_pairs_set"), _ROWS),
    "expect_column_proportion_of_non_null_values_to_be_between": _COLUMN_RANGE,
    "expect_column_proportion_of_unique_values_to_be_between": _COLUMN_RANGE,
    "expect_column_quantile_values_to_be_between": Arguments(("column", "quantile_ranges"), ("allow_relative_error",)),
    "expect_column_stdev_to_be_between": _COLUMN_RANGE,
    "expect_column_sum_to_be_between": _COLUMN_RANGE,
    "expect_column_unique_value_count_to_be_between": _COLUMN_RANGE,
    "expect_column_value_lengths_to_be_between": Arguments(("column",), ("mostly", *_RANGE)),
    "expect_column_value_lengths_to_equal": Arguments(("column", "value"), ("mostly",)),
    "expect_column_value_z_scores_to_be_less_than": Arguments(("column", "threshold", "double_sided"), ("mostly",)),
    "expect_column_values_to_be_between": Arguments(("column",), ("mostly", *_RANGE)),
    "expect_column_values_to_be_in_set": _MOSTLY_SET,
    "expect_column_values_to_be_null": _MOSTLY,
    "expect_column_values_to_be_unique": _MOSTLY,
    "expect_column_values_to_match_regex": _REGEX,
    "expect_column_values_to_match_regex_list": Arguments(("column", "regex_list"), ("mostly", "match_on")),
    "expect_column_values_to_not_be_in_set": _MOSTLY_SET,
    "expect_column_values_to_not_be_null": _MOSTLY,
    "expect_column_values_to_not_match_regex": _REGEX,
    "expect_column_values_to_not_match_regex_list": Arguments(("column", "regex_list"), ("mostly",)),
    "expect_compound_columns_to_be_unique": Arguments(("column_list",), _ROWS),
    "expect_multicolumn_sum_to_equal": Arguments(("column_list", "sum_total"), _ROWS),
    "expect_select_column_values_to_be_unique_within_record": Arguments(("column_list",), _ROWS),
    "expect_table_row_count_to_be_between": Arguments((), _RANGE),
    "expect_table_row_count_to_equal": Arguments(("value",)),
}

OF_NUMBERS: Final = frozenset(
    ("expect_column_quantile_values_to_be_between", "expect_column_stdev_to_be_between",
     "expect_column_sum_to_be_between", "expect_column_value_z_scores_to_be_less_than",
     "expect_multicolumn_sum_to_equal")
)  # fmt: skip
"""Expectations that calculate with the values of their columns."""
OF_ORDERED: Final = frozenset(
    ("expect_column_max_to_be_between", "expect_column_mean_to_be_between", "expect_column_median_to_be_between",
     "expect_column_min_to_be_between", "expect_column_values_to_be_between")
)  # fmt: skip
"""Expectations whose bounds are values of their column: numbers, or dates and times."""
NOT_OF_MOMENTS: Final = frozenset(
    ("expect_column_most_common_value_to_be_in_set", "expect_column_pair_values_to_be_in_set")
)
"""Expectations that compare dates and times with text, so that they are never true."""
BOUNDED: Final = frozenset(("expect_column_value_lengths_to_be_between", "expect_column_values_to_be_between"))
"""Expectations that need at least one bound."""
