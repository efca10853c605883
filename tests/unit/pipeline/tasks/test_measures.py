"""Measures: columns by SQL, and rows refused for a value that cannot be had."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pyarrow as pa

from etl.contract.resolve import ResolvedPipeline
from etl.pipeline.tasks.measures import Measures
from tests.support.declared import resolve

PIPELINE = """
name = "m"
[stream]
source = { landing = "m" }
key = ["id"]
[stream.fields]
id = "bigint"
quantity = "int"
price = { type = "decimal(10,2)", required = false }
[fact.measures]
amount = "cast(quantity * price as decimal(10,2))"
each = "cast(100 / quantity as double)"
doubled = "id * 2"
"""


def compiled(folder: Path) -> tuple[ResolvedPipeline, Measures]:
    resolved = resolve(folder, PIPELINE)
    return resolved, Measures.compile(resolved.pipeline, resolved.row)


def rows(resolved: ResolvedPipeline, *values: tuple[int, int, str | None]) -> pa.Table:
    ids, quantities, prices = zip(*values, strict=True)
    arrays = [
        pa.array(ids, pa.int64()),
        pa.array(quantities, pa.int32()),
        pa.array([None if price is None else Decimal(price) for price in prices], pa.decimal128(10, 2)),
    ]
    return pa.table(arrays, names=resolved.row.names)


def test_a_measure_is_a_column_and_one_without_inputs_is_null(tmp_path: Path) -> None:
    resolved, measures = compiled(tmp_path)
    measured = measures.add(rows(resolved, (1, 2, "3.50"), (2, 4, None)))
    assert measured.accepted["amount"].to_pylist() == [Decimal("7.00"), None]
    assert measured.accepted["each"].to_pylist() == [50.0, 25.0]
    assert measured.accepted["doubled"].to_pylist() == [2, 4]
    assert measured.refused.num_rows == len(measured.reasons) == 0


def test_a_row_whose_inputs_are_there_and_whose_measure_is_not_is_refused_with_every_reason(tmp_path: Path) -> None:
    resolved, measures = compiled(tmp_path)
    given = rows(resolved, (1, 1, "1.00"), (2, 0, "1.00"), (3, 2_000_000_000, "99999999.99"), (2**63 - 1, 0, None))
    measured = measures.add(given)
    assert measured.accepted["id"].to_pylist() == [1]
    assert measured.refused["id"].to_pylist() == [2, 3, 2**63 - 1]
    assert measured.reasons.to_pylist() == [["each_invalid"], ["amount_invalid"], ["each_invalid", "doubled_invalid"]]


def test_no_rows_have_measures_too(tmp_path: Path) -> None:
    resolved, measures = compiled(tmp_path)
    assert measures.add(resolved.row.empty_table()).accepted.column_names[-3:] == ["amount", "each", "doubled"]
