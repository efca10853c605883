"""What stays is what is still looked at; where it stays may be any file system."""

from __future__ import annotations

import datetime as dt
import os
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from etl.adapters.unlistable import LandingShut
from etl.pipeline.upkeep.maintenance import Keep
from etl.streams.steps import CorrelationSteps
from etl.streams.storage.files import FileDamaged, FileStore, open_files
from etl.streams.tasks.in_process import InProcess
from tests.support.correlate_histories import EPOCH
from tests.support.stream_site import StreamSite, quiet
from tests.support.unreadable import unlistable

SQL = "select l.id as a, r.id as b from l join r on l.k = r.k"


def at(seconds: float) -> dt.datetime:
    return EPOCH + dt.timedelta(seconds=seconds)


def land(site: StreamSite, batch: int) -> None:
    site.land("l", str(batch), [{"id": batch, "k": 1, "t": at(60 * batch)}])
    site.land("r", str(batch), [{"id": 100 + batch, "k": 1, "t": at(60 * batch + 1)}])


def log_files(site: StreamSite, folder: str) -> list[Path]:
    root = site.settings.warehouse / "correlations" / "_log" / folder
    return sorted(path for path in root.rglob("*") if path.is_file())


def test_segments_and_state_leave_when_no_window_reaches_them_and_results_stay_right(
    tmp_path: Path, database: str
) -> None:
    site = StreamSite.under(tmp_path, database, InProcess())
    site.declare("pairs", SQL, within="90 seconds", lateness="0s")
    for batch in range(12):
        land(site, batch)
        site.run()
        if batch % 3 == 2:
            site.steps.maintain(Keep(), quiet)
    assert site.steps.status()["streams"]["l"]["segments"] <= 4
    assert len(log_files(site, "segments")) <= 8
    old = time.time() - 7 * 86_400
    for path in log_files(site, "state"):
        os.utime(path, (old, old))
    in_use = {name for (name,) in site.rows("select split_part(name, '#', 1) from etl.state_run")}
    later = replace(site.steps, clock=lambda: dt.datetime.now(dt.UTC))
    later.maintain(Keep(), quiet)
    root = site.settings.warehouse / "correlations" / "_log"
    assert {str(path.relative_to(root)) for path in log_files(site, "state")} == in_use
    land(site, 12)
    site.run()
    found = Counter((row["a"], row["b"]) for row in site.table("pairs").to_pylist())
    assert found == Counter((a, 100 + b) for a in range(13) for b in range(13) if abs(60 * b + 1 - 60 * a) <= 90)


def test_full_history_keeps_every_segment(tmp_path: Path, database: str) -> None:
    site = StreamSite.under(tmp_path, database, InProcess())
    site.declare("pairs", SQL)
    site.declare("window", SQL, within="1s")
    for batch in range(4):
        land(site, batch)
        site.run()
    site.steps.maintain(Keep(), quiet)
    assert site.steps.status()["streams"]["l"]["segments"] == 4


def test_what_a_dry_run_finds_stays(tmp_path: Path, database: str) -> None:
    site = StreamSite.under(tmp_path, database, InProcess())
    site.declare("pairs", SQL, within="1s")
    for batch in range(4):
        land(site, batch)
        site.run()
    before = log_files(site, "segments")
    assert site.steps.maintain(Keep(dry_run=True), quiet)["segments"] > 0
    assert log_files(site, "segments") == before


def test_a_correlation_that_missed_a_batch_starts_anew_when_its_file_is_back(tmp_path: Path, database: str) -> None:
    site = StreamSite.under(tmp_path, database, InProcess())
    site.declare("other", SQL)  # it reads the streams meanwhile
    for batch in range(3):
        if batch != 1:
            site.declare("pairs", SQL)
        land(site, batch)
        site.run()
        (site.settings.correlations / "pairs.toml").unlink(missing_ok=True)
    assert sorted((row["a"], row["b"]) for row in site.table("pairs").to_pylist()) == [(0, 100), (2, 102)]


def test_state_of_a_correlation_whose_file_is_gone_leaves_and_frees_its_segments(tmp_path: Path, database: str) -> None:
    site = StreamSite.under(tmp_path, database, InProcess())
    site.declare("pairs", SQL)
    land(site, 0)
    site.run()
    (site.settings.correlations / "pairs.toml").unlink()
    assert site.steps.maintain(Keep(), quiet)["correlations_forgotten"] == ["pairs"]
    assert site.rows("select count(*) from etl.state_run") == [(0,)]


