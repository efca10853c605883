"""The figures of one batch that later ones are compared with: counts it has anyway, nulls and means of its columns.

The accepted rows are already in memory for the audit, so nothing is read for it. Keys and references to
masters have no meaningful mean; of sensitive columns nothing but the share of nulls is kept.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from etl.contract.model import Pipeline
from etl.model import BatchCounts
from etl.validate.distribution import Figure, Profile, share


def profile(counts: BatchCounts, accepted: pa.Table | None, pipeline: Pipeline) -> dict[str, Figure]:
    """The figures of a batch, by name."""
    figures = [*_of_counts(counts)]
    if accepted is not None and accepted.num_rows:
        figures += _of_columns(accepted, pipeline)
    return {figure.name: figure for figure in figures}


def _of_counts(counts: BatchCounts) -> Iterator[Figure]:
    if counts.lines:
        yield Figure("volume", "", float(counts.lines))
        yield share("quarantined", "", counts.quarantined, counts.lines)
        yield share("duplicates", "", counts.duplicates, counts.lines)
    for master, join in counts.joins.items():
        if join.probes:
            yield share("unmatched", master, join.unmatched, join.probes)
            yield share("hit_ratio", master, min(join.hits, join.probes), join.probes)


def _of_columns(rows: pa.Table, pipeline: Pipeline) -> Iterator[Figure]:
    known = set(rows.column_names)
    for field in pipeline.stream.fields:
        if field.nullable and field.name in known:
            yield share("null_share", field.name, rows[field.name].null_count, rows.num_rows)
    references = {column for master in pipeline.masters for column in master.stream_columns}
    numbers = [*(field.name for field in pipeline.stream.fields), *pipeline.measures]
    for name in numbers:
        if name in known and name not in references | pipeline.sensitive | set(pipeline.stream.key):
            yield from _mean(name, rows[name])


def _mean(name: str, column: pa.ChunkedArray) -> Iterator[Figure]:
    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        return
    values = column.cast(pa.float64())
    count = len(values) - values.null_count
    mean = pc.mean(values).as_py()
    if count and math.isfinite(mean):
        deviation = pc.stddev(values, ddof=1).as_py() if count > 1 else abs(mean)
        yield Figure("mean", name, mean, deviation / math.sqrt(count))


def as_json(figures: Profile) -> dict[str, list[float]]:
    """Plain values for the ledger: name, value and standard error."""
    return {name: [float(f"{one.value:.9g}"), float(f"{one.error:.3g}")] for name, one in figures.items()}


def from_json(stored: Mapping[str, Any]) -> dict[str, Figure]:
    """The figures stored in the ledger."""
    figures = {}
    for name, (value, error) in stored.items():
        kind, _, subject = name.partition(":")
        figures[name] = Figure(kind, subject, value, error)  # type: ignore[arg-type]  # written by `as_json`
    return figures
