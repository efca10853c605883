"""What a soak calls growth, and what it does not; what it lands, and which process is which."""

from __future__ import annotations

import shlex
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.page import table
from bench.soak import section
from bench.soak.__main__ import beside, settings_in
from bench.soak.aims import aims, flat
from bench.soak.load import BURST, BURST_S, PERIOD_S, config_of, times_as_many
from bench.soak.samples import LISTED, SHORT_LIVED, Sample, kind
from etl.samples.config import late_customers

FRESH = {"p50": 1.0, "p95": 2.0}


def samples(**drawn: Callable[[int], float]) -> list[Sample]:
    """A hundred samples of a soak in which nothing grows, but for what is drawn."""
    processes = {"memory_mb driver": 100.0, "open_files driver": 50.0}
    steady = {**processes, "claim_runs": 5.0, "backlog": 40.0, **dict.fromkeys(LISTED, 10.0)}
    return [{**steady, **{name: draw(at) for name, draw in drawn.items()}} for at in range(100)]


def missed(found: list[Sample], backlog: int = 0, failed: int = 0, missing: int = 0) -> list[str]:
    return [aim["name"].split(":")[0] for aim in aims(found, backlog, failed, missing, FRESH) if not aim["met"]]


def test_what_stays_is_met() -> None:
    assert missed(samples()) == []


@pytest.mark.parametrize("name", ["memory_mb driver", "open_files driver"])
def test_what_grows_after_the_warm_up_is_missed(name: str) -> None:
    assert missed(samples(**{name: lambda at: 100.0 + at})) == [name]
    assert missed(samples(**{name: lambda at: 100.0 + 5 * min(at, 25)})) == [], "what grows in the warm-up is none"


def test_processes_that_live_for_one_task_are_not_judged() -> None:
    found = samples(**{f"memory_mb {SHORT_LIVED}": lambda at: 1.0 + at})
    assert f"memory_mb {SHORT_LIVED}" in found[0]
    assert flat(found) == ["memory_mb driver", "open_files driver"]


@pytest.mark.parametrize("name", LISTED)
def test_files_that_rise_and_fall_with_maintenance_are_met_and_those_that_only_rise_are_missed(name: str) -> None:
    assert missed(samples(**{name: lambda at: 10.0 * (at % 10)})) == []
    assert missed(samples(**{name: lambda at: 2.0 * at})) == [name]


def test_a_backlog_at_the_end_is_missed_and_so_is_one_that_never_filled() -> None:
    assert missed(samples(), backlog=1) == ["backlog at the end"]
    assert missed(samples(backlog=lambda _: 0.0)) == ["backlog at its most"]


def test_a_process_that_came_or_went_in_between_is_not_called_flat() -> None:
    for drawn in (range(60), range(60, 100)):
        found = samples()
        for at in drawn:
            del found[at]["memory_mb driver"]
        assert missed(found) == ["memory_mb driver"]


def test_processes_of_no_known_kind_may_come_and_go_and_none_may_stay() -> None:
    assert missed(samples(**{"processes others": lambda at: float(at < 99), "memory_mb others": lambda _: 9.0})) == []
    assert missed(samples(**{"processes others": lambda at: float(at > 90)})) == [
        "processes of no known kind at the end"
    ]


def test_settings_of_its_user_do_not_reach_the_stack_of_a_soak(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"POSTGRES_DSN": "postgresql://me@db/x", "VAR": "/srv/var", "SCHEDULE": "none"}.items():
        monkeypatch.setenv(f"FRONTSTAGE_{name}", value)
    own = settings_in(tmp_path, 8099)
    assert (own.postgres_dsn, own.schedule, own.airflow_port) == (None, None, 8099)
    assert all(path.is_relative_to(tmp_path) for path in (own.var, own.warehouse, own.archive, own.master_pages))


class Fails:
    """Work that fails at once."""

    def run(self, over: threading.Event) -> None:
        raise OSError(28, "No space left on device")


def test_what_fails_beside_the_soak_ends_it_with_its_own_error() -> None:
    over = threading.Event()

    def soak() -> None:
        with beside(Fails(), over):
            assert over.wait(10), "whoever waits is told"
            raise TimeoutError("orders still wait")

    with pytest.raises(OSError, match="No space") as failed:
        soak()
    assert isinstance(failed.value.__cause__, TimeoutError)


def test_runs_that_failed_and_orders_that_were_not_read_are_missed() -> None:
    assert missed(samples(), failed=1) == ["runs of Airflow that failed"]
    assert missed(samples(), missing=1) == ["orders that landed and were not read"]


def test_the_end_of_every_period_is_a_burst() -> None:
    quiet = PERIOD_S - BURST_S
    at = (0.0, quiet - 1, quiet, PERIOD_S - 1, PERIOD_S, PERIOD_S + quiet)
    assert [times_as_many(moment) for moment in at] == [1, 1, BURST, BURST, 1, BURST]


def test_who_came_late_is_a_customer_like_any_other_in_the_next_period() -> None:
    for period in range(3):
        late, later = late_customers(config_of(period)), late_customers(config_of(period + 1))
        assert late[0] == config_of(period).customers + 1
        assert late[-1] == config_of(period + 1).customers < later[0]


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("python -I -S /there/guard.py --parent 1 -- python -m etl.spark.runner", "guards"),
        ("/there/bin/postgres -D /data", "postgres"),
        ("'postgres: checkpointer '", "postgres"),
        ("'airflow scheduler   '", "airflow scheduler"),
        ("'airflow worker -- LocalExecutor: <idle>'", "airflow executor"),
        ("'airflow worker -- 01a1f284-cf63-704e-9af3-6c1fae3b4e76'", SHORT_LIVED),
        ("python -m etl.stack.airflow.host /var/logs", "airflow host"),
        ("/usr/bin/java -cp /jars org.apache.spark.deploy.SparkSubmit", "jvm"),
        ("python -m etl.spark.runner", "spark driver"),
        ("python -m etl.spark.daemon pyspark.worker", "spark workers"),
        ("sleep 1", "others"),
    ],
)
def test_a_process_is_of_the_kind_that_its_command_line_says(command: str, name: str) -> None:
    assert kind(shlex.split(command)) == name


def test_the_page_says_what_was_run_and_how_fresh_it_was() -> None:
    row = {"minutes": 30.0, "rate_per_s": 2000.0, "batches": 640, "lines": 6_300_000, "maintained": 10,
           "backlog": 4_321.0, "settled_s": 9.0, **FRESH}  # fmt: skip
    text = section({"rows": [row], "aims": aims(samples(), 0, 0, 0, FRESH)}, table)
    assert "30 minutes of the whole stack, 2,000 orders a second" in text
    assert "at most 4,321 did at a time" in text
    assert "95 % 2.0 s" in text
    assert "| backlog at the end | ≤ 0 | 0 | met |" in text
