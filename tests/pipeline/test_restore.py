"""Ledger and Delta restored from different times: settled for every batch in between, or refused with a sentence."""

from __future__ import annotations

import shutil

import pytest

from etl.pipeline.recover import NoteMissing
from tests.support.backups import Backup
from tests.support.site import Ended, Site, order

TABLES = ("fact", "quarantine", "backlog")


def land_and_run(site: Site, number: int) -> None:
    site.land(f"{number}.jsonl", order(number), order(number), order(-number), order(100 + number, customer_id=77))
    assert site.run() is not None


def check(site: Site, batches: int) -> None:
    """As many batches as `land_and_run` has made, each with one fact, one refusal, one waiting and one duplicate."""
    assert [site.rows(table).num_rows for table in TABLES] == [batches] * 3
    assert site.execute("select count(*), count(distinct order_id) from mart.orders") == [(batches, batches)]
    assert site.inventory().faults == []


def test_batches_that_a_restored_ledger_forgot_are_put_back_from_their_notes(site: Site, backup: Backup) -> None:
    land_and_run(site, 1)
    restore = backup(site)
    for number in (2, 3):
        land_and_run(site, number)
    older = restore()
    land_and_run(older, 4)
    check(older, 4)
    assert older.totals()["batches"] == 4
    assert older.record(3).audit == {"success": True, "expectations": [], "restored": True}
    older.land("again.jsonl", order(3), order(2))
    older.run()
    assert older.totals()["duplicates"] == 6, "their keys are still taken"


@pytest.mark.parametrize("checkpoint", ["after input is fixed", "after the decision", "after the verdict"])
def test_a_ledger_restored_from_the_middle_of_a_batch_takes_that_batch_from_delta(
    site: Site, backup: Backup, checkpoint: str
) -> None:
    land_and_run(site, 1)
    site.land("2.jsonl", order(2), order(2), order(-2), order(102, customer_id=77))
    with pytest.raises(Ended):
        site.ending(checkpoint).run()
    restore = backup(site)
    site.run()
    land_and_run(site, 3)
    older = restore()
    land_and_run(older, 4)
    check(older, 4)


def test_a_restore_that_ends_in_the_middle_is_taken_up(site: Site, backup: Backup) -> None:
    restore = backup(site)
    for number in (1, 2):
        land_and_run(site, number)
    older = restore()
    with pytest.raises(Ended):
        older.ending("before fact is published").run()
    land_and_run(older.restarted(), 3)
    check(older, 3)


def test_delta_tables_that_were_restored_get_the_files_of_later_batches_again(site: Site) -> None:
    land_and_run(site, 1)
    logs = {table: site.settings.warehouse / "orders" / table / "_delta_log" for table in TABLES}
    for table, log in logs.items():
        shutil.copytree(log, site.settings.home / table)
    land_and_run(site, 2)
    for table, log in logs.items():
        shutil.rmtree(log)
        shutil.copytree(site.settings.home / table, log)
    site.restarted()
    assert site.rows("fact").num_rows == 1
    land_and_run(site, 3)
    check(site, 3)


def test_a_batch_without_a_note_is_refused_with_what_to_do(site: Site, backup: Backup) -> None:
    restore = backup(site)
    land_and_run(site, 1)
    shutil.rmtree(site.places.notes)
    with pytest.raises(NoteMissing, match=r"hold batch 1, the ledger ends with batch 0 .* restore Postgres and the"):
        restore().decide()


def test_files_that_a_decision_names_and_nobody_has_are_refused_with_their_names(site: Site) -> None:
    site.land("a.jsonl", order(1))
    batch = site.decide()
    site.step("audit", batch)
    (part,) = (site.settings.warehouse / "orders" / "fact").glob("*.parquet")
    part.write_bytes(part.read_bytes()[:-1])
    with pytest.raises(Exception, match=rf"batch 1 was decided, but 1 of its files are missing in fact \({part.name}"):
        site.step("publish", batch)
