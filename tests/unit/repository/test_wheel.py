"""The wheel works without the checkout: what the code reads beside itself is inside.

wheel ─┬─ unpacked: what is in it
       └─ installed into an environment of its own, whose commands run in an empty folder
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from etl.settings import PROJECT
from tests.support import elsewhere
from tests.support.command import one_sentence

PARTS = ("etl", "warehouse", "sql", "dags", "requirements", "pyproject.toml", "README.md", "LICENSE")
PROGRAM = """
import pathlib, sys
import etl, etl.cli
from etl.adapters import postgres
from etl.adapters.great_expectations.data_docs import offline
from etl.adapters.postgres.migrations import _MIGRATIONS
from etl.report import templating
from etl.contract.load import load_all
from etl.settings import load
assert pathlib.Path(etl.__file__).is_relative_to(sys.argv[1]), etl.__file__
for file in sys.argv[2].split():
    assert postgres.statement(file).strip()
assert {one.name for one in load_all(load().pipelines, pathlib.Path()).pipelines} >= {"orders", "trips", "web_sessions"}
assert (_MIGRATIONS / "script.py.mako").is_file()
assert any((_MIGRATIONS / "versions").glob("r0001_*.py"))
templates = pathlib.Path(templating.__file__).parent / "templates"
assert (offline.OURS / "readable.js").is_file() and (offline.ASSETS / "css" / "bootstrap.min.css").is_file()
assert (templates / "run.html.j2").is_file() and (templates / "index.html.j2").is_file()
page = pathlib.Path(etl.__file__).parent / "page"
assert (page / "templates" / "now.html.j2").is_file() and (page / "static" / "page.js").is_file()
"""
INSIDE = {"etl", "sql", "warehouse"}
NEEDS_A_CHECKOUT = {"bin", "bench", "docs"}
"""What is asked for only to see whether there is a checkout, and by code that says so where there is none."""
OF_PROJECT = re.compile(r"\bPROJECT / \"([^\"/]+)")
OWN_JARS = {"FRONTSTAGE_JARS": str(PROJECT / "var" / "jars")}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from what the repository holds."""
    tree, wheels = (tmp_path_factory.mktemp(name) for name in ("tree", "wheels"))
    for part in PARTS:
        if (PROJECT / part).is_dir():
            left_out = shutil.ignore_patterns("__pycache__")
            shutil.copytree(PROJECT / part, tree / part, symlinks=True, ignore=left_out)
        else:
            shutil.copy(PROJECT / part, tree / part)
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-q", "-w", str(wheels), "."]
    subprocess.run(command, cwd=tree, check=True)
    (wheel,) = wheels.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def site(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the wheel holds, and nothing else of ours."""
    site = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    return site


@dataclass(frozen=True)
class Installed:
    """An environment with the wheel in it, and none of our checkout."""

    bin: Path
    packages: Path

    def run(self, program: str, *words: str, at: Path, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment in a folder, with no variable of ours but those given."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("AIRFLOW", "FRONTSTAGE", "PYTHON", "VIRTUAL_ENV"))
        }
        own = {"COLUMNS": "200", "FRONTSTAGE_AIRFLOW_PORT": str(elsewhere.free_port()), "PYTHONSAFEPATH": "1"}
        return subprocess.run(
            [str(self.bin / program), *words],
            env=kept | own | variables, cwd=at, capture_output=True, text=True, timeout=600,
        )  # fmt: skip

    def frontstage(self, *words: str, at: Path, **variables: str) -> subprocess.CompletedProcess[str]:
        return self.run("frontstage", *words, at=at, **variables)


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    home = elsewhere.environment(tmp_path_factory.mktemp("installed") / "environment")
    command = [str(home / "bin" / "pip"), "install", "-q", "--no-deps", "--no-index", "--no-compile", str(wheel)]
    subprocess.run(command, check=True, timeout=600)
    (packages,) = home.glob("lib/python*/site-packages")
    return Installed(home / "bin", packages)


@pytest.mark.slow
def test_statements_templates_migrations_and_the_contract_are_inside(site: Path, tmp_path: Path) -> None:
    statements = " ".join(path.stem for path in (PROJECT / "sql").glob("*.sql"))
    env = {**os.environ, "PYTHONPATH": str(site), "FRONTSTAGE_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(site), statements], cwd=tmp_path, env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_every_module_is_inside_and_no_test_is(site: Path) -> None:
    def modules(root: Path) -> set[str]:
        return {
            str(path.relative_to(root)) for package in ("etl", "warehouse") for path in (root / package).rglob("*.py")
        }

    assert modules(site) - {f"etl/airflow/dag_files/{name}" for name in dag_files()} == {
        name for name in modules(PROJECT) if "dag_files" not in name
    }
    assert {path.name for path in (site / "etl" / "airflow" / "dag_files").iterdir()} == dag_files()
    assert {path.name for path in site.iterdir() if path.suffix != ".dist-info"} == INSIDE


def test_nothing_that_a_wheel_lacks_is_read_beside_the_packages() -> None:
    files = [path for part in ("etl", "warehouse", "dags") for path in (PROJECT / part).rglob("*.py")]
    asked = {name for path in files for name in OF_PROJECT.findall(path.read_text())}
    assert asked & INSIDE
    assert asked - INSIDE == NEEDS_A_CHECKOUT


def dag_files() -> set[str]:
    return {path.name for path in (PROJECT / "dags").glob("*.py")}


@pytest.mark.slow
def test_without_jars_the_doctor_says_so_and_finds_nothing_else_wrong(installed: Installed, tmp_path: Path) -> None:
    done = installed.frontstage("doctor", "--no-deep", at=tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    wrong = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("WRONG")]
    assert wrong == ["jars"]
    assert "set FRONTSTAGE_JARS to `var/jars` of a clone" in " ".join(done.stdout.split())


@pytest.mark.slow
def test_with_jars_the_doctor_is_content_and_home_is_the_current_folder(installed: Installed, tmp_path: Path) -> None:
    done = installed.frontstage("doctor", "--no-deep", at=tmp_path, **OWN_JARS)
    assert done.returncode == 0, done.stdout + done.stderr
    said = " ".join(done.stdout.split())
    assert f"valid, home is {tmp_path} " in said
    assert "jars, checksums right" in said
    assert {path.name for path in installed.packages.iterdir()}.isdisjoint({"var", "dags", "requirements"})


@pytest.mark.slow
@pytest.mark.parametrize("words", [("up",), ("demo",)], ids=" ".join)
def test_without_jars_nothing_starts_and_one_sentence_says_what_to_do(
    installed: Installed, tmp_path: Path, words: tuple[str, ...]
) -> None:
    done = installed.frontstage(*words, at=tmp_path)
    assert done.returncode == 69
    assert "Traceback" not in done.stdout + done.stderr
    assert "set FRONTSTAGE_JARS to `var/jars` of a clone" in done.stderr.splitlines()[-1]
    done = installed.frontstage("down", at=tmp_path)
    assert (done.returncode, done.stdout) == (0, "nothing was running\n"), done.stderr


@pytest.mark.slow
def test_pipelines_are_checked_listed_shown_and_drafted(installed: Installed, tmp_path: Path) -> None:
    def said(*words: str) -> str:
        done = installed.frontstage("pipeline", *words, at=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert said("check").splitlines() == ["orders.toml is good", "trips.toml is good", "web_sessions.toml is good"]
    assert "web_sessions" in said("list")
    assert "mart daily_sales" in said("show", "orders")
    (tmp_path / "events.jsonl").write_text('{"id": 1, "at": "2026-01-01T00:00:00Z", "amount": 2.5}\n')
    own = tmp_path / "warehouse" / "pipelines" / "sales.toml"
    assert f"{own} is written" in said("new", "sales", "--events", "events.jsonl", "--key", "id")
    assert said("check") == "sales.toml is good\n"


@pytest.mark.slow
def test_masters_are_made_published_and_explained(installed: Installed, tmp_path: Path) -> None:
    (tmp_path / "warehouse" / "pipelines").mkdir(parents=True)
    shutil.copy(PROJECT / "warehouse" / "pipelines" / "orders.toml", tmp_path / "warehouse" / "pipelines")
    done = installed.frontstage("explain", at=tmp_path)
    assert "run `frontstage master publish`" in one_sentence(done)
    for words in ("generate master --customers 100 --products 20", "master publish", "explain"):
        done = installed.frontstage(*words.split(), at=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
    assert "customer: 100 rows" in done.stdout
    assert "what would be chosen" in done.stdout


@pytest.mark.slow
def test_the_stack_would_run_the_dag_files_of_the_wheel(installed: Installed, tmp_path: Path) -> None:
    program = """
from etl.settings import load
from etl.stack.airflow import services
print(services.environment(load())["AIRFLOW__CORE__DAGS_FOLDER"])
"""
    theirs = "postgresql://me@127.0.0.1/frontstage"  # the embedded server's address is known once it has run
    done = installed.run("python", "-c", program, at=tmp_path, FRONTSTAGE_POSTGRES_DSN=theirs)
    assert done.returncode == 0, done.stderr
    folder = Path(done.stdout.strip())
    assert folder.is_relative_to(installed.packages)
    assert {path.name for path in folder.glob("*.py")} == dag_files()


@pytest.mark.slow
def test_the_dag_files_of_the_wheel_make_every_dag(installed: Installed, tmp_path: Path) -> None:
    program = "from etl.airflow.all_dags import all_dags; print(*sorted(all_dags()))"
    done = installed.run("python", "-c", program, at=tmp_path, AIRFLOW_HOME=str(tmp_path / "airflow"))
    assert done.returncode == 0, done.stderr
    ids = set(done.stdout.splitlines()[-1].split())
    assert ids >= {"orders", "trips", "web_sessions", "correlations", "maintenance", "query"}


@pytest.mark.slow
def test_the_page_of_the_settings_is_not_written_among_packages(installed: Installed, tmp_path: Path) -> None:
    done = installed.run("python", "-m", "etl.settings_reference", at=tmp_path)
    assert done.returncode == 69
    assert done.stderr == "docs/configuration.md is a file of the repository; run this in a clone of it\n"
    assert not (installed.packages / "docs").exists()
