"""One contract for every place master rows are read from. A new adapter adds one entry to `ADAPTERS`.

An adapter here is a function that takes a table (key first, a struct when composite) and a place to put it, and gives
the source as a context manager.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import WriterProperties, write_deltalake

from etl.adapters import postgres
from etl.columnar.errors import KeyTypeMismatch
from etl.enrich.errors import DuplicateMasterKey, NullMasterKey
from etl.enrich.ports import ChangeTracking, MasterIndex, MasterLookup, MasterReader, MasterScan
from etl.masters.delta.reader import pin_delta
from etl.masters.memory import MemoryMaster
from etl.masters.pages.compact import compact
from etl.masters.pages.publish import PublishConfig, Publisher
from etl.masters.pages.runs.writer import PageSize
from etl.masters.pages.store import PageStore
from etl.masters.postgres.reader import exported_snapshot
from etl.masters.source import Changes, Snapshot

PAGE_ROWS = 64


@dataclass(frozen=True)
class Place:
    """Where a test may put its master. The server is started only for those who ask."""

    folder: Path
    dsn: Callable[[], str]


Adapter = Callable[[pa.Table, Place], AbstractContextManager[Any]]


@contextmanager
def memory(rows: pa.Table, place: Place) -> Iterator[Any]:
    yield MemoryMaster(rows, rows.column_names[0], page_rows=PAGE_ROWS)


def flat(rows: pa.Table) -> tuple[pa.Table, tuple[str, ...]]:
    """The key as columns of its own, as a database has it."""
    key = rows.column(0)
    if not pa.types.is_struct(key.type):
        return rows, (rows.column_names[0],)
    parts = key.combine_chunks().flatten()
    names = tuple(field.name for field in key.type)
    rest = rows.drop_columns([rows.column_names[0]])
    return pa.table([*parts, *rest.columns], names=[*names, *rest.column_names]), names


def publish(rows: pa.Table, folder: Path) -> tuple[PageStore, Publisher]:
    store = PageStore(folder / "master")
    publisher = Publisher(store, PublishConfig(size=PageSize(page_rows=PAGE_ROWS, segment_rows=192)))
    columns, key = flat(rows)
    publisher.publish(Snapshot(columns.schema, key, columns.to_batches(), {}, presorted=False))
    return store, publisher


@contextmanager
def pages(rows: pa.Table, place: Place) -> Iterator[Any]:
    store, _ = publish(rows, place.folder)
    with store.open() as view:
        yield view


def publish_in_parts(rows: pa.Table, folder: Path) -> PageStore:
    """The same rows after some history: every third came late, every fifth was another row first, some went."""
    numbers = range(rows.num_rows)
    late = [number for number in numbers if number % 3 == 0]
    early = rows.take(pa.array([number for number in numbers if number % 3], pa.int64()))
    wrong = early.set_column(1, "name", pa.nulls(early.num_rows, pa.string()))
    store, publisher = publish(wrong, folder)
    publisher.refresh(Changes(flat(early)[0], pa.array([], rows.schema.field(0).type), {"at": 1}))
    gone = rows.column(0).combine_chunks().take(pa.array(late[:20], pa.int64()))
    publisher.refresh(Changes(flat(rows.take(pa.array(late, pa.int64())))[0], gone.slice(0, 0), {"at": 2}))
    publisher.refresh(Changes(flat(rows.slice(0, 0))[0], gone, {"at": 3}))
    publisher.refresh(Changes(flat(rows.take(pa.array(late[:20], pa.int64())))[0], gone.slice(0, 0), {"at": 4}))
    return store


@contextmanager
def pages_with_overlays(rows: pa.Table, place: Place) -> Iterator[Any]:
    with publish_in_parts(rows, place.folder).open() as view:
        yield view


@contextmanager
def pages_compacted(rows: pa.Table, place: Place) -> Iterator[Any]:
    store = publish_in_parts(rows, place.folder)
    compact(store)
    with store.open() as view:
        yield view


SQL_TYPES = {
    pa.int64(): "bigint",
    pa.string(): "text",
    pa.int32(): "integer",
    pa.float64(): "double precision",
}


@contextmanager
def postgres_table(rows: pa.Table, place: Place, primary_key: bool) -> Iterator[Any]:
    columns, key = flat(rows)
    parts = [f'"{field.name}" {SQL_TYPES[field.type]}' for field in columns.schema]
    parts += [f"primary key ({', '.join(key)})"] if primary_key else []
    with postgres.connect(place.dsn(), autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(f"drop table if exists contract; create table contract ({', '.join(parts)})")
        postgres.copy_in(connection, "contract", columns)
    with exported_snapshot(place.dsn()) as snapshot:
        pinned = snapshot.pin("contract", key, page_rows=PAGE_ROWS, rows_per_query=100)
        with pinned.open() as master:
            yield master
    with postgres.connect(place.dsn(), autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("drop table contract")


@contextmanager
def delta(rows: pa.Table, place: Place) -> Iterator[Any]:
    """Several files, each of several row groups, in no order."""
    columns, key = flat(rows)
    size = max(1, columns.num_rows // 3)
    for start in range(0, max(1, columns.num_rows), size):
        properties = WriterProperties(max_row_group_size=PAGE_ROWS)
        write_deltalake(place.folder / "delta", columns.slice(start, size), mode="append", writer_properties=properties)
    with pin_delta(place.folder / "delta", key).open() as master:
        yield master


ADAPTERS: dict[str, Adapter] = {
    "memory": memory,
    "pages": pages,
    "pages with overlays": pages_with_overlays,
    "pages compacted": pages_compacted,
    "postgres": partial(postgres_table, primary_key=True),
    "postgres without an index": partial(postgres_table, primary_key=False),
    "delta": delta,
}

KEYS: dict[str, tuple[pa.DataType, Callable[[int], Any]]] = {
    "integer": (pa.int64(), lambda number: number * 3 - 500),
    "text": (pa.string(), lambda number: f"customer {number * 3:05d} é"),
    "composite": (
        pa.struct([("region", pa.int64()), ("code", pa.string())]),
        lambda number: {"region": number % 7 - 3, "code": f"c{number}"},
    ),
    "two integers": (
        pa.struct([("a", pa.int64()), ("b", pa.int64())]),
        lambda number: {"a": number // 20, "b": -number},
    ),
}
ROWS = 700


class Case:
    """A master with one kind of key: which keys it has, which it has not, and its rows."""

    def __init__(self, kind: str, rows: int) -> None:
        self.key_type, self._key = KEYS[kind]
        self.table = pa.table(
            {
                "key": pa.array([self._key(number) for number in range(rows)], self.key_type),
                "name": pa.array([None if number % 11 == 0 else f"name {number}" for number in range(rows)]),
                "size": pa.array(range(rows), pa.int32()),
                "price": pa.array([number / 4 for number in range(rows)], pa.float64()),
            }
        )

    def keys(self, *numbers: int) -> pa.Array:
        """Keys by number; those at and beyond the number of rows have no row."""
        return pa.array([self._key(number) for number in numbers], self.key_type)

    def rows(self, *numbers: int) -> list[dict[str, Any]]:
        taken: list[dict[str, Any]] = self.table.take(pa.array(numbers, pa.int64())).to_pylist()
        return taken


def as_set(rows: pa.Table | list[dict[str, Any]]) -> list[str]:
    return sorted(map(repr, rows if isinstance(rows, list) else rows.to_pylist()))


@pytest.fixture(params=list(KEYS))
def case(request: pytest.FixtureRequest) -> Case:
    return Case(request.param, ROWS)


@pytest.fixture(params=list(ADAPTERS))
def adapter(request: pytest.FixtureRequest) -> Adapter:
    return ADAPTERS[request.param]


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Place(tmp_path, lambda: str(request.getfixturevalue("postgres_server")))


@pytest.fixture
def master(case: Case, adapter: Adapter, place: Place) -> Iterator[Any]:
    shuffled = case.table.take(pa.array([number * 401 % ROWS for number in range(ROWS)]))
    with adapter(shuffled, place) as source:
        yield source


def test_a_master_offers_all_three_ports(master: Any) -> None:
    assert isinstance(master, MasterLookup)
    assert isinstance(master, MasterScan)
    assert isinstance(master, MasterIndex)
    assert isinstance(master, MasterReader)
    assert (master.capabilities.lookup, master.capabilities.scan, master.capabilities.index) == (True, True, True)


def test_a_master_that_tracks_changes_finds_none_since_its_own_version(case: Case, master: Any) -> None:
    tracking = master.change_tracking
    if tracking is not None:
        assert isinstance(tracking, ChangeTracking)
        assert len(set(tracking.parts)) == len(tracking.parts) > 0
        assert tracking.touched(case.keys(1, 2, ROWS), tracking.parts).tolist() == [False, False, False]
        assert tracking.touched(case.keys(1), ("base-00000000-none",)) is None, "another base says nothing"


def test_a_lookup_gives_the_rows_of_keys_that_have_one(case: Case, master: Any) -> None:
    found = master.lookup(case.keys(3, 699, ROWS, 0, 350, ROWS + 5, 64))
    assert as_set(found) == as_set(case.rows(3, 699, 0, 350, 64))


def test_a_lookup_of_every_key_gives_every_row(case: Case, master: Any) -> None:
    assert as_set(master.lookup(case.keys(*range(-5, ROWS + 5)))) == as_set(case.table)


def test_a_lookup_of_nothing_or_of_absent_keys_has_columns_but_no_rows(case: Case, master: Any) -> None:
    for keys in (case.keys(), case.keys(ROWS, ROWS + 1, -1)):
        found = master.lookup(keys)
        assert found.num_rows == 0
        assert found.schema.types == case.table.schema.types


def test_every_table_has_the_key_first_and_the_same_columns(case: Case, master: Any) -> None:
    tables = [master.lookup(case.keys(1)), master.read_pages(0, 1), master.pages_holding(case.keys(1))[0]]
    for table in tables:
        assert table.column_names[1:] == ["name", "size", "price"]
        assert table.schema.types == case.table.schema.types
        assert table.column(0).null_count == 0


def test_one_pass_over_the_pages_gives_every_row_once(case: Case, master: Any) -> None:
    pages = [master.read_pages(page, 1) for page in range(master.page_count())]
    assert len(pages) > 3
    assert max(page.num_rows for page in pages) <= 4 * PAGE_ROWS
    assert as_set(pa.concat_tables(pages)) == as_set(case.table)


@pytest.mark.parametrize("step", [2, 5, 1_000])
def test_pages_read_together_are_the_pages_one_by_one(master: Any, step: int) -> None:
    count = master.page_count()
    together = [master.read_pages(first, min(step, count - first)) for first in range(0, count, step)]
    one_by_one = [master.read_pages(page, 1) for page in range(count)]
    assert pa.concat_tables(together).to_pylist() == pa.concat_tables(one_by_one).to_pylist()


def test_the_pages_that_hold_keys_have_their_rows_and_no_row_twice(case: Case, master: Any) -> None:
    rows, count = master.pages_holding(case.keys(0, 350, 351, 699, ROWS + 3))
    held = rows.to_pylist()
    assert len(held) == len(as_set(rows)) == len(set(as_set(rows)))
    for row in case.rows(0, 350, 351, 699):
        assert row in held
    assert 1 <= count <= 5


def test_keys_of_another_type_are_refused(case: Case, master: Any) -> None:
    other = pa.array([b"1"])  # none of the masters has a binary key
    with pytest.raises(KeyTypeMismatch, match="stream keys are binary"):
        master.lookup(other)
    with pytest.raises(KeyTypeMismatch):
        master.pages_holding(other)


def test_an_empty_master_answers_with_nothing(case: Case, adapter: Adapter, place: Place) -> None:
    with adapter(case.table.slice(0, 0), place) as master:
        assert master.lookup(case.keys(1, 2)).num_rows == 0
        assert master.page_count() == 0
        rows, count = master.pages_holding(case.keys(1))
        assert (rows.num_rows, count) == (0, 0)


@pytest.mark.parametrize("name", ["memory", "pages"])
def test_a_master_with_a_key_twice_is_refused(case: Case, name: str, place: Place) -> None:
    twice = pa.concat_tables([case.table, case.table.slice(7, 1)])
    with pytest.raises(DuplicateMasterKey, match="more than once"), ADAPTERS[name](twice, place):
        pass


# A primary key keeps out what the next two tests are about, so only tables without one are asked.
@pytest.mark.parametrize("name", ["postgres without an index", "delta"])
def test_a_master_read_in_place_refuses_a_key_twice_when_it_meets_it(case: Case, name: str, place: Place) -> None:
    twice = pa.concat_tables([case.table, case.table.slice(7, 1)])
    with ADAPTERS[name](twice, place) as master:
        for ask in (
            lambda: master.lookup(case.keys(7)),
            lambda: master.pages_holding(case.keys(3, 7)),
            lambda: master.read_pages(0, master.page_count()),
        ):
            with pytest.raises(DuplicateMasterKey, match="more than once"):
                ask()
        assert as_set(master.lookup(case.keys(6))) == as_set(case.rows(6))


@pytest.mark.parametrize("name", ["memory", "pages", "postgres without an index", "delta"])
def test_a_master_with_a_null_key_is_refused(case: Case, name: str, place: Place) -> None:
    last = case.keys(0)[0].as_py()
    null = last | {list(last)[-1]: None} if isinstance(last, dict) else None  # one part missing is enough
    broken = case.table.slice(0, 1).set_column(0, "key", pa.array([null], case.key_type))
    rows = pa.concat_tables([case.table.slice(1), broken])
    with pytest.raises(NullMasterKey, match="1 rows with a NULL key"), ADAPTERS[name](rows, place):
        pass
