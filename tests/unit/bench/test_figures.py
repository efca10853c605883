"""The shapes of the paper's figures at a small R, in cost units; and the page that shows them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench import page, plots
from bench.figures import __main__ as command
from bench.figures import caching, design, result, shedding
from bench.figures.measure import Measured, cost_units
from bench.figures.result import Draft, Figure
from bench.figures.runs import Setting, steady
from bench.figures.workload import FirstPages, Masters, Stream, drifting, probabilities, zipf
from bench.measured import aim
from etl.enrich.step import Cost, Metrics

pytestmark = pytest.mark.slow

ROWS = 32_000


@pytest.fixture(scope="module")
def setting() -> Setting:
    return Setting(
        ROWS, Masters(None), warm_turns=2.0, turns=2.0, tuples_per_front_row=10, least_steps=120, rows_per_page=256
    )


def rate(setting: Setting, name: str, **turned: Any) -> float:
    return steady(setting, name, memory=0.1, **turned).rate("cost")


@pytest.mark.parametrize("name", ["meshjoin", "hybridjoin"])
def test_the_front_stage_helps_more_the_more_skew_there_is_and_costs_little_without(
    setting: Setting, name: str
) -> None:
    gains = [rate(setting, f"c{name}", exponent=z) / rate(setting, name, exponent=z) for z in (0.0, 0.5, 1.0)]
    assert gains == sorted(gains)
    assert 0.7 < gains[0] < 1.0
    assert gains[-1] > 1.4


def test_the_best_front_stage_is_neither_none_nor_most_of_the_memory(setting: Setting) -> None:
    usual, most = (rate(setting, "cmeshjoin", front_share=share) for share in (0.15, 0.75))
    assert usual > rate(setting, "meshjoin")
    assert usual > most


@pytest.mark.parametrize(("name", "gain"), [("hybridjoin", 1.1), ("chybridjoin", 3.0)])
def test_considered_shedding_serves_more_than_keep(setting: Setting, name: str, gain: float) -> None:
    considered, kept = (shedding.overloaded(setting, name, policy, 16.0) for policy in ("consider", "keep"))
    assert considered.metrics.shed > 0
    assert kept.metrics.shed > 0
    assert considered.rate("cost") > gain * kept.rate("cost")


def test_costs_do_not_depend_on_the_clock(setting: Setting) -> None:
    again = Setting(
        ROWS, Masters(None), warm_turns=2.0, turns=2.0, tuples_per_front_row=10, least_steps=120, rows_per_page=256
    )
    first, second = (steady(one, "chybridjoin", memory=0.1) for one in (setting, again))
    assert first is not second
    assert first.metrics == second.metrics
    assert first.wait_cost == second.wait_cost


def test_a_tuple_waits_less_behind_a_front_stage(setting: Setting) -> None:
    plain, cached = (steady(setting, name, memory=0.1) for name in ("meshjoin", "cmeshjoin"))
    assert 0 < cached.wait("cost") < plain.wait("cost")
    assert plain.wait("cost") < 1.5 * setting.master().page_count()  # about half a pass


def test_calculated_cost_is_close_to_measured_for_the_mesh_joins(setting: Setting) -> None:
    for name in ("meshjoin", "cmeshjoin"):
        measured = steady(setting, name, memory=0.1)
        want = design._priced(name, design._calculated(setting, name, measured), measured, design.UNITS, steps=True)
        assert want == pytest.approx(1.0 / measured.rate("cost"), rel=0.10)


def test_a_held_threshold_does_not_move(setting: Setting) -> None:
    front = design.HeldThreshold(design.FrontStageConfig(100_000, threshold=9))
    rows = setting.master().read_pages(0, 1)
    for _ in range(5):
        front.learn(rows, design.np.full(rows.num_rows, 9))
        front.record(design.np.zeros(0, design.np.int64), 10_000)
    assert front.threshold == 9
    assert len(front) > 0


def test_cost_units_weigh_pages_by_how_they_are_reached() -> None:
    assert cost_units(Cost(pages=10), steps=4) == pytest.approx(12.0)  # in order; a step costs half a page
    assert cost_units(Cost(pages=10, seeks=10, lookups=10), steps=10) == pytest.approx(25.0)
    assert cost_units(Cost(pages=10), steps=0, page_weight=2.0) == pytest.approx(20.0)
    assert cost_units(Cost(seeks=1, lookups=1), steps=1) == pytest.approx((3e-4 + 5e-7) / 8e-5)


def test_streams_and_masters_are_what_the_paper_describes(setting: Setting) -> None:
    page_of_rows = setting.master().read_pages(0, 1)
    assert page_of_rows.nbytes == pytest.approx(120 * page_of_rows.num_rows, rel=0.01)
    assert probabilities(1_000, 1.0).sum() == pytest.approx(1.0)
    keys = drifting(1_000, 2_500, intervals=25).keys
    assert [(part.min() // 40, part.max() // 40) for part in keys.reshape(25, 100)] == [(i, i) for i in range(25)]
    assert (
        Stream(zipf(1_000, 1.0, tuples=10).keys).take(25).to_pylist()[:5]
        == zipf(1_000, 1.0, tuples=10).keys[:5].tolist()
    )
    half = FirstPages(setting.master(), 3)
    assert half.page_count() == 3


def tiny(name: str = "9d", unit: result.Unit = "cost", holds: bool = True) -> Figure:
    series = [{"name": "one", "points": [{"x": 1.0, "y": 2.0}, {"x": 2.0, "y": 3.123456789}]}]
    return Figure(name, "Two beats one", unit, "x", "y", series, {"a / b": 2.0}, {"a / b": 3.0}, holds, "Because.")


def test_results_have_the_schema_and_keep_figures_of_an_earlier_run_over_the_same_r(tmp_path: Path) -> None:
    command.store(tmp_path, 50_000, [tiny("5a"), tiny("5a", "time")], {"5a": 1.0})
    whole = command.store(tmp_path, 50_000, [tiny("9d", holds=False)], {"9d": 2.0})
    assert json.loads((tmp_path / "figures.json").read_text()) == whole
    assert [figure["figure"] for figure in whole["figures"]] == ["5a", "5a", "9d"]
    wanted = {"figure", "title", "unit", "x", "y", "series", "ours", "paper", "holds", "reason", "disk"}
    assert all(set(figure) == wanted for figure in whole["figures"])
    assert whole["figures"][0]["series"][0]["points"][1]["y"] == 3.1235
    assert command.store(tmp_path, 60_000, [tiny("9d")], {})["figures"][0]["figure"] == "9d"


def test_a_draft_gives_a_reason_only_where_the_paper_is_ahead() -> None:
    measured = Measured(Metrics(matched=10, cost=Cost(pages=5), steps=1), seconds=2.0)
    draft = Draft(
        "5a", "x", {"one": {1.0: measured}}, {"r": 2.0}, title=lambda r: f"{r['r']:g}",
        ours=lambda unit: {"r": 3.0 if unit == "cost" else 1.0}, shape=lambda unit, r: True,
        reason=lambda unit, r: "slower here",
    )  # fmt: skip
    cost, time = draft.in_units()
    assert (cost.reason, time.reason) == ("", "slower here")
    assert cost.series[0]["points"][0]["y"] == pytest.approx(10 / 5.5)
    assert time.series[0]["points"][0]["y"] == pytest.approx(5.0)


def test_every_figure_of_the_paper_has_a_maker_and_unknown_ones_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert " ".join(command.FIGURES) == "5a 5b 5c 5d 5e 5f 5g 6 7 8 9a 9b 9c 9d 9e 9f"
    assert command.count("10M") == 10_000_000
    assert callable(caching.by_memory)
    for wrong in (["--only", "5z"], ["--rows", "many"], ["--rows", "10"]):
        with pytest.raises(SystemExit):
            command.main(wrong)
    said = capsys.readouterr().err
    assert "there is no figure '5z'" in said
    assert "'many' is not a size of R" in said


def test_a_plot_is_an_svg_with_both_panels_and_the_finding_as_title(tmp_path: Path) -> None:
    svg = plots.draw("9d", [tiny().to_json(), tiny(unit="time").to_json()], tmp_path).read_text()
    assert svg.startswith("<svg")
    assert "Two beats one" in svg
    assert "in time" in svg


PEERS = {
    "machine": {"cores": 2}, "rows_in_master": 10_000_000,
    "rows": [
        {"contender": name, "batch": 50_000, "zipf": 1.0, "seconds": seconds, "rows_per_s": 1, "memory_bytes": 2**20}
        for name, seconds in (("auto", 0.1), ("spark-jdbc", 4.0), ("spark-delta", 1.0), ("identity", 0.08))
    ],
    "aims": [
        aim("spark-jdbc / auto, 50,000 orders, Zipf 1", 40.0, least=30.0),
        aim("spark-delta / auto, 50,000 orders, Zipf 1", 10.0, least=15.0),
        aim("growth of R, 50,000 orders, Zipf 1", 1.2, most=1.5),
    ],
}  # fmt: skip
GRID = {
    "cells": [
        {
            "store": "pages", "zipf": 1.0, "batch": 1_000, "state": "warm",
            "seconds": {"auto": 0.0021, "cinlj": 0.002}, "auto_over_best": 1.05,
        }
    ]
}  # fmt: skip
COLD = {
    "rows_in_master": 1_000_000,
    "cells": [
        {
            "memory_share": 0.01, "zipf": 1.0, "batch": 50_000, "contender": name, "seconds": seconds,
            "hit_ratio": 0.5, "pages_read": 100,
        }
        for name, seconds in (("front-stage", 1.0), ("page-cache", 2.0))
    ],
}  # fmt: skip
PAGES = {
    "rows_in_master": 10, "key": "int",
    "rows": [{"what": "scan, sorted", "seconds": 1.5, "peak_rss_mib": 90, "mib": 3}],
    "aims": [aim("publish, from Postgres: seconds", 61.0, most=60.0)],
}  # fmt: skip


def test_the_page_says_which_target_makes_what_is_missing(tmp_path: Path) -> None:
    text = page.render(tmp_path)
    for name in ("peers", "auto", "cold", "figures", "pages"):
        assert f"Not measured yet; `make bench-{name}` does it." in text


def test_the_page_shows_what_was_measured_and_what_was_aimed_at(tmp_path: Path) -> None:
    figures = {"rows": 50_000, "seconds": {"9d": 60.0}, "figures": [tiny().to_json(), tiny(unit="time").to_json()]}
    results = {"peers": PEERS, "grid": GRID, "cold": COLD, "pages": PAGES, "figures": figures}
    for name, content in results.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    text = page.render(tmp_path, tmp_path / "docs" / "performance.md")
    assert "| spark-jdbc / auto, 50,000 orders, Zipf 1 | ≥ 30 | 40 | met |" in text
    assert "| spark-delta / auto, 50,000 orders, Zipf 1 | ≥ 15 | 10 | **not met** |" in text
    assert "| growth of R, 50,000 orders, Zipf 1 | ≤ 1.5 | 1.2 | met |" in text
    assert "in 1 of 1 cells: met" in text
    assert "| 1% of R, Zipf 1, 50,000 tuples | 1.000 | 2.000 | 2.00 |" in text
    assert "| scan, sorted | 1.5 | 90 | mib: 3 |" in text
    assert "| publish, from Postgres: seconds | ≤ 60 | 61 | **not met** |" in text
    assert "| 9d | a / b | 2.00 |  | 2.00 | 3.00 |" in text
    assert "![Figure 9d: Two beats one](../figure-9d.svg)" in text
    assert "Because." in text


def test_the_page_tells_what_moving_rows_costs_and_where_the_time_goes(tmp_path: Path) -> None:
    took = {"auto": 1.0, "spark-cached": 9.0, "identity": 0.7}
    moved = {"identity-tuned": 0.25, "transport": 0.5}
    cell = {"batch": 1_000_000, "zipf": 1.0, "rows_per_s": 1, "memory_bytes": 0}
    result = {
        "rows": [{"contender": name, "seconds": seconds, **cell} for name, seconds in took.items()],
        "transport": [{"contender": name, "seconds": seconds, **cell} for name, seconds in moved.items()],
        "aims": [aim("spark-cached / auto", 9.0, least=10.0)],
    }
    (tmp_path / "peers.json").write_text(json.dumps(result))
    text = page.render(tmp_path)
    assert "identity in it takes, Zipf 1: 1,000,000 orders 0.250 s, 25% of `auto`'s time" in text
    assert "with no join at all: 1,000,000 orders 0.500 s, 50% of `auto`'s time" in text
    assert "Of the 1.00 s that `auto` takes for 1,000,000 orders at Zipf 1, 0.50 s go" in text  # one aim is missed


def test_the_page_says_that_learning_is_in_the_seconds_and_how_much_of_them(tmp_path: Path) -> None:
    cell = {"contender": "auto", "batch": 50_000, "zipf": 1.0, "rows_per_s": 1, "memory_bytes": 0}
    (tmp_path / "peers.json").write_text(json.dumps({"rows": [{**cell, "seconds": 0.1, "between_s": 0.02}]}))
    text = page.render(tmp_path)
    assert "In the seconds of `auto` is what comes after a batch" in text
    assert "50,000 orders, Zipf 1: 0.020 s, 20%." in text


def test_the_page_that_is_committed_says_what_the_results_say() -> None:
    assert page.PAGE.read_text() == page.render(page.RESULTS), "run `python -m bench.page`"


def test_a_stale_page_is_noticed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = ["--results", str(tmp_path), "--page", str(tmp_path / "performance.md")]
    assert page.main(["--check", *where]) == 1
    assert page.main(where) == 0
    assert page.main(["--check", *where]) == 0
    assert "run `python -m bench.page`" in capsys.readouterr().err
