"""Results and late tuples of a finished batch, gathered at the target, as files of the correlation's Delta tables.

A batch's files have unique names and are added under the batch's number, so publishing is idempotent. Results without a
target stay at the sites that produced them.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from etl.adapters.delta.data_files import write_part
from etl.contract.words.types import TIMESTAMP
from etl.ingest.render import as_json
from etl.streams.declared import result_schema
from etl.streams.publishing import delta_log, require_alike
from etl.streams.sites.running import Running
from etl.streams.tasks.plan import LATE, LATE_SCHEMA, RESULTS, Places


def prepare(places: Places, one: Running) -> None:
    """Create missing tables."""
    delta = delta_log(places, f"correlations/{one.name}")
    delta.create(LATE, LATE_SCHEMA)
    wanted = _schema(one)
    require_alike(one.name, delta, wanted)
    delta.create(RESULTS, wanted)


def publish(places: Places, one: Running, number: int) -> dict[str, int]:
    """Add a batch's rows to its tables; returns their numbers. May raise `SiteAway`."""
    results = _results(one, number)
    late = pa.concat_tables([LATE_SCHEMA.empty_table(), *_late(one, number)])
    if one.declared.target is not None:
        _add(places, one, number, RESULTS, results)
    _add(places, one, number, LATE, late)
    return {"rows": results.num_rows, "late": late.num_rows}


def _add(places: Places, one: Running, number: int, table: str, rows: pa.Table) -> None:
    batch, root = one.known.since + number, f"correlations/{one.name}"
    delta = delta_log(places, root)
    if not rows.num_rows or delta.newest_batch(table) >= batch:
        return
    name = f"part-{batch:09d}-{one.known.token}.parquet"
    delta.add(table, [write_part(places.correlations / one.name, table, name, rows)], batch)


def _schema(one: Running) -> pa.Schema:
    return pa.schema(list(result_schema(one.query.sql).items()))


def _results(one: Running, number: int) -> pa.Table:
    joined = one.executor.results(number).combine_chunks()
    output = pa.table({name: column.evaluate(joined) for name, column in one.query.sql.output})
    return output.cast(_schema(one))


def _late(one: Running, number: int) -> Iterator[pa.Table]:
    watermark = one.executor.calendar.watermark(number)
    for stream, rows in one.executor.late(number):
        declared, n = one.query.join.streams[stream], rows.num_rows
        source = one.query.sql.sources[declared.name].stream
        columns = [
            pa.repeat(pa.scalar(one.known.since + number, pa.int64()), n),
            pa.repeat(pa.scalar(declared.name), n),
            pa.repeat(pa.scalar(source), n),
            rows.column(declared.time).cast(TIMESTAMP),
            pa.repeat(pa.scalar(watermark, pa.int64()).cast(TIMESTAMP), n),
            as_json(rows.combine_chunks().to_batches()[0]),
        ]
        yield pa.table(columns, schema=LATE_SCHEMA)
