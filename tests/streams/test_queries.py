"""Ad-hoc queries end to end: every query's table is what the query alone gives, from its creation to its deletion."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from deltalake import DeltaTable

from etl.cli.correlations.query_text import explain_lines, show_lines
from etl.correlate.adhoc.errors import NotTheOwner, UnknownQuery
from etl.errors import TerminalError
from etl.pipeline.upkeep.maintenance import Keep
from etl.streams import microbatch
from etl.streams.adhoc.service import LifeRefused, Queries
from etl.streams.tasks.in_process import InProcess
from tests.support.correlate_histories import at
from tests.support.query_site import QuerySite
from tests.support.stream_site import FIELDS, quiet


@pytest.fixture
def site(tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch) -> QuerySite:
    monkeypatch.setattr(microbatch, "_TASK_BYTES", 400)
    return QuerySite.under(tmp_path, database, InProcess(slots=3))


PAIRS = "select l.id as a, r.id as b from l join r on l.k = r.k"
COUNTS = "select count(*) as n from l join r on l.k = r.k where l.x > 2"
GROUPS = "select l.k, count(*) as n, avg(r.x) as mean, max(r.s) as most from l join r on l.k = r.k group by l.k"
THREE = "select l.id as a, r.id as b, u.id as c from l join r on l.k = r.k join u on r.x = u.x where u.k <> 1"


def land(site: QuerySite, seconds: float, many: int = 8) -> None:
    for number, stream in enumerate(("l", "r", "u")):
        rows = [
            {"id": 1000 * site.batch + 100 * number + i, "k": (i + number) % 3, "x": i % 5, "s": "abc"[i % 3],
             "t": at(seconds + i)}
            for i in range(many)
        ]  # fmt: skip
        site.land(stream, rows[: many // 2], "a")
        site.land(stream, rows[many // 2 :], "b")


def test_every_query_has_what_it_has_alone(site: QuerySite) -> None:
    wanted = {"pairs": PAIRS, "counts": COUNTS, "groups": GROUPS, "three": THREE}
    for name, sql in wanted.items():
        site.create(name, sql, "30s" if name == "groups" else "20s")
    for batch in range(5):
        land(site, 7 * batch)
        told = site.run()
    assert told["queries"]["running"] == 4
    for name in wanted:
        assert site.rows(name) == site.truth(site.query(name), 1), name
        assert site.rows(name), name


def test_a_query_sees_what_comes_from_its_creation_to_its_deletion(site: QuerySite) -> None:
    site.create("always", PAIRS)
    land(site, 0)
    site.run()
    site.create("later", PAIRS)
    for batch in (1, 2):
        land(site, 7 * batch)
        site.run()
    later = site.query("later")
    expected, until = site.truth(later, 2), site.batch
    assert site.rows("later") == expected
    table = DeltaTable(site.queries.delete("later", "ada")["table"])
    for batch in (3, 4):
        land(site, 7 * batch)
        site.run()
    assert Counter((row["a"], row["b"]) for row in table.to_pyarrow_table().to_pylist()) == expected
    assert site.rows("always") == site.truth(site.query("always"), 1)
    assert until == 4
    with pytest.raises(UnknownQuery, match="no query is named 'later'"):
        site.queries.show("later")
    site.create("later", COUNTS)  # the name is free again, and the table is another
    land(site, 35)
    site.run()
    assert site.rows("later") == site.truth(site.query("later"), 6)


def test_deployment_is_measured_and_a_query_waits_for_the_next_batch(site: QuerySite) -> None:
    made = site.create("pairs", PAIRS)
    assert (made["since_batch"], made["deployment_s"]) == (None, None)
    assert site.run()["batch"] is None, "nothing has landed: no boundary"
    land(site, 0)
    site.run()
    (shown,) = site.queries.summaries()
    assert shown["since_batch"] == 1
    assert shown["deployment_s"] is not None
    assert shown["rows"] == sum(site.rows("pairs").values())


@pytest.mark.parametrize(
    ("name", "sql", "within", "sentence"),
    [
        ("Pairs", PAIRS, "20s", "query name 'Pairs' is not allowed"),
        ("taken", PAIRS, "20s", "a query named 'taken' exists already and belongs to ada"),
        ("p", PAIRS, "25s", "within 0:00:25 is not a whole number of slots of 0:00:10"),
        ("p", PAIRS, "2h", "within 2:00:00 is longer than the 1:00:00 for which tuples are retained"),
        ("p", PAIRS, "soon", "within is 'soon', but must be a length of time such as '2m'"),
        ("p", "select * from l, r", "20s", "line 1, column 18: no equality joins 'r' with 'l'"),
        ("p", "select l.z from l join r on l.k = r.k", "20s", "line 1, column 8: column 'z' is unknown; known are"),
        ("p", "select l.id\nfrom l join q on l.k = q.k", "20s", "line 2, column 13: stream 'q' is unknown"),
        ("p", "select l.id from l left join r on l.k = r.k", "20s", "LEFT joins cannot be shared"),
        ("p", "select l.id as batch from l join r on l.k = r.k", "20s", "an output is named 'batch'"),
        ("p", "drop table l", "20s", "a query is one SELECT"),
        ("p", PAIRS, "20s", "query 'p' would be number 3 of ada's queries, 2 are allowed"),
    ],
)
def test_bad_input_is_one_sentence_and_nothing_is_half_created(
    site: QuerySite, name: str, sql: str, within: str, sentence: str
) -> None:
    own = site.under_it.settings.model_copy(update={"queries_most_per_owner": 2})
    queries = Queries(own, site.under_it.dsn)
    queries.create("taken", PAIRS, "20s", "ada")
    if "number 3" in sentence:
        queries.create("second", COUNTS, "20s", "ada")
    before = site.under_it.rows("select count(*) from etl.query")
    with pytest.raises(TerminalError) as raised:
        queries.create(name, sql, within, "ada")
    assert sentence in str(raised.value)
    assert "\n" not in str(raised.value)
    assert site.under_it.rows("select count(*) from etl.query") == before


def test_only_its_owner_deletes_a_query_and_an_expired_one_goes_by_itself(site: QuerySite) -> None:
    site.create("pairs", PAIRS)
    site.create("short", PAIRS, expires="1s")
    with pytest.raises(NotTheOwner, match="query 'pairs' belongs to ada, not to bob"):
        site.queries.delete("pairs", "bob")
    with pytest.raises(LifeRefused, match="is to expire after 40d; at least a second and at most 30 days"):
        site.create("long", PAIRS, expires="40d")
    site.under_it.execute("update etl.query set expires_at = '2020-01-01' where name = 'short'")
    land(site, 0)
    assert site.run()["queries"]["running"] == 1
    assert [one["name"] for one in site.queries.summaries()] == ["pairs"]
    assert site.queries.delete("pairs", "bob", admin=True)["deleted"]


def test_a_query_whose_sink_fails_is_suspended_and_the_others_go_on(site: QuerySite) -> None:
    for name, sql in (("pairs", PAIRS), ("broken", PAIRS), ("counts", COUNTS), ("lost", GROUPS)):
        site.create(name, sql)
    folders = {one["name"]: Path(one["table"]) for one in site.queries.summaries()}
    for name in ("broken", "lost"):  # a file is where the folder of its table should be
        folders[name].parent.mkdir(parents=True)
        folders[name].write_text("")
    for batch in range(3):
        land(site, 7 * batch)
        told = site.run()
        assert told["state"] == "loaded"
        assert told["queries"]["running"] == (4 if batch == 0 else 2)
    states = {one["name"]: one["state"] for one in site.queries.summaries()}
    for name in ("broken", "lost"):
        assert states[name]["name"] == "suspended"
        assert "its table cannot be written" in states[name]["reason"]
        folders[name].unlink()
        site.queries.resume(name, "ada")
    for name in ("pairs", "counts"):
        assert site.rows(name) == site.truth(site.query(name), 1)
    for batch in range(3, 5):
        land(site, 7 * batch)
        site.run()
    for name in ("broken", "lost"):
        assert site.rows(name) == site.truth(site.query(name), 4), name
    assert any("its table cannot be written" in one["words"] for one in site.queries.explain("broken")["decisions"])


def test_a_table_that_cannot_be_committed_to_suspends_its_query_and_gets_its_batch_when_it_is_resumed(
    site: QuerySite,
) -> None:
    site.create("pairs", PAIRS)
    site.create("broken", PAIRS)
    land(site, 0)
    site.run()
    folder = next(Path(one["table"]) for one in site.queries.summaries() if one["name"] == "broken")
    log = folder / "_delta_log"
    log.rename(folder / "aside")
    log.write_text("")
    land(site, 7)
    assert site.run()["state"] == "loaded"
    assert site.queries.show("broken")["state"]["name"] == "suspended"
    log.unlink()
    (folder / "aside").rename(log)
    site.restarted()
    site.queries.resume("broken", "ada")
    land(site, 14)
    site.run()
    assert site.rows("pairs") == site.truth(site.query("pairs"), 1)
    assert site.rows("broken") == site.truth(site.query("pairs"), 1, 3) + site.truth(site.query("pairs"), 3)


def test_a_table_that_another_process_cannot_read_suspends_its_query_and_the_others_go_on(site: QuerySite) -> None:
    site.create("pairs", PAIRS)
    site.create("broken", PAIRS)
    land(site, 0)
    site.run()
    folder = next(Path(one["table"]) for one in site.queries.summaries() if one["name"] == "broken")
    (entry,) = (folder / "_delta_log").glob("*.json")
    entry.write_text("{")
    site.restarted()
    land(site, 7)
    assert site.run()["state"] == "loaded"
    assert "its table cannot be read" in site.queries.show("broken")["state"]["reason"]
    assert site.rows("pairs") == site.truth(site.query("pairs"), 1)


def test_tuples_that_come_too_late_go_to_a_table_of_their_stream(site: QuerySite) -> None:
    site.create("pairs", PAIRS)
    land(site, 1000)
    site.run()
    on_time = len(site.landed)
    late = {"id": 1, "k": 0, "t": at(900)}
    site.under_it.land("l", "late", [late])
    site.land("l", [{"id": 2, "k": 0, "t": at(945)}])
    told = site.run()
    assert told["queries"]["late"] == {"l": 1}
    assert len(site.landed) == on_time + 1
    table = DeltaTable(str(site.under_it.settings.warehouse / "streams" / "l" / "late")).to_pyarrow_table()
    assert [json.loads(one)["id"] for one in table["tuple"].to_pylist()] == [1]
    assert site.rows("pairs") == site.truth(site.query("pairs"), 1)


def test_segments_stay_while_a_query_may_look_at_them(site: QuerySite) -> None:
    site.create("pairs", PAIRS)
    land(site, 0)
    site.run()
    assert site.under_it.steps.maintain(Keep(), quiet)["segments"] == 2, "those of u, which nobody reads"
    land(site, 7)
    site.run()
    assert site.rows("pairs") == site.truth(site.query("pairs"), 1)
    land(site, 2000)
    site.run()
    assert site.under_it.steps.maintain(Keep(), quiet)["segments"] > 0
    land(site, 2007)
    site.run()
    assert site.rows("pairs") == site.truth(site.query("pairs"), 1)


def test_show_and_explain_tell_plan_sharing_and_reasons(site: QuerySite) -> None:
    for name, sql in (("pairs", PAIRS), ("counts", COUNTS), ("three", THREE)):
        site.create(name, sql)
    waiting = "\n".join(show_lines(site.queries.show("pairs")))
    assert "in effect  with the next micro-batch" in waiting
    assert "it has no plan yet" in "\n".join(explain_lines(site.queries.explain("pairs")))
    for batch in range(2):
        land(site, 7 * batch)
        site.run()
    text = "\n".join(show_lines(site.queries.show("pairs")))
    for shown in ("since batch 1", "(l ⋈ r)", "l.k = r.k", "(read by 3)", "rows;"):
        assert shown in text, shown
    explained = "\n".join(explain_lines(site.queries.explain("counts")))
    for shown in ("reuses (l ⋈ r), which runs already", "share l.k = r.k", "planned all; cost"):
        assert shown in explained, shown
    assert site.queries.show("three")["plan"]["joins"][0]["sharers"] >= 0
    json.dumps([site.queries.summaries(), site.queries.show("pairs"), site.queries.rows("pairs")])


def test_a_stream_that_loses_a_column_suspends_who_asks_for_it(site: QuerySite) -> None:
    site.create("pairs", PAIRS)
    site.create("counts", COUNTS)
    land(site, 0)
    site.run()
    site.under_it.declare_stream("l", fields=FIELDS.replace('x = { type = "int", required = false }\n', ""))
    for stream in ("l", "r"):
        site.land(stream, [{"id": 7, "k": 1, "t": at(8)}])
    site.run()
    states = {one["name"]: one["state"] for one in site.queries.summaries()}
    assert states["pairs"]["name"] == "active"
    assert "column 'x' is unknown" in states["counts"]["reason"]
    assert site.rows("pairs") == site.truth(site.query("pairs"), 1)
