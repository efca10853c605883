"""Correlations over sites end to end: the table is what the nested loop says, whatever the plan and what fails."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from etl.adapters import postgres
from etl.cli.correlations.sites_text import site_plan_lines
from etl.correlate.multiway.execution.folder import SiteFolder
from etl.page.queries.sites import shipped
from etl.pipeline.upkeep.maintenance import Keep
from etl.report.correlations.folder import write
from etl.streams.state.change import CorrelationChanged
from tests.support.sites_world import HOMES, SQL, Batch, SitesWorld, run, some, truth
from tests.support.stream_site import Ended, quiet

PLANS = ["pmjoin", "algorithm1", "optimal", "simple", "centralised"]


@pytest.fixture
def world(tmp_path: Path, database: str) -> SitesWorld:
    return SitesWorld.under(tmp_path, database)


def test_results_are_those_of_the_nested_loop_while_the_plan_is_declared_anew(world: SitesWorld) -> None:
    for number, plan in enumerate(PLANS):
        world.declare(options=f'target = "eu"\nplan = "{plan}"\npartitions = 3')
        told = run(world, number)
    assert world.ground.steps.check() == ()
    assert world.results() == truth([some(number) for number in range(len(PLANS))])
    assert world.results(), "something met"
    assert world.ground.table("met", "late").num_rows > 0
    assert told["sites"]["met"]["plan"] > 0, "there was more than one plan"
    assert told["sites"]["met"]["replayed_bytes"] > 0, "the windows of a new plan are filled"
    assert told["sites_wait"] is False


def test_without_a_target_results_stay_where_they_are_made(world: SitesWorld) -> None:
    world.declare(options="plan = 'centralised'\n[sites.windows]\nb = 5")
    for number in range(3):
        run(world, number)
    expected = truth([some(number) for number in range(3)], {"a": 6.0, "b": 5, "c": 6.0})
    assert world.results_at_sites() == expected
    assert world.ground.table("met").num_rows == 0


tuples = st.tuples(st.integers(0, 2), st.sampled_from([-9.0, -1.0, 0.0, 1.0, 3.0]))
batches = st.lists(
    st.fixed_dictionaries({name: st.lists(tuples, max_size=4) for name in HOMES}), min_size=2, max_size=3
)


@given(batches, st.lists(st.sampled_from(PLANS), min_size=3, max_size=3), st.sampled_from([None, 2, 4]))
@settings(
    max_examples=8, deadline=None, derandomize=True, phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip
def test_whatever_comes_and_however_plans_change_the_table_is_the_nested_loop(
    world: SitesWorld, drawn: list[dict[str, list[tuple[int, float]]]], plans: list[str], counted: int | None
) -> None:
    for old in world.ground.settings.correlations.glob("*.toml"):
        old.unlink()
    folder = world.ground.settings.warehouse / "correlations"
    first = len(list(folder.glob("met_*"))) if folder.exists() else 0
    name, window = f"met_{first}", "" if counted is None else f"\n[sites.windows]\nc = {counted}"
    history: list[Batch] = []
    for number, batch in enumerate(drawn):
        world.declare(name, options=f'target = "us"\nplan = "{plans[number]}"\npartitions = 2{window}')
        numbered = {
            stream: [(100 * number + 10 * place + i, k, 5.0 * number + s) for i, (k, s) in enumerate(rows)]
            for place, (stream, rows) in enumerate(batch.items())
        }
        history.append(numbered)
        world.land(f"{name}-{number}", numbered)
        world.ground.run()
    if not any(any(batch.values()) for batch in history):
        return
    seen = [batch for batch in history if any(batch.values())]  # a batch of nothing is none
    windows = dict[str, float | int].fromkeys(HOMES, 6.0) | ({} if counted is None else {"c": counted})
    assert world.results(name) == truth(seen, windows)


CHECKPOINTS = [
    "after the decision",
    "before a batch of met begins at its sites",
    "before the sites of met work",
    "after the sites of met work",
    "before results of met over sites are published",
    "after results of met over sites are published",
]


@pytest.mark.parametrize("checkpoint", CHECKPOINTS)
def test_a_run_that_ends_at_a_checkpoint_is_taken_up_and_every_result_is_there_once(
    world: SitesWorld, checkpoint: str
) -> None:
    world.declare(options='target = "eu"\npartitions = 2')
    run(world, 0)
    world.land("1", some(1))
    with suppress(Ended):
        world.ending(checkpoint).ground.run()
    world.ground.restarted()
    run(world, 2)
    while world.ground.run()["batch"] is not None:
        pass
    assert world.results() == truth([some(number) for number in range(3)])


class Killed(BaseException):
    """As if the process had ended in the middle of a write."""


def test_killed_in_the_middle_of_any_shipment_or_join_every_result_is_there_once(
    world: SitesWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    left, fill = [0], SiteFolder._fill

    def dying(folder: SiteFolder, file: Any, content: bytes) -> None:
        left[0] -= 1
        if left[0] == 0:
            file.write(content[: len(content) // 2])
            raise Killed
        fill(folder, file, content)

    world.declare(options='target = "eu"\nplan = "optimal"')
    run(world, 0)
    world.declare(options='target = "eu"\nplan = "centralised"')
    world.land("1", some(1))
    monkeypatch.setattr(SiteFolder, "_fill", dying)
    kills = 0
    for fuse in (*range(1, 30), 10_000):
        left[0] = fuse
        try:
            world.ground.run()
            break
        except Killed:
            kills += 1
            world.ground.restarted()
    assert kills > 4
    assert world.results() == truth([some(0), some(1)])
    with postgres.connect(world.ground.dsn, autocommit=True) as connection:
        crossed = shipped(connection, "met", 50)
    assert [one.batch for one in crossed.batches] == [1, 2]


@pytest.mark.parametrize("site", ["eu", "ap"])
def test_what_needs_a_site_that_is_away_waits_and_nothing_is_lost(world: SitesWorld, site: str) -> None:
    world.declare(options='target = "us"')
    run(world, 0)
    world.leave(site)
    said = list[str]()
    world.land("1", some(1))
    told = world.ground.steps.run("micro_batch", "test", None, said.append)
    stream = next(name for name, home in HOMES.items() if home == site)
    assert f"stream {stream} waits in its landing folder: site '{site}' is away" in said
    assert any("steps wait for it, nothing is lost" in line for line in said)
    assert told["sites_wait"] is True
    assert list((world.home / "sites" / site).iterdir()) == []
    assert world.ground.steps.explain("met")["away"] == [site]
    world.come_back(site)
    assert world.ground.run()["streams"][stream]["accepted"] == 8
    first, second = some(1), {stream: some(1)[stream]}
    del first[stream]
    assert world.results() == truth([some(0), first, second])


def test_tasks_of_single_sites_finish_a_batch_together_and_say_what_they_shipped(world: SitesWorld) -> None:
    world.declare(options='target = "eu"\nplan = "algorithm1"')
    steps = world.ground.steps
    for number in range(2):
        world.land(str(number), some(number))
        assert steps.run("streams", "test", None, quiet)["sites_wait"] is True
        sent: Counter[str] = Counter()
        for _ in range(3):
            for site in HOMES.values():
                told = steps.work_at(site, quiet, patience_s=0.0)
                assert all(edge.startswith(f"{site} → ") for edge in told["edges"])
                sent[site] += told["shipped_bytes"]
        assert sum(sent.values()) > 0
        gathered = steps.run("gather", "test", None, quiet)
        assert gathered["sites_wait"] is False
        report = steps.run("report", "test", None, quiet)
        assert report["sites"]["met"]["shipped_bytes"] == sum(sent.values())
    assert world.results() == truth([some(0), some(1)])


def test_a_plan_is_left_when_measured_rates_have_moved_and_nothing_is_lost_or_doubled(world: SitesWorld) -> None:
    world.declare(options='plan = "algorithm1"\ntolerance = 0.05\nhalf_life = "5 seconds"')
    history: list[Batch] = []
    said = list[str]()
    for number in range(6):
        busy = "a" if number < 3 else "c"
        history.append({
            name: [(1000 * number + 100 * place + i, i % 7, 5.0 * number + i % 5)
                   for i in range(60 if name == busy else 6)]
            for place, name in enumerate(HOMES)
        })  # fmt: skip
        world.land(str(number), history[-1])
        world.ground.steps.run("micro_batch", "test", None, said.append)
    assert any("met changes its plan: at the measured rates" in line for line in said)
    assert world.results_at_sites() == truth(history)


def test_selections_run_before_anything_is_shipped(world: SitesWorld) -> None:
    world.declare(sql=f"{SQL} where b.id % 100 = 1 and b.x = 1", options='target = "eu"\nplan = "centralised"')
    told = run(world, 0)
    (edge,) = [one for one in told["sites"]["met"]["edges"] if one["streams"] == ["b"] and one["origin"] == "us"]
    assert edge["tuples"] <= 1
    assert world.results() == Counter({row: n for row, n in truth([some(0)]).items() if row[1] % 100 == 1})


def test_explain_the_report_and_the_figures_for_pages_show_what_was_shipped(world: SitesWorld, tmp_path: Path) -> None:
    world.declare(options='target = "eu"')
    before = "\n".join(site_plan_lines(world.ground.steps.explain("met")))
    assert "rates are measured with the first one" in before
    for number in range(3):
        told = run(world, number)
    plan = world.ground.steps.explain("met")
    text = "\n".join(site_plan_lines(json.loads(json.dumps(plan))))
    for word in ("MJoin at", "expected", "measured", "centralised", "optimum without partitions", "gathered at eu"):
        assert word in text
    assert plan["measured_bytes_per_s"] > 0
    assert all(edge["expected_bytes_per_s"] > 0 for edge in plan["edges"])
    page = write(told, tmp_path / "reports", 3).html.read_text()
    for word in ("Shipped between sites", "centralised", "eu"):
        assert word in page
    with postgres.connect(world.ground.dsn, autocommit=True) as connection:
        newest = shipped(connection, "met", 50).last
    assert newest is not None
    assert newest.batch == told["batch"]
    assert newest.shipped_bytes == told["sites"]["met"]["shipped_bytes"] > 0
    assert newest.plans == told["sites"]["met"]["otherwise"]
    assert world.ground.steps.status()["correlations"]["met"]["since"] == 1


def test_segments_stay_as_long_as_a_plan_may_replay_them(world: SitesWorld) -> None:
    world.declare(options='target = "eu"')
    for number in range(5):
        run(world, number)
        world.ground.steps.maintain(Keep(), quiet)
    kept = world.ground.rows("select distinct batch from etl.segment order by batch")
    assert [batch for (batch,) in kept] == [4, 5]
    assert len(world.ground.rows("select 1 from etl.site_entry")) <= 4
    assert world.results() == truth([some(number) for number in range(5)])
    assert (world.home / "sites" / "eu" / "log" / "segments" / "a").is_dir(), "segments are at the stream's site"


def test_files_of_a_correlation_that_is_gone_leave_its_sites(world: SitesWorld) -> None:
    world.declare()
    run(world, 0)
    world.forget("met")
    run(world, 1)
    world.ground.steps.maintain(Keep(), quiet)
    assert not list((world.home / "sites").glob("*/met-*"))


def test_a_change_that_files_cannot_follow_is_refused_and_reset_begins_anew(world: SitesWorld) -> None:
    world.declare()
    run(world, 0)
    world.declare(within="7 seconds")
    world.land("1", some(1))
    with pytest.raises(CorrelationChanged, match="cannot change windows"):
        world.ground.run()
    world.ground.steps.reset("met", quiet)
    world.ground.run()
    run(world, 2)
    windows = dict[str, float | int].fromkeys(HOMES, 7.0)
    assert world.results() - truth([some(0)]) == truth([some(1), some(2)], windows)


@pytest.mark.parametrize(
    ("declare", "sentence"),
    [
        ({"options": 'target = "mars"'}, "target 'mars' is not a declared site; there are eu, us, ap"),
        ({"within": None}, "stream 'a' has no window; say within = '5 minutes', or [sites.windows] a = …"),
        ({"within": "0s"}, "within is '0s', but must be a length of time"),
        ({"options": "[sites.windows]\nb = 0"}, "sites.windows.b is 0, but must be a length of time such as"),
        ({"options": "[sites.windows]\nz = 3"}, "the SQL has no stream 'z'; there are a, b, c"),
        ({"sql": "select a.id from a join b on a.k = b.k join c on c.k > 3"}, "does not connect c with its first"),
        ({"sql": "select a.id from a join b on a.k = b.s"}, "int64 and string have no type in common"),
        ({"sql": "select a.id from a join b on a.k = b.d"}, "a.k (int64) cannot be compared with b.d (decimal128"),
        ({"sql": "select a.id from a join b on a.k < b.k"}, "over sites streams are joined by equalities"),
        ({"sql": "select a.id from a join b on a.k + 1 = b.k"}, "columns are compared as they are"),
        ({"sql": "select a.k, count(*) as n from a join b on a.k = b.k group by a.k"}, "returns joined rows"),
        ({"sql": "select a.id from a join l on a.k = l.k"}, "stream 'l' names no site; choose among eu, us, ap"),
        ({"options": 'plan = "best"'}, "sites.plan is 'best', but must be one of"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_correlation_over_sites_is_one_sentence_with_its_line(
    world: SitesWorld, declare: dict[str, Any], sentence: str
) -> None:
    world.declare("wrong", **declare)
    (error,) = world.ground.steps.check()
    assert str(error).startswith("wrong.toml, line ")
    assert sentence in str(error)


def test_a_mistake_about_a_site_is_one_sentence_where_it_stands(world: SitesWorld) -> None:
    world.ground.declare_stream("a", 'site = "mars"')
    (error,) = world.ground.steps.check()
    assert str(error) == "a.toml, line 1: site 'mars' is not declared; there are eu, us, ap in sites.toml"
    world.ground.declare_stream("a", 'site = "eu"')
    (world.home / "sites" / "us").rmdir()
    (error,) = world.ground.steps.check()
    assert str(error).startswith("sites.toml, line 5: the root ")
    assert "of site 'us' is not reachable (there is no such folder); create or mount it first" in str(error)
    (world.home / "warehouse" / "sites.toml").write_text('[site.eu]\nroot = "x"\n[site.us]\nroot = "x/"\n')
    assert "root 'x' is that of another site already" in str(world.ground.steps.check()[0])


def test_a_correlation_whose_site_was_never_there_does_not_begin_and_says_so(world: SitesWorld) -> None:
    (world.home / "sites" / "us").rmdir()
    world.declare()
    said = list[str]()
    world.land("0", {"a": some(0)["a"], "c": some(0)["c"]})
    world.ground.steps.run("micro_batch", "test", None, said.append)
    assert any("of site 'us' is not reachable" in line for line in said)
    (world.home / "sites" / "us").mkdir()
    run(world, 1)
    assert world.results() == truth([some(1)])
