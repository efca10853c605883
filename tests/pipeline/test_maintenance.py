"""Maintenance on real files, Postgres and Delta: what goes, what stays, and that the books still balance."""

from __future__ import annotations

import json
import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from etl.adapters import ledger
from etl.adapters.claims import FAN_IN
from etl.errors import AuditFailed, Busy, TerminalError
from etl.pipeline.prepare import audit_of
from etl.pipeline.recover import HistoryForgotten
from etl.pipeline.upkeep.maintenance import Keep
from tests.support.backups import Backup
from tests.support.desk import says
from tests.support.site import STRICT, Ended, Site, order, quiet

LATER = timedelta(days=40)


class Recorded:
    """Delta's maintenance, as far as a test without Spark can follow it."""

    def __init__(self) -> None:
        self.optimized: list[str] = []
        self.vacuumed: list[str] = []

    def optimize(self, folder: Path) -> None:
        self.optimized.append(folder.name)

    def vacuum(self, folder: Path, keep: timedelta) -> None:
        assert keep >= timedelta(days=7)
        self.vacuumed.append(folder.name)


def maintain(site: Site, tables: Recorded | None = None, *, days: int = 30, dry_run: bool = False) -> dict[str, Any]:
    return site.steps.maintain(site.pipeline, Keep(timedelta(days=days), dry_run), tables, quiet)


def age(path: Path, by: timedelta = LATER) -> None:
    at = (datetime.now(UTC) - by).timestamp()
    os.utime(path, (at, at))


def age_all(site: Site) -> None:
    """Everything that is beside the tables of a pipeline becomes old."""
    for path in (site.settings.warehouse / site.pipeline).rglob("*"):
        if path.is_file() and "_delta_log" not in path.parts:
            age(path)


def load(site: Site, *numbers: int, name: str | None = None) -> Path:
    path = site.land(name or f"f{numbers[0]}.jsonl", *map(order, numbers))
    assert site.run() is not None
    return path


def line(number: int) -> bytes:
    return json.dumps(order(number)).encode() + b"\n"


def archived(site: Site) -> list[Path]:
    return sorted(path for path in site.places.archive.rglob("*") if path.is_file())


def archive_all(site: Site) -> None:
    """Let everything that is consumed be quiet and go to the archive."""
    site.later(timedelta(minutes=5)).run()


def test_files_of_a_try_that_was_not_decided_go_and_those_of_tables_stay(site: Site) -> None:
    for number in range(1, 21):  # more files than a handful, so that names are compared as in large tables
        load(site, number)
    folder = site.settings.warehouse / site.pipeline / "fact"
    live = sorted(folder.glob("*.parquet"))
    garbage = folder / "part-000000021-deadbeef-00000.parquet"
    garbage.write_bytes(b"a try that ended early")
    for path in (*live, garbage):
        age(path)
    result = maintain(site)
    assert result["garbage"]["files"] >= 1
    assert sorted(folder.glob("*.parquet")) == live
    assert site.inventory().faults == []


def test_what_a_try_may_still_be_writing_stays(site: Site) -> None:
    load(site, 1)
    fresh = site.settings.warehouse / site.pipeline / "fact" / "part-000000002-deadbeef-00000.parquet"
    fresh.write_bytes(b"half of it")
    maintain(site)
    assert fresh.exists()


def test_a_dry_run_says_what_would_go_and_takes_nothing(site: Site) -> None:
    load(site, 1)
    garbage = site.settings.warehouse / site.pipeline / "fact" / "part-000000002-deadbeef-00000.parquet"
    garbage.write_bytes(b"a try that ended early")
    age(garbage)
    tables = Recorded()
    assert maintain(site, tables, dry_run=True)["garbage"] == {"files": 1, "bytes": len(b"a try that ended early")}
    assert garbage.exists()
    assert (tables.optimized, tables.vacuumed) == ([], [])


def test_a_held_batch_loses_nothing_however_long_it_is_held(site: Site) -> None:
    site.land("a.jsonl", order(1))
    batch = site.decide()
    assert batch is not None
    with site.writing() as run:
        run.ledger.record_audit(batch, "held", {"success": False, "expectations": []})
    for path in (site.settings.warehouse / site.pipeline).rglob("*part-*"):
        age(path)
    tables = Recorded()
    maintain(site.later(LATER), tables)
    assert tables.vacuumed == [], "its files are in no table's log yet"
    site.step("ingest", release=batch)
    site.step("audit", batch)
    site.step("publish", batch)
    assert site.totals()["fact"] == 1


