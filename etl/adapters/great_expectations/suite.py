"""The expectation suite derived from a pipeline's declaration, and the rows as a frame for it.

    declared                                    expected of accepted rows
    key, required fields, required masters      unique, not null
    range, set                                  the same, for every value
    SQL over the row, patterns, large integers  a column of flags, recomputed from the rows, all true
    [[expectations]]                            as they are, their values in the types of their columns

Both sides of a comparison have one type: decimals become floats (pandas would compare objects), integers have 64 bits
(only those are compared as arrays), and dates become timestamps in UTC. What a float cannot tell apart stays exact:
decimals of a key are text, and a column of large integers with NULLs gets a type of pandas' own.

Results about sensitive columns keep counts only: no report has their values, not even wrong ones. All other text is
escaped before it is stored, since Great Expectations' pages would execute markup from an event.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator
from datetime import datetime
from decimal import Decimal
from operator import methodcaller
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from etl.contract.check_expectations import moment_of
from etl.contract.model import Expectation, ExpressionRule, PatternRule, Pipeline, RangeRule, Rule, SetRule
from etl.contract.words.expectation_types import COLUMN_ARGUMENTS, OF_ORDERED
from etl.contract.words.values import is_moment
from etl.validate.bounds import fits, members
from etl.validate.checks import Checks

_KEY = "key_of_the_event"
_COUNTS = frozenset(
    ("element_count", "missing_count", "missing_percent", "unexpected_count", "unexpected_percent",
     "unexpected_percent_total", "unexpected_percent_nonmissing")
)  # fmt: skip
_EXACT = 2**53  # integers up to here are exact as floats, which pandas makes of those with NULLs
_IN_KEYS = (("\\", "\\\\"), ("\x1f", "\\x1f"))  # so that a text cannot look like two


def frame(accepted: pa.Table, pipeline: Pipeline, now: datetime) -> Any:
    """The rows as a pandas frame for the suite."""
    columns = {field.name: accepted[field.name].cast(_compared_as(field.type)) for field in accepted.schema}
    key = pipeline.stream.key
    if _key_column(pipeline) == _KEY:
        columns[_KEY] = pc.binary_join_element_wise(*(_key_text(accepted[name]) for name in key), "\x1f")
    rows = accepted.select([one for one in pipeline.stream.schema.names if one in accepted.column_names])
    for rule in pipeline.rules:
        if _as_flags(rule):
            columns[_flags_of(rule)] = _kept(rule, rows, now)
    table = pa.table(columns)
    found = table.to_pandas()
    for name in _inexact(table, pipeline):
        found[name] = table[name].to_pandas(types_mapper=_nullable)
    return found


def _compared_as(kind: pa.DataType) -> pa.DataType:
    """The type in which values of a column are compared."""
    if pa.types.is_decimal(kind):
        return pa.float64()
    if pa.types.is_signed_integer(kind):
        return pa.int64()
    return pa.timestamp("us", "UTC") if pa.types.is_date(kind) else kind


def _key_column(pipeline: Pipeline) -> str:
    """The column that has the event's key: itself, or its text when it is of several parts or a decimal."""
    first, *others = pipeline.stream.key
    return _KEY if others or pa.types.is_decimal(pipeline.stream.field(first).type) else first


def _key_text(values: pa.ChunkedArray) -> pa.ChunkedArray:
    text = values.cast(pa.string())
    for character, instead in _IN_KEYS:
        text = pc.replace_substring(text, character, instead)
    return text


def _nullable(kind: pa.DataType) -> Any:
    """The type of pandas that holds integers and NULLs."""
    import pandas as pd

    return pd.Int64Dtype() if pa.types.is_int64(kind) else None


def _inexact(table: pa.Table, pipeline: Pipeline) -> list[str]:
    """Columns of integers that floats cannot hold. pandas cannot compare its own type with another column."""
    compared = {
        name for one in pipeline.expectations if "column" not in one.arguments for name in _columns(dict(one.arguments))
    }
    return [
        field.name
        for field in table.schema
        if pa.types.is_int64(field.type) and field.name not in compared and _has_large_and_null(table[field.name])
    ]


def _has_large_and_null(values: pa.ChunkedArray) -> bool:
    ends = pc.min_max(values).as_py()
    return bool(values.null_count) and ends["min"] is not None and max(-ends["min"], ends["max"]) > _EXACT


