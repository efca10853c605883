"""Many ad-hoc queries: ten changes a second while batches run, and a thousand queries most of which are idle."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from etl.adapters import postgres
from etl.correlate.adhoc.query.model import Query
from etl.streams.adhoc.registry import Asked, QueryRegistry
from etl.streams.adhoc.service import limits_of
from etl.streams.tasks.in_process import InProcess
from tests.support.query_site import QuerySite, at, rows_in

SHAPES = (
    "select l.id as a, r.id as b from l join r on l.k = r.k where l.x > {}",
    "select count(*) as n from l join r on l.k = r.k where r.x > {}",
    "select r.k, sum(u.x) as x from r join u on r.k = u.k where u.x > {} group by r.k",
)
CHANGES, RUNNING, PER_S = 24, 4, 10


@pytest.fixture
def site(tmp_path: Path, database: str) -> QuerySite:
    return QuerySite.under(tmp_path, database, InProcess(slots=2))


def land(site: QuerySite) -> None:
    for number, stream in enumerate(("l", "r", "u")):
        rows = [
            {"id": 1000 * site.batch + 100 * number + i, "k": i % 3, "x": i % 5, "t": at(10 * site.batch + i)}
            for i in range(8)
        ]
        site.land(stream, rows)


@dataclass
class Changing:
    """Somebody who creates and deletes, and notes which batch had begun last when he asked."""

    site: QuerySite
    began: int = 0  # the newest batch that has begun
    created: dict[str, tuple[Query, str, int]] = field(default_factory=dict)  # query, table, began
    deleted: dict[str, int] = field(default_factory=dict)

    def change(self, number: int) -> None:
        if number % 2 and len(self.created) - len(self.deleted) >= RUNNING:
            name = next(name for name in self.created if name not in self.deleted)
            self.site.queries.delete(name, "ada")
            self.deleted[name] = self.began
        else:
            name = f"q{number}"
            made = self.site.create(name, SHAPES[number % 3].format(number % 4))
            self.created[name] = self.site.query(name), made["table"], self.began

    @contextmanager
    def going_on(self) -> Iterator[threading.Thread]:
        stop, failed = threading.Event(), list[BaseException]()

        def work() -> None:
            try:
                for number in range(CHANGES):
                    if stop.wait(1 / PER_S):
                        return
                    self.change(number)
            except BaseException as error:
                failed.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield thread
        finally:
            stop.set()
            thread.join()
        assert not failed


def test_ten_changes_a_second_take_effect_with_the_next_batch_and_nobody_loses_a_row(site: QuerySite) -> None:
    site.create("steady", SHAPES[0].format(0))
    changing = Changing(site)
    with changing.going_on() as thread:
        while thread.is_alive():
            changing.began = site.batch
            land(site)
            assert site.run()["state"] == "loaded"
    changing.began = site.batch
    land(site)
    site.run()
    assert site.rows("steady") == site.truth(site.query("steady"), 1)
    assert len(changing.created) + len(changing.deleted) == CHANGES
    since = {name: (first, last) for name, first, last in site.under_it.rows(
        "select name, created_batch, deleted_batch from etl.query where name <> 'steady'")}  # fmt: skip
    for name, (query, table, began) in changing.created.items():
        first, last = since[name]
        if name in changing.deleted:
            assert last == 0 if first is None else changing.deleted[name] <= last <= changing.deleted[name] + 1, name
        else:
            assert last is None, name
        if first is None:
            continue  # it went before a batch began
        assert began <= first <= began + 1, name
        assert rows_in(query, table) == site.truth(query, first, last or 1 << 30), name


def test_a_thousand_queries_most_of_them_idle_cost_no_join_no_file_and_no_table(site: QuerySite) -> None:
    awake = {f"awake{n}": SHAPES[n % 3].format(n % 4) for n in range(10)}
    _create(site, awake)
    alone = [_joins(site) for _ in range(5)][-1]
    _create(site, {f"idle{n}": SHAPES[n % 3].format(1000 + n) for n in range(990)})
    together = [_joins(site) for _ in range(5)][-1]
    assert together == alone > 0
    land(site)
    told = site.run()
    assert told["queries"]["running"] == 1000
    assert set(told["queries"]["rows"]) == set(awake)
    tables = [path.name.rpartition("-")[0] for path in (site.under_it.settings.warehouse / "queries").iterdir()]
    assert sorted(tables) == sorted(awake)
    for name in awake:
        assert site.rows(name) == site.truth(site.query(name), 1), name


def _create(site: QuerySite, wanted: dict[str, str]) -> None:
    now, own = (
        datetime.now(UTC),
        site.under_it.settings.model_copy(update={"queries_most": 2_000, "queries_most_per_owner": 2_000}),
    )
    with postgres.connect(site.under_it.dsn, autocommit=True) as connection:
        registry = QueryRegistry(connection)
        for name, sql in wanted.items():
            asked = Asked(name, "ada", sql, timedelta(seconds=20), now + timedelta(days=1))
            registry.create(asked, now, limits_of(own))


def _joins(site: QuerySite) -> int:
    land(site)
    return int(site.run()["queries"]["joins"])
