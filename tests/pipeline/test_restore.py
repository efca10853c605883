"""Ledger and Delta restored from different times: settled for every batch in between, or refused with a sentence."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from etl.pipeline import recover
from etl.pipeline.recover import NoteMissing
from etl.pipeline.review.desk import open_desk
from etl.pipeline.review.release_notes import ReleaseNoteDamaged
from tests.support.backups import Backup
from tests.support.desk import ADA, WIDER, release, rows, shown
from tests.support.site import Ended, Site, order

TABLES = ("fact", "quarantine", "backlog")
ARCHIVED = timedelta(minutes=5)
"""After this, a file that was read is in the archive."""


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


def test_a_batch_of_which_no_table_has_a_row_is_not_forgotten(site: Site, backup: Backup) -> None:
    site.land("1.jsonl", order(1))
    site.run()
    restore = backup(site)
    site.land("2.jsonl", order(1))
    site.run()
    site.later(ARCHIVED).run()
    assert list(site.landing.iterdir()) == [], "its line is in the archive, where no batch looks for input"
    older = restore()
    assert older.decide() is None
    assert older.inventory().faults == []
    assert older.totals()["duplicates"] == 1


def test_a_fact_table_restored_from_before_a_batch_without_facts_gets_its_entry_once(site: Site) -> None:
    log = site.settings.warehouse / "orders" / "fact" / "_delta_log"
    site.land("1.jsonl", order(1))
    site.run()
    shutil.copytree(log, site.settings.home / "kept")
    site.land("2.jsonl", order(1))
    site.run()
    shutil.rmtree(log)
    shutil.copytree(site.settings.home / "kept", log)
    again = site.restarted()
    entries = len(list(log.glob("*.json")))
    for _ in range(3):
        assert again.decide() is None
    assert len(list(log.glob("*.json"))) == entries + 1
    again.land("3.jsonl", order(3))
    again.run()
    assert (again.rows("fact").num_rows, again.inventory().faults) == (2, [])


# ── notes of decisions ─────────────────────────────────────────────────────────────────────────────────────────────


def notes(site: Site) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in site.places.notes.glob("*.json")}


def test_a_writer_that_stops_between_fence_and_note_replaces_no_note_of_its_successor(
    site: Site, backup: Backup, monkeypatch: pytest.MonkeyPatch
) -> None:
    restore = backup(site)
    write: Callable[..., None] = recover.create_durably
    stopped: list[Any] = []

    def stop(*given: Any) -> None:
        stopped.append(given)
        raise Ended("in the middle of the note")

    site.land("1.jsonl", order(1), order(1), order(-1), order(101, customer_id=77))
    monkeypatch.setattr(recover, "create_durably", stop)
    with pytest.raises(Ended):
        site.run()
    monkeypatch.setattr(recover, "create_durably", write)
    site.restarted().run()
    decided = notes(site)
    ((path, content),) = stopped
    with pytest.raises(FileExistsError):
        write(path, content)
    assert notes(site) == decided
    assert list(site.places.notes.glob(".*")) == [], "what it had begun is removed"
    older = restore()
    land_and_run(older, 2)
    check(older, 2)


def test_a_ledger_that_is_restored_twice_takes_what_was_decided_last(site: Site, backup: Backup) -> None:
    land_and_run(site, 1)
    restore = backup(site)
    site.land("2.jsonl", order(2), order(2), order(-2), order(102, customer_id=77))
    for _ in range(3):  # each time under a higher epoch, which the restored ledger does not know
        with pytest.raises(Ended):
            site.restarted().ending("before the decision").run()
    older = restore()
    older.restarted().run()
    assert len([name for name in notes(site) if name.startswith("000000002-")]) == 4
    newest = restore()
    land_and_run(newest, 3)
    check(newest, 3)


def test_a_note_of_an_older_version_is_read_and_a_later_one_goes_before_it(site: Site, backup: Backup) -> None:
    restore = backup(site)
    land_and_run(site, 1)
    land_and_run(site, 2)
    folder = site.places.notes
    for batch in (1, 2):
        (folder / f"{batch:09d}-000001.json").rename(folder / f"{batch:09d}.json")
    (folder / "000000002.json").rename(folder / "000000002-000007.json")
    (folder / "000000002.json").write_text("of a try that was never committed")
    older = restore()
    land_and_run(older, 3)
    check(older, 3)


# ── releases ───────────────────────────────────────────────────────────────────────────────────────────────────────


def decided(site: Site) -> dict[str, Any]:
    """The first refused line."""
    (line,) = shown(site, replace(rows("1-1"), open_only=False))
    return line


def drain(site: Site) -> None:
    """Run until there is no input."""
    assert any(site.run() is None for _ in range(5))


POINTS = (
    "before fact is published", "after fact is published", "before quarantine is published",
    "after quarantine is published", "before backlog is published", "after backlog is published",
    "before the mart is loaded", "after the mart is loaded", "before input is fixed", "after input is fixed",
)  # fmt: skip


@pytest.mark.parametrize("point", POINTS)
def test_a_release_is_not_forgotten_wherever_a_restore_dies(site: Site, backup: Backup, point: str) -> None:
    site.land("a.jsonl", order(1, quantity=500_000), order(2, quantity=500_000))
    site.run()
    restore = backup(site)
    wide = site.redeclared(WIDER)
    release(wide, rows("1-1"))
    wide.land("b.jsonl", order(-4), order(5, customer_id=77))
    wide.run()
    older = restore().changed(pipelines=wide.settings.pipelines)
    older.land("c.jsonl", order(3))
    with pytest.raises(Ended):
        older.ending(point).run()
    drain(older.restarted())
    verdict = decided(older)["verdict"]
    assert (verdict["by"], verdict["note"]) == (ADA.by, ADA.note), "it is as it was"
    assert release(older, rows("1-1")).done == ()
    drain(older)
    assert sorted(older.rows("fact")["order_id"].to_pylist()) == [1, 3]
    assert older.inventory().faults == []


@pytest.mark.parametrize("action", ["release", "reject"])
def test_a_line_that_was_released_is_not_decided_again_before_the_ledger_is_complete(
    site: Site, backup: Backup, action: str
) -> None:
    site.land("a.jsonl", order(1, quantity=500_000))
    site.run()
    restore = backup(site)
    wide = site.redeclared(WIDER)
    release(wide, rows("1-1"))
    wide.run()
    older = restore().changed(pipelines=wide.settings.pipelines)
    assert [fault for fault in older.inventory().faults if "were released into" in fault] != []
    with open_desk(older.settings, older.dsn, "orders") as desk:
        outcome = desk.release(rows("1-1"), ADA) if action == "release" else desk.reject(rows("1-1"), ADA)
    assert outcome.done == ()
    older.run()
    assert older.rows("fact").num_rows == 1
    assert older.inventory().faults == []


@pytest.mark.parametrize("checkpoint", ["after the release is decided", "after the release has landed"])
def test_a_release_that_no_batch_has_read_lands_once_after_a_restore(
    site: Site, backup: Backup, checkpoint: str
) -> None:
    site.land("a.jsonl", order(1, quantity=500_000))
    site.run()
    restore = backup(site)
    wide = site.redeclared(WIDER)
    with pytest.raises(Ended):
        release(wide, rows("1-1"), checkpoint)
    noted = checkpoint == "after the release has landed"
    assert [path.is_file() for path in wide.places.releases.glob("*.json")] == [True] * noted
    for path in wide.landing.glob("frontstage-release-*"):
        path.unlink()  # as if it had ended between note and file
    older = restore().changed(pipelines=wide.settings.pipelines)
    older.run()
    if not noted:
        assert shown(older, rows("1-1"))[0]["state"] == "open", "nobody has seen it released"
        release(older, rows("1-1"))
        older.run()
    assert older.rows("fact")["order_id"].to_pylist() == [1]
    assert older.inventory().faults == []


def test_releases_of_an_older_version_get_their_notes_before_the_next_batch(site: Site, backup: Backup) -> None:
    site.land("a.jsonl", order(1, quantity=500_000))
    site.run()
    restore = backup(site)
    wide = site.redeclared(WIDER)
    release(wide, rows("1-1"))
    shutil.rmtree(wide.places.releases)
    wide.run()
    older = restore().changed(pipelines=wide.settings.pipelines)
    older.run()
    assert decided(older)["state"] == "released"
    assert older.inventory().faults == []


def test_a_note_of_a_release_that_is_damaged_is_told(site: Site, backup: Backup) -> None:
    site.land("a.jsonl", order(1, quantity=500_000))
    site.run()
    restore = backup(site)
    release(site, rows("1-1"))
    (path,) = site.places.releases.glob("*.json")
    path.write_bytes(b"{")
    with pytest.raises(ReleaseNoteDamaged, match=r"is damaged; restore it from a backup of the warehouse"):
        restore().run()


def _a_folder(path: Path) -> None:
    path.mkdir()


def _a_dangling_link(path: Path) -> None:
    path.symlink_to("nothing")


def _a_link_to_a_release(path: Path) -> None:
    target = path.with_name("target.txt")
    target.write_bytes(b'{"from": "1-1", "header": null, "raw": "bm8gZXZlbnQ="}\n')
    path.symlink_to(target)


def _a_release(path: Path) -> None:
    path.write_bytes(b'{"from": "1-1", "header": null, "raw": "bm8gZXZlbnQ="}\n')


@pytest.mark.parametrize("make", [_a_folder, _a_dangling_link, _a_link_to_a_release, _a_release])
@pytest.mark.parametrize(
    "name",
    [f"frontstage-release-000000001-{'0' * 16}.jsonl".encode(), b"frontstage-release-\xff.jsonl"],
)
def test_names_and_contents_that_look_like_releases_decide_nothing_after_a_restore(
    site: Site, backup: Backup, make: Callable[[Path], None], name: bytes
) -> None:
    site.land("a.jsonl", order(1, quantity=500_000))
    site.run()
    restore = backup(site)
    make(site.landing / os.fsdecode(name))
    site.land("b.jsonl", order(2))
    site.run()
    older = restore()
    older.land("c.jsonl", order(3))
    older.run()
    assert shown(older, rows("1-1"))[0]["state"] == "open", "nobody has released it"
    assert older.execute("select count(*) from etl.release_file") == [(0,)]
    assert sorted(older.rows("fact")["order_id"].to_pylist()) == [2, 3]
    counted = older.inventory()
    assert counted.faults == []
    ours = make is _a_release and b"0000" in name
    assert counted.released_by_nobody == ((name.decode(),) if ours else ())
    assert release(older.redeclared(WIDER), rows("1-1")).done != ()
