"""What holds for every file of the repository, and for the files that pin what is installed."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from etl.settings import PROJECT
from etl.stack.preflight import JAR_SUMS

REQUIREMENTS = PROJECT / "requirements"
LOCKS = sorted(REQUIREMENTS.glob("*.lock"))

MACHINE_PATH = re.compile(r"(?<![\w./$}-])/(?:work|root|home|Users)/[\w.]")
REGISTRY_HOST = re.compile(
    r"\b(?:pypi|pythonhosted|maven|apache-snapshots|sonatype|spark-packages|npmjs|debian|ubuntu|docker)"
    r"(?:\.apache)?\.(?:org|com|io|net)\b"
)


def repository_files() -> list[Path]:
    """What is or would be committed."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=PROJECT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return [PROJECT / name for name in listed.split("\0") if name and (PROJECT / name).is_file()]


def offences(pattern: re.Pattern[str]) -> list[str]:
    found = []
    for file in repository_files():
        for number, line in enumerate(file.read_bytes().decode("utf-8", "replace").splitlines(), 1):
            if match := pattern.search(line):
                found.append(f"{file.relative_to(PROJECT)}:{number}: {match[0]}")
    return found


def locked(lock: Path) -> dict[str, str]:
    """Name to version, as a lock file pins them."""
    pins = re.findall(r"^([A-Za-z0-9._-]+)==([^ ;\\]+)", lock.read_text(), flags=re.MULTILINE)
    return {canonicalize_name(name): version for name, version in pins}


def wanted(name: str) -> list[Requirement]:
    lines = (REQUIREMENTS / name).read_text().splitlines()
    return [Requirement(line) for line in lines if line and not line.startswith(("#", "-"))]


def test_no_file_names_a_folder_of_somebodys_machine() -> None:
    assert offences(MACHINE_PATH) == []


def test_no_file_names_the_host_of_a_package_registry() -> None:
    assert offences(REGISTRY_HOST) == []


@pytest.mark.parametrize(
    ("pattern", "line"),
    [(MACHINE_PATH, "see " + "/ro" + "ot/x"), (REGISTRY_HOST, "https://files.python" + "hosted.org/simple")],
)
def test_the_patterns_of_these_rules_find_what_they_are_for(pattern: re.Pattern[str], line: str) -> None:
    assert pattern.search(line)


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_a_lock_pins_every_package_with_hashes_and_names_no_place(lock: Path) -> None:
    text = lock.read_text()
    assert not re.findall(r"://|^\s*-(?!-hash=sha256:)", text, flags=re.MULTILINE)
    for entry in re.split(r"\n(?=\S)", text.strip()):
        assert re.match(r"[A-Za-z0-9._-]+==\S+( ; [^\\]+)? \\\n    --hash=sha256:[0-9a-f]{64}", entry), entry


@pytest.mark.parametrize("name", ["bootstrap", "runtime", "dev"])
def test_a_lock_holds_what_its_source_asks_for(name: str) -> None:
    pins = locked(REQUIREMENTS / f"{name}.lock")
    for requirement in wanted(f"{name}.in"):
        version = pins.get(canonicalize_name(requirement.name))
        assert version is not None, f"{requirement.name} is not locked; run `make lock`"
        assert requirement.specifier.contains(version, prereleases=True), f"{requirement} is locked at {version}"


def test_the_tests_run_on_the_versions_that_users_get() -> None:
    assert locked(REQUIREMENTS / "runtime.lock").items() <= locked(REQUIREMENTS / "dev.lock").items()


def test_the_jars_are_built_for_the_spark_that_is_locked() -> None:
    pins = locked(REQUIREMENTS / "runtime.lock")
    minor = ".".join(pins["pyspark"].split(".")[:2])
    lines = (REQUIREMENTS / "jars.in").read_text().splitlines()
    (coordinate,) = [line for line in lines if line.startswith("io.delta:")]
    _, artifact, version = coordinate.split(":")
    assert artifact == f"delta-spark_{minor}_2.13"
    assert version.split(".")[:2] == pins["delta-spark"].split(".")[:2]
    assert f"io.delta_{artifact}-{version}.jar" in JAR_SUMS.read_text()


def test_every_jar_has_a_full_sum() -> None:
    for line in JAR_SUMS.read_text().splitlines():
        assert re.fullmatch(r"[0-9a-f]{64}  [\w.-]+\.jar", line), line
