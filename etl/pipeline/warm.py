"""Compile the kernels of a micro-batch ahead of time: `python -m etl.pipeline.warm`.

Compiling takes half a minute, loading compiled kernels a moment. Set-up compiles them once per machine; every process
that reads events loads them before its first batch.
"""

from __future__ import annotations

import io
from decimal import Decimal

import pyarrow as pa

from etl.adapters.postgres.binary import write_values
from etl.ingest import warm as ingest


def warm() -> None:
    """Read one event of every format and type, and write a row for the mart."""
    ingest.warm()
    row = {"a": pa.array([1]), "b": pa.array(["x"]), "c": pa.array([Decimal("1.5")], pa.decimal128(18, 4))}
    write_values(pa.table(row), io.BytesIO())


if __name__ == "__main__":
    warm()
