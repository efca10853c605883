"""Batches that take many steps while the master's pages are refreshed, folded and collected under them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from etl.enrich.batch import build
from etl.enrich.join import SemiStreamJoin
from etl.enrich.spec import JOINS
from etl.enrich.step import Step
from etl.masters.pages.compact import compact
from etl.masters.pages.store import PageStore
from etl.masters.pages.view import MasterPages
from tests.support.master_pages import NOW, publish, refresh, table

KEYS = np.random.default_rng(7).integers(0, 1_200, 4_000)


def join_of(name: str, view: MasterPages) -> SemiStreamJoin:
    return build(name, lookup=view, scan=view, index=view, budget_bytes=64 * 1024, lookup_tuples=200)


class Answers:
    """What a join has said so far, by ticket."""

    def __init__(self) -> None:
        self.names: dict[int, str | None] = {}

    def add(self, step: Step) -> None:
        for matches in step.matched:
            assert matches.rows is not None
            found = matches.rows.column("name").take(pa.array(matches.row)).to_pylist()
            self._put(dict(zip(matches.tickets.tolist(), found, strict=True)))
        self._put(dict.fromkeys(step.unmatched.tolist()))

    def _put(self, new: dict[int, str | None]) -> None:
        assert not self.names.keys() & new.keys(), "every tuple is answered once"
        self.names |= new


@pytest.mark.parametrize("name", JOINS)
def test_a_batch_sees_one_version_whatever_is_committed_meanwhile(name: str, tmp_path: Path) -> None:
    store, answers = PageStore(tmp_path / "customers"), Answers()
    publish(store, table(range(1_000)), at=0)
    events = {
        1: lambda: refresh(store, table(range(0, 1_100, 3), "changed"), range(1, 500, 3), at=1),
        2: lambda: compact(store),
        3: lambda: store.collect(NOW, keep=1),
    }
    with store.open() as view:
        join = join_of(name, view)
        join.offer(pa.array(KEYS))
        for number in range(10_000):
            if not join.pending:
                break
            events.pop(number, lambda: None)()
            answers.add(join.step())
    assert not events, "all of it happened while tuples were waiting"
    expected = [f"customer {key}" if key < 1_000 else None for key in KEYS.tolist()]
    assert [answers.names[ticket] for ticket in range(len(KEYS))] == expected


@pytest.mark.parametrize("name", JOINS)
def test_the_next_batch_sees_what_was_updated_inserted_and_deleted(name: str, tmp_path: Path) -> None:
    store, answers = PageStore(tmp_path / "customers"), Answers()
    publish(store, table(range(1_000)), at=0)
    refresh(store, table(range(0, 1_100, 3), "changed"), range(1, 500, 3), at=1)
    with store.open() as view:
        join = join_of(name, view)
        join.offer(pa.array(KEYS))
        while join.pending:
            answers.add(join.step())

    def now(key: int) -> str | None:
        if key < 1_100 and key % 3 == 0:
            return f"changed {key}"
        return None if key >= 1_000 or (key < 500 and key % 3 == 1) else f"customer {key}"

    assert [answers.names[ticket] for ticket in range(len(KEYS))] == [now(key) for key in KEYS.tolist()]
