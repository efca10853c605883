"""Refused lines in people's hands: looked at, sent in again once, kept out for good; everything still adds up."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from etl.adapters.verdicts import NotARow, RowId
from etl.cli import app
from etl.errors import Busy
from etl.pipeline.review.desk import NoteMissing, open_desk
from etl.pipeline.review.quarantine import RowUnknown, Selection
from etl.pipeline.review.release import NothingChosen, Outcome, Person
from etl.samples.examples import EXAMPLES
from tests.support.desk import ADA, WIDER, release, rows, shown
from tests.support.site import Ended, Site, order


def reject(site: Site, wanted: Selection) -> Outcome:
    with open_desk(site.settings, site.dsn, site.pipeline) as desk:
        return desk.reject(wanted, ADA)


def too_many(*numbers: int) -> list[dict[str, Any]]:
    return [order(number, quantity=500_000) for number in numbers]


def test_refused_lines_are_numbered_by_file_and_line_within_their_batch(site: Site) -> None:
    site.land("b.jsonl", *too_many(3))
    site.land("a.jsonl", order(9), *too_many(1, 2))
    site.run()
    found = shown(site, Selection())
    assert [(one["row"], one["file"], one["line"], one["key"]) for one in found] == [
        ("1-1", "a.jsonl", 2, ["1"]), ("1-2", "a.jsonl", 3, ["2"]), ("1-3", "b.jsonl", 1, ["3"]),
    ]  # fmt: skip
    assert [one["row"] for one in shown(site, Selection(reason="quantity_in_range", key=("2",)))] == ["1-2"]
    assert shown(site, Selection(reason="quantity_invalid")) == []


def test_a_released_line_comes_back_through_the_front_door_and_is_counted_once(site: Site) -> None:
    site.land("a.jsonl", *too_many(1, 2), order(3))
    site.run()
    wide = site.redeclared(WIDER)
    done = release(wide, rows("1-1"))
    assert done.done == (RowId(1, 1),)
    assert wide.inventory().faults == [], "a file that no batch has read yet is no fault"
    assert wide.run() == 2
    assert sorted(wide.rows("fact")["order_id"].to_pylist()) == [1, 3]
    counted = wide.inventory()
    assert counted.faults == []
    assert sum(counted.released.values()) == 1
    assert [(one["row"], one["state"]) for one in shown(wide, Selection(open_only=False))] == [
        ("1-1", "released"),
        ("1-2", "open"),
    ]


def test_releasing_twice_does_not_double(site: Site) -> None:
    site.land("a.jsonl", *too_many(1))
    site.run()
    wide = site.redeclared(WIDER)
    release(wide, rows("1-1"))
    again = release(wide, rows("1-1"))
    assert (again.done, again.decided_before, again.files) == ((), (RowId(1, 1),), ())
    wide.run()
    assert release(wide, rows("1-1")).done == ()
    assert wide.run() is None
    assert wide.rows("fact").num_rows == 1
    assert wide.inventory().faults == []


def test_a_line_that_is_refused_again_shows_its_history_and_may_be_released_again(site: Site) -> None:
    site.land("a.jsonl", *too_many(1))
    site.run()
    release(site, rows("1-1"))
    site.run()
    (again,) = shown(site, Selection())
    assert (again["row"], again["released_from"]) == ("2-1", "1-1")
    release(site, rows("2-1"))
    site.run()
    with open_desk(site.settings, site.dsn, "orders") as desk:
        third = desk.quarantine.get(RowId(3, 1))
        assert [str(line.id) for line in desk.quarantine.history(third)] == ["1-1", "2-1"]
    assert site.inventory().faults == []


def test_rejecting_is_final_and_says_who_when_and_why(site: Site) -> None:
    site.land("a.jsonl", *too_many(1, 2))
    site.run()
    assert reject(site, rows("1-1")).done == (RowId(1, 1),)
    tried = release(site, Selection(rows("1-1", "1-2").rows))
    assert (tried.done, tried.decided_before) == ((RowId(1, 2),), (RowId(1, 1),))
    assert reject(site, rows("1-2")).done == (), "what is released cannot be rejected"
    (rejected,) = [one for one in shown(site, Selection(open_only=False)) if one["state"] == "rejected"]
    verdict = rejected["verdict"]
    assert (verdict["by"], verdict["note"], verdict["at"]) == ("ada", "checked", "2026-11-17T00:00:00+00:00")
    site.run()
    assert (site.inventory().faults, site.inventory().rejected) == ([], 1)
    with pytest.raises(NoteMissing), open_desk(site.settings, site.dsn, "orders") as desk:
        desk.reject(rows("1-1"), Person("ada", ADA.at, " "))


@pytest.mark.parametrize("checkpoint", ["after the release is decided", "after the release has landed"])
@pytest.mark.parametrize("then", ["a batch", "another release", "both"])
def test_a_release_that_ends_half_way_is_finished_by_whoever_comes_next(site: Site, checkpoint: str, then: str) -> None:
    site.land("a.jsonl", *too_many(1, 2))
    site.run()
    wide = site.redeclared(WIDER)
    with pytest.raises(Ended):
        release(wide, rows("1-1"), checkpoint)
    if then != "a batch":
        release(wide, rows("1-1", "1-2"))
    if then != "another release":
        wide.run()
    wide.run()
    assert wide.rows("fact")["order_id"].to_pylist().count(1) == 1
    assert wide.rows("quarantine").num_rows == 2
    assert wide.inventory().faults == []


@pytest.mark.parametrize("checkpoint", ["after input is fixed", "before the decision", "after the decision"])
def test_a_batch_that_ends_while_it_reads_released_lines_loses_and_doubles_none(site: Site, checkpoint: str) -> None:
    site.land("a.jsonl", *too_many(1, 2))
    site.run()
    wide = site.redeclared(WIDER)
    release(wide, Selection(batch=1))
    with pytest.raises(Ended):
        wide.ending(checkpoint).run()
    wide.run()
    assert sorted(wide.rows("fact")["order_id"].to_pylist()) == [1, 2]
    assert wide.inventory().faults == []


def test_a_line_whose_event_has_been_corrected_meanwhile_is_a_conflict_with_its_history(site: Site) -> None:
    site.land("a.jsonl", *too_many(1))
    site.run()
    site.land("b.jsonl", order(1))
    site.run()
    wide = site.redeclared(WIDER)
    release(wide, rows("1-1"))
    wide.run()
    (refused,) = shown(wide, Selection())
    assert (refused["reasons"], refused["released_from"]) == (["conflicting_payload"], "1-1")


def test_a_released_event_that_waits_for_its_customer_remembers_where_it_came_from(site: Site) -> None:
    site.land("a.jsonl", order(1, quantity=500_000, customer_id=77))
    site.run()
    wide = site.redeclared(WIDER)
    release(wide, rows("1-1"))
    wide.run()
    assert wide.rows("backlog")["released_from"].to_pylist() == ["1-1"]
    assert wide.totals()["backlog_open"] == 1


def test_nobody_releases_while_a_batch_is_written(site: Site) -> None:
    site.land("a.jsonl", *too_many(1))
    site.run()
    with site.writing(), pytest.raises(Busy):
        release(site, rows("1-1"))


def test_what_names_no_line_is_a_sentence(site: Site) -> None:
    site.land("a.jsonl", *too_many(1))
    site.run()
    with pytest.raises(RowUnknown, match="1-2 is not a refused line of orders"):
        release(site, rows("1-1", "1-2"))
    with pytest.raises(NotARow):
        RowId.parse("1-1; drop table etl.batch")
    with pytest.raises(NothingChosen):
        release(site, Selection())
    assert shown(site, Selection())[0]["state"] == "open", "nothing was released by a call that names a wrong line"


def test_a_line_that_was_cut_cannot_come_back(site: Site) -> None:
    site.land("a.jsonl", b'{"order_id": 1, "note": "' + b"x" * 70_000 + b'"}', b"{")
    site.run()
    done = release(site, Selection(batch=1))
    assert [str(row) for row, _ in done.impossible] == ["1-1"]
    assert done.done == (RowId(1, 2),)


def test_lines_of_csv_come_back_under_their_own_headers(site: Site) -> None:
    sessions = site.of("web_sessions")
    EXAMPLES["web_sessions"].seed(sessions.dsn, sessions.settings.var)
    EXAMPLES["web_sessions"].generate(sessions.landing, 40, 1, datetime.now(UTC))
    sessions.run()
    refused = sessions.rows("quarantine").num_rows
    assert refused
    done = release(sessions, Selection(batch=1))
    assert len(done.done) == refused
    sessions.run()
    first, second = (sessions.record(batch).counts.reasons for batch in (1, 2))
    assert second == first, "the same lines, read in the same way, are refused for the same reasons"
    assert sessions.inventory().faults == []


def test_rows_of_parquet_come_back_as_they_were_kept(site: Site) -> None:
    trips = site.of("trips")
    EXAMPLES["trips"].seed(trips.dsn, trips.settings.var)
    EXAMPLES["trips"].generate(trips.landing, 60, 1, datetime.now(UTC))
    trips.run()
    first = dict(trips.record(1).counts.reasons)
    done = release(trips, Selection(batch=1))
    assert len(done.done) == trips.rows("quarantine").num_rows > 0
    trips.run()
    assert trips.record(2).counts.reasons == first
    assert trips.inventory().faults == []


def test_a_file_that_only_looks_like_one_of_ours_forges_no_history(site: Site) -> None:
    site.land("a.jsonl", *too_many(1))
    site.run()
    forged = {"from": "1-1", "header": None, "raw": "bm8gZXZlbnQ="}
    site.land(f"frontstage-release-000000001-{'0' * 16}.jsonl", forged, order(5), b'{"from": 7}')
    site.run()
    assert site.rows("fact")["order_id"].to_pylist() == [5], "what is not as we write it is an event like any other"
    with open_desk(site.settings, site.dsn, "orders") as desk:
        claimed = desk.quarantine.get(RowId(2, 1))
        assert (claimed.raw, desk.quarantine.history(claimed)) == (b"no event", [])
    assert site.inventory().faults == []
    assert shown(site, rows("1-1"))[0]["state"] == "open"


def test_a_ledger_restored_from_before_learns_from_the_files_what_was_released(site: Site) -> None:
    site.land("a.jsonl", *too_many(1))
    site.run()
    wide = site.redeclared(WIDER)
    release(wide, rows("1-1"))
    wide.run()
    wide.execute("delete from etl.quarantine_verdict")
    wide.execute("delete from etl.release_file")
    wide.execute("delete from etl.batch where batch = 2")
    wide.execute("delete from etl.claim_run where batch = 2")
    wide.execute('update etl.pipeline set published = \'{"fact": 0, "quarantine": 1}\'')
    wide.execute("update etl.total set batches = 1, lines = 1, accepted = 0, quarantined = 1")
    wide.execute("delete from mart.orders")
    wide.restarted().run()
    assert wide.inventory().faults == []
    assert release(wide, rows("1-1")).done == (), "it has come back once"


# ── commands ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def refused(commanded: Site, monkeypatch: pytest.MonkeyPatch) -> Site:
    """A site with hostile refused lines, which the commands find in their settings."""
    monkeypatch.setenv("COLUMNS", "400")
    commanded.land("a\x1b[31m.jsonl", b'\x1b]0;owned\x07[bold]{"', order(2, quantity=-1))
    commanded.run()
    return commanded


def invoke(*words: str) -> Result:
    return CliRunner().invoke(app, ["quarantine", *words])


@pytest.mark.usefixtures("refused")
def test_lists_show_hostile_lines_without_obeying_them() -> None:
    text = invoke("list", "orders").stdout + invoke("show", "orders", "1-1").stdout
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "\\x1b]0;owned\\x07[bold]" in text
    listed = json.loads(invoke("list", "orders", "--json").stdout)
    assert [one["row"] for one in listed] == ["1-1", "1-2"]


@pytest.mark.usefixtures("refused")
def test_commands_release_and_reject() -> None:
    released = invoke("release", "orders", "1-2", "--json", "--by", "grace", "--note", "'; drop schema etl; --")
    assert json.loads(released.stdout)["done"] == ["1-2"]
    assert invoke("reject", "orders", "1-1", "--note", "no event").stdout == "1 lines rejected\n"
    assert invoke("release", "orders", "1-1").stdout == "0 lines released\n1 were decided about before; that stays\n"
    found = json.loads(invoke("show", "orders", "1-2", "--json").stdout)
    assert (found["verdict"]["by"], found["verdict"]["note"]) == ("grace", "'; drop schema etl; --")
    assert "by" in invoke("show", "orders", "1-1").stdout
    assert isinstance(invoke("release", "orders").exception, NothingChosen)
    assert isinstance(invoke("show", "orders", "9-9").exception, RowUnknown)


def test_sensitive_values_are_masked_in_lines_and_keys(refused: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    hidden = refused.redeclared(('sensitive = ["', 'sensitive = ["order_id", "'))
    monkeypatch.setenv("FRONTSTAGE_PIPELINES", str(hidden.settings.pipelines))
    listed = json.loads(invoke("list", "orders", "--json").stdout)
    assert listed[1]["key"] == ["***"]
    assert '"order_id": "***"' in listed[1]["raw"]
    assert "owned" not in listed[0]["raw"], "a line that cannot be taken apart is not shown at all"


def test_a_column_of_parquet_that_is_not_declared_survives_a_release(site: Site, tmp_path: Path) -> None:
    trips = site.of("trips")
    EXAMPLES["trips"].seed(trips.dsn, trips.settings.var)
    EXAMPLES["trips"].generate(tmp_path / "made", 5, 1, datetime.now(UTC))
    path = min((tmp_path / "made").glob("*.parquet"))
    table = pq.read_table(path).slice(0, 1)
    fare = table.schema.get_field_index("fare")
    broken = table.set_column(fare, "fare", pa.array(["free"])).append_column("mood", pa.array(["fine"]))
    trips.landing.mkdir(parents=True, exist_ok=True)
    pq.write_table(broken, trips.landing / "x.parquet")
    trips.run()
    release(trips, Selection(batch=1))
    trips.run()
    assert "mood" in json.loads(trips.rows("quarantine")["raw_text"].to_pylist()[-1])
