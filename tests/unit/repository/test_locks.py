"""The locks are whole: every package pinned by version and sum, nothing from elsewhere, nothing missing."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name
from packaging.version import Version

from etl.settings import PROJECT
from etl.stack.preflight import JAR_SUMS
from tests.support.requirements import requirements

FOLDER = PROJECT / "requirements"
LOCKS = ("bootstrap", "runtime", "dev")
ENTRY = re.compile(r"(?P<name>[a-z0-9][a-z0-9.-]*)(?:\[[a-z0-9,_-]+\])?==(?P<version>\S+)(?P<marker> ;[^\\]*)?")
SUM = re.compile(r"--hash=sha256:[0-9a-f]{64}")

Pins = dict[NormalizedName, Version]


class LockBroken(Exception):
    """A line of a lock that says less than it must."""


def pins(text: str) -> Pins:
    """The packages of a lock; every one has a version and a sum, and nothing else is in it."""
    found: Pins = {}
    for entry in text.replace("\\\n", " ").splitlines():
        words = entry.split(" --hash")[0].strip()
        match = ENTRY.fullmatch(words)
        if match is None:
            raise LockBroken(f"{words!r} is not a package with its version")
        sums = entry.split()[len(words.split()) :]
        if not sums or not all(SUM.fullmatch(one) for one in sums):
            raise LockBroken(f"{match['name']} has no sum, or something beside its sums")
        if canonicalize_name(match["name"]) in found:
            raise LockBroken(f"{match['name']} is there twice")
        found[canonicalize_name(match["name"])] = Version(match["version"])
    return found


def lock(name: str) -> Pins:
    return pins((FOLDER / f"{name}.lock").read_text())


def missing(pinned: Pins, asked: list[Requirement]) -> list[str]:
    """What is asked for, by name or by a package of the lock, and is not pinned or not as it is asked for."""
    found: list[str] = []
    seen: set[tuple[str, str]] = set()
    queue = [(wanted, "") for wanted in asked]
    while queue:
        wanted, by = queue.pop()
        name = canonicalize_name(wanted.name)
        if name not in pinned or not wanted.specifier.contains(pinned[name], prereleases=True):
            found.append(f"{wanted} is asked for{by}")
            continue
        for extra in ("", *sorted(wanted.extras)):
            if (name, extra) not in seen:
                seen.add((name, extra))
                queue += [(one, f" by {name}") for one in _needs(name, extra)]
    return sorted(found)


def _needs(name: str, extra: str) -> list[Requirement]:
    try:
        needs = [Requirement(text) for text in distribution(name).requires or ()]
    except PackageNotFoundError:
        return []  # of another platform
    return [one for one in needs if one.marker is None or one.marker.evaluate({"extra": extra})]


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_has_all_that_is_asked_for_by_name_or_by_what_is_in_it(name: str) -> None:
    assert missing(lock(name), requirements(FOLDER / f"{name}.in")) == []


@pytest.mark.parametrize("name", ["runtime", "dev"])
def test_what_is_installed_is_what_the_lock_says(name: str) -> None:
    differing = {}
    for package, version in lock(name).items():
        try:
            installed = Version(distribution(package).version)
        except PackageNotFoundError:
            continue  # tools of developers, in an environment without them
        if installed != version:
            differing[package] = (str(installed), str(version))
    assert differing == {}


def test_both_locks_agree_on_every_package() -> None:
    runtime, dev = lock("runtime"), lock("dev")
    assert {name: dev.get(name) for name in runtime} == runtime


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("numpy>=2 \\\n    --hash=sha256:" + "0" * 64, "not a package with its version"),
        ("numpy==2.0", "has no sum"),
        ("numpy==2.0 \\\n    --hash=md5:" + "0" * 32, "has no sum"),
        ("--index-url https://example.org", "not a package"),
        ("numpy @ https://example.org/numpy.whl", "not a package"),
        (2 * ("numpy==2.0 \\\n    --hash=sha256:" + "0" * 64 + "\n"), "twice"),
    ],
)
def test_a_lock_that_says_less_is_noticed(text: str, why: str) -> None:
    with pytest.raises(LockBroken, match=why):
        pins(text)


def test_a_package_that_is_missing_or_too_old_is_noticed() -> None:
    pinned = lock("runtime")
    without = {name: version for name, version in pinned.items() if name != "click"}
    assert any("click" in one for one in missing(without, [Requirement("typer"), Requirement("uvicorn")]))
    assert missing(pinned, [Requirement("numpy>=1000")]) == ["numpy>=1000 is asked for"]


@pytest.mark.parametrize(("name", "sums"), [("jars", JAR_SUMS), ("bench-jars", FOLDER / "bench-jars.sha256")])
def test_every_jar_has_a_sum_and_those_asked_for_are_among_them(name: str, sums: Path) -> None:
    lines = sums.read_text().splitlines()
    assert lines
    assert all(re.fullmatch(r"[0-9a-f]{64}  [\w.-]+\.jar", line) for line in lines)
    for asked in _coordinates(FOLDER / f"{name}.in"):
        group, artifact, version = asked.split(":")
        assert any(line.endswith(f"  {group}_{artifact}-{version}.jar") for line in lines), asked


def _coordinates(path: Path) -> list[str]:
    lines = path.read_text().splitlines()
    return [line.removeprefix("+ ") for line in lines if line and line[0] not in "#-"]


def test_setup_takes_nothing_without_its_sum() -> None:
    setup = (PROJECT / "bin" / "setup").read_text()
    installs = [line for line in setup.splitlines() if " -r " in line and "pip install" in line]
    assert installs
    assert all("--require-hashes" in line for line in installs)
