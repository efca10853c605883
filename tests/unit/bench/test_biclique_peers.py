"""The peers of the join-biclique return the same pairs, and ratios are made of what they measured."""

from __future__ import annotations

import threading
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench.biclique import page
from bench.biclique.peers.__main__ import run
from bench.biclique.peers.contender import Digest, Measured, measure
from bench.biclique.peers.data import FILLS, FIRST_TIMED_ID, KINDS, WINDOW_S, Kind, Plan, Step, make
from bench.biclique.peers.figure import BATCH, RUN, STORED, Comparison, Disagreement
from bench.biclique.peers.native import DuckDB
from bench.biclique.result import store

PLAN = Plan(stored=2_000, batch=400, batches=2)


def nested_loop(kind: Kind, folder: Path) -> set[tuple[int, int]]:
    rows = {
        side: [row for step in make(PLAN, folder) for row in pq.read_table(step.files[side]).to_pylist()]
        for side in ("r", "s")
    }
    return {
        (r["id"], s["id"]) for r in rows["r"] for s in rows["s"]
        if (r["k"] == s["k"] if kind == "equality" else abs(r["v"] - s["v"]) <= 1)
        and abs((r["t"] - s["t"]).total_seconds()) <= WINDOW_S and max(r["id"], s["id"]) >= FIRST_TIMED_ID
    }  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_duckdb_returns_the_pairs_of_the_nested_loop(kind: Kind, tmp_path: Path) -> None:
    contender = DuckDB(kind, tmp_path / "duckdb")
    measured = measure("duckdb", contender, make(PLAN, tmp_path / "data"))
    found = [
        pair
        for table in contender.pairs()
        for pair in zip(table["r_id"].to_pylist(), table["s_id"].to_pylist(), strict=True)
    ]
    contender.close()
    assert len(found) == len(set(found)) == measured.digest.pairs > 300
    assert set(found) == nested_loop(kind, tmp_path / "data")
    assert len(measured.seconds) == PLAN.batches


