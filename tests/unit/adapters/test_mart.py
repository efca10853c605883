"""The Postgres mart: tables as declared, one transaction per batch, aggregates that add up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from etl.adapters import ledger, mart, postgres
from etl.adapters.delta.data_files import write_for_copy
from etl.adapters.ledger import Decision, Writer
from etl.adapters.mart import MartTaken, SumTooLarge
from etl.contract.model import MartTable
from etl.errors import TerminalError
from etl.model import BatchCounts

NOW = datetime(2026, 11, 17, 12, tzinfo=UTC)
TIME = pa.timestamp("us", "UTC")
ROWS = MartTable("events", columns={"id": "id", "name": "name"})
TEAMS = MartTable(
    "teams", group_by={"team": "team"}, values={"n": "count(*)", "sum": "sum(x)", "least": "min(x)", "most": "max(x)"}
)
ROW_SCHEMA = pa.schema(
    [pa.field("id", pa.int64(), nullable=False), ("name", pa.string()), pa.field("batch", pa.int64(), nullable=False)]
    + [pa.field(name, TIME, nullable=False) for name in ("landed_at", "loaded_at")]
)
TEAM_SCHEMA = pa.schema(
    [("team", pa.string()), pa.field("n", pa.int64(), nullable=False)]
    + [(name, pa.int64()) for name in ("sum", "least", "most")]
)
PARTIAL = TEAM_SCHEMA.set(2, pa.field("sum", pa.decimal128(38, 0)))
DECLARED = {"events": (ROWS, ROW_SCHEMA, ("id",)), "teams": (TEAMS, TEAM_SCHEMA, ("team",))}
FUNCTIONS = {"n": "count", "sum": "sum", "least": "min", "most": "max"}


@pytest.fixture
def writer(database: str) -> Iterator[Writer]:
    with ledger.writing(database, "p", "test") as mine:
        mine.ledger.declare({})
        mart.prepare(database, "p", DECLARED)
        yield mine


def decided(writer: Writer, batch: int, state: Any = "passed") -> None:
    book = writer.ledger
    book.fix(batch, "run", NOW, [])
    decision = Decision((), BatchCounts(lines=2, accepted=2), {}, (), (), {}, {})
    book.decide(batch, NOW, decision, writer.epoch)
    book.record_audit(batch, state, {"success": state == "passed", "expectations": []})


@dataclass(frozen=True)
class Loading:
    """Loads batches of few rows, each through a file as tasks write it."""

    dsn: str
    writer: Writer
    folder: Path

    def __call__(
        self, batch: int, ids: Sequence[int] = (), teams: Sequence[tuple[Any, ...]] = (), expected: int | None = None
    ) -> bool:
        n = len(ids)
        names = pa.array([f'say "{one}",\n' for one in ids], pa.string())
        columns = [pa.array(ids, pa.int64()), names, pa.array([batch] * n, pa.int64()), pa.array([NOW] * n, TIME)]
        path = self.folder / f"{batch}.csv"
        write_for_copy(path, pa.table(columns, names=["id", "name", "batch", "landed_at"]))
        summed = pa.Table.from_pylist([dict(zip(PARTIAL.names, team, strict=True)) for team in teams], PARTIAL)
        groups = [mart.Groups(TEAMS, summed, FUNCTIONS)] if teams else []
        with mart.loading(self.dsn, batch) as loading:
            loading.copy({"events": [path]}, {"events": n if expected is None else expected})
            return loading.finish(self.writer, NOW, groups, freshness=None, published=["fact"])


@pytest.fixture
def load(database: str, writer: Writer, tmp_path: Path) -> Loading:
    return Loading(database, writer, tmp_path)


def select(dsn: str, query: str) -> list[tuple[Any, ...]]:
    with postgres.connect(dsn) as connection, connection.cursor() as cursor:
        cursor.execute(query)
        return list(cursor.fetchall())


def test_rows_aggregates_state_and_totals_become_visible_together(database: str, writer: Writer, load: Loading) -> None:
    decided(writer, 1)
    assert load(1, [1, 2], [("a", 2, 5, 2, 3)])
    found = select(database, "select id, name, batch, landed_at, loaded_at <= now() from mart.events order by id")
    assert found == [(1, 'say "1",\n', 1, NOW, True), (2, 'say "2",\n', 1, NOW, True)]
    assert writer.ledger.get(1).state == "loaded"
    assert writer.ledger.totals()["fact"] == 2
    assert writer.ledger.published() == {"fact": 1}
    assert not load(1, [], [("a", 2, 5, 2, 3)]), "an earlier try had done so already"
    assert select(database, "select n from mart.teams") == [(2,)]


def test_aggregates_add_up_over_batches_also_for_groups_and_values_that_are_null(
    database: str, writer: Writer, load: Loading
) -> None:
    batches = [
        [("a", 1, 5, 5, 5), (None, 1, None, None, None)],
        [("a", 2, None, None, None), (None, 1, 7, 7, 7), ("b", 1, 1, 1, 1)],
        [("a", 1, -3, -3, -3), (None, 2, 1, 0, 1)],
    ]
    for number, groups in enumerate(batches, 1):
        decided(writer, number)
        load(number, [], groups)
    found = select(database, "select team, n, sum, least, most from mart.teams order by team nulls last")
    assert found == [("a", 4, 2, -3, 5), ("b", 1, 1, 1, 1), (None, 4, 8, 0, 7)]


@pytest.mark.parametrize("sums", [(2**63 - 1, 1), (1, 2**63), (-(2**63), -1)])
def test_a_sum_that_does_not_fit_loads_nothing_until_its_column_is_wider(
    database: str, writer: Writer, load: Loading, sums: tuple[int, int]
) -> None:
    decided(writer, 1)
    load(1, [], [("a", 1, sums[0], 0, 0)])
    decided(writer, 2)
    with pytest.raises(SumTooLarge) as refused:
        load(2, [5], [("a", 1, sums[1], 0, 0)])
    assert select(database, "select n, sum, (select count(*) from mart.events) from mart.teams") == [(1, sums[0], 0)]
    with postgres.connect(database) as connection, connection.cursor() as cursor:
        cursor.execute(str(refused.value).partition("run again: ")[2])
        connection.commit()
    mart.prepare(database, "p", DECLARED)
    assert load(2, [5], [("a", 1, sums[1], 0, 0)])
    assert select(database, "select n, sum from mart.teams") == [(2, sum(sums))]


def test_a_key_that_is_there_already_loads_nothing(database: str, writer: Writer, load: Loading) -> None:
    decided(writer, 1)
    load(1, [1])
    decided(writer, 2)
    with pytest.raises(
        TerminalError, match=r"batch 2 brings a key that mart\.events has already .* nothing was loaded"
    ):
        load(2, [5, 1], [("a", 1, 1, 1, 1)])
    assert select(database, "select (select count(*) from mart.events), (select count(*) from mart.teams)") == [(1, 0)]
    assert writer.ledger.get(2).state == "passed"


def test_fewer_rows_than_were_decided_load_nothing(database: str, writer: Writer, load: Loading) -> None:
    decided(writer, 1)
    with pytest.raises(TerminalError, match=r"1 rows were copied into mart\.events, 3 were decided"):
        load(1, [1], expected=3)
    assert select(database, "select count(*) from mart.events") == [(0,)]


def test_a_writer_that_was_overtaken_loads_nothing(database: str, writer: Writer, load: Loading) -> None:
    decided(writer, 1)
    old = replace(load, writer=Writer(writer.epoch - 1, writer.ledger))
    with pytest.raises(ledger.Fenced, match="written by test now"):
        old(1, [1])
    assert select(database, "select count(*) from mart.events") == [(0,)]


def test_a_batch_that_is_held_is_not_loaded(database: str, writer: Writer, load: Loading) -> None:
    decided(writer, 1, "held")
    with pytest.raises(TerminalError, match="nothing was written"):
        load(1, [1])
    assert select(database, "select count(*) from mart.events") == [(0,)]


def test_a_new_column_is_added_and_nothing_is_done_twice(database: str, writer: Writer) -> None:
    wider = ROW_SCHEMA.append(pa.field("extra", pa.string()))
    declared = {"events": (ROWS, wider, ("id",))}
    for _ in range(2):
        mart.prepare(database, "p", declared)
    columns = select(database, "select column_name from information_schema.columns where table_name = 'events'")
    assert ("extra",) in columns


@pytest.mark.parametrize("owner", ["somebody's own", "another pipeline"])
def test_a_table_that_is_not_ours_is_never_touched(database: str, writer: Writer, owner: str) -> None:
    with postgres.connect(database) as connection, connection.cursor() as cursor:
        cursor.execute("create table mart.taken (id bigint)")
        connection.commit()
    if owner == "another pipeline":
        with postgres.connect(database) as connection, connection.cursor() as cursor:
            cursor.execute("comment on table mart.taken is 'loaded by pipeline q'")
            connection.commit()
    taken = MartTable("taken", columns={"id": "id"})
    what = "is loaded by pipeline q" if owner == "another pipeline" else "was not made by Frontstage"
    with pytest.raises(MartTaken, match=f"table mart.taken exists and {what}; rename"):
        mart.prepare(database, "p", {"taken": (taken, ROW_SCHEMA, ("id",))})
