"""The wheel works without the checkout: what the code reads beside itself is inside."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from etl.settings import PROJECT

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


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the wheel holds, and nothing else of ours."""
    tree, wheels, site = (tmp_path_factory.mktemp(name) for name in ("tree", "wheels", "site"))
    for part in PARTS:
        if (PROJECT / part).is_dir():
            shutil.copytree(PROJECT / part, tree / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(PROJECT / part, tree / part)
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-q", "-w", str(wheels), "."]
    subprocess.run(command, cwd=tree, check=True)
    (wheel,) = wheels.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    return site


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

    assert modules(site) == modules(PROJECT)
    (shared,) = site.glob("frontstage-*.data/data/share/frontstage/dags")
    assert {path.name for path in shared.iterdir()} == {path.name for path in (PROJECT / "dags").glob("*.py")}
    assert not (site / "tests").exists()
    assert not (site / "bench").exists()
