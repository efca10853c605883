"""The expectation suite derived from a pipeline's declaration, and the rows as a frame for it.

    declared                                    expected of accepted rows
    key, required fields, required masters      unique, not null
    range, set, pattern                         the same, for every value
    SQL over the row, patterns of RE2 alone     a column of flags, recomputed from the rows, all true
    [[expectations]]                            as they are

Both sides of a comparison have one type: decimals become floats (pandas would compare objects), integers have 64 bits
(only those are compared as arrays), and dates become timestamps in UTC. Results about sensitive columns keep counts
only: no report has their values, not even wrong ones. All other text is escaped before it is stored, since Great
Expectations' pages would execute markup from an event.
"""

from __future__ import annotations

import html
import re
import warnings
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from etl.contract.model import ExpressionRule, PatternRule, Pipeline, RangeRule, Rule, SetRule
from etl.contract.words.expectation_types import COLUMN_ARGUMENTS
from etl.validate.bounds import fits, members
from etl.validate.checks import Checks

_KEY = "key_of_the_event"
_COUNTS = frozenset(
    ("element_count", "missing_count", "missing_percent", "unexpected_count", "unexpected_percent",
     "unexpected_percent_total", "unexpected_percent_nonmissing")
)  # fmt: skip
_OF_RE2 = re.compile(r"\\[pPQECzZA]|\[\[|\(\?[^:P]")  # syntax that differs or fails in Python


def frame(accepted: pa.Table, pipeline: Pipeline, now: datetime) -> Any:
    """The rows as a pandas frame for the suite."""
    columns = {field.name: accepted[field.name].cast(_compared_as(field.type)) for field in accepted.schema}
    key = pipeline.stream.key
    if len(key) > 1:
        parts = [accepted[name].cast(pa.string()) for name in key]
        columns[_KEY] = pc.binary_join_element_wise(*parts, "\x1f")
    rows = accepted.select([one for one in pipeline.stream.schema.names if one in accepted.column_names])
    for rule in pipeline.rules:
        if _as_flags(rule):
            columns[_flags_of(rule)] = _kept(rule, rows, now)
    return pa.table(columns).to_pandas()


def _compared_as(kind: pa.DataType) -> pa.DataType:
    """The type in which values of a column are compared."""
    if pa.types.is_decimal(kind):
        return pa.float64()
    if pa.types.is_signed_integer(kind):
        return pa.int64()
    return pa.timestamp("us", "UTC") if pa.types.is_date(kind) else kind


def _as_flags(rule: Rule) -> bool:
    """Whether a rule has no equivalent in Great Expectations and is checked as a column of flags."""
    return isinstance(rule, ExpressionRule) or (isinstance(rule, PatternRule) and not _is_python(rule.pattern))


def _is_python(pattern: str) -> bool:
    """Whether a pattern means the same in Python's `re` as in RE2."""
    if _OF_RE2.search(pattern):
        return False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            re.compile(_anchored(pattern))
        except (re.error, Warning):
            return False
    return True


def _anchored(pattern: str) -> str:
    return rf"(?a)\A(?:{pattern})\Z"


def _flags_of(rule: Rule) -> str:
    return f"rule {rule.name}"


def _kept(rule: Rule, rows: pa.Table, now: datetime) -> pa.Array:
    broken = Checks.compile([rule], rows.schema, now).broken(rows.combine_chunks().to_batches()[0])
    return pc.equal(pc.list_value_length(broken), 0)


