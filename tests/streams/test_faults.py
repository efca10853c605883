"""Ended anywhere, damaged anywhere: the tables have every pair once, or there is a sentence and nothing is decided."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from etl.airflow.triggers.stream_arrival import StreamsArrival, WatchedStream
from etl.pipeline.tasks.wire import WorkerFailed
from etl.streams.storage.files import FileDamaged
from etl.streams.tasks.in_process import InProcess
from tests.support.correlate_histories import at
from tests.support.killed_driver import run_and_die
from tests.support.pairs_site import check, land, make
from tests.support.stream_site import Ended, StreamSite
from tests.support.unreadable import SWAPS, refusing, remove, unlistable

Rows = list[dict[str, Any]]


CHECKPOINTS = [
    "before input is fixed",
    "after input is fixed",
    "before the decision",
    "after the decision",
    "before the note",
    "after the note",
    "before late of correlations/pairs is published",
    "after late of correlations/pairs is published",
    "before results of correlations/pairs is published",
    "after results of correlations/pairs is published",
    "before quarantine of streams/r is published",
    "after quarantine of streams/r is published",
    "before the aggregates are loaded",
    "after the aggregates are loaded",
]


def test_the_list_of_checkpoints_is_complete(tmp_path: Path, database: str) -> None:
    site, seen = make(tmp_path, database), list[str]()
    for batch in range(2):
        land(site, batch)
        site.watching(seen.append).run()
    assert set(CHECKPOINTS) <= set(seen)
    assert {name for name in seen if "correlations/sums" not in name} <= set(CHECKPOINTS)


@pytest.mark.parametrize("checkpoint", CHECKPOINTS)
def test_a_run_that_ends_at_any_checkpoint_is_taken_up_and_every_pair_is_there_once(
    tmp_path: Path, database: str, checkpoint: str
) -> None:
    site = make(tmp_path, database)
    land(site, 0)
    site.run()
    land(site, 1)
    with suppress(Ended):
        site.ending(checkpoint).run()
    site.restarted()
    land(site, 2)  # it must not get into the batch that is taken up, and must come after it
    while site.run()["batch"] is not None:
        pass
    check(site, 3)


def test_a_step_that_is_repeated_changes_nothing(tmp_path: Path, database: str) -> None:
    site = make(tmp_path, database)
    for batch in range(2):
        land(site, batch)
        number = site.steps.run("ingest", "test", None, print)["batch"]
        for step in ("ingest", "correlate", "correlate", "load", "correlate", "load", "report"):
            told = site.steps.run(step, "test", number, print)  # type: ignore[arg-type]
        assert told["state"] == "loaded"
    check(site, 2)


def test_a_file_that_may_not_be_opened_waits_and_those_beside_it_are_joined(tmp_path: Path, database: str) -> None:
    site = make(tmp_path, database)
    land(site, 0)
    shut = site.settings.var / "landing" / "l" / "0.jsonl"
    watched = (WatchedStream("l", shut.parent, "jsonl"),)
    arrival = StreamsArrival(watched, lambda: site.dsn)
    said: list[str] = []
    with refusing(shut):
        assert not arrival.look(arrival.listing(), site.steps.clock()).due
        batch = site.steps.micro_batch("test", said.append)
        assert (batch["streams"]["l"]["accepted"], batch["streams"]["r"]["accepted"]) == (0, 6)
        assert "stream l: 1 file cannot be read and waits: '0.jsonl' (Permission denied)" in said
        assert site.run()["batch"] is None
    assert arrival.look(arrival.listing(), site.steps.clock()).due
    site.run()
    land(site, 1)
    site.run()
    check(site, 2)


def test_a_stream_whose_folder_cannot_be_listed_waits_and_the_others_go_on(tmp_path: Path, database: str) -> None:
    site = make(tmp_path, database)
    land(site, 0)
    folder = site.settings.var / "landing" / "l"
    arrival = StreamsArrival(
        tuple(WatchedStream(name, folder.with_name(name), "jsonl") for name in ("l", "r")), lambda: site.dsn
    )
    said: list[str] = []
    with unlistable(folder):
        assert arrival.look(arrival.listing(), site.steps.clock()).due
        batch = site.steps.micro_batch("test", said.append)
        assert (batch["streams"]["l"]["accepted"], batch["streams"]["r"]["accepted"]) == (0, 6)
        assert any(
            one.startswith(f"stream l waits: landing folder '{folder}' cannot be listed (Permission") for one in said
        )
        assert not arrival.look(arrival.listing(), site.steps.clock()).due
    assert arrival.look(arrival.listing(), site.steps.clock()).due
    site.run()
    land(site, 1)
    site.run()
    check(site, 2)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("swap", SWAPS)
def test_a_file_that_is_swapped_after_input_is_fixed_is_left_out(tmp_path: Path, database: str, swap: str) -> None:
    site = make(tmp_path, database)
    land(site, 0)
    path = site.settings.var / "landing" / "l" / "0.jsonl"
    content = path.read_bytes()
    site.watching(lambda name: SWAPS[swap](path) if name == "after input is fixed" else None).run()
    assert site.run()["batch"] is None
    remove(path)
    path.write_bytes(content)
    site.run()
    check(site, 1)


def harm(site: StreamSite, what: str, damage: str) -> dict[Path, bytes]:
    """Damage all files of a kind; gives what they held."""
    folder = site.settings.warehouse / "correlations" / "_log" / what
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    whole = {path: path.read_bytes() for path in files}
    for path, content in whole.items():
        if damage == "flipped":
            path.write_bytes(content[:40] + bytes([content[40] ^ 1]) + content[41:])
        elif damage == "cut":
            path.write_bytes(content[: len(content) // 2])
        elif damage == "gone":
            path.unlink()
        else:
            path.write_bytes(whole[files[files.index(path) - 1]])
    return whole


DAMAGES = ["flipped", "cut", "gone", "exchanged"]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_segment_is_a_sentence_and_never_a_wrong_pair(tmp_path: Path, database: str, damage: str) -> None:
    site = make(tmp_path, database, routing="hash")
    for batch in range(2):
        land(site, batch)
        site.run()
    whole = harm(site, "segments", damage)
    land(site, 2)
    with pytest.raises(WorkerFailed, match=r"nothing was decided: restore the file"):
        site.run()
    for path, content in whole.items():
        path.write_bytes(content)
    assert site.run()["state"] == "loaded"
    check(site, 3)


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_state_is_rebuilt_from_the_stream_log(tmp_path: Path, database: str, damage: str) -> None:
    site = make(tmp_path, database)
    for batch in range(3):
        land(site, batch)
        site.run()
    harm(site, "state", damage)
    for batch in range(3, 5):
        land(site, batch)
        assert site.run()["state"] == "loaded"
    check(site, 5)


def test_state_that_the_log_cannot_rebuild_is_a_sentence(tmp_path: Path, database: str) -> None:
    site = make(tmp_path, database)
    for batch in range(2):
        land(site, batch)
        site.run()
    state, segments = harm(site, "state", "cut"), harm(site, "segments", "gone")
    land(site, 2)
    with pytest.raises(FileDamaged, match=r"is not there; nothing was decided"):
        site.run()
    for path, content in {**state, **segments}.items():
        path.write_bytes(content)
    site.run()
    check(site, 3)


@pytest.mark.parametrize("within_s", [30, None])
def test_state_of_joined_streams_is_rebuilt_too(tmp_path: Path, database: str, within_s: int | None) -> None:
    sql = "select l.id as a, r.id as b, u.id as c from l join r on l.k = r.k join u on u.k = r.k and u.x >= r.x"
    site = StreamSite.under(tmp_path, database, InProcess())
    site.declare("three", sql, within=None if within_s is None else f"{within_s} seconds", lateness="5 seconds")
    seen: dict[str, Rows] = {"l": [], "r": [], "u": []}
    for batch in range(4):
        for number, stream in enumerate(seen):
            rows = [{"id": 10 * batch + i, "k": i % 2, "x": i * number, "t": at(15 * batch + i)} for i in range(6)]
            site.land(stream, str(batch), rows)
            seen[stream] += rows
        if batch == 2:
            harm(site, "state", "flipped")
        assert site.run()["state"] == "loaded"
    near = dt.timedelta(seconds=10**6 if within_s is None else within_s)
    expected = Counter(
        (a["id"], b["id"], c["id"])
        for a, b, c in product(*seen.values())
        if a["k"] == b["k"] == c["k"] and c["x"] >= b["x"]
        and max(one["t"] for one in (a, b, c)) - min(one["t"] for one in (a, b, c)) <= near
    )  # fmt: skip
    assert Counter((row["a"], row["b"], row["c"]) for row in site.table("three").to_pylist()) == expected


def test_tables_that_are_older_than_the_ledger_get_their_batches_again(tmp_path: Path, database: str) -> None:
    site = make(tmp_path, database)
    for batch in range(2):
        land(site, batch)
        site.run()
    log = site.settings.warehouse / "correlations" / "pairs" / "results" / "_delta_log"
    newest = sorted(log.glob("*.json"))[-1]
    newest.unlink()
    site.restarted()
    land(site, 2)
    site.run()
    check(site, 3)


@pytest.mark.slow
@pytest.mark.parametrize(
    "checkpoint", ["before the decision", "after the decision", "after results of correlations/pairs is published"]
)
def test_a_driver_that_is_killed_is_followed_by_another_and_every_pair_is_there_once(
    tmp_path: Path, database: str, checkpoint: str
) -> None:
    site = make(tmp_path, database)
    land(site, 0)
    site.run()
    land(site, 1)
    run_and_die(tmp_path, database, checkpoint)
    site.restarted()
    land(site, 2)
    while site.run()["batch"] is not None:
        pass
    check(site, 3)
