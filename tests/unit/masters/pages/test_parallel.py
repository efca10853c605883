"""Work on segments: in this thread while memory answers, in many once storage has to."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pyarrow as pa
import pytest

from etl.masters.pages import parallel
from etl.masters.pages.errors import PageDamaged
from etl.masters.pages.parallel import parallel_map
from etl.masters.pages.store import PageStore
from tests.support.master_pages import publish, refresh, table


def test_quick_work_stays_in_this_thread() -> None:
    assert set(parallel_map(lambda _: threading.get_ident(), range(50), lambda _: 1_000)) == {threading.get_ident()}


def test_once_work_is_slow_the_waits_overlap_and_the_order_stays() -> None:
    def slow(number: int) -> int:
        time.sleep(0.05)
        return number

    began = time.perf_counter()
    assert parallel_map(slow, range(17), lambda _: 1) == list(range(17))
    assert time.perf_counter() - began < 17 * 0.05 / 2


@pytest.fixture
def always_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "_SLOW_S", -1.0)


@pytest.mark.usefixtures("always_slow")
def test_lookups_that_wait_find_the_same_rows(tmp_path: Path) -> None:
    store = PageStore(tmp_path)
    publish(store, table(range(0, 20_000, 2)))
    refresh(store, table([4, 5, 9_000], "new"), [6])
    wanted = [*range(-3, 20_010, 3), 5, 6, 9_000]
    with store.open() as view:
        found = view.lookup(pa.array(wanted)).to_pylist()
    parallel._SLOW_S = 1.0
    with store.open() as view:
        assert found == view.lookup(pa.array(wanted)).to_pylist()
    assert {row["id"] for row in found} >= {5, 9_000, 12} - {6}


@pytest.mark.usefixtures("always_slow")
def test_damage_found_by_a_thread_is_told_as_any_other(tmp_path: Path) -> None:
    store = PageStore(tmp_path)
    publish(store, table(range(20_000)))
    (path,) = store.runs.glob("*.arrows")
    content = bytearray(path.read_bytes())
    content[-len(content) // 4] ^= 1
    path.write_bytes(content)
    with PageStore(tmp_path).open() as view, pytest.raises(PageDamaged):
        view.lookup(pa.array(range(20_000)))
