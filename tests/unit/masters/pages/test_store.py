"""Versions, pins and collection: what somebody needs stays, what nobody needs goes."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from etl.masters.pages import compact as compaction
from etl.masters.pages.compact import CompactWhen, compact
from etl.masters.pages.errors import ColumnMismatch, StoreBusy, VersionGone
from etl.masters.pages.store import PageStore
from etl.masters.source import Snapshot
from etl.settings import PROJECT
from tests.support.master_pages import NOW, SMALL, contents, files_of, publish, publisher, refresh, row, table


@pytest.fixture
def store(tmp_path: Path) -> PageStore:
    store = PageStore(tmp_path / "customers")
    publish(store, table(range(200)), at=1)
    return store


def test_a_reader_keeps_its_version_while_others_are_published(store: PageStore) -> None:
    with store.open() as view:
        publish(store, table(range(5), "other"))
        assert view.version == 1
        assert view.lookup(pa.array([3])).to_pylist() == [row(3)]
    assert contents(store) == [row(number, "other") for number in range(5)]


def test_versions_open_anywhere_or_pinned_are_not_collected(store: PageStore) -> None:
    assert store.pin("batch 7", NOW) == 1
    publish(store, table(range(1)))
    reader = PageStore(store.root).open()  # as another worker would
    publish(store, table(range(2)))
    publish(store, table(range(3)))
    assert store.collect(NOW, keep=1).versions == (3,)
    assert store.versions() == [1, 2, 4]
    reader.close()
    store.unpin("batch 7")
    assert store.collect(NOW, keep=1).versions == (1, 2)
    assert store.collect(NOW, keep=1).versions == ()


READER = """
import sys
from etl.masters.source import Snapshot
from etl.masters.pages.store import PageStore
view = PageStore(sys.argv[1]).open()
print(view.version, flush=True)
sys.stdin.read()
"""


def test_a_version_open_in_another_process_is_not_collected_until_that_process_ends(store: PageStore) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", READER, str(store.root)],
        cwd=PROJECT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "1\n"
    publish(store, table(range(1)))
    assert store.collect(NOW, keep=1).versions == ()
    child.kill()
    child.communicate()
    assert store.collect(NOW, keep=1).versions == (1,)


def test_a_retried_owner_gets_the_version_it_pinned_first(store: PageStore) -> None:
    assert store.pin("batch 7", NOW) == 1
    publish(store, table(range(1)))
    assert PageStore(store.root).pin("batch 7", NOW) == 1
    assert store.pin("batch 8", NOW) == 2
    assert [(pin.owner, pin.version) for pin in store.pins.all()] == [("batch 7", 1), ("batch 8", 2)]


def test_pins_of_owners_that_never_came_back_count_no_more_after_a_while(store: PageStore) -> None:
    store.pin("batch 7", NOW)
    publish(store, table(range(1)))
    later = NOW + timedelta(days=8)
    assert store.collect(NOW + timedelta(days=6), keep=1, pins_for=timedelta(days=7)).versions == ()
    assert store.collect(later, keep=1, pins_for=timedelta(days=7)).versions == (1,)


def test_a_version_that_is_gone_cannot_be_opened_or_pinned(store: PageStore) -> None:
    publish(store, table(range(1)))
    store.collect(NOW, keep=1)
    with pytest.raises(VersionGone, match="no version 1 any more"):
        store.open(1)
    with pytest.raises(VersionGone):
        store.pin("batch 7", NOW, version=1)
    assert store.pins.all() == []


def test_tables_handed_out_stay_readable_after_their_files_are_removed(store: PageStore) -> None:
    with store.open() as view:
        rows = view.read_pages(0, 1)
    publish(store, table([]))
    store.collect(NOW, keep=1)
    assert not list(store.runs.glob("base-00000001*"))
    assert rows.to_pylist() == [row(number) for number in range(64)]


def test_runs_that_versions_share_are_collected_with_the_last_of_them(store: PageStore) -> None:
    refresh(store, table([500]))
    store.collect(NOW, keep=1)
    assert store.versions() == [2]
    assert len(contents(store)) == 201
    compact(store, SMALL)
    store.collect(NOW, keep=1)
    assert len(files_of(store.runs)) == 3, "one base: rows, index, and the marks of verified pages"
    assert len(contents(store)) == 201


def test_two_publishers_at_once_get_one_clear_refusal(store: PageStore) -> None:
    with (
        store.writing(0.0),
        pytest.raises(StoreBusy, match="'customers' is being written by another process"),
    ):
        publish(PageStore(store.root), table(range(1)))
    publish(store, table(range(1)))


def test_a_process_verifies_a_page_once_even_across_versions(store: PageStore) -> None:
    with store.open() as view:
        view.lookup(pa.array([3]))
        (base,) = view.runs
    refresh(store, table([500]))
    with store.open() as view:
        assert view.runs[0] is base, "what was verified is remembered with the run"


@pytest.mark.parametrize("key", ["id", "name"])
def test_keys_are_searched_in_the_mapped_file_and_not_loaded(tmp_path: Path, key: str) -> None:
    store = PageStore(tmp_path / "customers")
    rows = table(range(1_000, 6_000)).select([key, "nation"])
    publisher(store).publish(Snapshot(rows.schema, (key,), rows.to_batches(), {}, presorted=True))
    with PageStore(store.root).open() as view:
        before = pa.total_allocated_bytes()
        view.lookup(rows.column(0).combine_chunks())
        assert pa.total_allocated_bytes() == before
        assert len(view.runs[0]._opened) == 40, "and every segment was read"


def test_only_the_columns_asked_for_are_handed_out(store: PageStore) -> None:
    refresh(store, table([1], "new"), deletes=[2])
    with store.open(columns=["nation", "name"]) as view:
        assert view.schema.names == ["id", "nation", "name"]
        assert view.lookup(pa.array([1, 2])).to_pylist() == [{"id": 1, "nation": "nation 1", "name": "new 1"}]
        assert view.read_pages(0, 1).schema == view.schema
        assert view.lookup(pa.array([], pa.int64())).schema == view.schema
    with pytest.raises(ColumnMismatch, match="column 'shoe_size' is absent"):
        store.open(columns=["shoe_size"])


def test_looking_up_with_the_kernel_told_not_to_read_ahead_gives_the_same(store: PageStore) -> None:
    with PageStore(store.root).open(random_access=True) as view:
        assert view.lookup(pa.array([3])).to_pylist() == [row(3)]


def test_compaction_keeps_what_was_refreshed_meanwhile(store: PageStore, monkeypatch: pytest.MonkeyPatch) -> None:
    refresh(store, table(range(20), "first"), at=2)
    refresh(store, table([7], "second"), deletes=[8], at=3)
    written = compaction.write_run

    def write_while_others_refresh(*arguments: object) -> object:
        entry = written(*arguments)
        refresh(PageStore(store.root), table([7, 300], "third"), deletes=[9], at=4)  # folds the second in
        assert store.collect(NOW, keep=1).files == 0, "files of a compaction at work are not collected"
        return entry

    monkeypatch.setattr(compaction, "write_run", write_while_others_refresh)
    manifest = compact(store, SMALL)
    assert (manifest.base.rows, len(manifest.overlays), manifest.position) == (199, 1, {"at": 4})
    assert (manifest.version, manifest.rows_version) == (5, 4), "compaction changes no row"
    expected = {number: row(number, "first" if number < 20 else "customer") for number in range(200)}
    expected |= {7: row(7, "third"), 300: row(300, "third")}
    assert contents(store) == [value for key, value in sorted(expected.items()) if key not in (8, 9)]
    assert manifest.rows == len(contents(store))


def test_compaction_gives_way_to_a_new_base(store: PageStore, monkeypatch: pytest.MonkeyPatch) -> None:
    refresh(store, table([7], "new"))
    written = compaction.write_run

    def write_while_others_publish(*arguments: object) -> object:
        entry = written(*arguments)
        publish(PageStore(store.root), table(range(3), "republished"))
        return entry

    monkeypatch.setattr(compaction, "write_run", write_while_others_publish)
    compact(store, SMALL)
    assert contents(store) == [row(number, "republished") for number in range(3)]


def test_compaction_is_due_when_overlays_are_many_or_large(store: PageStore) -> None:
    assert not CompactWhen().due(store.manifest())
    refresh(store, table(range(20), "new"))
    assert not CompactWhen(share_of_base=0.1).due(store.manifest())
    refresh(store, table(range(20, 22), "new"))
    assert CompactWhen(share_of_base=0.1).due(store.manifest())
    assert CompactWhen(overlays=1, share_of_base=1.0).due(store.manifest())
    assert not CompactWhen(overlays=2, share_of_base=1.0).due(store.manifest())


def test_many_small_refreshes_leave_few_overlays(store: PageStore) -> None:
    for turn in range(64):
        refresh(store, table([turn], f"turn {turn}"))
    assert len(store.manifest().overlays) <= 7
    assert contents(store)[:64] == [row(turn, f"turn {turn}") for turn in range(64)]