def _as_flags(rule: Rule) -> bool:
    """Whether a rule means something else, or nothing, in Great Expectations, so that its flags are checked."""
    if isinstance(rule, SetRule):
        return any(isinstance(one, int) and abs(one) > _EXACT for one in rule.values)
    return isinstance(rule, ExpressionRule | PatternRule)


def _flags_of(rule: Rule) -> str:
    return f"rule {rule.name}"


def _kept(rule: Rule, rows: pa.Table, now: datetime) -> pa.Array:
    broken = Checks.compile([rule], rows.schema, now).broken(rows.combine_chunks().to_batches()[0])
    return pc.equal(pc.list_value_length(broken), 0)


def suite(pipeline: Pipeline, now: datetime, expected: int, schema: pa.Schema) -> Iterator[Any]:
    """The expectations of a batch that began at `now` and accepted `expected` rows of this schema."""
    import great_expectations.expectations as expect
    from great_expectations.expectations.registry import get_expectation_impl

    yield expect.ExpectTableRowCountToEqual(value=expected)
    yield expect.ExpectColumnValuesToBeUnique(column=_key_column(pipeline))
    for field in pipeline.stream.fields:
        if field.required:
            yield expect.ExpectColumnValuesToNotBeNull(column=field.name)
    for master in pipeline.masters:
        if master.required and master.history != "none":
            yield expect.ExpectColumnValuesToNotBeNull(column=f"{master.name}_key")
    for rule in pipeline.rules:
        yield from _of_rule(rule, pipeline, now)
    for declared in pipeline.expectations:
        yield get_expectation_impl(declared.type)(**_arguments(declared, schema))


def _arguments(declared: Expectation, schema: pa.Schema) -> dict[str, Any]:
    """The arguments of a declared expectation, with values in the types that their columns have in the frame."""
    given = dict(declared.arguments)
    kinds = [schema.field(name).type for name in _columns(given)]
    if declared.type in OF_ORDERED:
        for end in {"min_value", "max_value"} & given.keys():
            given[end] = _declared(given[end], kinds[0])
    if "value_set" in given:
        given["value_set"] = [_declared(one, kinds[0]) for one in given["value_set"]]
    if "value_pairs_set" in given:
        given["value_pairs_set"] = [[*map(_declared, pair, kinds)] for pair in given["value_pairs_set"]]
    return given


def _declared(value: Any, kind: pa.DataType) -> Any:
    """A value of an expectation as it is in the frame; a number that the column cannot hold stays as it is."""
    if is_moment(kind):
        return moment_of(value)
    if not pa.types.is_decimal(kind) or not isinstance(value, int | float):
        return value
    try:
        return _value(pa.scalar(Decimal(str(value)), kind))
    except pa.ArrowInvalid:
        return value


def _of_rule(rule: Rule, pipeline: Pipeline, now: datetime) -> Iterator[Any]:
    import great_expectations.expectations as expect

    if isinstance(rule, ExpressionRule | PatternRule) or _as_flags(rule):
        yield expect.ExpectColumnValuesToBeInSet(column=_flags_of(rule), value_set=[True])
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
        one.result = _changed(one.result or {}, str, html.escape)
        one.expectation_config.kwargs = _changed(one.expectation_config.kwargs, str, html.escape)
        one.exception_info = _changed(one.exception_info or {}, str, html.escape)


def make_plain(results: list[Any]) -> None:
    """Make Python's values of NumPy's."""
    for one in results:
        one.success = bool(one.success)
        one.result = _changed(
            one.result or {}, np.bool_ | np.integer | np.floating | np.ndarray, methodcaller("tolist")
        )


def _changed(value: Any, kind: Any, change: Callable[[Any], Any]) -> Any:
    """A value with all values of a kind in it changed."""
    if isinstance(value, kind):
        return change(value)
    if isinstance(value, dict):
        return {_changed(key, kind, change): _changed(one, kind, change) for key, one in value.items()}
    if isinstance(value, list | tuple | set):
        return [_changed(one, kind, change) for one in value]
    return value


def _columns(arguments: dict[str, Any]) -> Iterator[str]:
    for name in COLUMN_ARGUMENTS:
        given = arguments.get(name)
        yield from given if isinstance(given, list | tuple) else [given] if given else []
