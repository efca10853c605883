"""TPC-H tables as two streams of tuples.

    Q5    orders ⋈ lineitem on orderkey, all years
    Q7    orders ⋈ lineitem on orderkey, shipped 1995 or 1996
    Band  lineitem (TRUCK, quantity > 48) ⋈ lineitem (NONE), orderkeys at most 1 apart

The paper names the queries, not the joins inside them, and feeds both streams with the same volume. These are the
largest joins of the two queries; the longer stream is thinned out evenly to the length of the shorter.
"""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from etl.correlate.model import I64, Tuples, Window, places, references
from etl.correlate.query.compile import StreamType, compile_query
from etl.correlate.query.condition import Condition

FOLDER = Path(__file__).resolve().parents[2] / "var" / "bench" / "biclique"
QUERIES = ("Q5", "Q7", "Band")
_TABLES = ("lineitem", "orders")
_TEXTS = ("l_shipmode", "l_shipinstruct")


@dataclass(frozen=True, slots=True)
class Workload:
    """Two streams of equal length, in the order of their keys' appearance."""

    query: str
    left: I64
    right: I64

    @property
    def band(self) -> bool:
        return self.query == "Band"

    def batch(self, begin: int, end: int, spacing_us: int = 1) -> tuple[Tuples, Tuples]:
        """Tuples begin to end of both streams, one every `spacing_us`."""
        return self._tuples(self.left, 0, begin, end, spacing_us), self._tuples(self.right, 1, begin, end, spacing_us)

    def _tuples(self, keys: I64, number: int, begin: int, end: int, spacing_us: int) -> Tuples:
        wanted = np.arange(begin, end) % len(keys)
        own, times = keys[wanted], np.arange(begin, end, dtype=np.int64) * spacing_us
        order = places(0, end - begin) * 2 + number
        refs = references(number, np.arange(begin, end))
        if self.band:
            return Tuples(refs, times, order, value=own, low=own - 1, high=own + 1)
        return Tuples(refs, times, order, own.astype(np.uint64))

    def condition(self, window: Window) -> Condition:
        schema = pa.schema({"k": pa.int64(), "t": pa.timestamp("us", "UTC")})
        streams = {"r": StreamType(schema, "t"), "s": StreamType(schema, "t")}
        on = "abs(r.k - s.k) <= 1" if self.band else "r.k = s.k"
        return compile_query(f"select r.k from r join s on {on}", streams, within=window).steps[0].condition


def generate(scale: float) -> Path:
    """The TPC-H tables of a scale factor, made once."""
    folder = FOLDER / f"sf{scale:g}"
    if not all((folder / f"{table}.parquet").exists() for table in _TABLES):
        folder.mkdir(parents=True, exist_ok=True)
        tool = Path(sys.executable).with_name("tpchgen-cli")
        tables = ",".join(_TABLES)
        subprocess.run(
            [tool, "parquet", "-s", f"{scale:g}", f"--tables={tables}", f"--output-dir={folder}"],
            check=True,
            capture_output=True,
        )
    return folder


@cache
def workload(query: str, scale: float) -> Workload:
    folder = generate(scale)
    if query == "Band":
        lines = pq.read_table(folder / "lineitem.parquet", columns=["l_orderkey", "l_quantity", *_TEXTS])
        keys = _keys(lines, "l_orderkey")
        trucks = pc.and_(pc.equal(_text(lines, "l_shipmode"), "TRUCK"), pc.greater(lines["l_quantity"], 48))
        by_hand = pc.equal(_text(lines, "l_shipinstruct"), "NONE")
        return _even(query, keys[np.asarray(trucks)], keys[np.asarray(by_hand)])
    lines = pq.read_table(folder / "lineitem.parquet", columns=["l_orderkey", "l_shipdate"])
    orders = _keys(pq.read_table(folder / "orders.parquet", columns=["o_orderkey"]), "o_orderkey")
    keys = _keys(lines, "l_orderkey")
    if query == "Q7":
        first, last = (pa.scalar(day, pa.date32()) for day in (dt.date(1995, 1, 1), dt.date(1996, 12, 31)))
        shipped = lines["l_shipdate"]
        keys = keys[np.asarray(pc.and_(pc.greater_equal(shipped, first), pc.less_equal(shipped, last)))]
    return _even(query, orders, keys)


def _text(table: pa.Table, name: str) -> pa.ChunkedArray:
    return table[name].cast(pa.string())


def _keys(table: pa.Table, name: str) -> I64:
    return np.asarray(table[name].cast(pa.int64()).combine_chunks())


def _even(query: str, left: I64, right: I64) -> Workload:
    """Both as long as the shorter one, taken evenly."""
    count = min(len(left), len(right))
    picks = [np.linspace(0, len(keys) - 1, count).astype(np.int64) for keys in (left, right)]
    return Workload(query, left[picks[0]], right[picks[1]])