def apart(name: str, kind: Kind, folder: Path) -> Digest:
    """What a contender finds in a process of its own: it starts a Spark as it needs it, and stops it."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(run, name, kind, PLAN, 600.0, folder).result().digest


@pytest.mark.spark
@pytest.mark.parametrize(("name", "kind"), [("spark-join", "equality"), ("spark-join-v4", "equality"),
                                            ("spark-window", "equality"), ("spark-window", "band"),
                                            ("spark-bins", "band")])  # fmt: skip
def test_sparks_own_ways_return_the_same_pairs(name: str, kind: Kind, tmp_path: Path) -> None:
    assert apart(name, kind, tmp_path) == run("duckdb", kind, PLAN, folder=tmp_path).digest


@pytest.mark.spark
@pytest.mark.parametrize("kind", KINDS)
def test_our_micro_batches_return_the_same_pairs(kind: Kind, tmp_path: Path) -> None:
    assert apart("ours", kind, tmp_path) == run("duckdb", kind, PLAN, folder=tmp_path).digest


def test_a_window_always_holds_what_the_plan_says(tmp_path: Path) -> None:
    steps = make(Plan(10_000, 1_000, 4), tmp_path)
    times = np.concatenate([np.asarray(pq.read_table(step.files["r"])["t"]).astype(np.int64) for step in steps])
    ends = [step.end_us for step in steps]
    assert ends == sorted(ends)
    for step in steps[10:]:
        held = ((times <= step.end_us) & (times > step.end_us - WINDOW_S * 1_000_000)).sum()
        assert held == pytest.approx(5_000, rel=0.05)


def test_files_are_made_once_and_are_the_same_for_everybody(tmp_path: Path) -> None:
    first = make(PLAN, tmp_path / "a")
    before = first[0].files["r"].stat().st_mtime_ns
    assert make(PLAN, tmp_path / "a")[0].files["r"].stat().st_mtime_ns == before
    other = make(PLAN, tmp_path / "b")
    assert all(
        pq.read_table(one.files[side]).equals(pq.read_table(two.files[side]))
        for one, two in zip(first, other, strict=True)
        for side in ("r", "s")
    )


def test_a_contender_past_its_bound_begins_no_further_batch(tmp_path: Path) -> None:
    contender = DuckDB("equality", tmp_path / "duckdb")
    measured = measure("duckdb", contender, make(PLAN, tmp_path / "data"), bound_s=0.0)
    contender.close()
    assert (measured.seconds, measured.digest) == ([], Digest())


class Endless:
    """A contender whose batches end only when they are stopped."""

    def __init__(self) -> None:
        self._stopped = threading.Event()

    def run(self, step: Step) -> None:
        assert self._stopped.wait(60), "somebody stops it"
        raise RuntimeError("stopped")

    def stop(self) -> None:
        self._stopped.set()

    def pairs(self) -> list[pa.Table]:
        return []

    def close(self) -> None: ...


def test_a_batch_that_does_not_end_is_stopped(tmp_path: Path) -> None:
    measured = measure("endless", Endless(), make(PLAN, tmp_path), bound_s=0.1)
    assert (measured.seconds, measured.digest) == ([], Digest())


FILL = [1.0] * FILLS


def comparison(seconds: dict[str, float]) -> Comparison:
    result = Comparison()
    for kind, names in RUN.items():
        for stored in STORED:
            for name in names:
                result.add(kind, name, stored, Measured(FILL, [seconds[name]] * 3, Digest(7, 8)))
    return result


SECONDS: dict[str, float] = {"ours": 0.2, "duckdb": 0.5, "spark-join": 4.0, "spark-join-v4": 2.0, "spark-window": 1.6,
                             "spark-bins": 1.0}  # fmt: skip


def test_we_are_compared_with_the_fastest_of_sparks_ways() -> None:
    figure = comparison(SECONDS).figure()
    aims = {aim.name: (aim.measured, aim.met) for aim in figure.aims}
    assert aims["equality: tuples per second over Spark's, 1 M stored"] == (10.0, True)
    assert aims["band: tuples per second over Spark's, 5 M stored"] == (8.0, True)
    assert aims["band: a batch over a window five times as large costs"] == (1.0, True)
    assert len(aims) == 6
    row: dict[str, Any] = next(row for row in figure.rows() if row["series"] == "ours")
    assert row["y"] == pytest.approx(BATCH / 0.2 / 1e3)
    assert (row["condition"], row["stored"], row["pairs"], row["stopped"]) == ("equality", 1_000_000, 7, False)


def test_a_contender_that_was_stopped_counts_with_the_most_it_can_have_done() -> None:
    result = comparison(SECONDS)
    for stored in STORED:
        result.add("band", "spark-window", stored, Measured(FILL, [], Digest()))
    assert result.times_spark("band", STORED[0]) > 100


def test_a_contender_that_could_not_fill_the_window_counts_with_its_fastest_step_of_the_fill() -> None:
    result = comparison(SECONDS)
    result.add("equality", "spark-join-v4", 5_000_000, Measured([20.0, 10.0, 40.0], [], Digest()))
    assert result.rate("equality", "spark-join-v4", 5_000_000) == 50_000


def test_of_two_state_formats_the_one_that_was_slower_with_a_small_window_is_not_waited_for() -> None:
    result = comparison(SECONDS)
    ran = [name for name in RUN["equality"] if result.runs("equality", name, 5_000_000)]
    assert ran == ["ours", "duckdb", "spark-window", "spark-join-v4"]
    del result.measured["equality", "spark-join", 5_000_000]
    assert result.times_spark("equality", 5_000_000) == 10.0


def test_different_pairs_end_the_comparison() -> None:
    result = comparison(SECONDS)
    with pytest.raises(Disagreement, match="band over 1,000,000 tuples"):
        result.add("band", "spark-window", 1_000_000, Measured(FILL, [1.0], Digest(7, 9)))


def test_the_page_shows_aims_peers_and_what_was_stopped(tmp_path: Path) -> None:
    result = comparison(SECONDS)
    result.add("band", "spark-window", 5_000_000, Measured(FILL, [], Digest()))
    whole = store([result.figure()], {"peers": 1.0}, tmp_path / "biclique.json")
    target = tmp_path / "page.md"
    target.write_text("before\n<!-- measured -->\nworn-out\n<!-- end of measured -->\nafter\n")
    page.write(whole, target)
    text = target.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "worn-out" not in text
    assert "| `ours` | 500.0 | 500.0 | 500.0 | 500.0 |" in text
    assert "< 2.0" in text
    assert "| equality: tuples per second over Spark's, 1 M stored | >= 5 | 10 | yes |" in text
