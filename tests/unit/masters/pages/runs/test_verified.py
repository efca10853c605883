"""What was seen whole is remembered by all processes, and forgotten as soon as the file is another."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from etl.masters.pages.errors import PageDamaged
from etl.masters.pages.runs import verified
from etl.masters.pages.runs.run import Run
from etl.masters.pages.store import PageStore
from tests.support.master_pages import publish, table


@pytest.fixture
def run(tmp_path: Path) -> Path:
    path = tmp_path / "base.arrows"
    path.write_bytes(b"rows")
    return path


def test_marks_are_seen_by_other_processes(run: Path) -> None:
    marks = verified.marks_of(run, 5)
    assert not marks.any()
    program = "import sys, pathlib; from etl.masters.pages.runs import verified; \
        verified.marks_of(pathlib.Path(sys.argv[1]), 5)[3] = True"
    subprocess.run([sys.executable, "-c", program, str(run)], check=True)
    assert np.flatnonzero(marks).tolist() == [3]
    assert np.flatnonzero(verified.marks_of(run, 5)).tolist() == [3]


def test_a_file_that_was_written_to_begins_without_marks(run: Path) -> None:
    verified.mark_all(run, 5)
    assert verified.marks_of(run, 5).all()
    run.write_bytes(b"Rows")
    assert not verified.marks_of(run, 5).any()


def test_another_day_begins_without_marks(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    verified.mark_all(run, 5)
    tomorrow = time.time() + 86_400
    monkeypatch.setattr(verified.time, "time", lambda: tomorrow)
    assert not verified.marks_of(run, 5).any()


def test_where_nothing_can_be_written_a_process_has_its_own_marks(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> int:
        raise PermissionError

    monkeypatch.setattr(os, "open", refused)
    marks = verified.marks_of(run, 5)
    marks[2] = True
    assert np.flatnonzero(marks).tolist() == [2]


def test_published_pages_are_not_verified_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(PageStore(tmp_path), table(range(5_000)))
    paid: list[int] = []
    monkeypatch.setattr(Run, "_verify_page", lambda _, page: paid.append(page))
    with PageStore(tmp_path).open() as view:
        assert view.lookup(pa.array(range(0, 5_000, 7))).num_rows == len(range(0, 5_000, 7))
    assert paid == []


def test_damage_to_published_pages_is_noticed_by_whoever_opens_them_next(tmp_path: Path) -> None:
    store = PageStore(tmp_path)
    publish(store, table(range(5_000)))
    (path,) = store.runs.glob("*.arrows")
    content = path.read_bytes()
    at = content.index(b"name 4000") if b"name 4000" in content else len(content) // 2
    path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
    with PageStore(tmp_path).open() as view, pytest.raises(PageDamaged):
        view.lookup(pa.array(range(5_000)))
