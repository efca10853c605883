"""Decimal arithmetic on columns is what Python's decimals compute, at every size."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal, localcontext

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from etl.columnar.expression import compile_expression

SMALL = st.decimals(-10_000, 10_000, places=2)
LARGE = st.decimals(Decimal("-1e30"), Decimal("1e30"), places=4)


def column(values: list[Decimal | None], type_: pa.DataType) -> pa.Array:
    return pa.array(values, type_)


@given(pairs=st.lists(st.tuples(st.none() | SMALL | LARGE, st.none() | SMALL), min_size=1, max_size=8))
@settings(max_examples=120, deadline=None)
def test_columns_of_decimals_compute_as_decimals_do(pairs: list[tuple[Decimal | None, Decimal | None]]) -> None:
    batch = pa.record_batch(
        {
            "a": column([a for a, _ in pairs], pa.decimal128(36, 4)),
            "b": column([b for _, b in pairs], pa.decimal128(9, 2)),
        }
    )
    for sql, compute in (
        ("a + b", lambda a, b: a + b),
        ("a - b", lambda a, b: a - b),
        ("a * b", lambda a, b: a * b),
        ("a / b", lambda a, b: a / b if b else None),
        ("round(a, 1)", lambda a, b: a),
    ):
        expression = compile_expression(sql, batch.schema)
        found = expression.evaluate(batch).to_pylist()
        needs = (lambda a, b: a is not None) if sql.startswith("round") else (lambda a, b: None not in (a, b))
        with localcontext() as context:
            context.prec = 120
            wanted = [_exact(compute(a, b), expression.type) if needs(a, b) else None for a, b in pairs]
        assert found == wanted, sql


def _exact(value: Decimal | None, type_: pa.DataType) -> Decimal | None:
    """Rounded half up to the type's scale; NULL beyond its digits."""
    if value is None:
        return None
    with localcontext() as context:
        context.prec = 90
        rounded = value.quantize(Decimal(1).scaleb(-type_.scale), ROUND_HALF_UP)
        return rounded if abs(rounded).scaleb(type_.scale) < 10**type_.precision else None
