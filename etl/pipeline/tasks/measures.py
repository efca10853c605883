"""Measures: SQL expressions over the columns of an event and its masters, as columns of the fact.

A row is refused with `<measure>_invalid` when a measure has no value although all of its inputs have one (overflow,
division by zero); such a value is never stored as a silent NULL.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from etl.columnar.expression import Expression, compile_expression
from etl.contract.model import Pipeline


@dataclass(frozen=True, slots=True)
class Measured:
    """Rows with their measures, and rows with an invalid one."""

    accepted: pa.Table
    refused: pa.Table
    reasons: pa.Array


@dataclass(frozen=True, slots=True)
class Measures:
    """A pipeline's compiled measures."""

    expressions: dict[str, Expression]

    @classmethod
    def compile(cls, pipeline: Pipeline, schema: pa.Schema) -> Measures:
        return cls({name: compile_expression(sql, schema) for name, sql in pipeline.measures.items()})

    def add(self, rows: pa.Table) -> Measured:
        """Add a column for every measure."""
        wrong = np.zeros(rows.num_rows, bool)
        invalid = {}
        for name, expression in self.expressions.items():
            values = expression.evaluate(rows)
            inputs = np.logical_and.reduce(
                [rows[column].is_valid().to_numpy() for column in expression.columns] or [np.ones(len(wrong), bool)]
            )
            invalid[name] = inputs & pc.is_null(values).to_numpy(zero_copy_only=False)
            wrong |= invalid[name]
            rows = rows.append_column(name, values)
        if not wrong.any():
            return Measured(rows, rows.slice(0, 0), pa.array([], pa.list_(pa.string())))
        reasons = [
            [f"{name}_invalid" for name, flags in invalid.items() if flags[row]] for row in np.flatnonzero(wrong)
        ]
        return Measured(
            rows.filter(pa.array(~wrong)), rows.filter(pa.array(wrong)), pa.array(reasons, pa.list_(pa.string()))
        )