def test_files_on_another_file_system_are_copied_once_and_answers_are_the_same(tmp_path: Path, database: str) -> None:
    site = StreamSite.under(tmp_path, database, InProcess())
    own = site.settings.model_copy(update={"stream_store": f"memory://{tmp_path.name}"})
    site = replace(site, settings=own, steps=replace(site.steps, settings=own))
    site.declare("pairs", SQL, within="90 seconds")
    for batch in range(3):
        land(site, batch)
        site.run()
        open_files().clear()
    found = Counter((row["a"], row["b"]) for row in site.table("pairs").to_pylist())
    assert found == Counter((a, 100 + b) for a in range(3) for b in range(3) if abs(60 * b + 1 - 60 * a) <= 90)
    assert list((own.var / "stream-cache").rglob("*.runs"))
    site.steps.maintain(Keep(), quiet)


def test_a_file_under_another_name_is_not_whole(tmp_path: Path) -> None:
    import pyarrow as pa

    store = FileStore(str(tmp_path), tmp_path)
    store.write("a", pa.py_buffer(b"content"))
    store.write("b", pa.py_buffer(b"content"))
    assert store.open("a", lambda content, _: content.to_pybytes()) == b"content"
    (tmp_path / "b").write_bytes((tmp_path / "a").read_bytes())
    with pytest.raises(FileDamaged, match="does not have the content that was written"):
        store.open("b", lambda content, _: content.to_pybytes())


def test_the_same_steps_tell_how_everything_stands(tmp_path: Path, database: str) -> None:
    site = StreamSite.under(tmp_path, database, InProcess())
    site.declare("pairs", SQL, within="90 seconds", units=[2, 3])
    land(site, 0)
    told = site.run()
    assert isinstance(site.steps, CorrelationSteps)
    plan = site.steps.explain("pairs")
    assert plan["steps"][0]["routing"] == "hash"
    assert plan["steps"][0]["expected"] == {"messages_per_left_tuple": 2.0, "messages_per_right_tuple": 2.0}
    assert plan["measured"]["messages_per_tuple"] == 2.0
    assert len(told["correlations"]["pairs"]["units"]) == 5
    assert site.steps.history()[-1]["batch"] == told["batch"] == site.steps.report(None)["batch"]
    assert site.steps.status()["correlations"]["pairs"]["state"]["tuples"] == 2


def test_a_file_that_grew_after_it_was_archived_is_read_on_where_it_ended(tmp_path: Path, database: str) -> None:
    site = StreamSite.under(tmp_path, database, InProcess())
    later = replace(site, steps=replace(site.steps, clock=lambda: dt.datetime.now(dt.UTC) + dt.timedelta(minutes=5)))
    site.declare("pairs", SQL)
    land(site, 0)
    site.run()
    later.run()
    (archived,) = (site.settings.archive / "streams" / "l").rglob("*.jsonl")
    with archived.open("a") as file:
        file.write(f'{{"id": 7, "k": 1, "t": "{EPOCH.isoformat()}"}}\n')
    assert later.steps.maintain(Keep(), quiet)["landed_again"] == 1
    later.run()
    assert sorted((row["a"], row["b"]) for row in site.table("pairs").to_pylist()) == [(0, 100), (7, 100)]


def test_a_folder_that_cannot_be_listed_is_not_taken_for_an_empty_one(
    tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("etl.streams.maintenance._NEWEST_KEPT", 1)
    site = StreamSite.under(tmp_path, database, InProcess())
    site = replace(site, steps=replace(site.steps, clock=lambda: dt.datetime.now(dt.UTC)))
    site.declare("pairs", SQL, within="1 hour")
    for batch in range(3):
        land(site, batch)
        site.run()
    much_later = replace(site.steps, clock=lambda: dt.datetime.now(dt.UTC) + dt.timedelta(days=40))
    joined = site.table("pairs").num_rows
    folder = site.settings.var / "landing" / "l"
    with unlistable(folder), pytest.raises(LandingShut, match="cannot be listed"):
        much_later.maintain(Keep(), quiet)
    much_later.maintain(Keep(), quiet)
    assert site.run()["batch"] is None, "nothing of it is read again"
    assert site.table("pairs").num_rows == joined
