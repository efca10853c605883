"""Scripts and styles of others are what their releases hold, and their licences lie beside them."""

from __future__ import annotations

import base64
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

from etl.settings import PROJECT

PROGRAM = PROJECT / "bin" / "vendored.py"
MANIFEST = PROJECT / "requirements" / "vendored.toml"
UNAVAILABLE = 69


def vendored(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(PROGRAM), *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=1200)


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


RELEASE = {"dist/x.js": b"let x = 1;eval(y);", "LICENSE": b"take it"}
NPM = """#!{python}
import shutil, sys
assert sys.argv[1:] == ["pack", "--silent", "x@1.0"], sys.argv
print(shutil.copy("{release}", "."))
"""


@dataclass(frozen=True)
class Registry:
    """A checkout that names one release, and an `npm` that gives what lies in a folder."""

    checkout: Path
    release: Path
    programs: Path

    def vendored(self, *options: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(PROGRAM), "--root", str(self.checkout), *options]
        found = {"PATH": f"{self.programs}:{os.environ['PATH']}"}
        return subprocess.run(command, capture_output=True, text=True, timeout=60, env={**os.environ, **found})

    def script(self) -> bytes:
        return (self.checkout / "assets" / "x.js").read_bytes()


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    made = Registry(tmp_path / "checkout", tmp_path / "x-1.0.tgz", tmp_path / "bin")
    with tarfile.open(made.release, "w:gz") as archive:
        for name, content in RELEASE.items():
            entry = tarfile.TarInfo(f"package/{name}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    made.programs.mkdir()
    (made.programs / "npm").write_text(NPM.format(python=sys.executable, release=made.release))
    (made.programs / "npm").chmod(0o755)
    (made.checkout / "requirements").mkdir(parents=True)
    (made.checkout / "requirements" / "vendored.toml").write_text(f"""
folders = ["assets"]
[[package]]
name = "x"
version = "1.0"
integrity = "{total(made.release.read_bytes())}"
[[package.files]]
from = "dist/x.js"
to = "assets/x.js"
without = "eval(y);"
integrity = "{total(b"let x = 1;")}"
[[package.files]]
from = "LICENSE"
to = "assets/licence.txt"
integrity = "{total(RELEASE["LICENSE"])}"
""")
    return made


def total(content: bytes) -> str:
    return "sha512-" + base64.b64encode(hashlib.sha512(content).digest()).decode()


def test_files_are_fetched_from_a_release_without_what_is_left_out(registry: Registry) -> None:
    assert registry.vendored().stdout.splitlines() == ["assets/x.js is missing", "assets/licence.txt is missing"]
    done = registry.vendored("--fetch")
    assert (done.returncode, done.stdout) == (0, "2 files are what they should be\n"), done.stderr
    assert registry.script() == b"let x = 1;"


def test_a_file_that_is_not_what_the_release_holds_is_found(registry: Registry) -> None:
    registry.vendored("--fetch")
    (registry.checkout / "assets" / "x.js").write_bytes(b"other")
    done = registry.vendored("--compare")
    assert done.returncode == 1
    assert done.stdout.splitlines()[0] == "assets/x.js is not what the release holds"


def test_a_release_without_its_sum_is_refused_and_nothing_is_written(registry: Registry) -> None:
    registry.release.write_bytes(registry.release.read_bytes() + b"more")
    done = registry.vendored("--fetch")
    assert done.returncode == 1
    assert "does not have its sum; nothing was written" in done.stderr
    assert not (registry.checkout / "assets").exists()


def test_an_npm_that_does_not_answer_is_told_by_its_own_code(registry: Registry) -> None:
    registry.release.unlink()
    done = registry.vendored("--fetch")
    assert done.returncode == UNAVAILABLE
    assert done.stderr.startswith("npm does not give x@1.0: ")
