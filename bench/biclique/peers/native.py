"""DuckDB over the window's rows: what a native engine does that keeps no index.

The window is a table of either stream in memory. A batch's rows are joined with the other stream's window, then added;
what has left the window is deleted. Bands are joined by bins as wide as the band, which is faster in DuckDB than its
own inequality join here: the batch's rows are laid into three bins each.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import duckdb
import pyarrow as pa

from bench.biclique.peers.contender import parquet
from bench.biclique.peers.data import CONDITIONS, WINDOW_S, Kind, Step

_WITHIN = f"r.t between s.t - to_seconds({WINDOW_S}) and s.t + to_seconds({WINDOW_S})"
_COLUMNS = "id, k, v, note, t::timestamp as t"


class DuckDB:
    def __init__(self, kind: Kind, home: Path) -> None:
        self._kind, self._results = kind, home / "pairs"
        self._results.mkdir(parents=True)
        self._connection = duckdb.connect()
        for side in ("r", "s"):
            self._sql(f"create table {side}_window (id bigint, k bigint, v bigint, note varchar, t timestamp)")

    def run(self, step: Step) -> None:
        for side, file in step.files.items():
            self._sql(f"create or replace temp table {side}_new as select {_COLUMNS} from read_parquet('{file}')")
        meetings = (("r_new", "s_window"), ("r_window", "s_new"), ("r_new", "s_new"))
        every = " union all ".join(self._joined(r, s) for r, s in meetings)
        self._sql(f"copy ({every}) to '{self._results / step.name}.parquet'")
        for side in step.files:
            self._sql(f"insert into {side}_window select * from {side}_new")
            horizon = f"make_timestamp({step.end_us - WINDOW_S * 1_000_000})"
            self._sql(f"delete from {side}_window where t < {horizon}")

    def _joined(self, r: str, s: str) -> str:
        """Pairs of two tables, one of which at least is the batch's."""
        picked = "r.id as r_id, s.id as s_id, r.note as r_note, s.note as s_note"
        if self._kind == "equality":
            return f"select {picked} from {r} r join {s} s on r.k = s.k where {_WITHIN}"
        small, large = ("r", "s") if r == "r_new" else ("s", "r")
        tables = {"r": r, "s": s}
        binned = f"(select *, unnest([v // 3 - 1, v // 3, v // 3 + 1]) as bin from {tables[small]}) {small}"
        on = f"{small}.bin = {large}.v // 3 and {CONDITIONS['band']}"
        return f"select {picked} from {binned} join {tables[large]} {large} on {on} where {_WITHIN}"

    def _sql(self, text: str) -> None:
        self._connection.execute(text)

    def pairs(self) -> Iterable[pa.Table]:
        return parquet(self._results)

    def close(self) -> None:
        self._connection.close()
