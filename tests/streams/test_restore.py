"""Ledger and warehouse restored from different times: settled for every batch in between, or refused in a sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from etl.errors import FrontstageError
from etl.streams.recovery import notes as noting
from etl.streams.recovery.notes import Notes
from etl.streams.recovery.settle import NoteMissing, TablesAhead
from tests.support.backups import Backups
from tests.support.pairs_site import check, land, make
from tests.support.stream_site import Ended, StreamSite

Backup = Callable[[StreamSite], Callable[[], StreamSite]]


@pytest.fixture
def backup(postgres_server: str) -> Iterator[Backup]:
    """Copies the database of a site; what it gives puts the site on that copy, as a restore does."""
    made = Backups(postgres_server)

    def copy(site: StreamSite) -> Callable[[], StreamSite]:
        dsn = made.copy(site.dsn)
        return lambda: replace(site.restarted(), dsn=dsn, steps=replace(site.steps, dsn=dsn))

    yield copy
    made.close()


def run(site: StreamSite, *batches: int) -> None:
    for batch in batches:
        land(site, batch)
        site.run()


def test_batches_that_a_restored_ledger_forgot_are_put_back_with_their_state(
    tmp_path: Path, database: str, backup: Backup
) -> None:
    site = make(tmp_path, database)
    run(site, 0)
    restore = backup(site)
    run(site, 1, 2)
    older = restore()
    run(older, 3)
    check(older, 4)
    assert [one["state"] for one in older.steps.history()] == ["loaded"] * 4


def test_a_ledger_that_begins_anew_gets_everything_back(tmp_path: Path, database: str, backup: Backup) -> None:
    site = make(tmp_path, database)
    site.steps.prepare()
    restore = backup(site)
    run(site, 0, 1)
    older = restore()
    run(older, 2)
    check(older, 3)


@pytest.mark.parametrize("checkpoint", ["after input is fixed", "after the decision", "after the note"])
def test_a_ledger_restored_from_the_middle_of_a_batch_takes_it_from_its_note(
    tmp_path: Path, database: str, backup: Backup, checkpoint: str
) -> None:
    site = make(tmp_path, database)
    run(site, 0)
    land(site, 1)
    with pytest.raises(Ended):
        site.ending(checkpoint).run()
    restore = backup(site)
    site.restarted().run()
    run(site, 2)
    older = restore()
    run(older, 3)
    check(older, 4)


def test_a_batch_that_was_decided_and_never_noted_is_read_again(tmp_path: Path, database: str, backup: Backup) -> None:
    site = make(tmp_path, database)
    run(site, 0)
    restore = backup(site)
    land(site, 1)
    with pytest.raises(Ended):
        site.ending("before the note").run()
    older = restore()
    older.run()
    run(older, 2)
    check(older, 3)


def test_numbers_of_segments_that_are_there_are_not_given_out_again(
    tmp_path: Path, database: str, backup: Backup
) -> None:
    site = make(tmp_path, database)
    run(site, 0)
    restore = backup(site)
    run(site, 1)
    folder = site.settings.warehouse / "correlations" / "_log" / "segments"
    before = {path: path.stat().st_ino for path in folder.rglob("*.arrow")}
    older = restore()
    run(older, 2)
    assert {path: path.stat().st_ino for path in before} == before
    check(older, 3)


def test_putting_back_can_end_anywhere(tmp_path: Path, database: str, backup: Backup) -> None:
    site = make(tmp_path, database)
    run(site, 0)
    restore = backup(site)
    run(site, 1, 2)
    older = restore()
    for checkpoint in ("before results of correlations/pairs is published", "before the aggregates are loaded"):
        with pytest.raises(Ended):
            older.ending(checkpoint).run()
        older.restarted()
    run(older, 3)
    while older.run()["batch"] is not None:
        pass
    check(older, 4)


def test_what_no_note_tells_is_refused(tmp_path: Path, database: str, backup: Backup) -> None:
    site = make(tmp_path, database)
    restore = backup(site)
    run(site, 0, 1)
    notes = site.settings.warehouse / "correlations" / "_decisions"
    (notes / "000000001-000001.json").unlink()
    older = restore()
    older.steps.prepare()
    with pytest.raises(NoteMissing, match="restore Postgres and the warehouse from the same time"):
        older.run()
    (notes / "state-000000002-000001.json").unlink()
    with pytest.raises(TablesAhead, match="restore Postgres and the warehouse from the same time"):
        older.run()


# ── notes of writers that were overtaken ───────────────────────────────────────────────────────────────────────────


def notes_of(site: StreamSite) -> Notes:
    return Notes(site.settings.warehouse / "correlations" / "_decisions")


def contents(site: StreamSite) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in notes_of(site).folder.glob("*.json")}


def test_a_writer_that_is_overtaken_before_the_note_writes_none(tmp_path: Path, database: str) -> None:
    site = make(tmp_path, database)
    run(site, 0)
    before = contents(site)

    def overtaken(checkpoint: str) -> None:
        if checkpoint == "before the note":
            site.execute("update etl.pipeline set epoch = epoch + 1 where name = 'correlations'")

    land(site, 1)
    with pytest.raises(FrontstageError):
        site.watching(overtaken).run()
    assert contents(site) == before
    site.restarted().run()
    run(site, 2)
    check(site, 3)


@pytest.mark.parametrize("stops_at", [1, 2])
@pytest.mark.parametrize("batches_later", [0, 1])
def test_a_writer_that_stops_between_fence_and_note_replaces_nothing_of_its_successor(
    tmp_path: Path, database: str, backup: Backup, monkeypatch: pytest.MonkeyPatch, stops_at: int, batches_later: int
) -> None:
    site = make(tmp_path, database)
    run(site, 0)
    restore = backup(site)
    write: Callable[..., None] = noting.create_durably
    begun: list[Any] = []

    def stop(*given: Any) -> None:
        begun.append(given)
        if len(begun) == stops_at:
            raise Ended("in the middle of a note")
        write(*given)

    land(site, 1)
    monkeypatch.setattr(noting, "create_durably", stop)
    with pytest.raises(Ended):
        site.run()
    monkeypatch.setattr(noting, "create_durably", write)
    site = site.restarted()
    site.run()
    run(site, *range(2, 2 + batches_later))
    newest, decided = notes_of(site).newest(), contents(site)
    path, content = begun[-1]
    try:
        write(path, content)  # it goes on
    except FileExistsError:
        pass
    else:
        assert batches_later, "what its successor has written about the same batch has the name"
    assert {name: decided[name] for name in decided} == {name: contents(site)[name] for name in decided}
    assert notes_of(site).newest() == newest
    older = restore()
    run(older, 2 + batches_later)
    check(older, 3 + batches_later)


def test_notes_of_an_older_version_are_believed_until_there_are_newer_ones(
    tmp_path: Path, database: str, backup: Backup
) -> None:
    site = make(tmp_path, database)
    site.steps.prepare()
    restore = backup(site)
    run(site, 0, 1)
    folder = notes_of(site).folder
    (folder / "state-000000002-000001.json").rename(folder / "state.json")
    for batch in (1, 2):
        (folder / f"00000000{batch}-000001.json").rename(folder / f"00000000{batch}.json")
    older = restore()
    run(older, 2)
    check(older, 3)
    assert {path.name for path in folder.glob("state*")} == {"state-000000003-000001.json"}
