"""Runs that start by themselves: real Airflow, the resident driver, and files that land."""

from __future__ import annotations

import json
import os
import runpy
import signal
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from etl import settings as configuration
from etl.adapters import ledger, postgres
from etl.pipeline.inspection import inventory
from etl.pipeline.prepare import Preparer, places_of
from etl.settings import PROJECT, Settings
from etl.stack import postgres as stack_postgres
from etl.stack.airflow.client import Airflow, AirflowRefused, Run
from etl.stack.credentials import credentials
from etl.stack.stack import Stack
from etl.stack.supervision.processes import marked, wait_until
from tests.support.command_line import command_line

pytestmark = pytest.mark.stack

SOON_S = 180.0  # far beyond what it takes; a busy machine is no failure
QUIET_S = 6.0  # the watcher asks twice a second
BATCH_BYTES = 200_000
MANY = 4_500  # readings, and more bytes than that
EXAMPLE = PROJECT / "examples" / "sites"
VALUES: dict[str, Any] = {"page": "shop", "units": 1, "price": 1.5}

PIPELINE = """
name = "{name}"
schedule = "{schedule}"
grace = "7d"

[stream]
source = {{ landing = "landing/{name}", format = "jsonl" }}
key = ["reading_id"]

[stream.fields]
reading_id = "bigint"
sensor_id = "int"
value = "double"

[master.sensor]
table = "postgres:plant.sensors"
on = {{ sensor_id = "sensor_id" }}
columns = ["room"]
history = "scd1"

[mart.{name}]
columns = ["reading_id", "sensor.room", "value"]

[[expectations]]
type = "expect_column_max_to_be_between"
column = "value"
max_value = 1000
"""

MASTER = """
create schema plant;
create table plant.sensors (sensor_id int primary key, room text not null);
insert into plant.sensors select i, 'room ' || i from generate_series(1, 100) as i;
select master.keep_change_log('plant.sensors', 'sensor_id');
"""


