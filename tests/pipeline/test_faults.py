"""Faults that once lost or doubled events, each reproduced on real parts: raw files are the truth, counted here."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from etl import settings as configuration
from etl.adapters import ledger, postgres
from etl.adapters.delta.table import FilesMissing
from etl.contract.load import load
from etl.pipeline.inspection import inventory
from etl.pipeline.prepare import places_of
from etl.pipeline.process_state import process_state
from etl.pipeline.recover import NoteMissing
from etl.pipeline.steps import Steps
from etl.pipeline.tasks.in_process import InProcess
from etl.pipeline.tasks.plan import BatchPlan
from etl.pipeline.tasks.wire import Message
from etl.settings import Settings
from tests.support.backup import back_up, restore

PIPELINE = "orders"


@dataclass
class House:
    """One warehouse with its own database and clock."""

    settings: Settings
    dsn: str
    executor: Any = field(default_factory=InProcess)
    ahead: timedelta = timedelta(0)

    @property
    def landing(self) -> Path:
        return self.settings.var / "landing" / "orders"

    def steps(self) -> Steps:
        return Steps(self.settings, self.dsn, self.executor, clock=lambda: datetime.now(UTC) + self.ahead)

    def run(self) -> dict[str, Any]:
        return self.steps().whole(PIPELINE, "test", lambda _: None)

    def drain(self) -> int:
        """Run until there is nothing left to do; gives how many batches that took."""
        batches = 0
        while self.run()["batch"] is not None:
            batches += 1
        return batches

    def land(self, name: bytes | str, content: bytes) -> Path:
        self.landing.mkdir(parents=True, exist_ok=True)
        path = self.landing / os.fsdecode(name)
        path.write_bytes(content)
        return path

    def count(self) -> inventory.Inventory:
        process_state()._logs.clear()
        pipeline = load(self.settings.pipelines / f"{PIPELINE}.toml", self.settings.var)
        with ledger.reading(self.dsn, PIPELINE) as book:
            return inventory.take(pipeline, places_of(self.settings, pipeline), book, self.dsn)

    def keys(self) -> list[int]:
        table = DeltaTable(str(self.settings.warehouse / PIPELINE / "fact"))
        return sorted(table.to_pyarrow_table(columns=["order_id"])["order_id"].to_pylist())

    def query(self, text: str, *values: Any) -> list[Any]:
        with postgres.connect(self.dsn, autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute(text, values)
            return list(cursor.fetchall()) if cursor.description else []


@pytest.fixture
def house(database: str, session_home: Path, request: pytest.FixtureRequest) -> Iterator[House]:
    var = session_home / f"house-{abs(hash(request.node.nodeid))}"
    places = {name: var / name for name in ("warehouse", "archive", "master_pages")}
    made = House(configuration.load(var=var, **places), database)
    with postgres.connect(database, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(
            "insert into master.customers select i, 'c' || i, 'a', 'n', 'r' || i % 5, 's', 'p', 1 "
            "from generate_series(1, 50) i"
        )
        cursor.execute(
            "insert into master.products select i, 'p' || i, 'b', 'c', 1, 'box', 1 from generate_series(1, 9) i"
        )
    yield made
    shutil.rmtree(var, ignore_errors=True)


def lines(first: int, count: int) -> bytes:
    return b"".join(line(number) for number in range(first, first + count))


def line(number: int, **changes: Any) -> bytes:
    event = {
        "order_id": number,
        "customer_id": 1 + number % 50,
        "product_id": 1 + number % 9,
        "quantity": 1,
        "unit_price": 2.5,
        "ordered_at": "2026-11-01T10:00:00Z",
    }
    return json.dumps({**event, **changes}).encode() + b"\n"


def balanced(house: House) -> inventory.Inventory:
    counted = house.count()
    assert counted.faults == []
    return counted


# ── input that changes ─────────────────────────────────────────────────────────────────────────────────────────


class Meddling:
    """An executor that lets somebody touch the files while they are read."""

    def __init__(self, meddle: Callable[[int], None]) -> None:
        self._inner, self._meddle, self._runs = InProcess(), meddle, 0
        self.slots = self._inner.slots

    def run(self, plan: BatchPlan) -> list[Message]:
        self._runs += 1
        self._meddle(self._runs)
        return self._inner.run(plan)


def test_lines_appended_to_200_files_during_a_run_are_all_loaded(house: House) -> None:
    paths = [house.land(f"f{number}.jsonl", lines(number * 100 + 1, 10)) for number in range(200)]

    def append(run: int) -> None:
        if run == 1:
            for number, path in enumerate(paths):
                with path.open("ab") as file:
                    file.write(lines(number * 100 + 51, 10))

    house.executor = Meddling(append)
    house.drain()
    assert len(house.keys()) == 4_000
    assert balanced(house).raw_lines == 4_000


def test_a_half_written_line_waits_for_its_end(house: House) -> None:
    whole = lines(1, 3)
    path = house.land("slow.jsonl", whole[:-20])
    house.drain()
    assert house.keys() == [1, 2]
    with path.open("ab") as file:
        file.write(whole[-20:] + lines(4, 2))
    house.drain()
    assert house.keys() == [1, 2, 3, 4, 5]
    assert balanced(house).raw_lines == 5


def test_a_line_that_is_written_in_two_blocks_minutes_apart_is_one_event(house: House) -> None:
    whole = lines(1, 3)
    path = house.land("buffered.jsonl", whole[:-20])
    house.ahead = timedelta(minutes=30)
    house.drain()
    assert house.keys() == [1, 2]
    with path.open("ab") as file:
        file.write(whole[-20:])
    house.drain()
    assert house.keys() == [1, 2, 3]
    assert balanced(house).raw_lines == 3


def test_the_beginning_of_a_line_that_nobody_ends_is_refused_in_the_end(house: House) -> None:
    house.land("ended.jsonl", lines(1, 2)[:-20])
    house.ahead = timedelta(minutes=61)
    house.drain()
    assert house.keys() == [1]
    assert (balanced(house).raw_lines, balanced(house).quarantine) == (2, 1)


def test_a_last_line_without_an_end_counts_once_the_file_is_quiet(house: House) -> None:
    house.land("last.jsonl", lines(1, 2).rstrip(b"\n"))
    house.drain()
    house.ahead = timedelta(minutes=1)
    house.drain()
    assert house.keys() == [1, 2]
    assert balanced(house).raw_lines == 2


def test_a_file_replaced_while_it_is_read_is_read_as_what_it_is(house: House) -> None:
    path = house.land("same.jsonl", lines(1, 10))

    def replace_it(run: int) -> None:
        if run == 1:
            draft = path.with_name(".draft")
            draft.write_bytes(lines(101, 7))
            draft.rename(path)

    house.executor = Meddling(replace_it)
    house.land("other.jsonl", lines(500, 5))
    house.drain()
    assert house.keys() == [*range(101, 108), *range(500, 505)]
    assert balanced(house).raw_lines == 12


def test_a_file_truncated_while_it_is_read_is_read_as_far_as_it_goes(house: House) -> None:
    path = house.land("cut.jsonl", lines(1, 10))

    def truncate(run: int) -> None:
        if run == 1:
            path.write_bytes(lines(1, 4))

    house.executor = Meddling(truncate)
    house.drain()
    assert house.keys() == [1, 2, 3, 4]
    assert balanced(house).raw_lines == 4


def test_a_file_removed_while_it_is_read_holds_nothing_up(house: House) -> None:
    path = house.land("gone.jsonl", lines(1, 10))
    house.land("here.jsonl", lines(20, 2))

    def remove(run: int) -> None:
        with suppress(FileNotFoundError):
            path.unlink()

    house.executor = Meddling(remove)
    house.drain()
    assert house.keys() == [20, 21]


def test_a_name_used_again_is_a_new_file(house: House) -> None:
    house.land("daily.jsonl", lines(1, 5))
    house.drain()
    house.ahead = timedelta(minutes=5)
    house.run()  # the first one is quiet and put away
    house.land("daily.jsonl", lines(6, 5))
    house.drain()
    assert house.keys() == list(range(1, 11))
    assert balanced(house).raw_lines == 10


def test_a_file_rewritten_in_place_is_read_again(house: House) -> None:
    path = house.land("again.jsonl", lines(1, 5))
    house.drain()
    with path.open("r+b") as file:
        file.write(lines(11, 5))
        file.truncate()
    os.utime(path, ns=(1, 1_700_000_000_000_000_000))
    house.drain()
    assert house.keys() == [*range(1, 6), *range(11, 16)]


NAMES = [
    b"a:b.jsonl", b"new\nline.jsonl", b"caf\xe9\xff.jsonl", b"frontstage-error:gASVCw==:.jsonl", b"$(touch x).jsonl",
    b"quote'\"; drop table etl.batch.jsonl", "ünïcödé 🛒.jsonl".encode(), b" lead.jsonl", b"-rf.jsonl",
]  # fmt: skip


def test_names_may_hold_anything_a_file_system_allows(house: House, tmp_path: Path) -> None:
    for number, name in enumerate(NAMES):
        house.land(name, lines(number * 10 + 1, 2) + b"broken\n")
    house.drain()
    counted = balanced(house)
    assert (counted.fact, counted.quarantine) == (2 * len(NAMES), len(NAMES))
    house.ahead = timedelta(minutes=5)
    house.run()
    assert not list(house.landing.glob("*.jsonl")), "all of them were put away"
    assert balanced(house).raw_lines == 3 * len(NAMES)


def test_a_line_of_several_hundred_megabytes_is_refused_in_bounded_memory(house: House) -> None:
    house.landing.mkdir(parents=True)
    path = house.landing / "huge.jsonl"
    with path.open("wb") as file:
        file.write(lines(1, 2))
        for _ in range(300):
            file.write(b"x" * 2**20)
        file.write(b"\n" + lines(3, 2))
    house.settings = house.settings.model_copy(update={"batch_bytes": 2**30})
    house.drain()
    assert house.keys() == [1, 2, 3, 4]
    counted = balanced(house)
    assert (counted.raw_lines, counted.quarantine) == (5, 1)


# ── a ledger or a warehouse from another time ──────────────────────────────────────────────────────────────────


def _dump(house: House) -> str:
    """The state of ledger and mart, as a backup has it."""
    tables = ("etl.pipeline", "etl.batch", "etl.input_slice", "etl.claim_run", "etl.backlog_file", "etl.total",
              "mart.orders", "mart.daily_sales")  # fmt: skip
    return json.dumps(back_up(house.query, tables))


def _restore(house: House, dump: str) -> None:
    restore(house.query, json.loads(dump))
    process_state()._logs.clear()
    process_state().prepared.clear()


@pytest.mark.parametrize("lost", [1, 2, 5])
def test_a_ledger_from_before_the_last_batches_takes_them_up_again(house: House, lost: int) -> None:
    house.land("a.jsonl", lines(1, 10))
    house.drain()
    backup = _dump(house)
    for number in range(lost):
        house.land(f"b{number}.jsonl", lines(100 * (number + 1), 10) + line(90_000 + number, customer_id=777))
        house.drain()  # a busy machine takes less in at a time
    before = house.count()
    _restore(house, backup)
    house.drain()
    after = balanced(house)
    assert (after.fact, after.mart["orders"], after.backlog_open) == (before.fact, before.fact, lost)
    house.land("again.jsonl", lines(100, 10))  # the same events once more
    house.drain()
    assert len(house.keys()) == len(set(house.keys())) == before.fact
    assert balanced(house).duplicates == 10


def test_a_ledger_that_lost_batches_and_their_notes_is_refused(house: House) -> None:
    house.land("a.jsonl", lines(1, 10))
    house.drain()
    backup = _dump(house)
    house.land("b.jsonl", lines(100, 10))
    house.drain()
    _restore(house, backup)
    shutil.rmtree(house.settings.warehouse / PIPELINE / "_decisions")
    with pytest.raises(NoteMissing, match="hold batch 2, the ledger ends with batch 1"):
        house.run()


@pytest.mark.parametrize("lost", [1, 2])
def test_delta_from_before_the_ledger_gets_its_files_back(house: House, lost: int) -> None:
    fact = house.settings.warehouse / PIPELINE / "fact"
    house.land("a.jsonl", lines(1, 10))
    house.drain()
    kept = {path.name for path in (fact / "_delta_log").iterdir()}
    for number in range(lost):
        house.land(f"b{number}.jsonl", lines(100 * (number + 1), 10))
        house.run()
    for path in (fact / "_delta_log").iterdir():
        if path.name not in kept:
            path.unlink()
    process_state()._logs.clear()
    process_state().prepared.clear()
    house.drain()
    assert len(house.keys()) == 10 * (lost + 1)
    balanced(house)


def test_delta_from_before_the_ledger_without_its_files_is_refused(house: House) -> None:
    fact = house.settings.warehouse / PIPELINE / "fact"
    house.land("a.jsonl", lines(1, 10))
    house.drain()
    saved = house.settings.var / "fact-backup"
    shutil.copytree(fact, saved)
    house.land("b.jsonl", lines(100, 10))
    house.drain()
    shutil.rmtree(fact)
    shutil.move(saved, fact)
    process_state()._logs.clear()
    process_state().prepared.clear()
    with pytest.raises(FilesMissing, match="batch 2 was decided"):
        house.run()


# ── checks that must notice ────────────────────────────────────────────────────────────────────────────────────


def test_an_audit_notices_lost_lines_doubled_events_and_a_mart_that_differs(house: House) -> None:
    house.land("a.jsonl", lines(1, 20))
    house.drain()
    assert balanced(house).fact == 20
    (landed,) = house.landing.glob("*.jsonl")
    modified = landed.stat().st_mtime_ns
    with landed.open("ab") as file:
        file.write(b"")
    fact = house.settings.warehouse / PIPELINE / "fact"
    table = DeltaTable(str(fact))
    from deltalake import write_deltalake

    write_deltalake(table, table.to_pyarrow_table().slice(0, 3), mode="append")
    house.query("delete from mart.orders where order_id = 7")
    faults = " ".join(house.count().faults)
    assert "more than once" in faults
    assert "mart.orders has 19 rows" in faults
    assert "20 lines are in the raw files, 23 events are in a place" in faults
    assert landed.stat().st_mtime_ns == modified


def test_no_events_no_work(house: House) -> None:
    house.land("a.jsonl", lines(1, 3))
    house.drain()
    before = _dump(house)
    assert house.run()["batch"] is None
    assert json.loads(_dump(house))["etl.batch"] == json.loads(before)["etl.batch"]


def test_a_driver_does_not_grow_with_its_batches(house: House) -> None:
    import gc
    import tracemalloc

    import psutil

    process = psutil.Process()
    house.land("warm.jsonl", lines(1, 5))
    house.drain()

    def batches(first: int, count: int) -> None:
        for number in range(first, first + count):
            house.land(f"n{number}.jsonl", line(1_000 + number))
            house.steps().ingest(PIPELINE, "test", lambda _: None)
            house.query("update etl.batch set state = 'passed' where state = 'decided'")  # the audit has its own test
            house.steps().publish(PIPELINE, number + 2, lambda _: None)

    batches(0, 40)  # arenas, caches and compiled kernels find their size
    gc.collect()
    before = process.memory_info().rss
    batches(40, 40)
    gc.collect()
    grown = (process.memory_info().rss - before) / 40
    assert grown < 512 * 1024, f"{grown / 1024:.0f} KiB a batch"
    # Pages of memory come and go, but Python's own objects are counted exactly, NumPy's arrays among them.
    tracemalloc.start()
    try:
        batches(80, 5)
        gc.collect()
        before, _ = tracemalloc.get_traced_memory()
        batches(85, 10)
        gc.collect()
        grown = (tracemalloc.get_traced_memory()[0] - before) / 10
    finally:
        tracemalloc.stop()
    assert grown < 64 * 1024, f"{grown / 1024:.0f} KiB of objects a batch"
