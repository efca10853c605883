"""Master pages against a dict: whatever is published, refreshed, folded, pinned and collected, in any order."""

from __future__ import annotations

import shutil
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from etl.masters.pages import files
from etl.masters.pages.compact import compact
from etl.masters.pages.errors import VersionGone
from etl.masters.pages.publish import PublishConfig, Publisher
from etl.masters.pages.runs.writer import PageSize
from etl.masters.pages.store import PageStore
from etl.masters.pages.view import MasterPages
from etl.masters.source import Changes, Snapshot

pytestmark = pytest.mark.slow

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SMALL = PublishConfig(size=PageSize(page_rows=64, segment_rows=128), sort_bytes=8_192)

text = st.text(st.sampled_from("\0ab\x7fé漢"), max_size=4)
KINDS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "integer": (pa.int64(), st.one_of(st.integers(-50, 400), st.sampled_from([-(2**63), 2**63 - 1]))),
    "text": (pa.string(), st.one_of(text, st.integers(0, 400).map("customer {:03d}".format))),
    "composite": (pa.struct([("a", pa.int64()), ("b", pa.string())]), st.tuples(st.integers(-2, 9), text)),
}
Model = dict[Any, int | None]


def neighbour(kind: str, number: int) -> Any:
    return {
        "integer": number,
        "text": f"customer {number:03d}",
        "composite": (number // 60, f"{number:03d}"),
    }[kind]


def table_of(kind: str, rows: Model) -> pa.Table:
    key = KINDS[kind][0]
    keys = keys_of(kind, list(rows))
    columns = keys.flatten() if pa.types.is_struct(key) else [keys]
    names = ["a", "b"] if pa.types.is_struct(key) else ["id"]
    return pa.table([*columns, pa.array(list(rows.values()), pa.int32())], names=[*names, "value"])


def keys_of(kind: str, keys: list[Any]) -> pa.Array:
    key_type = KINDS[kind][0]
    if pa.types.is_struct(key_type):
        return pa.array([{"a": a, "b": b} for a, b in keys], key_type)
    return pa.array(keys, key_type)


def plain(table: pa.Table) -> list[tuple[Any, int | None]]:
    keys = table.column(0).to_pylist()
    keys = [tuple(key.values()) if isinstance(key, dict) else key for key in keys]
    return list(zip(keys, table.column("value").to_pylist(), strict=True))


def in_byte_order(key: Any) -> Any:
    if isinstance(key, tuple):
        return tuple(in_byte_order(part) for part in key)
    return key.encode() if isinstance(key, str) else key


class PagesAgainstADict(RuleBasedStateMachine):
    kind = "integer"

    @initialize(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="pages-"))
        self.store = PageStore(self.root / "master")
        self.model: Model = {}
        self.at: dict[int, Model] = {}  # every version there ever was
        self.held: list[MasterPages] = []
        self.pinned: dict[str, int] = {}
        self.moment = 0
        self.publish(data)

    def teardown(self) -> None:
        for view in getattr(self, "held", []):
            view.close()
        if hasattr(self, "root"):
            shutil.rmtree(self.root)

    @property
    def publisher(self) -> Publisher:
        return Publisher(self.store, SMALL, clock=lambda: NOW)

    def some_rows(self, data: st.DataObject, most: int) -> Model:
        """A few odd keys, and a stretch of neighbours long enough for several pages."""
        odd = data.draw(st.dictionaries(KINDS[self.kind][1], st.none() | st.integers(0, 9), max_size=20))
        start, count, step = data.draw(st.tuples(st.integers(0, 200), st.integers(0, most), st.integers(1, 3)))
        self.moment += 1
        return {neighbour(self.kind, number): self.moment for number in range(start, start + count, step)} | odd

    def became(self, model: Model) -> None:
        version = self.store.current()
        assert version is not None
        self.model = self.at[version] = model

    @rule(data=st.data())
    def publish(self, data: st.DataObject) -> None:
        rows = self.some_rows(data, 500)
        presorted = data.draw(st.booleans())
        if presorted:
            rows = dict(sorted(rows.items(), key=lambda row: in_byte_order(row[0])))
        table = table_of(self.kind, rows)
        self.moment += 1
        names = tuple(table.column_names[:-1])
        batches = table.to_batches(max_chunksize=data.draw(st.integers(1, 100)))
        self.publisher.publish(Snapshot(table.schema, names, batches, {"at": self.moment}, presorted))
        self.became(rows)

    @rule(data=st.data())
    def refresh(self, data: st.DataObject) -> None:
        upserts = self.some_rows(data, 200)
        known = st.sampled_from(sorted(self.model, key=in_byte_order)) if self.model else st.nothing()
        deletes = data.draw(st.lists(known | KINDS[self.kind][1], max_size=40))
        deletes = [key for key in deletes if key not in upserts]
        self.moment += 1
        keys = keys_of(self.kind, deletes)
        self.publisher.refresh(Changes(table_of(self.kind, upserts), keys, {"at": self.moment}))
        self.became({key: value for key, value in (self.model | upserts).items() if key not in deletes})

    @rule()
    def fold(self) -> None:
        manifest = compact(self.store, SMALL, clock=lambda: NOW)
        assert not manifest.overlays
        self.became(self.model)

    @rule(owner=st.sampled_from(["batch 1", "batch/2"]))
    def pin(self, owner: str) -> None:
        version = self.store.pin(owner, NOW)
        assert version == self.pinned.setdefault(owner, version), "an owner keeps the version it pinned first"

    @rule(owner=st.sampled_from(["batch 1", "batch/2"]))
    def unpin(self, owner: str) -> None:
        self.store.unpin(owner)
        self.pinned.pop(owner, None)

    @rule()
    def hold(self) -> None:
        self.held.append(self.store.open())

    @rule()
    def let_go(self) -> None:
        if self.held:
            self.held.pop(0).close()

    @rule(keep=st.integers(1, 3))
    def collect(self, keep: int) -> None:
        before = self.store.versions()
        needed = {*before[-keep:], *self.pinned.values(), *(view.version for view in self.held)}
        removed = set(self.store.collect(NOW, keep=keep).versions)
        assert removed == set(before) - needed, "what is needed stays, everything else goes"
        for version in removed:
            with pytest.raises(VersionGone):
                self.store.open(version)

    @rule()
    def forget_what_was_verified(self) -> None:
        self.store = PageStore(self.store.root)

    @invariant()
    def every_version_somebody_needs_reads_as_it_did(self) -> None:
        if not hasattr(self, "held"):
            return
        for view in self.held:
            assert_reads(self.kind, view, self.at[view.version])
        for version in {*self.pinned.values()}:
            with self.store.open(version) as view:
                assert_reads(self.kind, view, self.at[version])
        with self.store.open() as view:
            assert_reads(self.kind, view, self.model)
            assert view.manifest.rows == len(self.model)
            assert self.model == self.at[view.rows_version], "equal numbers mean equal rows"


