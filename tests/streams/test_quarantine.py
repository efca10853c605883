"""Refused lines of streams: listed, released through the front door, rejected for good; as those of pipelines."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from etl.adapters.verdicts import RowId
from etl.pipeline.review.quarantine import Selection
from etl.pipeline.review.release import Outcome, Person
from etl.streams.refused import UnknownStream, open_desk
from etl.streams.tasks.in_process import InProcess
from tests.support.correlate_histories import at
from tests.support.document_site import DocumentSite, seconds
from tests.support.stream_site import Ended, StreamSite

ADA = Person("ada", datetime(2026, 1, 1, tzinfo=UTC), "checked")
SQL = "select l.id as a, r.id as b from l join r on l.k = r.k"
TOO_MUCH = '[rules]\nlittle = "x is null or x < 10"\n'


def make(home: Path, dsn: str) -> StreamSite:
    site = StreamSite.under(home, dsn, InProcess())
    declared = (site.settings.streams / "l.toml").read_text()
    (site.settings.streams / "l.toml").write_text(declared + TOO_MUCH)
    site.declare("pairs", SQL, within="1 hour", lateness="1 hour")
    site.land("l", "a", [{"id": 1, "k": 1, "x": 50, "t": at(1)}, {"id": 2, "k": 2, "x": 1, "t": at(1)}])
    site.land("r", "a", [{"id": 11, "k": 1, "t": at(1)}, {"id": 12, "k": 2, "t": at(1)}, b"{"])
    site.run()
    return site


def loosen(site: StreamSite) -> None:
    """What was too much is not any more."""
    file = site.settings.streams / "l.toml"
    file.write_text(file.read_text().replace("x < 10", "x < 100"))


def release(site: StreamSite, stream: str, *rows: str, checkpoint: str = "") -> Outcome:
    def reached(name: str) -> None:
        if name == checkpoint:
            raise Ended(name)

    with open_desk(site.settings, site.dsn, f"streams/{stream}", reached) as desk:
        return desk.release(Selection(frozenset(map(RowId.parse, rows))), ADA, patience_s=0)


def shown(site: StreamSite, stream: str) -> list[dict[str, Any]]:
    with open_desk(site.settings, site.dsn, f"streams/{stream}") as desk:
        return [desk.quarantine.shown(line) for line in desk.quarantine.find(Selection(open_only=False))]


def pairs(site: StreamSite) -> list[tuple[int, int]]:
    return sorted((row["a"], row["b"]) for row in site.table("pairs").to_pylist())


def test_streams_number_their_refused_lines_each_for_itself(tmp_path: Path, database: str) -> None:
    site = make(tmp_path, database)
    assert [(one["row"], one["reasons"], one["key"]) for one in shown(site, "l")] == [("1-1", ["little"], ["1"])]
    assert [(one["row"], one["line"]) for one in shown(site, "r")] == [("1-1", 3)]
    with pytest.raises(UnknownStream, match="'x' is not a stream; declared are l, r, u"):
        release(site, "x", "1-1")


def test_a_released_tuple_meets_what_was_stored_and_comes_once(tmp_path: Path, database: str) -> None:
    site = make(tmp_path, database)
    assert pairs(site) == [(2, 12)]
    loosen(site)
    assert release(site, "l", "1-1").done == (RowId(1, 1),)
    assert release(site, "l", "1-1").done == ()
    site.run()
    assert pairs(site) == [(1, 11), (2, 12)]
    assert site.run()["batch"] is None
    assert [one["state"] for one in shown(site, "l")] == ["released"]
    assert [one["state"] for one in shown(site, "r")] == ["open"], "a word about one stream is none about another"


@pytest.mark.parametrize("checkpoint", ["after the release is decided", "after the release has landed"])
def test_a_release_that_ends_anywhere_is_finished_by_the_next_batch(
    tmp_path: Path, database: str, checkpoint: str
) -> None:
    site = make(tmp_path, database)
    loosen(site)
    with pytest.raises(Ended):
        release(site, "l", "1-1", checkpoint=checkpoint)
    site.run()
    assert pairs(site) == [(1, 11), (2, 12)]
    assert site.run()["batch"] is None


def test_a_line_that_is_refused_again_shows_its_history(tmp_path: Path, database: str) -> None:
    site = make(tmp_path, database)
    release(site, "l", "1-1")
    site.run()
    newest, first = shown(site, "l")
    assert (newest["row"], newest["released_from"], first["state"]) == ("2-1", "1-1", "released")


def test_a_rejected_line_stays_out(tmp_path: Path, database: str) -> None:
    site = make(tmp_path, database)
    with open_desk(site.settings, site.dsn, "streams/r") as desk:
        assert desk.reject(Selection(batch=1), ADA).done == (RowId(1, 1),)
    assert release(site, "r", "1-1").done == ()


def test_a_released_document_joins(tmp_path: Path, database: str) -> None:
    site = DocumentSite.under(tmp_path, database, InProcess())
    site.declare("links", documents={"stream": "logs", "window": "24 hours"}, lateness="24 hours")
    stream = site.under_it.settings.streams / "logs.toml"
    unbounded = stream.read_text()
    stream.write_text(f'past = "2h"\n{unbounded}')
    hours = {0: 23, 1: 21}
    site.land("a", [{"time": seconds(3600 * hour), "user": "ada", "n": {"id": id}} for id, hour in hours.items()])
    site.run()
    assert [json.loads(one["raw"])["n"]["id"] for one in shown(site.under_it, "logs")] == [1]
    stream.write_text(unbounded)
    assert release(site.under_it, "logs", "1-1").done == (RowId(1, 1),)
    site.run()
    assert list(site.pairs("links")) == [(0, 1)]
