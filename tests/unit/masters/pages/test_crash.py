"""A crash between any two steps leaves the last good version readable, and the next try works."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from etl.masters.pages import files
from etl.masters.pages.compact import compact
from etl.masters.pages.errors import PageDamaged
from etl.masters.pages.store import PageStore
from etl.settings import PROJECT
from tests.support.master_pages import NOW, SMALL, contents, files_of, publish, refresh, row, table

pytestmark = pytest.mark.slow

BEFORE = [row(number) for number in range(0, 300, 2)]
AFTER = [row(number) for number in range(0, 300, 2)] + [row(number) for number in range(300, 310)]
STEPS = ("sync", "rename", "sync_folder", "remove")


class Crash(BaseException):
    """Not an Exception: nothing may tidy up after it, as nothing does after a power cut."""


def crash_at(monkeypatch: pytest.MonkeyPatch, step: int, done: bool) -> list[str]:
    """Crash at the given step on the file system, before or after it is done. Gives the steps that were begun."""
    begun: list[str] = []

    def guarded(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            begun.append(name)
            if len(begun) == step + 1 and not done:
                raise Crash
            result = original(*arguments)
            if len(begun) == step + 1:
                raise Crash
            return result

        return call

    for name in STEPS:
        monkeypatch.setattr(files, name, guarded(name, getattr(files, name)))
    return begun


def publish_more(store: PageStore) -> None:
    publish(store, table([*range(0, 300, 2), *range(300, 310)]))


def publish_unsorted(store: PageStore) -> None:
    publish(store, table([*range(300, 310), *range(298, -1, -2)]), presorted=False)


def refresh_more(store: PageStore) -> None:
    refresh(store, table(range(300, 310)))


def fold(store: PageStore) -> None:
    compact(store, SMALL, clock=lambda: NOW)


@pytest.fixture
def store(tmp_path: Path) -> PageStore:
    store = PageStore(tmp_path / "customers")
    publish(store, table(range(0, 300, 2)))
    return store


@pytest.mark.parametrize("done", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("operation", [publish_more, publish_unsorted, refresh_more])
def test_a_crash_at_any_step_of_writing_leaves_a_whole_version(
    store: PageStore, operation: Callable[[PageStore], None], done: bool
) -> None:
    for step in range(1_000):
        with pytest.MonkeyPatch.context() as patch:
            begun = crash_at(patch, step, done)
            try:
                operation(PageStore(store.root))
            except Crash:
                pass
            else:
                break
        committed = "rename" in begun[1:] and begun.count("rename") == 2 and (done or begun[-1] != "rename")
        assert contents(PageStore(store.root)) == (AFTER if committed else BEFORE), f"after {begun}"
        if committed:
            PageStore(store.root)._path(2).unlink()  # start over from the first version
    assert step >= 5, "the crash was rehearsed at several steps"
    assert contents(PageStore(store.root)) == AFTER, "and the last try went through"


@pytest.mark.parametrize("done", [False, True], ids=["before", "after"])
def test_a_crash_at_any_step_of_compaction_changes_no_row(store: PageStore, done: bool) -> None:
    refresh(store, table([1, 4], "new"), deletes=[2, 6])
    truth = contents(store)
    for step in range(1_000):
        with pytest.MonkeyPatch.context() as patch:
            crash_at(patch, step, done)
            try:
                fold(PageStore(store.root))
            except Crash:
                assert contents(PageStore(store.root)) == truth
            else:
                break
    assert step >= 4
    assert not store.manifest().overlays
    assert contents(PageStore(store.root)) == truth


@pytest.mark.parametrize("done", [False, True], ids=["before", "after"])
def test_a_crash_at_any_step_of_collection_removes_nothing_that_is_named(store: PageStore, done: bool) -> None:
    for number in range(3):
        publish(store, table(range(number, 200)))
    truth = contents(store)
    for step in range(1_000):
        with pytest.MonkeyPatch.context() as patch:
            crash_at(patch, step, done)
            try:
                PageStore(store.root).collect(NOW, keep=1)
            except Crash:
                for version in store.versions():
                    assert contents(PageStore(store.root), version), "a version that is listed can be read"
            else:
                break
    assert step >= 4
    assert contents(PageStore(store.root)) == truth
    assert len(files_of(store.runs)) == 3, "one base: rows, index, and the marks of verified pages"


def test_a_manifest_gets_its_name_after_everything_it_names_is_on_disk(
    store: PageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = crash_at(monkeypatch, step=1_000, done=False)
    publish_more(store)
    rows, index, manifest = ["sync"], ["sync", "rename", "sync_folder"], ["sync", "rename", "sync_folder"]
    assert begun == rows + index + manifest


def test_what_is_not_on_disk_as_it_was_written_is_not_published(
    store: PageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = files.sync

    def sync_badly(descriptor: int) -> None:
        original(descriptor)
        if os.fstat(descriptor).st_size > 3_000:  # rows, not their index
            os.pwrite(descriptor, b"\xff", 3_000)

    with monkeypatch.context() as patch:
        patch.setattr(files, "sync", sync_badly)
        with pytest.raises(PageDamaged):
            publish_more(store)
    assert store.versions() == [1]
    assert contents(PageStore(store.root)) == BEFORE


def test_what_a_crash_leaves_behind_is_collected(store: PageStore, monkeypatch: pytest.MonkeyPatch) -> None:
    tidy = files_of(store.runs)
    with monkeypatch.context() as patch:
        crash_at(patch, 2, done=False)
        with pytest.raises(Crash):
            publish_unsorted(store)
    (store.root / "sorting-left").mkdir()
    assert files_of(store.runs) != tidy
    collected = store.collect(NOW)
    assert collected.files > 0
    assert files_of(store.runs) == tidy
    assert not list(store.root.glob("sorting-*"))


ENDLESS = """
import sys
from tests.support.master_pages import *
store, turn = PageStore(sys.argv[1]), 0
while True:
    turn += 1
    publish(store, table(range(turn % 50, 3000)), turn=turn)
    refresh(store, table(range(5000, 5100), f"turn {turn}"), turn=turn)
    store.collect(NOW, keep=3)
"""


def test_killing_a_publisher_leaves_a_version_that_adds_up(tmp_path: Path) -> None:
    root = tmp_path / "customers"
    store = PageStore(root)
    for wanted in (2, 5, 9):
        child = subprocess.Popen([sys.executable, "-c", ENDLESS, str(root)], cwd=PROJECT)
        try:
            deadline = time.monotonic() + 60
            while (store.current() or 0) < wanted and time.monotonic() < deadline:
                assert child.poll() is None, "the publisher ended by itself"
        finally:
            child.send_signal(signal.SIGKILL)
            child.wait()
        with PageStore(root).open() as view:
            rows = view.read_pages(0, view.page_count())
            turn = view.manifest.position["turn"]
            assert rows.num_rows == view.manifest.rows
            expected = 3000 - turn % 50 + (100 if view.manifest.overlays else 0)
            assert rows.num_rows == expected
    publish(store, table(range(5)))  # the lock died with its holder
    assert len(contents(store)) == 5