@dataclass(frozen=True)
class Plant:
    """A running stack with pipelines about sensors."""

    settings: Settings
    airflow: Airflow
    dsn: str

    def land(self, file: str, *lines: str, name: str = "readings", end: str = "\n") -> Path:
        folder = self.settings.var / "landing" / name
        folder.mkdir(parents=True, exist_ok=True)
        draft = folder / f".{file}"
        draft.write_text("\n".join(lines) + end)
        return draft.rename(folder / file)

    def totals(self, name: str = "readings") -> dict[str, int]:
        with ledger.reading(self.dsn, name) as book:
            return book.totals()

    def fact(self, name: str = "readings") -> int:
        return self.totals(name).get("fact", 0)

    def runs(self, name: str = "readings") -> list[Run]:
        return self.airflow.runs(name)

    def until(self, met: Callable[[], bool], why: str) -> None:
        assert wait_until(met, SOON_S, every_s=0.2), f"{why}; {self.totals()} after {self.runs()[:3]}"

    def until_quiet(self, name: str = "readings") -> int:
        """Wait until no run is under way; gives how many there have been."""
        self.until(lambda: all(run.done for run in self.runs(name)), "runs end")
        return len(self.runs(name))

    def until_more(self, name: str, than: int) -> None:
        """Wait for a run that starts by itself, and until none is under way."""
        self.until(lambda: len(self.runs(name)) > than, "a run starts by itself")
        self.until_quiet(name)

    def execute(self, statement: str) -> None:
        with postgres.connect(self.dsn, autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute(statement)


def reading(number: int, sensor: int = 1, value: float = 20.0) -> str:
    return json.dumps({"reading_id": number, "sensor_id": sensor, "value": value})


@pytest.fixture(scope="module")
def plant(session_home: Path) -> Iterator[Plant]:
    home = session_home / "arrival"
    pipelines = home / "pipelines"
    pipelines.mkdir(parents=True)
    schedules = {"readings": "on_arrival", "endless": "@continuous", "hourly": "0 * * * *", "by_hand": "none"}
    for name, schedule in schedules.items():
        (pipelines / f"{name}.toml").write_text(PIPELINE.format(name=name, schedule=schedule))
    unused = PIPELINE.format(name="unused", schedule="none").replace("plant.sensors", "plant.doors")
    (pipelines / "unused.toml").write_text(unused.replace("sensor]", "door]").replace("sensor.", "door."))
    late = PIPELINE.format(name="late", schedule="none").replace("grace =", 'freshness = "1s"\ngrace =')
    (pipelines / "late.toml").write_text(late)  # sooner than a run can be done
    readings = pipelines / "readings.toml"
    readings.write_text(readings.read_text().replace("grace =", 'freshness = "1h"\ngrace ='))
    (pipelines / "mistaken.toml").write_text(PIPELINE.format(name="mistaken", schedule="none") + "\ncolour = 'red'\n")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    own = configuration.load(
        home=home,
        pipelines=pipelines,
        jars=PROJECT / "var" / "jars",
        airflow_port=port,
        batch_bytes=BATCH_BYTES,
        sites=EXAMPLE / "sites.toml",
        streams=EXAMPLE / "streams",
        correlations=EXAMPLE / "correlations",
        alert_notifier="tests.support.notifier.FileNotifier",
        alert_notifier_arguments=json.dumps({"path": str(home / "told"), "text": "{{ frontstage.sentence }}"}),
    )

    def on_postgres(dsn: str) -> None:
        postgres.migrate(dsn)
        with postgres.connect(dsn, autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute(MASTER)

    with Stack(own, on_postgres=on_postgres) as stack, stack.airflow() as airflow:
        airflow.wait_for_dag("readings")
        airflow.unpause("readings")
        yield Plant(own, airflow, stack.postgres_dsn)
    assert marked(own.var) == [], "nothing is left running"


def test_a_file_that_lands_is_loaded_by_a_run_that_starts_by_itself(plant: Plant) -> None:
    plant.land("first.jsonl", *map(reading, range(1, 11)))
    plant.until(lambda: plant.fact() == 10, "the file is loaded")
    plant.until_quiet()
    run, *others = plant.runs()
    assert (run.state, others) == ("success", [])
    assert run.run_id.startswith("asset_triggered")


def test_every_table_of_the_run_has_an_asset_event_with_counts_batch_and_master_versions(plant: Plant) -> None:
    events = plant.airflow.asset_events("readings")
    written = ("fact", "quarantine", "backlog", "dim_sensor", "mart-readings")
    assert {f"readings-{table}" for table in written} <= events.keys()
    told = events["readings-fact"]
    assert (told["batch"], told["lines"], told["accepted"], told["quarantined"]) == (1, 10, 10, 0)
    assert set(told["master_versions"]) == {"sensor"}


def test_an_idle_stack_starts_no_runs(plant: Plant) -> None:
    before = plant.until_quiet()
    assert not wait_until(lambda: len(plant.runs()) > before, QUIET_S)


def test_files_beyond_one_batchs_limit_get_runs_of_their_own(plant: Plant) -> None:
    before, had = plant.until_quiet(), plant.fact()
    for part in range(3):
        first = 100_000 + MANY * part
        plant.land(f"large-{part}.jsonl", *map(reading, range(first, first + MANY)))
    plant.until(lambda: plant.fact() == had + 3 * MANY, "all files are loaded")
    assert plant.until_quiet() >= before + 2
    assert {run.state for run in plant.runs()} == {"success"}


def test_a_file_whose_last_line_is_completed_later_is_finished(plant: Plant) -> None:
    had = plant.fact()
    path = plant.land("growing.jsonl", reading(2_001), reading(2_002)[:20], end="")
    plant.until(lambda: plant.fact() == had + 1, "the whole line is loaded")
    with path.open("a") as file:
        file.write(reading(2_002)[20:] + "\n")
    plant.until(lambda: plant.fact() == had + 2, "the line that was completed is loaded")
    assert plant.totals()["quarantine"] == 0


def test_an_event_that_waits_gets_its_run_when_its_master_changes(plant: Plant) -> None:
    had = plant.fact()
    plant.land("early.jsonl", reading(3_001, sensor=500))
    plant.until(lambda: plant.totals()["backlog_open"] == 1, "it waits")
    before = plant.until_quiet()
    assert not wait_until(lambda: len(plant.runs()) > before, QUIET_S), "waiting alone is no reason for a run"
    plant.execute("insert into plant.sensors values (500, 'attic')")
    plant.until(lambda: plant.fact() == had + 1, "it waits no longer")
    assert plant.totals()["backlog_open"] == 0


def test_a_held_batch_shows_and_holds_the_line_until_it_is_released(plant: Plant) -> None:
    plant.until_quiet()
    had = plant.fact()
    plant.land("hot.jsonl", reading(4_001, value=5_000))
    plant.until(lambda: plant.runs()[0].state == "failed", "the run says that something is wrong")
    with ledger.reading(plant.dsn, "readings") as book:
        held = book.oldest_unloaded()
    assert held is not None
    assert held.state == "held"
    plant.land("after.jsonl", reading(4_002))
    before = plant.until_quiet()
    assert not wait_until(lambda: len(plant.runs()) > before, QUIET_S), "no run can do anything about it"
    page = (plant.settings.reports / "readings" / str(held.batch) / "index.html").read_text()
    assert "the audit holds this batch" in page
    question = f"readings-{held.batch}"
    plant.until(lambda: bool(plant.airflow.required_actions("held", question)), "somebody is asked")
    run = plant.airflow.trigger("readings", {"release": held.batch})
    assert plant.airflow.wait("readings", run, timeout_s=SOON_S).state == "success"
    plant.until(lambda: plant.fact() == had + 2, "what came after is loaded too")
    assert plant.airflow.wait("held", question, timeout_s=SOON_S).state == "success", "it need not be answered any more"
    assert plant.airflow.task_states("held", question)["question"] == "skipped"


def test_a_held_batch_is_rejected_by_a_person_in_airflow_and_the_line_goes_on(plant: Plant) -> None:
    plant.until_quiet()
    had, refused = plant.fact(), plant.totals()["quarantine"]
    failed = [one.state for one in plant.runs()].count("failed")
    plant.land("hot-again.jsonl", reading(6_001, value=5_000))
    plant.until(lambda: plant.runs()[0].state == "failed", "the run says that something is wrong")
    with ledger.reading(plant.dsn, "readings") as book:
        (held,) = book.unjudged()
    plant.land("later.jsonl", reading(6_002))
    run = f"readings-{held.batch}"
    plant.until(lambda: bool(plant.airflow.required_actions("held", run)), "somebody is asked")
    (asked,) = plant.airflow.required_actions("held", run)
    assert asked["options"] == ["Release", "Reject"]
    assert f"batch {held.batch} of readings" in asked["body"].replace("\\", "")

    plant.airflow.respond("held", run, "question", "Reject", note="a broken sensor")  # at once, and only once
    plant.until(lambda: plant.totals()["quarantine"] == refused + 1, "it is refused")
    plant.until(lambda: plant.fact() == had + 1, "what came after is loaded")
    assert plant.airflow.wait("held", run, timeout_s=SOON_S).state == "success"
    plant.until_quiet()
    with ledger.reading(plant.dsn, "readings") as book:
        rejected = book.get(held.batch)
    assert (rejected.state, plant.airflow.run("readings", plant.runs()[0].run_id).state) == ("loaded", "success")
    assert [one.state for one in plant.runs()].count("failed") == failed + 1, "only the run that was held"


def test_the_triggerer_may_be_killed_in_between(plant: Plant) -> None:
    had = plant.fact()
    triggerers = [one for one in marked(plant.settings.var) if command_line(one)[:1] == ["airflow triggerer"]]
    first = min(triggerers, key=lambda one: one.create_time())  # the others are its children
    os.kill(first.pid, signal.SIGKILL)
    plant.land("meanwhile.jsonl", reading(5_001))
    plant.until(lambda: plant.fact() == had + 1, "a new triggerer sees the file")


def test_every_kind_of_schedule_becomes_one_of_airflows(plant: Plant) -> None:
    def summary(name: str) -> str:
        plant.airflow.wait_for_dag(name)
        return str(plant.airflow.dag(name)["timetable_summary"])

    assert summary("readings") == "Asset"
    assert summary("endless") == "@continuous"
    assert summary("hourly") == "0 * * * *"
    assert summary("by_hand") in ("None", "null", "Never, external triggers only")


def test_continuous_and_manual_pipelines_load_what_has_landed(plant: Plant) -> None:
    for name in ("endless", "by_hand"):
        plant.land("one.jsonl", reading(1), name=name)
        plant.airflow.unpause(name)
    plant.airflow.trigger("by_hand")
    try:
        plant.until(lambda: plant.fact("endless") == 1, "@continuous starts a run by itself")
        plant.until(lambda: plant.fact("by_hand") == 1, "a run by hand loads")
    finally:
        plant.airflow.pause("endless")


def test_a_mistaken_file_has_a_dag_that_says_so_and_leaves_the_others_alone(plant: Plant) -> None:
    plant.airflow.wait_for_dag("broken_mistaken")
    assert "colour" in plant.airflow.dag("broken_mistaken")["description"]
    had = plant.fact()
    plant.land("others.jsonl", reading(6_001))
    plant.until(lambda: plant.fact() == had + 1, "the other pipelines go on")


def test_master_data_skips_what_nobody_has_used_and_tells_what_changed(plant: Plant) -> None:
    plant.until_quiet()
    plant.airflow.wait_for_dag("master_data")
    plant.airflow.unpause("master_data")
    plant.until(lambda: bool(plant.runs("master_data")), "the hour's run starts by itself")
    plant.until_quiet("master_data")
    plant.execute("update plant.sensors set room = 'cellar' where sensor_id = 7")
    run = plant.airflow.trigger("master_data")
    assert plant.airflow.wait("master_data", run, timeout_s=SOON_S).state == "success"
    states = plant.airflow.task_states("master_data", run)
    assert states["door.refresh"] == "skipped", "its table does not even exist"
    assert states["sensor.refresh"] == "success"
    assert plant.airflow.asset_events("master_data")["master-sensor"]["master"] == "sensor"
    again = plant.airflow.trigger("master_data")
    assert plant.airflow.wait("master_data", again, timeout_s=SOON_S).state == "success"
    assert plant.airflow.task_states("master_data", again)["sensor.refresh"] == "skipped", "no row has changed"


def test_maintenance_keeps_up_every_pipeline_on_the_resident_driver(plant: Plant) -> None:
    had = plant.fact()
    plant.airflow.wait_for_dag("maintenance")
    plant.airflow.unpause("maintenance")
    run = plant.airflow.trigger("maintenance", {"days": 7})
    assert plant.airflow.wait("maintenance", run, timeout_s=6 * SOON_S).state == "success"
    plant.land("kept-up.jsonl", reading(8_001))
    plant.until(lambda: plant.fact() == had + 1, "batches go on")


def test_a_run_that_is_not_done_in_time_is_told_by_a_log_line_and_a_notifier(plant: Plant) -> None:
    plant.airflow.wait_for_dag("late")
    plant.airflow.unpause("late")
    plant.land("one.jsonl", reading(1), name="late")
    run = plant.airflow.trigger("late")
    told = plant.settings.home / "told"
    plant.until(told.exists, "somebody is told")
    (sentence,) = told.read_text().splitlines()
    assert sentence.startswith(f"late is not fresh: run {run} was not done within 1 s; "), "and no run of readings"
    line = next(line for line in _log_lines(plant.settings.var / "logs") if "not fresh" in line)
    assert (run in line, "freshness_s" in line) == (True, True)
    plant.until(lambda: plant.fact("late") == 1, "it is loaded all the same")


def _log_lines(folder: Path) -> list[str]:
    return [line for path in folder.rglob("*.log") for line in path.read_text(errors="replace").splitlines()]


def test_a_backfill_is_refused_with_a_sentence(plant: Plant) -> None:
    plant.airflow.wait_for_dag("hourly")
    day = "2026-11-01T00:00:00Z"
    body = {"dag_id": "hourly", "from_date": day, "to_date": "2026-11-02T00:00:00Z", "run_backwards": False}
    with pytest.raises(AirflowRefused, match="does not allow backfill runs"):
        plant.airflow._call("backfill", "POST", "/api/v2/backfills", json=body)
    assert plant.runs("hourly") == []
    assert "reprocess_from" in plant.airflow._call("show a DAG", "GET", "/api/v2/dags/hourly/details")["doc_md"]


def test_days_are_processed_again_by_form_beside_the_live_schedule(plant: Plant) -> None:
    plant.until_quiet()
    had, refused = plant.fact(), plant.totals()["quarantine"]
    plant.land("broken.jsonl", "{")
    plant.until(lambda: plant.totals()["quarantine"] == refused + 1, "a line is refused")
    wrong = plant.airflow.trigger("readings", {"reprocess_from": "2026-11-03", "reprocess_to": "2026-11-01"})
    assert plant.airflow.wait("readings", wrong, timeout_s=SOON_S).state == "failed", "no days that follow each other"
    with pytest.raises(AirflowRefused, match="reprocess_from"):
        plant.airflow.trigger("readings", {"reprocess_from": "soon"})
    opened = plant.totals()["quarantine"]
    plant.land("live.jsonl", *map(reading, range(9_001, 9_006)))
    today = datetime.now(UTC).date()
    days = {"reprocess_from": str(today - timedelta(days=1)), "reprocess_to": str(today + timedelta(days=1))}
    run = plant.airflow.trigger("readings", days)
    plant.land("live-too.jsonl", *map(reading, range(9_006, 9_011)))
    assert plant.airflow.wait("readings", run, timeout_s=2 * SOON_S).done
    plant.until(lambda: plant.fact() == had + 10, "what landed meanwhile is loaded, once")
    plant.until(lambda: plant.totals()["quarantine"] > opened, "what was refused was read again, and is refused again")
    plant.until_quiet()
    declared = Preparer(plant.settings, plant.dsn).declared("readings")
    with ledger.reading(plant.dsn, "readings") as book:
        assert inventory.take(declared, places_of(plant.settings, declared), book, plant.dsn).faults == []


def test_streams_of_three_sites_meet_by_tasks_of_each_site_and_the_report_says_what_was_shipped(plant: Plant) -> None:
    streams = runpy.run_path(str(EXAMPLE / "land.py"))["STREAMS"]
    places = [plant.settings.var / "sites" / site for site in ("eu", "us", "ap")]
    for place in places:
        place.mkdir(parents=True)
    plant.airflow.wait_for_dag("correlations")
    midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    for wave in range(2):
        for stream, key, moment, extra in streams:
            at = [midnight + timedelta(seconds=40 * wave + i / 2) for i in range(60)]
            tuples = [
                {key: 100 * wave + i, "sku": i % 7, moment: at[i].isoformat(), extra: VALUES[extra]} for i in range(60)
            ]
            plant.land(f"{wave}.jsonl", *map(json.dumps, tuples), name=f"sites/{stream}")
        plant.airflow.unpause("correlations")
        plant.until_more("correlations", than=wave)
    run = plant.runs("correlations")[0]
    states = plant.airflow.task_states("correlations", run.run_id)
    assert states.keys() >= {f"site_{place.name}.hot_items" for place in places} | {"gather", "report"}
    assert (run.state, set(states.values())) == ("success", {"success"})
    reports = [json.loads(path.read_text()) for path in plant.settings.reports.glob("correlations/*/report.json")]
    shipped = [report["sites"]["hot_items"] for report in reports]
    assert sum(one["shipped_bytes"] for one in shipped) > 0
    assert sum(one["otherwise"]["centralised"] for one in shipped) > 0
    table = DeltaTable(str(plant.settings.warehouse / "correlations" / "hot_items" / "results"))
    assert 0 < table.count() == sum(one["rows"] for one in shipped)


def test_no_secret_is_in_a_log_a_report_or_what_tasks_tell_each_other(plant: Plant) -> None:
    secrets = [one.encode() for one in asdict(credentials(plant.settings)).values()]
    airflow_dsn = stack_postgres.dsn(plant.settings, stack_postgres.AIRFLOW)
    with postgres.connect(airflow_dsn) as connection, connection.cursor() as cursor:
        cursor.execute("select dag_id || ' ' || key, value::text from xcom")
        texts = {name: value.encode() for name, value in cursor.fetchall() if value is not None}
    assert texts, "tasks have told something"
    files = [path for folder in ("logs", "reports") for path in (plant.settings.var / folder).rglob("*")]
    texts |= {str(path): path.read_bytes() for path in files if path.is_file()}
    assert [name for name, text in texts.items() if any(secret in text for secret in secrets)] == []


def test_events_are_fresh_in_the_mart(plant: Plant, record_property: Callable[[str, Any], None]) -> None:
    """States how long it took; a busy machine is no failure."""
    had, began = plant.fact(), time.monotonic()
    plant.until_quiet()
    plant.land("fresh.jsonl", *map(reading, range(7_001, 7_011)))
    plant.until(lambda: plant.fact() == had + 10, "the file is loaded")
    with ledger.reading(plant.dsn, "readings") as book:
        last = book.last()
    assert last is not None
    assert last.freshness is not None
    assert 0 < last.freshness["p95"] <= time.monotonic() - began
    record_property("freshness_s", last.freshness)
