"""`frontstage master …` and `frontstage explain` as a user types them, on a real Postgres."""

from __future__ import annotations

import json
import os
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from etl.adapters import ledger, postgres
from etl.adapters.ledger import Decision
from etl.cli import app
from etl.masters.pages.errors import NothingPublished
from etl.masters.pages.store import PageStore
from etl.masters.upkeep.maintenance import ReadDirectly, UnknownMaster
from etl.model import BatchCounts
from etl.samples import generate_master
from etl.settings import PROJECT
from tests.support.command import frontstage, one_sentence


@pytest.fixture(scope="module")
def orders_only(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that declares the pipeline of orders alone: masters of others are not in the test's database."""
    folder = tmp_path_factory.mktemp("pipelines")
    shutil.copy(PROJECT / "warehouse" / "pipelines" / "orders.toml", folder)
    return folder


@pytest.fixture
def home(tmp_path: Path, orders_only: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith("FRONTSTAGE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("FRONTSTAGE_HOME", str(tmp_path))
    monkeypatch.setenv("FRONTSTAGE_PIPELINES", str(orders_only))
    return tmp_path


@pytest.fixture
def dsn(home: Path, database: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A database with 2000 customers and 300 products, which the commands find in their settings."""
    monkeypatch.setenv("FRONTSTAGE_POSTGRES_DSN", database)
    with postgres.connect(database) as connection:
        generate_master(connection, seed=1, customers=2000, products=300)
    return database


def invoke(*words: str) -> Result:
    return CliRunner().invoke(app, words)


def printed(*words: str) -> str:
    done = invoke(*words)
    assert done.exit_code == 0, (done.output, done.exception)
    return done.output


def touch(dsn: str, query: str) -> None:
    with postgres.connect(dsn, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(query)


def test_publish_tells_rows_bytes_seconds_and_version_of_every_master(dsn: str) -> None:
    text = printed("master", "publish")
    assert "customer: 2,000 rows so far" in text
    for name, rows in (("customer", "2,000"), ("product", "300")):
        (line,) = [line for line in text.splitlines() if "published as" in line and name in line]
        assert f"{rows} rows, " in line
        assert " bytes published as version 1 in " in line
    assert "published as version 2" in printed("master", "publish", "product")
    found = json.loads(printed("master", "status", "--json"))["masters"]
    assert [one["version"] for one in found] == [1, 2]
    assert dsn not in text


def test_refresh_publishes_first_and_then_tells_what_changed(dsn: str) -> None:
    assert "for the first time" in printed("master", "refresh", "customer")
    touch(dsn, "delete from master.customers where customer_id <= 3")
    assert "3 rows named as changed; version 2 has 1,997 rows" in printed("master", "refresh", "customer")
    assert "nothing has changed" in printed("master", "refresh", "customer")


def test_compact_folds_what_changed_and_removes_old_versions(dsn: str) -> None:
    assert "nothing is published yet" in printed("master", "compact")
    printed("master", "publish")
    touch(dsn, "delete from master.customers where customer_id <= 3")
    printed("master", "refresh")
    assert "no overlays had to be folded" in printed("master", "compact", "customer")
    assert "1 overlays folded into a new base (version 3), 1 old versions removed" in printed(
        "master", "compact", "customer", "--force"
    )


def test_status_says_that_nothing_is_published_without_asking_a_database(home: Path) -> None:
    text = printed("master", "status")
    assert text.count("nothing is published yet") == 2
    assert not list(home.iterdir()), "nothing is written for being looked at"
    plain = json.loads(printed("master", "status", "--json"))
    assert [one["published"] for one in plain["masters"]] == [False, False]


def test_status_shows_versions_overlays_age_and_who_has_pinned_what(home: Path, dsn: str) -> None:
    printed("master", "publish")
    PageStore(home / "var" / "master" / "postgres.master.customers").pin(
        "batch 12", datetime(2026, 1, 1, 10, tzinfo=UTC)
    )
    touch(dsn, "delete from master.customers where customer_id <= 3")
    printed("master", "refresh")
    text = printed("master", "status", "customer")
    assert "overlays   1 with 3 changed rows, 3 of them deleted" in text
    assert "versions 1, 2" in text
    assert "pinned     version 1 by batch 12 since 2026-01-01 10:00:00 UTC" in text
    assert "follow change_log" in text
    assert "postgresql://" not in text


def test_a_damaged_store_is_shown_beside_the_others_and_is_a_failure(home: Path, dsn: str) -> None:
    printed("master", "publish")
    (home / "var" / "master" / "postgres.master.customers" / "versions" / "00000001.json").write_text("{}")
    done = invoke("master", "status")
    assert done.exit_code == 1
    said = " ".join(done.output.split())
    assert "manifest 00000001.json is damaged" in said
    assert "rows 300 in" in said, "the product is fine"


@pytest.mark.parametrize("command", ["publish", "refresh", "compact", "status"])
def test_an_unknown_master_is_refused_before_anything_is_started(home: Path, command: str) -> None:
    done = invoke("master", command, "clients")
    assert isinstance(done.exception, UnknownMaster)
    assert not list(home.iterdir())


def test_masters_that_are_read_directly_have_a_status_but_are_not_published(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRONTSTAGE_MASTER_STORE", "direct")
    assert "read directly where they are kept" in printed("master", "status")
    assert json.loads(printed("master", "status", "--json")) == {"store": "direct", "masters": []}
    for command in ("publish", "refresh", "compact"):
        assert isinstance(invoke("master", command).exception, ReadDirectly)
    assert not list(home.iterdir())


@pytest.mark.slow
def test_mistakes_are_one_sentence_with_exit_codes_that_mean_something(tmp_path: Path, orders_only: Path) -> None:
    declared = {"FRONTSTAGE_PIPELINES": str(orders_only)}
    done = frontstage("master", "publish", "clients", home=tmp_path, **declared)
    assert done.returncode == 64
    assert "'clients' is not a master; the pipelines declare customer, product" in one_sentence(done)
    done = frontstage("master", "publish", home=tmp_path, FRONTSTAGE_MASTER_STORE="direct")
    assert done.returncode == 78
    assert "FRONTSTAGE_MASTER_STORE=pages" in one_sentence(done)
    nowhere = "postgresql://me:hunter2@127.0.0.1:1/x"
    done = frontstage("master", "refresh", home=tmp_path, FRONTSTAGE_POSTGRES_DSN=nowhere)
    assert done.returncode == 69
    assert "hunter2" not in done.stdout + one_sentence(done)


def test_explain_shows_the_plan_the_costs_the_prices_and_the_choice(dsn: str) -> None:
    assert isinstance(invoke("explain").exception, NothingPublished)
    printed("master", "publish")
    text = printed("explain", "--tuples", "1000", "--keys", "100")
    assert "auto: the cheapest is chosen for every batch" in text
    assert "customer: 2,000 rows of about " in text
    assert "1000 tuples with 100 distinct keys to join: " in text
    assert "rows, shared by all workers" in text
    assert text.count("no batch has used it yet") == 2
    for name in ("inlj", "hybridjoin", "meshjoin"):
        assert text.count(f"      {name} ") == 2, "a price for both masters"
    assert dsn not in text


def test_explain_says_when_the_tactic_is_not_chosen_but_set(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRONTSTAGE_TACTIC", "meshjoin")
    printed("master", "publish")
    text = printed("explain", "--tuples", "100")
    assert "meshjoin, because it is set; FRONTSTAGE_TACTIC=auto" in text
    assert "what auto would choose (meshjoin is set)" in text
    assert "shared by all workers" not in text, "meshjoin has no front stage"


def test_explain_shows_what_the_newest_batches_really_used(dsn: str) -> None:
    printed("master", "publish")
    engine = {
        "tactics": {"inlj": 900, "meshjoin": 100}, "tuples": 1000, "front_hits": 750, "misses_capacity": 240,
        "misses_absent": 10, "pages": 12, "lookups": 130, "shed": 4, "state_bytes": 1,
    }  # fmt: skip
    with ledger.writing(dsn, "orders", "test") as writer:
        now = datetime.now(UTC)
        writer.ledger.fix(1, "run", now, [])
        writer.ledger.decide(1, now, Decision((), BatchCounts(), {"customer": 1}, (), (), {}, {}), writer.epoch)
        writer.ledger.record_joins(1, {"customer": engine})
    text = printed("explain", "--tuples", "100")
    assert "batch 1     1,000 tuples by inlj for 900, meshjoin for 100; 75.0% from the front stage" in text
    assert "130 keys looked up, 12 pages read, 4 deferred" in text
    plain = json.loads(printed("explain", "--tuples", "100", "--json"))
    assert plain["batches"] == [{"batch": "1", "joins": {"customer": engine}}]
    assert plain["masters"][0]["prices_s"].keys() == {"inlj", "hybridjoin", "meshjoin"}
    assert plain["masters"][0]["memory"]["front_bytes"] == int(plain["budget_bytes"] * 0.75) // 2


def test_follow_notes_changes_from_now_on_and_says_so(home: Path, dsn: str) -> None:
    assert printed("master", "follow").count("are noted by triggers already") == 2
    with postgres.connect(dsn) as connection, connection.cursor() as cursor:
        cursor.execute("drop trigger log_delete on master.customers")
        connection.commit()
    assert "changes of master.customers are noted by triggers from now on" in printed("master", "follow", "customer")
    assert printed("master", "follow").count("already") == 2