def suite(pipeline: Pipeline, now: datetime, expected: int) -> Iterator[Any]:
    """The expectations of a batch that began at `now` and accepted `expected` rows."""
    import great_expectations.expectations as expect
    from great_expectations.expectations.registry import get_expectation_impl

    yield expect.ExpectTableRowCountToEqual(value=expected)
    key = pipeline.stream.key
    yield expect.ExpectColumnValuesToBeUnique(column=key[0] if len(key) == 1 else _KEY)
    for field in pipeline.stream.fields:
        if field.required:
            yield expect.ExpectColumnValuesToNotBeNull(column=field.name)
    for master in pipeline.masters:
        if master.required and master.history != "none":
            yield expect.ExpectColumnValuesToNotBeNull(column=f"{master.name}_key")
    for rule in pipeline.rules:
        yield from _of_rule(rule, pipeline, now)
    for declared in pipeline.expectations:
        yield get_expectation_impl(declared.type)(**declared.arguments)


def _of_rule(rule: Rule, pipeline: Pipeline, now: datetime) -> Iterator[Any]:
    import great_expectations.expectations as expect

    if isinstance(rule, ExpressionRule) or _as_flags(rule):
        yield expect.ExpectColumnValuesToBeInSet(column=_flags_of(rule), value_set=[True])
    elif isinstance(rule, PatternRule):
        yield expect.ExpectColumnValuesToMatchRegex(column=rule.column, regex=_anchored(rule.pattern))
    elif isinstance(rule, SetRule):
        allowed = [_value(one) for one in members(rule, pipeline.stream.field(rule.column).type)]
        yield expect.ExpectColumnValuesToBeInSet(column=rule.column, value_set=allowed)
    else:
        yield from _of_range(rule, pipeline.stream.field(rule.column).type, now)


def _of_range(rule: RangeRule, kind: pa.DataType, now: datetime) -> Iterator[Any]:
    """Expectations of a range; none where it allows every value of the type."""
    import great_expectations.expectations as expect

    ends = fits(rule, kind, now)
    low, high = (None if end is None else _value(end) for end in (ends.low, ends.high))
    if ends.empty:
        yield expect.ExpectColumnValuesToBeNull(column=rule.column)
    elif low is not None or high is not None:
        yield expect.ExpectColumnValuesToBeBetween(column=rule.column, min_value=low, max_value=high)


def _value(value: pa.Scalar) -> Any:
    """A declared value in its column's type in the frame: Arrow and Python convert a decimal to different floats."""
    return value.cast(_compared_as(value.type)).as_py()


def sensitive_columns(pipeline: Pipeline) -> frozenset[str]:
    """The columns of the frame that show a sensitive value."""
    shown = {name.replace(".", "_") for name in pipeline.sensitive} | pipeline.sensitive
    return frozenset(shown | ({_KEY} if shown.intersection(pipeline.stream.key) else set()))


def mask(results: list[Any], sensitive: frozenset[str]) -> None:
    """Reduce results about sensitive columns to counts."""
    for one in results:
        if sensitive.intersection(_columns(one.expectation_config.kwargs)):
            one.result = {name: value for name, value in (one.result or {}).items() if name in _COUNTS}
            raised = not one.success and not one.result
            message = "what went wrong is not shown, for the column is sensitive" if raised else None
            one.exception_info = {
                "raised_exception": raised,
                "exception_message": message,
                "exception_traceback": "" if raised else None,  # pages render tracebacks
            }


def escape(results: list[Any]) -> None:
    """Escape text from events and declarations: Great Expectations inserts it into its pages as markup."""
    for one in results:
        one.result = _escaped(one.result or {})
        one.expectation_config.kwargs = _escaped(one.expectation_config.kwargs)
        one.exception_info = _escaped(one.exception_info or {})


def _escaped(value: Any) -> Any:
    if isinstance(value, str):
        return html.escape(value)
    if isinstance(value, dict):
        return {_escaped(key): _escaped(one) for key, one in value.items()}
    if isinstance(value, list | tuple | set):
        return [_escaped(one) for one in value]
    return value


def _columns(arguments: dict[str, Any]) -> Iterator[str]:
    for name in COLUMN_ARGUMENTS:
        given = arguments.get(name)
        yield from given if isinstance(given, list | tuple) else [given] if given else []