@pytest.mark.parametrize("word", ["released", "rejected"])
def test_a_batch_that_was_held_for_long_can_be_judged_and_its_corrections_are_there(site: Site, word: str) -> None:
    strict = site.redeclared(("grace =", 'after_grace = "unknown"\ngrace ='), add=STRICT)
    strict.land("a.jsonl", order(1, customer_id=77, quantity=1))
    strict.run()
    strict.later(timedelta(days=8)).run()
    arrive(strict, 77)
    strict.land("b.jsonl", order(2))
    with pytest.raises(AuditFailed):
        strict.run()
    age_all(strict)
    maintain(strict.later(LATER), Recorded())
    says(strict, 3, word)
    assert strict.run() == 3
    strict.land("c.jsonl", order(3, quantity=1))
    assert strict.run() == 4
    counted = strict.inventory()
    assert (counted.faults, counted.fact, counted.quarantine) == ([], *((3, 0) if word == "released" else (2, 1)))
    assert strict.execute("select sum(orders) from mart.daily_sales") == [(counted.fact,)]


def test_a_ledger_restored_from_before_a_long_held_batch_was_loaded_finds_what_loading_it_takes(
    site: Site, backup: Backup
) -> None:
    strict = site.redeclared(add=STRICT)
    strict.land("a.jsonl", order(1))
    with pytest.raises(AuditFailed):
        strict.run()
    age_all(strict)
    restore = backup(strict)
    says(strict, 1, "released")
    held = timedelta(days=8)
    strict.later(held).run()
    maintain(strict.later(held))
    older = restore().later(held)
    older.land("b.jsonl", order(2, quantity=1))
    older.run()
    assert (older.inventory().faults, older.inventory().fact) == ([], 2)


def test_a_ledger_restored_from_before_claims_were_merged_finds_the_runs_it_names(site: Site, backup: Backup) -> None:
    for number in range(1, FAN_IN):
        load(site, number)
    for path in site.places.claims.iterdir():
        age(path)
    restore = backup(site)
    load(site, FAN_IN)
    assert len(list(site.places.claims.iterdir())) == FAN_IN + 1, "they were merged"
    maintain(site)
    older = restore()
    older.land("again.jsonl", *map(order, range(1, FAN_IN + 1)))
    older.run()
    assert (older.inventory().faults, older.inventory().fact, older.inventory().duplicates) == ([], FAN_IN, FAN_IN)


def test_files_that_an_unfinished_batch_settles_are_not_compacted(site: Site, backup: Backup) -> None:
    for number in range(1, 19):
        site.land(f"f{number}.jsonl", order(number, customer_id=77))
        site.run()
    restore = backup(site)
    arrive(site, 77)
    assert site.decide() == 19
    files = set(backlog_files(site))
    assert len(files) == 18
    maintain(site)
    older = restore()
    assert set(backlog_files(older)) == files, "the ledger may be restored to where their events still wait"
    arrive(older, 77)
    older.run()
    assert (older.inventory().faults, older.inventory().fact) == ([], 18)
    assert maintain(older)["optimized"] == ["backlog"]
    assert (len(backlog_files(older)), older.inventory().faults) == (1, [])


