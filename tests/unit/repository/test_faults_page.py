"""docs/faults.md lists the cases that there are, and the files that it names exist."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from etl.settings import PROJECT

PAGE = (PROJECT / "docs" / "faults.md").read_text()


@pytest.mark.slow
def test_the_tables_are_those_of_the_cases() -> None:
    command = [sys.executable, "-m", "tests.faults.families", "check"]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_kind_of_fault_has_a_file_with_cases() -> None:
    cases = PAGE.partition("## All cases")[2]
    named = re.findall(r"`((?:stack/|tests/\w+/)?test_\w+\.py)`", PAGE.partition("## All cases")[0])
    assert len(named) > 12
    for name in named:
        path = name if name.startswith("tests/") else f"tests/faults/{name}"
        assert f"`{path}`, " in cases, f"{name} has no cases"


def test_there_are_far_more_than_eighty() -> None:
    found = re.search(r"^([\d]+) cases; the (\d+) quick ones", PAGE, re.MULTILINE)
    assert found is not None
    assert int(found[1]) > 80
