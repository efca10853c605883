"""Ad-hoc queries under random histories and ended anywhere: every query has exactly what it has alone."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from etl.adapters import postgres
from etl.correlate.adhoc.query.model import Query
from etl.streams import microbatch
from etl.streams.tasks.in_process import InProcess
from tests.support.backups import Backups
from tests.support.correlate_histories import at
from tests.support.killed_driver import run_and_die
from tests.support.query_site import QuerySite, rows_in
from tests.support.stream_site import Ended

PAIRS = "select l.id as a, r.id as b from l join r on l.k = r.k"
GROUPS = "select l.k, count(*) as n, avg(r.x) as mean from l join r on l.k = r.k group by l.k"


def random_sql(random: Random) -> str:
    streams = random.sample(["l", "r", "u"], random.choice([2, 2, 3]))
    joins = [
        f"{streams[n]}.{column} = {streams[random.randrange(n)]}.{column}"
        for n in range(1, len(streams))
        for column in [random.choice(["k", "x", "s"])]
    ]
    conditions = [
        random.choice([f"{one}.x > {random.randrange(4)}", f"{one}.s in ('a', 'b')", f"{one}.k <> 1 or {one}.x = 2"])
        for one in streams
        if random.random() < 0.5
    ]
    where = " and ".join(f"({one})" for one in (*joins, *conditions))
    select, group = random.choice(
        [
            (", ".join(f"{one}.id as {one}_id" for one in streams), ""),
            ("count(*) as n", ""),
            (f"{streams[0]}.s, count(*) as n, sum({streams[1]}.x) as x, avg({streams[0]}.x) as mean",
             f" group by {streams[0]}.s"),
        ]
    )  # fmt: skip
    return f"select {select} from {', '.join(streams)} where {where}{group}"


def land(site: QuerySite, random: Random, base: float) -> None:
    for number, stream in enumerate(("l", "r", "u")):
        rows: list[dict[str, Any]] = [
            {"id": 1000 * site.batch + 100 * number + i, "k": random.choice([0, 1, 2, None]),
             "x": random.choice([0, 1, 2, 3, None]), "s": random.choice(["a", "b", None]),
             "t": at(base + random.randrange(15))}
            for i in range(random.randrange(9))
        ]  # fmt: skip
        half = random.randint(0, len(rows))
        site.land(stream, rows[:half], "a")
        site.land(stream, rows[half:], "b")


CHECKPOINTS = ("after input is fixed", "before the decision", "after the decision", "before the aggregates are loaded")


class History:
    """Queries come and go, batches run, now and then one ends early and the process is another."""

    def __init__(self, site: QuerySite, random: Random) -> None:
        self.site, self.random = site, random
        self.running: dict[str, tuple[Query, int, str]] = {}  # query, since, table
        self.gone: list[tuple[Query, int, int, str]] = []  # the same, and until

    def change(self, serial: int) -> None:
        for number in range(self.random.choice([0, 1, 1, 2])):
            name = f"q{serial}_{number}"
            made = self.site.create(name, random_sql(self.random), self.random.choice(["10s", "20s", "30s"]))
            self.running[name] = self.site.query(name), self.site.batch, made["table"]
        for name in list(self.running):
            if self.random.random() < 0.15:
                query, since, table = self.running.pop(name)
                self.site.queries.delete(name, "ada")
                self.gone.append((query, since, self.site.batch, table))

    def run(self) -> None:
        if self.random.random() < 0.4:
            name = self.random.choice(CHECKPOINTS)
            with suppress(Ended):
                self.site.ending(name).run()
            self.site.restarted()
        while self.site.run()["batch"] is not None:
            pass

    def check(self) -> None:
        for name, (query, since, _) in self.running.items():
            assert self.site.rows(name) == self.site.truth(query, since), query.sql
        for query, since, until, table in self.gone:
            assert rows_in(query, table) == self.site.truth(query, since, until), query.sql


@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 2**32))
def test_every_query_gets_what_it_gets_alone_whatever_happens(
    tmp_path_factory: pytest.TempPathFactory, database: str, seed: int
) -> None:
    random = Random(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(microbatch, "_TASK_BYTES", random.choice([200, 400, 2_000]))
        _emptied(database)
        site = QuerySite.under(tmp_path_factory.mktemp("queries"), database, InProcess(slots=random.randint(1, 3)))
        history = History(site, random)
        for serial in range(5):
            history.change(serial)
            land(site, random, 8.0 * serial)
            history.run()
        history.check()


def _emptied(dsn: str) -> None:
    """The database as after its migration: every example has its own folder, and must have its own ledger."""
    with postgres.connect(dsn, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("select to_regclass('etl.query') is not null")
        if (cursor.fetchone() or (False,))[0]:
            tables = "etl.pipeline, etl.query, etl.query_state, etl.query_log, etl.segment, etl.correlation"
            cursor.execute(f"truncate {tables} cascade")


EVERY_CHECKPOINT = [
    "before input is fixed",
    "after input is fixed",
    "before the decision",
    "after the decision",
    "before the note",
    "after the note",
    "before results of queries/pairs-1 is published",
    "after results of queries/pairs-1 is published",
    "before results of queries/sums-2 is published",
    "after results of queries/sums-2 is published",
    "before the aggregates are loaded",
    "after the aggregates are loaded",
]


@pytest.mark.parametrize("checkpoint", EVERY_CHECKPOINT)
def test_a_run_that_ends_at_any_checkpoint_is_taken_up_and_every_row_is_there_once(
    tmp_path: Path, database: str, checkpoint: str
) -> None:
    site = QuerySite.under(tmp_path, database, InProcess())
    site.create("pairs", PAIRS)
    site.create("sums", GROUPS)
    reached = list[str]()
    for batch in range(3):
        for stream, first in (("l", 0), ("r", 50)):
            site.land(stream, [{"id": 100 * batch + first + i, "k": i % 3, "x": i, "t": at(9 * batch + i)}
                               for i in range(5)])  # fmt: skip
        if batch == 1:
            with suppress(Ended):
                site.ending(checkpoint).run()
            reached.append(checkpoint)
            site.restarted()
            site.create("new", PAIRS)  # it must not get into a batch that is decided
        while site.run()["batch"] is not None:
            pass
    assert reached
    for name in ("pairs", "sums"):
        assert site.rows(name) == site.truth(site.query(name), 1), name
    since = site.queries.show("new")["since_batch"]
    assert site.rows("new") == site.truth(site.query("new"), since)
    assert since == 2 if checkpoint in EVERY_CHECKPOINT[:3] else since == 3


def test_the_list_of_checkpoints_is_complete(tmp_path: Path, database: str) -> None:
    site, seen = QuerySite.under(tmp_path, database, InProcess()), list[str]()
    site.create("pairs", PAIRS)
    site.create("sums", GROUPS)
    for stream in ("l", "r"):
        site.land(stream, [{"id": 1, "k": 1, "x": 1, "t": at(0)}])
    site.under_it.watching(seen.append).run()
    assert set(seen) == set(EVERY_CHECKPOINT)


def test_clocks_far_apart_do_not_hold_state_for_ever(tmp_path: Path, database: str) -> None:
    """The retention bounds how far the slowest stream may lag."""
    site = QuerySite.under(tmp_path, database, InProcess())
    site.create("pairs", PAIRS)
    site.land("l", [{"id": 1, "k": 1, "t": at(0)}])
    site.land("r", [{"id": 2, "k": 1, "t": at(0)}])
    site.run()
    for hour in range(1, 4):
        site.land("l", [{"id": hour, "k": 1, "t": at(3600 * hour)}])
        site.run()
    assert site.queries.show("pairs")["state"]["segments"] <= 4
    assert site.rows("pairs") == Counter({(1, 2): 1})
    assert dt.timedelta(seconds=site.under_it.settings.query_retention_s) == dt.timedelta(hours=1)


@pytest.mark.parametrize(
    "checkpoint", ["before the decision", "after the decision", "after results of queries/pairs-1 is published"]
)
def test_a_driver_that_is_killed_is_followed_by_another_and_every_row_is_there_once(
    tmp_path: Path, database: str, checkpoint: str
) -> None:
    site = QuerySite.under(tmp_path, database, InProcess())
    site.create("pairs", PAIRS)
    site.create("sums", GROUPS)
    for batch in range(3):
        for stream, first in (("l", 0), ("r", 50)):
            rows = [{"id": 100 * batch + first + i, "k": i % 3, "x": i, "t": at(9 * batch + i)} for i in range(5)]
            site.land(stream, rows)
        if batch == 1:
            run_and_die(tmp_path, database, checkpoint)
            site.restarted()
        while site.run()["batch"] is not None:
            pass
    for name in ("pairs", "sums"):
        assert site.rows(name) == site.truth(site.query(name), 1), name


def test_a_ledger_from_before_gets_its_queries_and_their_state_back(
    tmp_path: Path, database: str, postgres_server: str
) -> None:
    backups = Backups(postgres_server)
    site = QuerySite.under(tmp_path, database, InProcess())
    site.create("pairs", PAIRS)

    def land_one(batch: int) -> None:
        for stream, first in (("l", 0), ("r", 50)):
            rows = [{"id": 100 * batch + first + i, "k": i % 3, "x": i, "t": at(6 * batch + i)} for i in range(5)]
            site.land(stream, rows)

    land_one(0)
    site.run()
    older = backups.copy(database)
    try:
        site.create("sums", GROUPS)
        for batch in (1, 2):
            land_one(batch)
            site.run()
        under = replace(site.under_it, dsn=older, steps=replace(site.under_it.steps, dsn=older))
        site.under_it = under
        site.restarted()
        site.batch = 4
        land_one(3)
        while site.run()["batch"] is not None:
            pass
        assert site.rows("pairs") == site.truth(site.query("pairs"), 1)
        assert site.rows("sums") == site.truth(site.query("sums"), 2)
    finally:
        backups.close()
