"""Damaged master pages are refused with their name and a remedy, and never read as data."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from etl.errors import TerminalError
from etl.masters.pages import manifest as manifests
from etl.masters.pages.errors import (
    FormatTooNew,
    ManifestDamaged,
    NothingPublished,
    PageDamaged,
    RunDamaged,
    RunMissing,
    RunTruncated,
)
from etl.masters.pages.store import PageStore
from tests.support.master_pages import contents, publish, refresh, row, table

ROWS = 400


@pytest.fixture
def store(tmp_path: Path) -> PageStore:
    store = PageStore(tmp_path / "customers")
    publish(store, table(range(0, ROWS * 2, 2)))
    return store


def only(store: PageStore, pattern: str) -> Path:
    (path,) = store.root.glob(pattern)
    return path


def flip(path: Path, at: int, bits: int = 0x10) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= bits
    path.write_bytes(data)


def everything(store: PageStore) -> list[Any]:
    """All a reader can see, through every port."""
    with PageStore(store.root).open() as view:
        keys = pa.array(range(-1, ROWS * 2 + 1, 3))
        scanned = [view.read_pages(page, 1).to_pylist() for page in range(view.page_count())]
        holding, pages = view.pages_holding(keys.slice(0, 7))
        return [view.lookup(keys).to_pylist(), scanned, holding.to_pylist(), pages]


def test_no_flipped_byte_of_a_run_changes_what_is_read(store: PageStore) -> None:
    truth, path = everything(store), only(store, "runs/*.arrows")
    whole, refused = path.read_bytes(), 0
    for at in range(0, len(whole), 61):
        flip(path, at)
        try:
            assert everything(store) == truth, f"byte {at} was damaged, and believed"
        except TerminalError:
            refused += 1
        path.write_bytes(whole)
    assert refused > len(whole) / 61 / 2, "most bytes of a run are data"


def test_a_store_that_was_discarded_numbers_on_and_has_no_pins(store: PageStore) -> None:
    from datetime import UTC, datetime

    store.pin("somebody", datetime(2026, 1, 1, tzinfo=UTC))
    assert store.is_whole()
    path = only(store, "runs/*.arrows")
    flip(path, path.stat().st_size // 2)
    assert not PageStore(store.root).is_whole()
    store.discard()
    assert (store.versions(), store.pins.all(), store.is_whole()) == ([], [], True)
    with pytest.raises(NothingPublished):
        store.manifest()
    publish(store, table(range(4)))
    assert store.versions() == [2], "equal numbers mean equal rows"
    assert len(contents(store)) == 4


def test_a_lookup_is_not_misled_by_a_damaged_key_in_another_page(store: PageStore) -> None:
    path = only(store, "runs/*.arrows")
    whole = path.read_bytes()
    keys = pa.array(range(0, 256, 2), pa.int64()).buffers()[1].to_pybytes()
    start = whole.index(keys)  # the keys of the first segment, as they lie in the file
    with PageStore(store.root).open() as view:
        truth = {key: view.lookup(pa.array([key])).to_pylist() for key in range(-1, 259)}
    for number in (0, 31, 32, 63, 64, 65, 96, 127):  # where a search steps first
        for byte, bits in ((0, 0x10), (7, 0x10), (7, 0x80)):  # a little, far too large, far too small
            flip(path, start + 8 * number + byte, bits)
            for key in range(-1, 259, 9):
                try:
                    with PageStore(store.root).open() as view:
                        assert view.lookup(pa.array([key])).to_pylist() == truth[key]
                except (PageDamaged, RunDamaged):
                    pass
            path.write_bytes(whole)


def test_a_damaged_page_is_named_and_the_others_are_still_read(store: PageStore) -> None:
    path = only(store, "runs/*.arrows")
    flip(path, path.read_bytes().index(b"customer 0") + 3)
    with store.open() as view:
        with pytest.raises(PageDamaged, match=r"page 0 of run base-00000001-\w+ has a wrong checksum"):
            view.lookup(pa.array([2]))
        assert view.lookup(pa.array([200])).to_pylist() == [row(200)]
        with pytest.raises(PageDamaged):
            view.read_pages(0, 2)
        assert view.read_pages(2, 1).num_rows == 64


@pytest.mark.parametrize("left", [0, 1, 100, -1])
def test_a_truncated_run_is_refused(store: PageStore, left: int) -> None:
    path = only(store, "runs/*.arrows")
    path.write_bytes(path.read_bytes()[:left])
    with pytest.raises(RunTruncated, match=rf"{path.name} has \d+ bytes instead of \d+"):
        store.open()


def test_a_missing_run_is_refused(store: PageStore) -> None:
    only(store, "runs/*.arrows").unlink()
    with pytest.raises(RunMissing, match=r"base-00000001-\w+\.arrows is missing"):
        store.open()


def test_no_flipped_byte_of_an_index_is_believed(store: PageStore) -> None:
    path = only(store, "runs/*.index")
    whole = path.read_bytes()
    for at in range(0, len(whole), 37):
        flip(path, at)
        with pytest.raises(RunDamaged, match="wrong checksum of its index"):
            PageStore(store.root).open()
        path.write_bytes(whole)


def test_no_flipped_byte_of_a_manifest_is_believed(store: PageStore) -> None:
    path = only(store, "versions/*.json")
    whole, truth, refused = path.read_bytes(), store.manifest(), 0
    for at in range(0, len(whole), 7):
        flip(path, at)
        try:
            assert store.manifest() == truth, "white space is no data"
        except (ManifestDamaged, FormatTooNew):
            refused += 1
        path.write_bytes(whole)
    assert refused > 10


def test_removing_a_damaged_manifest_falls_back_to_the_version_before(store: PageStore) -> None:
    before = contents(store)
    refresh(store, table([1]))
    newest = max(store.root.glob("versions/*.json"))
    newest.write_text("{")
    with pytest.raises(ManifestDamaged, match="remove that file"):
        store.open()
    newest.unlink()
    assert contents(store) == before


def test_a_manifest_of_a_newer_format_is_refused_before_anything_else_of_it_is_read(store: PageStore) -> None:
    path = only(store, "versions/*.json")
    whole = json.loads(path.read_text())
    path.write_text(json.dumps({"crc32": 0, "manifest": {"format": manifests.FORMAT + 1, "runs": "other"}}))
    assert whole["manifest"]["format"] == manifests.FORMAT
    with pytest.raises(FormatTooNew, match=r"00000001\.json has format 2, this Frontstage reads formats up to 1"):
        store.open()


def test_a_store_without_a_version_says_so(tmp_path: Path) -> None:
    with pytest.raises(NothingPublished, match="'customers' has never been published"):
        PageStore(tmp_path / "customers").open()


def test_errors_survive_pickling_with_their_parts() -> None:
    error = pickle.loads(pickle.dumps(PageDamaged("customers", "base-1", 7)))
    assert isinstance(error, PageDamaged)
    assert error.args == ("customers", "base-1", 7)
    assert str(error) == str(PageDamaged("customers", "base-1", 7))