def test_tables_of_many_files_are_compacted_and_of_the_backlog_those_in_which_no_event_waits(site: Site) -> None:
    for number in range(1, 19):
        site.land(f"f{number}.jsonl", order(number), order(1000 + number, customer_id=998 + number % 2))
        site.run()
    tables = Recorded()
    assert maintain(site, tables)["optimized"] == ["fact"], "an event waits in every file of the backlog"
    assert "backlog" not in tables.optimized, "OPTIMIZE would take files whose names the ledger has"
    assert {"fact", "quarantine", "backlog", "dim_customer", "dim_product"} <= set(tables.vacuumed)

    for number, name in enumerate(["wait.jsonl", "more.jsonl"]):
        site.land(name, *(order(2000 + 100 * number + one, customer_id=999) for one in range(5)))
        site.run()
    before = site.rows("backlog").sort_by("order_id")
    arrive(site, 999)
    site.run()
    files = len(backlog_files(site))
    assert maintain(site)["optimized"] == [], "nine and two files are not many"
    arrive(site, 998)
    site.run()
    waiting = site.land("last.jsonl", order(3000, customer_id=997))
    site.run()
    assert maintain(site, dry_run=True)["optimized"] == ["backlog"]
    assert len(backlog_files(site)) == files + 1
    assert maintain(site)["optimized"] == ["backlog"]
    assert len(backlog_files(site)) == 2, "the settled ones as one, and the one that is waited in"
    after = site.rows("backlog").sort_by("order_id")
    assert after.slice(0, before.num_rows).equals(before.select(after.column_names))
    assert site.inventory().faults == []
    site.restarted()
    arrive(site, 997)
    site.run()
    assert (site.totals()["backlog_open"], site.inventory().faults, waiting.exists()) == (0, [], True)


def arrive(site: Site, customer: int) -> None:
    site.execute(
        "insert into master.customers values (%s, 'Late', 'Road', 'FRANCE', 'EUROPE', 'MACHINERY', '+1', 5)", customer
    )


def backlog_files(site: Site) -> list[str]:
    return list(DeltaTable(str(site.settings.warehouse / site.pipeline / "backlog")).file_uris())


def test_old_archived_input_goes_and_the_count_from_raw_files_still_adds_up(site: Site) -> None:
    load(site, 1, 2, 3)
    archive_all(site)
    assert len(archived(site)) == 1
    load(site, 4)
    result = maintain(site.later(LATER))
    assert result["archive"]["files"] == 1
    assert archived(site) == []
    assert site.inventory().faults == []
    assert site.inventory().raw_lines == 4


def test_lines_of_input_that_was_removed_after_a_backup_still_count_when_it_is_restored(
    site: Site, backup: Backup
) -> None:
    load(site, 1, 2)
    archive_all(site)
    restore = backup(site)
    maintain(site.later(LATER))
    assert archived(site) == []
    older = restore()
    assert (older.inventory().faults, older.inventory().raw_lines) == ([], 2)
    maintain(older.later(LATER))
    assert older.inventory().faults == []


def test_an_archive_that_was_counted_but_not_yet_removed_is_not_counted_twice(site: Site) -> None:
    load(site, 1, 2)
    archive_all(site)
    (path,) = archived(site)
    with site.writing() as run:
        run.ledger.remove_archive(path.parent.name, 2)
    assert site.inventory().faults == [], "the process ended between the note and the removal"
    maintain(site.later(LATER))
    assert site.inventory().faults == []


