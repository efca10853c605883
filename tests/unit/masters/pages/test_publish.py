"""Publishing and refreshing: what is refused, and that a refusal changes nothing."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from etl.columnar.errors import KeyTypeMismatch, KeyTypeUnsupported
from etl.enrich.errors import DuplicateMasterKey, NullMasterKey
from etl.errors import FrontstageError, SettingsError
from etl.masters.pages.errors import (
    ColumnMismatch,
    ColumnUnsupported,
    ContradictoryChange,
    KeysOutOfOrder,
    PositionMismatch,
)
from etl.masters.pages.publish import PublishConfig, Publisher
from etl.masters.pages.runs.sorting import sorted_tables
from etl.masters.pages.runs.writer import PageSize
from etl.masters.pages.store import PageStore
from etl.masters.source import Changes, Snapshot
from tests.support.master_pages import SCHEMA, SMALL, contents, files_of, publish, publisher, refresh, row, table


@pytest.fixture
def store(tmp_path: Path) -> PageStore:
    store = PageStore(tmp_path / "customers")
    publish(store, table(range(200)), at=1)
    return store


def with_ids(*ids: int | None) -> pa.Table:
    rows = table([0] * len(ids))
    return rows.set_column(0, "id", pa.array(ids, pa.int64()))


@pytest.mark.parametrize(
    ("rows", "presorted", "error", "words"),
    [
        (with_ids(1, 2, 2, 3), True, DuplicateMasterKey, "'customers' holds key 2 more than once"),
        (with_ids(3, 2, 1, 2), False, DuplicateMasterKey, "'customers' holds key 2 more than once"),
        (with_ids(*range(300), 299), True, DuplicateMasterKey, "key 299"),
        (with_ids(1, 3, 2), True, KeysOutOfOrder, "key 2 comes after 3"),
        (with_ids(*range(300), 7), True, KeysOutOfOrder, "key 7 comes after 299"),
        (with_ids(1, None, None), True, NullMasterKey, "holds 2 rows with a NULL key"),
        (with_ids(*range(300), None), False, NullMasterKey, "holds 1 rows with a NULL key"),
    ],
)
def test_rows_that_cannot_be_a_master_are_refused_and_the_good_version_stays(
    store: PageStore, rows: pa.Table, presorted: bool, error: type[FrontstageError], words: str
) -> None:
    before, files = contents(store), files_of(store.runs)
    with pytest.raises(error, match=words):
        publish(store, rows, presorted)
    assert (contents(store), files_of(store.runs), store.versions()) == (before, files, [1])
    assert not list(store.root.glob("sorting-*"))


def test_a_source_that_fails_halfway_changes_nothing(store: PageStore) -> None:
    def batches() -> object:
        yield from table(range(300)).to_batches()
        raise ConnectionError("gone")

    before = files_of(store.root)
    with pytest.raises(ConnectionError):
        publisher(store).publish(Snapshot(SCHEMA, ("id",), batches(), {}, False))  # type: ignore[arg-type]
    assert files_of(store.root) == before


@pytest.mark.parametrize(
    ("column", "error", "words"),
    [
        (pa.array([[1]]), ColumnUnsupported, "column 'extra' of type list<.*> cannot be kept in pages"),
        (pa.array([{"a": 1}]), ColumnUnsupported, "column 'extra' of type struct"),
        (pa.nulls(1), ColumnUnsupported, "column 'extra' of type null"),
    ],
)
def test_columns_that_are_not_flat_are_refused(
    store: PageStore, column: pa.Array, error: type[FrontstageError], words: str
) -> None:
    with pytest.raises(error, match=words):
        publish(store, table([1]).append_column("extra", column))


@pytest.mark.parametrize("key", [pa.array([1.5]), pa.array([1], pa.uint64()), pa.array([True])])
def test_keys_that_cannot_be_joined_are_refused(store: PageStore, key: pa.Array) -> None:
    with pytest.raises(KeyTypeUnsupported):
        publish(store, pa.table({"id": key}))


def test_a_key_column_that_is_not_there_is_named(store: PageStore) -> None:
    with pytest.raises(ColumnMismatch, match="column 'id' is absent, expected a key column"):
        publish(store, pa.table({"name": ["x"]}))


def test_integer_keys_of_any_width_and_dictionaries_become_plain(tmp_path: Path) -> None:
    store = PageStore(tmp_path / "small")
    rows = pa.table({"id": pa.array([1, 2], pa.int16()), "word": pa.array(["a", "b"]).dictionary_encode()})
    publish(store, rows)
    assert store.manifest().shape.schema == pa.schema([("id", pa.int64()), ("word", pa.string())])
    with store.open() as view:
        assert view.lookup(pa.array([2], pa.int32())).to_pylist() == [{"id": 2, "word": "b"}]


def test_keys_of_another_kind_are_refused_by_every_port(store: PageStore) -> None:
    with store.open() as view:
        with pytest.raises(KeyTypeMismatch, match="stream keys are string, master keys are int64"):
            view.lookup(pa.array(["1"]))
        with pytest.raises(KeyTypeMismatch):
            view.pages_holding(pa.array(["1"]))


def test_a_refresh_counts_new_changed_and_deleted_rows(store: PageStore) -> None:
    manifest = refresh(store, table([5, 500], "new"), deletes=[6, 7, 7, 999], at=2)
    assert (manifest.version, manifest.rows, manifest.position) == (2, 199, {"at": 2})
    assert (manifest.overlays[0].rows, manifest.overlays[0].tombstones) == (4, 2), "999 never was there"
    expected = {number: row(number) for number in range(200) if number not in (6, 7)}
    expected |= {5: row(5, "new"), 500: row(500, "new")}
    assert contents(store) == list(expected.values())


def test_a_deleted_row_can_come_back(store: PageStore) -> None:
    refresh(store, table([]), deletes=[5])
    assert refresh(store, table([5], "back")).rows == 200
    with store.open() as view:
        assert view.lookup(pa.array([5])).to_pylist() == [row(5, "back")]


def test_a_refresh_without_changes_only_moves_the_position(store: PageStore) -> None:
    files = files_of(store.runs)
    assert refresh(store, table([]), at=1).version == 1, "nothing new at all: no new version"
    manifest = refresh(store, table([7, 8]), deletes=[900], at=2)
    assert (manifest.version, manifest.rows_version, manifest.position) == (2, 1, {"at": 2})
    assert files_of(store.runs) == files


def test_rows_written_again_as_they_were_are_no_change(store: PageStore) -> None:
    manifest = refresh(store, pa.concat_tables([table([5, 10, 15]), table([11], "new")]), at=2)
    assert (manifest.version, manifest.rows_version) == (2, 2)
    assert manifest.overlays[0].rows == 1, "10 and 15 have a NULL in them, and had it before"
    to_null = table([11], "new").set_column(4, "nation", pa.nulls(1, pa.string()))
    assert refresh(store, to_null, at=3).rows_version == 3
    assert refresh(store, to_null, at=4).rows_version == 3


def test_a_refresh_writes_in_proportion_to_what_changed(tmp_path: Path) -> None:
    store = PageStore(tmp_path / "customers")
    publish(store, table(range(20_000)))
    base = store.manifest().base.bytes
    assert refresh(store, table([1], "new")).overlays[0].bytes < base / 500
    for marks in store.runs.glob("*.verified"):
        marks.unlink()
    with PageStore(store.root).open() as view:
        view.lookup(pa.array([77]))
        assert view.runs[0]._verified.sum() == 1, "one page of the base was read"


@pytest.mark.parametrize(
    ("upserts", "deletes", "error", "words"),
    [
        (with_ids(1, 2, 1), [], DuplicateMasterKey, "holds key 1 more than once"),
        (with_ids(1, 2), [2], ContradictoryChange, "key 2 is both written and deleted"),
        (with_ids(None), [], NullMasterKey, "NULL key"),
        (table([1]).set_column(0, "id", pa.array(["1"])), [], ColumnMismatch, "'id' is string, expected int64"),
        (table([1]).drop_columns(["nation"]), [], ColumnMismatch, "'nation' is absent, expected string"),
        (
            table([1]).set_column(2, "balance", pa.array([1.5])),
            [],
            ColumnMismatch,
            r"'balance' is double, expected decimal128\(12, 2\)",
        ),
    ],
)
def test_changes_that_make_no_sense_are_refused_and_change_nothing(
    store: PageStore, upserts: pa.Table, deletes: list[int], error: type[FrontstageError], words: str
) -> None:
    before = files_of(store.root)
    with pytest.raises(error, match=words):
        refresh(store, upserts, deletes)
    assert files_of(store.root) == before


def test_changes_read_from_another_position_are_refused(store: PageStore) -> None:
    changes = Changes(table([1]), pa.array([], pa.int64()), {"at": 3})
    with pytest.raises(PositionMismatch):
        publisher(store).refresh(changes, since={"at": 0})
    assert publisher(store).refresh(changes, since={"at": 1}).position == {"at": 3}


def test_refreshing_from_a_source_asks_it_from_where_the_store_is(store: PageStore) -> None:
    asked = []

    class Source:
        def snapshot(self) -> object:
            raise AssertionError("a refresh must not read the whole source")

        def changes(self, since: object) -> Changes:
            asked.append(since)
            return Changes(table([1], "new"), pa.array([], pa.int64()), {"at": 9})

    assert publisher(store).refresh_from(Source()).position == {"at": 9}  # type: ignore[arg-type]
    assert asked == [{"at": 1}]


def test_rows_in_any_order_are_sorted_through_spills_on_disk(tmp_path: Path) -> None:
    store = PageStore(tmp_path / "customers")
    numbers = np.random.default_rng(5).permutation(3_000)
    rows = table(numbers.tolist())
    assert rows.nbytes > 5 * SMALL.sort_bytes, "too much for the memory given"
    publish(store, rows, presorted=False)
    assert contents(store) == [row(number) for number in range(3_000)]


def test_many_tiny_batches_are_sorted_without_losing_any(tmp_path: Path) -> None:
    """Bits are rounded up to bytes in every batch: together the rows take less than the batches did."""
    rows = pa.table({"id": np.arange(3_000)[::-1], **{f"flag {i}": [None, True] * 1_500 for i in range(4)}})
    parts = [rows.slice(at, 1) for at in range(3_000)]
    ordered = pa.concat_tables(sorted_tables(parts, lambda part: part.column("id").combine_chunks(), 80_000, tmp_path))
    assert ordered.column("id").to_pylist() == list(range(3_000))


def test_an_empty_master_can_be_published_read_and_filled(tmp_path: Path) -> None:
    store = PageStore(tmp_path / "customers")
    publish(store, table([]))
    with store.open() as view:
        assert (view.page_count(), view.read_pages(0, 0).num_rows) == (0, 0)
        assert view.lookup(pa.array([1])).num_rows == 0
        assert view.pages_holding(pa.array([1]))[1] == 0
    refresh(store, table(range(150)))
    assert contents(store) == [row(number) for number in range(150)]


def test_a_run_is_an_arrow_stream_that_any_arrow_reads(store: PageStore) -> None:
    (path,) = store.runs.glob("*.arrows")
    with pa.memory_map(str(path)) as file:
        assert pa.ipc.open_stream(file).read_all().to_pylist() == contents(store)


def test_appended_keys_do_not_swell_the_last_page(store: PageStore) -> None:
    refresh(store, table(range(200, 2_000)))
    with store.open() as view:
        sizes = [view.read_pages(page, 1).num_rows for page in range(view.page_count())]
    assert sum(sizes) == 2_000
    assert max(sizes) <= 2 * SMALL.size.page_rows


def test_page_sizes_that_cannot_be_checksummed_apart_are_refused() -> None:
    with pytest.raises(SettingsError, match="page_rows=100 is not a positive multiple of 64"):
        PageSize(page_rows=100)


@pytest.mark.parametrize("batch_rows", [64, 640], ids=["small batches", "one batch"])
def test_wide_rows_make_smaller_segments(tmp_path: Path, batch_rows: int) -> None:
    store = PageStore(tmp_path / "wide")
    config = PublishConfig(size=PageSize(page_rows=64, segment_bytes=150_000))
    rows = pa.table({"id": range(640), "text": ["x" * 1_000] * 640, "sum": [Decimal("1.50")] * 640})
    Publisher(store, config).publish(Snapshot(rows.schema, ("id",), rows.to_batches(batch_rows), {}, True))
    with store.open() as view:
        assert [segment.rows for segment in view.runs[0].index.segments] == [128] * 5
        assert view.read_pages(0, view.page_count()).equals(rows)
