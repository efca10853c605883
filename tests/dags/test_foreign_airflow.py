"""In somebody else's Airflow: the wheel, a DAG file of two lines, their home, their Postgres, their Spark cluster."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from etl.settings import PROJECT
from etl.stack.airflow.client import Airflow
from tests.support import elsewhere, guides

pytestmark = [pytest.mark.stack, pytest.mark.full, pytest.mark.timeout(1500)]

GUIDE = PROJECT / "docs" / "how-to" / "existing-airflow.md"
OURS = {"orders", "trips", "web_sessions", "master_data", "maintenance", "quarantine", "correlations", "digest"}


@dataclass
class Theirs:
    """An Airflow that was there before us, and runs again after the guide was followed."""

    url: str
    env: dict[str, str]
    password: str
    spark_log: Path

    def command(self, *words: str) -> str:
        """What a command of theirs prints. It runs in their home: Python would find our checkout in its own folder."""
        done = subprocess.run(
            words, env=self.env, cwd=self.env["AIRFLOW_HOME"], capture_output=True, text=True, timeout=1200
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def get(self, path: str, logged_in: bool = True) -> httpx.Response:
        with httpx.Client(base_url=self.url, timeout=60, trust_env=False) as client:
            headers = {}
            if logged_in:
                login = {"username": "admin", "password": self.password}
                token = client.post("/auth/token", json=login).json()["access_token"]
                headers = {"Authorization": f"Bearer {token}"}
            return client.get(path, headers=headers)


@pytest.fixture(scope="module")
def theirs(session_home: Path) -> Iterator[Theirs]:
    home = session_home / "theirs"
    clone = elsewhere.fresh_clone(home / "clone")
    (clone / ".venv").symlink_to(sys.prefix)
    environment = elsewhere.environment(home / "environment")
    with ExitStack() as parts:
        postgres = parts.enter_context(elsewhere.postgres(home / "postgres"))
        master = parts.enter_context(elsewhere.spark_cluster(home / "spark"))
        env = their_airflow(home / "airflow", environment, postgres)
        postgres.create("frontstage", "frontstage", "secret")
        airflow = str(environment / "bin" / "airflow")
        subprocess.run([airflow, "db", "migrate"], env=env, check=True, capture_output=True, timeout=1200)
        said = guides.run(
            clone / "docs" / "how-to" / GUIDE.name, clone, env,
            {
                "/srv/frontstage": str(home / "frontstage"),
                "db.example:5432": f"127.0.0.1:{postgres.port}",
                "spark://head.example:7077": master,
                "/srv/jars": str(PROJECT / "var" / "jars"),
            },
            after="env | grep ^FRONTSTAGE_",
        )  # fmt: skip
        env |= dict(line.split("=", 1) for line in said.splitlines())
        log = home / "airflow" / "standalone.log"
        parts.enter_context(elsewhere.running([airflow, "standalone"], env, log, "Airflow is ready", cwd=home))
        passwords = json.loads((home / "airflow" / "simple_auth_manager_passwords.json.generated").read_text())
        yield Theirs(env["AIRFLOW__API__BASE_URL"], env, passwords["admin"], home / "spark" / "master.log")


def their_airflow(home: Path, environment: Path, postgres: elsewhere.Postgres) -> dict[str, str]:
    """The variables of an Airflow that knows nothing of us."""
    (home / "dags").mkdir(parents=True)
    port = elsewhere.free_port()
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("AIRFLOW", "FRONTSTAGE", "PYTHON", "VIRTUAL_ENV"))
    }
    return {
        **kept,
        "PATH": f"{environment / 'bin'}:{os.environ['PATH']}",
        "NO_PROXY": "127.0.0.1,localhost",
        "PIP_NO_INDEX": "1",  # whatever Frontstage needs is there
        "SPARK_LOCAL_IP": "127.0.0.1",
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT": "300",  # the first import of a fresh installation compiles every module
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": postgres.create("theirs", "airflow", "other").replace(
            "postgresql:", "postgresql+psycopg2:"
        ),
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__BASE_URL": f"http://127.0.0.1:{port}",
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{port}/execution/",
    }


def test_what_runs_is_the_wheel_and_not_this_checkout(theirs: Theirs) -> None:
    place = theirs.command("python", "-c", "import etl; print(etl.__file__)")
    assert Path(place.strip()).is_relative_to(Path(theirs.env["AIRFLOW_HOME"]).with_name("environment"))


def test_two_lines_give_every_dag(theirs: Theirs) -> None:
    lines = (Path(theirs.env["AIRFLOW_HOME"]) / "dags" / "frontstage.py").read_text().splitlines()
    assert len(lines) == 2
    listed = theirs.command("airflow", "dags", "list", "--output", "json")
    found = json.loads(listed[listed.index("[{") :])
    assert {one["dag_id"] for one in found} >= OURS
    assert {Path(one["fileloc"]).name for one in found} == {"frontstage.py"}


def test_a_run_loads_events_with_their_spark_into_their_postgres(theirs: Theirs) -> None:
    size = ("--customers", "100", "--products", "20")
    theirs.command("frontstage", "generate", "master", *size)
    theirs.command("frontstage", "generate", "orders", "--count", "500", *size)
    with Airflow(theirs.url, "admin", theirs.password) as airflow:
        airflow.wait_for_dag("orders")
        airflow.unpause("orders")
        run = airflow.wait("orders", airflow.trigger("orders"), 600)
    assert run.state == "success"
    totals = json.loads(theirs.command("frontstage", "status", "--json"))["pipelines"]["orders"]["totals"]
    assert totals["lines"] >= 500
    assert totals["fact"] > 400
    assert "Registering app frontstage" in theirs.spark_log.read_text()


def test_the_page_is_in_their_navigation_and_behind_their_login(theirs: Theirs) -> None:
    plugins = theirs.get("/api/v2/plugins").json()["plugins"]
    (ours,) = [one for one in plugins if one["name"] == "frontstage"]
    assert [view["name"] for view in ours["external_views"]] == ["Frontstage"]
    assert theirs.get("/frontstage/", logged_in=False).status_code == 401
    page = theirs.get("/frontstage/p/orders")
    assert page.status_code == 200
    assert "Every event is in exactly one place" in page.text