def test_old_batches_are_forgotten_except_those_that_read_a_file_still_there(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("etl.pipeline.upkeep.retention._NEWEST_KEPT", 1)
    load(site, 1)
    archive_all(site)
    load(site, 2)  # stays where it landed
    load(site, 3)
    assert maintain(site.later(LATER))["batches_forgotten"] == 1
    with ledger.reading(site.dsn, site.pipeline) as book:
        assert [record.batch for record in book.history(10)] == [2, 3]
    load(site, 4)
    assert site.totals()["fact"] == 4
    assert site.inventory().faults == []


def test_young_batches_and_batches_that_are_not_loaded_are_never_forgotten(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("etl.pipeline.upkeep.retention._NEWEST_KEPT", 1)
    load(site, 1)
    archive_all(site)
    load(site, 2)
    assert maintain(site)["batches_forgotten"] == 0


def test_a_warehouse_from_before_what_the_ledger_remembers_is_refused(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("etl.pipeline.upkeep.retention._NEWEST_KEPT", 1)
    load(site, 1)
    log = site.settings.warehouse / site.pipeline / "fact" / "_delta_log"
    shutil.copytree(log, tmp_path / "backup")
    for number in (2, 3, 4):
        load(site, number)
    archive_all(site)
    load(site, 5)
    assert maintain(site.later(LATER))["batches_forgotten"] == 4
    shutil.rmtree(log)
    shutil.copytree(tmp_path / "backup", log)
    site.land("next.jsonl", order(6))
    with pytest.raises(HistoryForgotten, match="the ledger remembers batches from 5 on"):
        site.restarted().run()


def test_a_file_that_grew_after_it_was_archived_is_read_on(site: Site) -> None:
    path = load(site, 1, 2)
    writer = path.open("ab")  # somebody who is not done with it
    archive_all(site)
    assert not path.exists()
    writer.write(line(3) + line(4))
    writer.close()
    later = site.later(timedelta(minutes=10))
    assert maintain(later, dry_run=True)["landed_again"] == 1
    assert maintain(later)["landed_again"] == 1
    assert path.exists()
    assert later.run() is not None
    assert site.totals()["lines"] == 4
    assert site.totals()["duplicates"] == 0
    assert site.inventory().faults == []
    assert maintain(later)["landed_again"] == 0


def test_a_file_that_grew_long_after_it_was_archived_is_read_on(site: Site) -> None:
    path = load(site, 1)
    writer = path.open("ab")  # somebody who sends an event a month
    archive_all(site)
    (there,) = archived(site)
    month = timedelta(days=29)
    there.parent.rename(there.parent.with_name(f"{datetime.now(UTC) - month:%Y-%m-%d}"))
    writer.write(line(2))
    writer.close()
    assert maintain(site)["landed_again"] == 1
    assert site.run() is not None
    assert (site.totals()["fact"], site.totals()["duplicates"], site.inventory().faults) == (2, 0, [])


def test_a_file_that_was_to_land_again_when_the_process_ended_lands_the_next_time(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = load(site, 1)
    writer = path.open("ab")
    archive_all(site)
    writer.write(line(2))
    writer.close()
    load(site, 3, name=path.name)  # stays for a while

    def end(*_: object) -> None:
        raise Ended("between the ledger and the rename")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", end)
        with pytest.raises(Ended):
            maintain(site)
    assert maintain(site)["landed_again"] == 1
    assert site.run() is not None
    assert (site.totals()["fact"], site.totals()["duplicates"], site.inventory().faults) == (3, 0, [])


def test_a_grown_file_whose_name_is_taken_lands_under_another(site: Site) -> None:
    path = load(site, 1)
    writer = path.open("ab")
    archive_all(site)
    writer.write(line(2))
    writer.close()
    later = site.later(timedelta(minutes=10))
    load(later, 3, name=path.name)
    maintain(later)
    assert later.run() is not None
    assert site.totals()["lines"] == site.totals()["fact"] == 3
    assert site.inventory().faults == []


def test_reports_results_of_audits_and_data_docs_go_when_they_are_old(site: Site) -> None:
    for number in (1, 2, 3):
        load(site, number)
        site.step("report", number)
    roots = (site.settings.reports / site.pipeline, *audit_of(site.settings).folders(site.pipeline))
    kept = []
    for root in roots:
        *old, newest = sorted((path for path in root.iterdir() if path.is_dir()), key=lambda path: path.name)
        assert (len(old), newest.name[-1]) == (2, "3"), root
        for folder in old:
            age(folder)
        kept.append([newest])
    maintain(site)
    assert [[path for path in root.iterdir() if path.is_dir()] for root in roots] == kept


def test_maintenance_waits_its_turn(site: Site) -> None:
    load(site, 1)
    with site.writing(), pytest.raises(Busy):
        maintain(site)


def test_a_pipeline_that_has_not_run_is_left_alone(site: Site) -> None:
    assert maintain(site) == {"pipeline": site.pipeline, "dry_run": False}
    assert not (site.settings.warehouse / site.pipeline / "fact").exists()


def test_too_little_history_is_refused() -> None:
    with pytest.raises(TerminalError, match="3 days of history are too few"):
        Keep(timedelta(days=3))


def test_a_report_is_written_again_after_its_refused_lines_were_compacted(site: Site) -> None:
    for number in (1, 2):
        site.land(f"{number}.jsonl", order(number), b"{broken %d" % number)
        site.run()
    table = site.table("quarantine")
    table.optimize.compact()
    kept = {uri.rpartition("/")[2] for uri in table.file_uris()}
    for path in (site.settings.warehouse / "orders" / "quarantine").glob("*.parquet"):
        if path.name not in kept:
            path.unlink()  # as VACUUM does it
    site.step("report", 1)
    report = json.loads((site.settings.reports / "orders" / "1" / "report.json").read_text())
    assert [one["raw"] for one in report["quarantine_samples"]] == ["{broken 1"]
