"""Baselines of the benchmark of documents must find the pairs that the FP-tree join finds; noise meets no aim."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench.documents import __main__ as bench
from bench.documents import aims, joins, page, sql
from bench.documents.data import SETS, join_input
from etl.correlate.documents.joining import fp_join, plain
from etl.correlate.documents.model import Pairs


def lacking_one(join: Callable[..., Iterator[list[int]]]) -> Callable[..., Iterator[list[int]]]:
    """A join that tells one partner twice instead of another: the count is right, the pairs are not."""
    return lambda documents: (some[:1] * len(some) for some in join(documents))


@pytest.mark.parametrize("bound_s", [None, 0.01])
@pytest.mark.parametrize("baseline", ["nested_loop", "hash_join"])
def test_a_python_baseline_that_finds_other_pairs_ends_the_benchmark(
    monkeypatch: pytest.MonkeyPatch, baseline: str, bound_s: float | None
) -> None:
    documents = join_input("rwData", 500)
    assert all(row["results"] is not None for row in joins._plain_rows("rwData", documents, None))
    monkeypatch.setattr(plain, baseline, lacking_one(getattr(plain, baseline)))
    with pytest.raises(AssertionError, match="differ"):
        list(joins._plain_rows("rwData", documents, bound_s))


def test_duckdb_returns_the_pairs_that_are_compared(tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    with sql._duckdb(tmp_path) as query:
        for name in SETS:
            documents, file = join_input(name, 200), tmp_path / f"{name}.parquet"
            columns = {"document": documents.owners, "attribute": documents.attributes, "value": documents.pairs}
            pq.write_table(pa.table(columns), file)
            joins.same(fp_join.join(documents), query.pairs(file))
            assert query.count(file)[1] == len(query.pairs(file)) > 0


def test_pairs_differ_though_their_number_does_not() -> None:
    one, other = (Pairs(np.array([left]), np.array([5])) for left in (1, 2))
    with pytest.raises(AssertionError, match="differ"):
        joins.same(one, other)


def fpj(size: int, seconds: float, spread: float) -> dict[str, Any]:
    return {"data": "nbData", "method": "FPJ", "documents": size, "results": 0, "seconds": seconds, "spread": spread}


@pytest.mark.parametrize(
    ("seconds", "spread", "met"), [(10.0, 0.0, True), (10.4, 0.05, True), (10.4, 0.01, False), (10.0, 0.3, False)]
)
def test_growth_is_no_aim_met_by_a_noisy_machine(seconds: float, spread: float, met: bool) -> None:
    aim = aims._growth([fpj(10, 1.0, 0.0), fpj(100, seconds, spread)], "nbData", 10, 100)
    assert aim["met"] is met
    assert ("quiet machine" in aim["note"]) is (spread > aims.MOST_SPREAD)


def test_every_part_keeps_when_it_was_measured_and_how_long_that_took(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "RESULTS", tmp_path)
    monkeypatch.setattr(bench.plots, "draw", lambda *_: None)
    monkeypatch.setattr(bench.page, "write", lambda *_: None)
    for name, (figures, _) in bench.PARTS.items():
        rows = [{"figure": figure} for figure in figures]
        monkeypatch.setitem(bench.PARTS, name, (figures, lambda _, rows=rows: rows))
    monkeypatch.setattr(bench, "aims", lambda *_: [])
    monkeypatch.setattr(bench, "remarks", lambda *_: [])
    for run, only in enumerate(("partitions,joins,sql", "joins")):
        monkeypatch.setattr(bench, "machine", lambda at=f"2026-01-0{run + 1}": {"at": at})
        monkeypatch.setattr(bench.sys, "argv", ["bench.documents", "--only", only])
        assert bench.main() == 0
    parts = bench._last(tmp_path)["parts"]
    assert {name: part["at"] for name, part in parts.items()} == {
        "partitions": "2026-01-01",
        "joins": "2026-01-02",
        "sql": "2026-01-01",
    }
    assert bench._last(tmp_path)["seconds"] == sum(part["seconds"] for part in parts.values())
    told = page._when({"parts": parts})
    assert "*joins* 2026-01-02, 0 s" in told
    assert "*sql* 2026-01-01" in told
