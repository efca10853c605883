"""The benchmarks against peers: what their results say, and that small runs of those without Spark come through."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench import cold, grid, measured, pages
from bench.data import KEY, DataSet, Draw, customers, row_bytes
from bench.page_cache import PAGE, PageCache, bytes_read
from bench.peers.__main__ import parsed, plan_of, result_of
from bench.peers.plan import UnknownContender
from bench.peers.results import aims, grown, ratios, table
from etl import settings as configuration
from etl.masters.pages.runs.writer import data_file
from etl.settings import PROJECT

pytestmark = pytest.mark.slow

ROWS = 20_000


@pytest.fixture(scope="module")
def data() -> Iterator[DataSet]:
    """In the checkout: where temporary files lie in memory, their pages are the files and cannot be dropped."""
    (PROJECT / "var").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=PROJECT / "var") as folder:
        made = DataSet(Path(folder), ROWS)
        made.publish()
        yield made


def row(contender: str, seconds: float, batch: int = 1_000_000, zipf: float = 1.0, memory: int = 0) -> dict[str, Any]:
    return {
        "contender": contender,
        "batch": batch,
        "zipf": zipf,
        "seconds": seconds,
        "rows_per_s": round(batch / seconds),
        "memory_bytes": memory,
    }


# --- the data set


def test_master_rows_follow_from_their_keys_and_are_about_as_wide_as_said() -> None:
    some = np.array([7, 3, 19_999], np.int64)
    assert customers(some).equals(customers(some))
    assert customers(some[1:]).equals(customers(some).slice(1))
    assert 135 <= row_bytes() <= 150


def test_hot_keys_lie_anywhere_in_the_master(data: DataSet) -> None:
    keys, counts = np.unique(data.keys(Draw(50_000, 1.0, 0)), return_counts=True)
    hottest = keys[np.argsort(-counts)[:100]]
    assert 0.3 * ROWS < np.median(hottest) < 0.7 * ROWS


def test_batches_of_a_cell_differ_and_come_back_the_same(data: DataSet) -> None:
    one, other = data.keys(Draw(1000, 1.0, 0)), data.keys(Draw(1000, 1.0, 1))
    assert not np.array_equal(one, other)
    assert np.array_equal(one, data.keys(Draw(1000, 1.0, 0)))


def test_the_expected_answer_is_the_orders_with_their_master_rows(data: DataSet) -> None:
    draw = Draw(500, 0.5, 3)
    orders, expected = pq.read_table(data.orders(draw)), pq.read_table(data.expected(draw))
    assert expected.select(orders.schema.names).equals(orders)
    rows = pa.Table.from_batches([customers(orders.column(KEY).to_numpy())])
    assert expected.select(rows.schema.names).equals(rows)


# --- ratios and aims


def test_a_ratio_is_the_time_of_others_over_the_time_of_auto_in_the_same_cell() -> None:
    rows = [row("auto", 2.0), row("spark-jdbc", 40.0), row("identity", 1.0), row("spark-jdbc", 9.0, batch=50_000)]
    assert ratios(rows) == [
        {"batch": 1_000_000, "zipf": 1.0, "over_auto": {"auto": 1.0, "spark-jdbc": 20.0, "identity": 0.5}}
    ]


def test_growth_compares_the_larger_master_with_the_smaller() -> None:
    growth = [
        {"rows_in_master": rows, **row("auto", seconds, 50_000)} for rows, seconds in ((1_000, 0.2), (10_000, 0.25))
    ]
    assert grown(growth) == [{"contender": "auto", "batch": 50_000, "zipf": 1.0, "ratio": 1.25}]
    assert grown(growth[:1]) == []


def test_aims_say_what_was_met_and_what_was_missed() -> None:
    rows = [row("auto", 1.0, memory=5), row("spark-jdbc", 25.0), row("spark-delta", 11.0), row("identity", 0.7)]
    result = {"rows": rows, "ratios": ratios(rows), "growth": [], "bytes_of_master": 100}
    met = {one["name"]: one["met"] for one in aims(result)}
    assert met == {
        "spark-jdbc / auto, 1,000,000 orders, Zipf 1": True,
        "spark-delta / auto, 1,000,000 orders, Zipf 1": False,
        "identity / auto, 1,000,000 orders, Zipf 1": True,
        "memory of auto / R": True,
    }


def test_the_result_of_a_run_holds_what_the_page_is_made_from(tmp_path: Path) -> None:
    settings = configuration.load(var=tmp_path)
    plan = plan_of(parsed(["--rows", "1000"]), settings)
    growth = [{"rows_in_master": 100, **row("auto", 0.1, 50_000)}]
    result = result_of(plan, [row("auto", 1.0), row("identity", 0.5)], growth)
    again = json.loads(measured.keep(result, tmp_path / "peers.json").read_text())
    assert again["rows_in_master"] == 1000
    assert {"cores", "memory_bytes", "cpu"} <= again["machine"].keys()
    assert {"contender", "batch", "zipf", "seconds", "rows_per_s", "memory_bytes"} <= again["rows"][0].keys()
    assert {"rows_in_master", "contender", "batch", "zipf", "seconds"} <= again["growth"][0].keys()
    assert "identity" in table(again)


def test_a_plan_warms_up_on_other_batches_than_it_times(tmp_path: Path) -> None:
    plan = plan_of(parsed(["--repeats", "3"]), configuration.load(var=tmp_path))
    warm, timed = set(plan.warming(50_000, 1.0)), set(plan.timed(50_000, 1.0))
    assert len(warm) == plan.warmups
    assert len(timed) >= 3
    assert not warm & timed


def test_a_contender_nobody_knows_is_refused_by_name(tmp_path: Path) -> None:
    plan = plan_of(parsed([]), configuration.load(var=tmp_path))
    with pytest.raises(UnknownContender, match=r"'spark-magic' is unknown; allowed are .*auto"):
        replace(plan, contenders=("spark-magic",))


def test_a_plan_does_not_show_the_password_of_postgres(tmp_path: Path) -> None:
    from bench.peers.plan import Jdbc

    plan = plan_of(parsed([]), configuration.load(var=tmp_path))
    assert "hunter2" not in repr(replace(plan, jdbc=Jdbc("jdbc:x", "postgres", "hunter2", "x.jar")))


# --- the page cache


def test_dropped_pages_are_read_from_storage_again_and_warm_ones_are_not(data: DataSet) -> None:
    store = data.publish()
    with store.open(random_access=True) as view:
        view.read_pages(0, view.page_count())
        cache = PageCache([data_file(store.runs, view.runs[0].entry.name)])
        assert cache.drop() <= cache.pages // 10, "the checkout lies on a disk"
        warm = np.zeros(cache.pages, np.bool_)
        warm[: cache.pages // 2] = True
        cache.warm(warm)
        assert np.array_equal(cache.resident(), warm)
        before = bytes_read()
        view.lookup(pa.array(np.arange(1, ROWS + 1)))
        assert 0 < bytes_read() - before <= (cache.pages - warm.sum()) * PAGE
        cache.close()


def test_the_pages_of_a_row_are_those_a_lookup_touches(data: DataSet) -> None:
    store = data.publish()
    with store.open(random_access=True) as view:
        view.read_pages(0, view.page_count())
        cache = PageCache([data_file(store.runs, view.runs[0].entry.name)])
        keys = np.array([5, 777, 12_345, 19_998], np.int64)
        pages = np.unique(cold.Rows(view.runs[0], cache.address()).pages(keys))
        assert cache.drop() <= cache.pages // 10, "the checkout lies on a disk"
        view.lookup(pa.array(keys))
        assert cache.resident()[pages].all()
        assert cache.resident().sum() <= 2 * len(pages)
        cache.close()


# --- small runs


def test_a_small_grid_gives_every_cell_with_its_ratio(data: DataSet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grid, "_ENOUGH_S", 0.0)
    monkeypatch.setattr(grid, "_LEAST_ROUNDS", 1)
    monkeypatch.setattr(grid, "_HISTORY", 1000)
    chosen = grid.parsed(["--stores", "pages", "--batches", "500", "1000", "--repeats", "1", "--share", "0.5"])
    chosen.output = data.root / "grid.json"
    chosen.output.write_text(json.dumps({"cells": [{"store": "delta", "auto_over_best": 1}, {"store": "pages"}]}))
    (result,) = grid.run(data, chosen, configuration.load())
    assert result["cells"].pop(0)["store"] == "delta", "a store left out keeps what it has"
    assert [(cell["state"], cell["zipf"], cell["batch"]) for cell in result["cells"]] == [
        (state, zipf, batch) for state in ("warm", "cold") for zipf in (0.0, 1.0) for batch in (500, 1000)
    ]
    for cell in result["cells"]:
        best = min(cell["seconds"][name] for name in ("cinlj", "chybridjoin", "cmeshjoin"))
        assert cell["auto_over_best"] == pytest.approx(cell["seconds"]["auto"] / best, rel=1e-3)


def test_auto_is_compared_round_by_round() -> None:
    slow_minute = [{"auto": 0.2, "cinlj": 0.19, "chybridjoin": 0.4, "cmeshjoin": 0.8} for _ in range(2)]
    quick_minute = [{"auto": 0.1, "cinlj": 0.1, "chybridjoin": 0.05} for _ in range(3)]  # who is hopeless drops out
    assert grid.auto_over_best([*slow_minute, *quick_minute]) == ("chybridjoin", 2.0)
    assert grid.auto_over_best(slow_minute) == ("cinlj", pytest.approx(0.2 / 0.19, abs=1e-4))


def test_a_small_cold_run_gives_both_contenders_the_same_bytes(data: DataSet) -> None:
    chosen = cold.parsed(["--batch", "500", "--history", "5000", "--repeats", "1", "--shares", "0.3", "--zipf", "1"])
    result = cold.run(data, chosen)
    for cells in (result["cells"], result["cells_read_ahead"]):
        assert [cell["contender"] for cell in cells] == ["front-stage", "page-cache"]
        assert len({cell["bytes_allowed"] for cell in cells}) == 1
        assert all(0.0 <= cell["hit_ratio"] <= 1.0 for cell in cells)
    front, page = result["cells"]
    assert front["hit_ratio"] > page["hit_ratio"], "at one skew, tuples hold more hot rows than pages do"


def test_a_small_run_of_pages_publishes_and_refreshes_from_postgres(tmp_path: Path) -> None:
    case = pages.Case(tmp_path / "pages", ROWS, "int")
    published, refreshed = pages.run(case, ["postgres"], configuration.load(home=tmp_path))
    assert published["what"] == "publish, from Postgres"
    assert published["rows"] == ROWS
    assert len(refreshed["refresh_s"]) > 1
    assert case.store.manifest().rows == ROWS
    assert case.store.manifest().overlays
    assert [one["name"] for one in pages.aims([published, refreshed])] == [
        "publish, from Postgres: seconds",
        "publish, from Postgres: MiB",
    ]
