"""Scripts and styles of others are what their releases hold, and their licences lie beside them."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from etl.settings import PROJECT

PROGRAM = PROJECT / "bin" / "vendored.py"
MANIFEST = PROJECT / "requirements" / "vendored.toml"
UNAVAILABLE = 69


def vendored(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(PROGRAM), *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The manifest and what it names, to be changed."""
    for name in ("requirements/vendored.toml", *files()):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(PROJECT / name, tmp_path / name)
    return tmp_path


def files() -> list[str]:
    packages = tomllib.loads(MANIFEST.read_text())["package"]
    return [file["to"] for package in packages for file in package["files"]]


def test_every_vendored_file_has_its_sum_and_a_licence_beside_it() -> None:
    done = vendored()
    assert done.returncode == 0, done.stdout


def test_a_changed_a_missing_and_an_unnamed_file_are_found(copy: Path) -> None:
    changed, missing = copy / "tests/browser/axe/axe.min.js", copy / "docs/assets/iframe-worker.js"
    changed.write_text(changed.read_text() + "\n")
    missing.unlink()
    (copy / "docs/assets/other.js").touch()
    done = vendored("--root", str(copy))
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "docs/assets/iframe-worker.js is missing",
        "tests/browser/axe/axe.min.js does not have its sum",
        "docs/assets/other.js is named by no package",
    ]


@pytest.mark.slow
def test_the_files_are_fetched_anew_from_what_npm_publishes(copy: Path) -> None:
    taken_away = [copy / name for name in files() if name.endswith((".js", ".css", ".woff2"))]
    for path in taken_away:
        path.unlink()
    done = vendored("--root", str(copy), "--fetch")
    if done.returncode == UNAVAILABLE:
        pytest.skip(f"npm does not answer here: {done.stderr.strip()[-200:]}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert [path for path in taken_away if path.read_bytes() != (PROJECT / path.relative_to(copy)).read_bytes()] == []