def assert_reads(kind: str, view: MasterPages, model: Model) -> None:
    expected = sorted(model.items(), key=lambda row: in_byte_order(row[0]))
    pages = [view.read_pages(page, 1) for page in range(view.page_count())]
    assert [row for page in pages for row in plain(page)] == expected
    assert plain(view.read_pages(0, view.page_count())) == expected
    wanted = [*list(model)[::3], *absent(kind)]
    found = dict(plain(view.lookup(keys_of(kind, wanted))))
    assert found == {key: model[key] for key in wanted if key in model}
    rows, _ = view.pages_holding(keys_of(kind, wanted[:5]))
    assert {key for key, _ in plain(rows)} >= {key for key in wanted[:5] if key in model}


def absent(kind: str) -> list[Any]:
    """Keys that may or may not be there, around every edge."""
    return {
        "integer": [-(2**63), -51, 0, 7, 401, 2**63 - 1],
        "text": ["", "\0", "a", "customer 007", "customer 0075", "\U0010ffff"],
        "composite": [(-3, ""), (0, ""), (0, "\0"), (0, "\0a"), (5, "a"), (10, "zzz")],
    }[kind]


@pytest.mark.parametrize("kind", list(KINDS))
def test_pages_read_like_a_dict_after_any_history(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "sync", lambda descriptor: None)  # nothing crashes here, and disks are slow
    monkeypatch.setattr(files, "sync_folder", lambda folder: None)
    machine = type("Machine", (PagesAgainstADict,), {"kind": kind})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=20, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
