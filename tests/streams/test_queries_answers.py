"""What people read of a query's table, and what they ask for at the same moment as others."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from etl.correlate.adhoc.errors import NameInUse, QuotaExceeded, UnknownQuery
from etl.streams import microbatch
from etl.streams.adhoc.answers import AnswersUnreadable
from etl.streams.adhoc.service import Queries
from etl.streams.tasks.in_process import InProcess
from tests.support.correlate_histories import at
from tests.support.query_site import QuerySite
from tests.support.stream_site import FIELDS

PAIRS = "select l.id as a, r.id as b from l join r on l.k = r.k"
NAMES_OF_SUMS = (
    "select l.k as n_sum, count(*) as n, avg(r.x) as m, max(r.x) as m__sum from l join r on l.k = r.k group by l.k"
)


@pytest.fixture
def site(tmp_path: Path, database: str) -> QuerySite:
    return QuerySite.under(tmp_path, database, InProcess(slots=1))


def run(site: QuerySite, many: int = 4) -> None:
    rows = [{"id": 100 * site.batch + i, "k": i % 2, "x": i, "s": "a", "t": at(30 * site.batch)} for i in range(many)]
    site.land("l", rows)
    site.land("r", rows)
    site.run()


def test_the_newest_rows_come_first_however_the_table_is_laid_out(site: QuerySite) -> None:
    site.create("pairs", PAIRS, "10s")
    for _ in range(4):
        run(site)
    folder = site.queries.show("pairs")["table"]
    for layout in ("a file per batch", "one file"):
        told = site.queries.rows("pairs", 10)
        assert told["total"] == 32, layout
        assert [row["batch"] for row in told["rows"]] == [4] * 8 + [3] * 2, layout
        assert len({(row["a"], row["b"]) for row in told["rows"]}) == 10, layout
        assert sum(site.rows("pairs").values()) == 32, layout
        DeltaTable(folder).optimize.compact()
    assert len(DeltaTable(folder).file_uris()) == 1


def test_columns_may_have_the_names_that_sums_would_get(site: QuerySite) -> None:
    site.create("sums", NAMES_OF_SUMS, "10s")
    for _ in range(2):
        run(site)
    assert [each.name for each in site.query("sums").outputs] == ["n_sum", "n", "m", "m__sum_2"]
    assert site.rows("sums") == site.truth(site.query("sums"), 1)
    assert list(site.queries.rows("sums", by_batch=True)["rows"][0]) == ["batch", "n_sum", "n", "m", "m__sum_2"]


def test_a_table_that_is_damaged_is_a_sentence(site: QuerySite) -> None:
    site.create("pairs", PAIRS, "10s")
    run(site)
    for file in Path(site.queries.show("pairs")["table"]).glob("*.parquet"):
        file.write_bytes(b"not a file of Parquet")
    with pytest.raises(AnswersUnreadable, match=r"the table of query 'pairs' in .* cannot be read"):
        site.queries.rows("pairs")


def test_a_query_that_cannot_be_read_any_more_hides_no_other_and_keeps_its_rows(site: QuerySite) -> None:
    """Between the change of a stream and the batch that suspends who asks for what is gone."""
    site.create("pairs", PAIRS, "10s")
    site.create("values", "select l.x as x from l join r on l.k = r.k", "10s")
    run(site)
    site.under_it.declare_stream("l", fields=FIELDS.replace('x = { type = "int", required = false }\n', ""))
    assert site.queries.show("pairs")["plan"]["tree"] == "(l ⋈ r)"
    assert site.queries.explain("pairs")["plan"] is not None
    assert "plan" not in site.queries.show("values")
    assert site.queries.rows("values")["total"] == 8


def test_of_many_who_ask_for_one_name_at_once_one_gets_it(site: QuerySite) -> None:
    made = at_once(lambda owner: site.create("wanted", PAIRS, "10s", owner), [f"owner{n}" for n in range(8)])
    (winner,) = (one["owner"] for one in made if isinstance(one, dict))
    assert sum(isinstance(one, NameInUse) and one.owner == winner for one in made) == 7
    assert [one["owner"] for one in site.queries.summaries()] == [winner]
    run(site)
    gone = at_once(lambda _: site.queries.delete("wanted", winner), range(8))
    assert sum(isinstance(one, dict) for one in gone) == 1
    assert sum(isinstance(one, UnknownQuery) for one in gone) == 7
    run(site)
    assert site.under_it.rows("select count(*) from etl.query where deleted_batch = 2") == [(1,)]


def test_a_form_whose_task_was_killed_and_runs_again_finds_its_query(site: QuerySite) -> None:
    asked = {"action": "create", "name": "pairs", "sql": PAIRS, "within": "10s", "expires": "2d"}
    made = site.queries.perform(asked, "ada")
    assert site.queries.perform(asked, "ada") == made
    for other, user in (({**asked, "within": "20s"}, "ada"), ({**asked, "sql": f"{PAIRS} "}, "ada"), (asked, "eve")):
        with pytest.raises(NameInUse, match="a query named 'pairs' exists already and belongs to ada"):
            site.queries.perform(other, user)
    assert [one["name"] for one in site.queries.summaries()] == ["pairs"]


def test_a_quota_holds_when_many_ask_at_once_and_is_told_before_anything_starts(site: QuerySite) -> None:
    queries = Queries(site.under_it.settings.model_copy(update={"queries_most_per_owner": 3}), site.under_it.dsn)
    made = at_once(lambda name: queries.create(name, PAIRS, "10s", "ada"), [f"q{n}" for n in range(8)])
    assert sum(isinstance(one, dict) for one in made) == 3
    assert sum(isinstance(one, QuotaExceeded) for one in made) == 5
    with pytest.raises(QuotaExceeded, match="query 'one_more' would be number 4 of ada's queries, 3 are allowed"):
        queries.examine_new("one_more", PAIRS, "10s", "ada")
    queries.examine_new("one_more", PAIRS, "10s", "grace")


def at_once(work: Callable[[Any], Any], given: Any) -> list[Any]:
    """What each of several threads got, or what was raised."""

    def one(value: Any) -> Any:
        try:
            return work(value)
        except (NameInUse, QuotaExceeded, UnknownQuery) as refused:
            return refused

    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(one, given))


@pytest.mark.parametrize("too_many_in", ["one task", "all tasks together"])
def test_a_query_with_more_rows_than_it_may_have_is_suspended_and_the_others_go_on(
    tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch, too_many_in: str
) -> None:
    monkeypatch.setattr(microbatch, "_TASK_BYTES", 400)
    site = QuerySite.under(tmp_path, database, InProcess(slots=3))
    for name, sql in (("pairs", PAIRS), ("few", f"{PAIRS} where l.x = 1"), ("sums", NAMES_OF_SUMS)):
        site.create(name, sql, "10s")
    run(site, 12)  # keys are dealt out to tasks as the batches' sizes say, from the second or third batch on
    run(site, 12)
    before = site.rows("pairs")
    most = 71 if too_many_in == "all tasks together" else 10
    limited = site.under_it.settings.model_copy(update={"query_rows_most": most})
    site.under_it = replace(site.under_it, steps=replace(site.under_it.steps, settings=limited))
    run(site, 12)
    state = next(one["state"] for one in site.queries.summaries() if one["name"] == "pairs")
    assert state["name"] == "suspended"
    assert f"more than {most} rows in one micro-batch" in state["reason"]
    assert site.rows("pairs") == before
    run(site, 4)
    for name in ("few", "sums"):
        assert site.rows(name) == site.truth(site.query(name), 1), name
