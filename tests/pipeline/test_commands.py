"""`frontstage status`, `audit` and `report` about batches that have run."""

from __future__ import annotations

import json

import pytest

from etl.adapters.ledger import NotHeld
from etl.errors import AuditFailed, TerminalError
from etl.pipeline.prepare import UnknownPipeline
from etl.pipeline.review.held import ReasonMissing
from tests.support.invoke import invoke
from tests.support.site import STRICT, Site, order


@pytest.mark.usefixtures("told")
def test_status_shows_where_every_event_is_and_the_batches_of_every_pipeline() -> None:
    found = json.loads(invoke("status", "--json").stdout)["pipelines"]
    assert (found["trips"]["standing"], found["trips"]["totals"], found["trips"]["batches"]) == (
        "has not run yet",
        {},
        [],
    )
    assert found["orders"]["audit"]["success"]
    assert found["orders"]["freshness_p95_s"] is not None
    assert [heap["cause"] for heap in found["orders"]["backlog"]] == ["master"]
    totals = found["orders"]["totals"]
    assert (totals["lines"], totals["fact"], totals["quarantine"], totals["duplicates"]) == (4, 1, 1, 1)
    assert totals["quarantine_open"] == 1
    (batch,) = found["orders"]["batches"]
    assert (batch["batch"], batch["state"], batch["accepted"]) == (1, "loaded", 1)
    text = invoke("status").stdout
    assert "trips: has not run yet" in text
    assert "loaded" in text


def test_an_audit_that_adds_up_succeeds_and_one_that_does_not_says_what_and_fails(told: Site) -> None:
    done = invoke("audit")
    assert (done.exit_code, "orders: it adds up" in done.stdout) == (0, True)
    told.execute("delete from mart.orders")
    done = invoke("audit", "orders", "--json")
    assert done.exit_code == 1
    (counted,) = json.loads(done.stdout[done.stdout.index("[\n") :])
    assert counted["faults"] == ["mart.orders has 0 rows, the fact table 1"]


def test_what_waits_is_listed_by_what_it_waits_for_and_shown_event_by_event(told: Site) -> None:
    (heap,) = json.loads(invoke("backlog", "list", "--json").stdout)
    assert (heap["pipeline"], heap["waits_for"], heap["events"], heap["files"]) == ("orders", "master", 1, 1)
    assert "1 events wait" in invoke("backlog", "list").stdout
    (event,) = json.loads(invoke("backlog", "show", "orders", "--json").stdout)
    assert (event["key"], event["reasons"], event["file"], event["line"]) == (["2"], ["unknown_customer"], "a.jsonl", 3)
    assert "unknown_customer" in invoke("backlog", "show", "orders").stdout
    assert isinstance(invoke("backlog", "show", "nothing").exception, UnknownPipeline)


def test_a_held_batch_is_listed_and_decided_about_by_command(told: Site) -> None:
    strict = told.redeclared(add=STRICT)
    strict.land("b.jsonl", order(5))
    with pytest.raises(AuditFailed):
        strict.run()
    (held,) = json.loads(invoke("held", "list", "--json").stdout)
    assert (held["pipeline"], held["batch"], held["events"], held["others_wait"]) == ("orders", 2, 1, True)
    assert [one["name"] for one in held["failed"]] == ["expect_column_max_to_be_between"]
    assert "1 batches wait for a decision" in invoke("held", "list").stdout
    assert isinstance(invoke("held", "reject", "orders", "2", "--note", " ").exception, ReasonMissing)
    assert "batch 2 of orders is rejected" in invoke("held", "reject", "orders", "2", "--note", "wrong").stdout
    again = json.loads(invoke("held", "release", "orders", "2", "--json").stdout)
    assert again["decided_before"], "the first word stands"
    assert isinstance(invoke("held", "release", "orders", "1").exception, NotHeld)
    assert invoke("held", "list", "--json").stdout.strip() == "[]"


@pytest.mark.usefixtures("told")
def test_a_report_is_found_by_its_batch_or_as_the_newest_of_the_only_pipeline_that_has_run() -> None:
    for words in (("report",), ("report", "orders", "--batch", "1")):
        assert "batch 1: loaded, 4 lines read; 1 events went into the warehouse" in invoke(*words).stdout
    assert json.loads(invoke("report", "--json").stdout)["totals"]["balanced"]


@pytest.mark.usefixtures("told")
def test_what_was_loaded_is_listed_step_by_step_as_the_page_draws_it() -> None:
    found = json.loads(invoke("report", "history", "orders", "--span", "30d", "--json").stdout)
    (point,) = found["points"]
    assert (found["span"], point["lines"], point["accepted"], point["backlog_open"]) == ("30d", 4, 1, 1)
    assert "orders: 1 batch in the last 24h" in invoke("report", "history").stdout


@pytest.mark.usefixtures("told")
def test_a_pipeline_that_is_not_declared_or_not_named_is_a_sentence() -> None:
    for command in ("audit", "report", "run"):
        assert isinstance(invoke(command, "sales").exception, UnknownPipeline)


def test_which_pipeline_is_asked_when_several_have_run(told: Site) -> None:
    (told.settings.warehouse / "trips").mkdir()
    done = invoke("report")
    assert isinstance(done.exception, TerminalError)
    assert str(done.exception) == "which pipeline? name one of orders, trips"


SHOWN = [
    "status", "audit", "report", "doctor --no-machine", "pipeline list", "pipeline show orders", "pipeline check",
    "quarantine list orders", "quarantine show orders 1-1", "backlog list", "backlog show orders", "held list",
    "explain-event orders 1", "correlate list", "correlate check", "correlate status", "correlate history",
    "query list", "master status", "report history orders", "reprocess orders --from 2026-11-01 --dry-run",
]  # fmt: skip


@pytest.mark.usefixtures("told")
def test_what_commands_show_fits_a_terminal_of_eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for words in SHOWN:
        done = invoke(*words.split())
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        wide = [line for line in done.stdout.splitlines() if len(line) > 80]
        assert [line for line in wide if "/" not in line] == [], "only the path of a file is longer"
        assert [line for line in done.stdout.splitlines() if line[:1] == "┃" and "…" in line] == [], words
        assert "\\xa0" not in done.stdout, words
        assert done.stdout.strip(), words


@pytest.mark.usefixtures("told")
def test_commands_that_only_say_that_all_is_well_say_so_as_json() -> None:
    nothing = json.loads(invoke("down", "--json").stdout)
    assert nothing == {"stopped": False}
    found = json.loads(invoke("pipeline", "check", "--json").stdout)
    assert all(one["good"] and one["errors"] == [] for one in found)
    assert len(found) >= 3
