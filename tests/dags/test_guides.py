"""Guides are run as they are written, in a fresh clone: every shell block, and what it is said to print."""

from __future__ import annotations

import os
import re
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest

from etl.settings import PROJECT
from tests.support import elsewhere, guides

pytestmark = [pytest.mark.stack, pytest.mark.timeout(1500)]

LONG = pytest.mark.full
"""Takes minutes: `make guides` runs it, `make test` does not."""


@pytest.fixture
def clone(tmp_path_factory: pytest.TempPathFactory, session_home: Path) -> Path:
    """A fresh clone that is set up."""
    made = elsewhere.fresh_clone(session_home / tmp_path_factory.mktemp("clone").name / "frontstage")
    elsewhere.set_up(made)
    return made


def variables(clone: Path) -> dict[str, str]:
    """What a reader of a guide has in the environment."""
    assert not any(name.startswith("FRONTSTAGE_") for name in os.environ), "settings of the machine would be tried"
    path = f"{clone / '.venv' / 'bin'}:{os.environ['PATH']}"
    return {"PATH": path, "NO_COLOR": "1", "FRONTSTAGE_AIRFLOW_PORT": str(elsewhere.free_port())}


@pytest.mark.parametrize(
    "page",
    [
        "docs/getting-started.md",
        pytest.param("docs/how-to/own-tables.md", marks=LONG),
        pytest.param("docs/how-to/delta-masters.md", marks=LONG),
    ],
)
def test_a_guide_does_what_it_says(page: str, clone: Path) -> None:
    guides.run(clone / page, clone, variables(clone))


@LONG
def test_the_guide_to_ones_own_postgres_does_what_it_says(clone: Path, session_home: Path) -> None:
    page = clone / "docs" / "how-to" / "own-postgres.md"
    with elsewhere.postgres(session_home / "db.example") as server:
        (statements,) = re.findall(r"```sql\n(.*?)```", page.read_text(), re.DOTALL)
        with closing(psycopg2.connect(server.admin)) as connection, connection.cursor() as cursor:
            connection.autocommit = True
            for statement in filter(str.strip, statements.split(";")):
                cursor.execute(statement)
        guides.run(page, clone, variables(clone), {"db.example:5432": f"127.0.0.1:{server.port}"})
        with closing(psycopg2.connect(server.admin.replace("/postgres?", "/frontstage?"))) as connection:
            cursor = connection.cursor()
            cursor.execute("select nspname from pg_namespace where nspname !~ '^(pg_|information_schema|public)'")
            assert {name for (name,) in cursor} == {"etl", "master", "mart", "correlation"}
            cursor.execute("select nspowner::regrole::text from pg_namespace where nspname = 'mart'")
            assert cursor.fetchall() == [("frontstage",)]


@LONG
def test_the_guide_to_a_cluster_does_what_it_says(clone: Path, session_home: Path) -> None:
    with elsewhere.spark_cluster(session_home / "head.example") as master:
        env = {**variables(clone), "SPARK_LOCAL_IP": "127.0.0.1", "FRONTSTAGE_JARS": str(PROJECT / "var" / "jars")}
        replaced = {"spark://head.example:7077": master, "/mnt/shared": str(session_home / "shared")}
        guides.run(clone / "docs" / "how-to" / "cluster.md", clone, env, replaced)
    assert "Registering app frontstage" in (session_home / "head.example" / "master.log").read_text()


@LONG
def test_the_readme_does_what_it_says(clone: Path) -> None:
    guides.run(clone / "README.md", clone, variables(clone), timeout_s=1400)


def test_no_guide_is_left_out() -> None:
    pages = {f"docs/how-to/{page.name}" for page in (PROJECT / "docs" / "how-to").glob("*.md")}
    tests = (path for folder in ("dags", "spark") for path in (PROJECT / "tests" / folder).glob("test_*.py"))
    tried = "\n".join(path.read_text() for path in tests)
    assert [page for page in sorted(pages) if Path(page).name not in tried] == []
