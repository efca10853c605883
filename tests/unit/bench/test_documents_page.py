"""What docs/correlations-documents.md shows works, and its tables are those of the kept result."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from bench.documents import page
from bench.measured import RESULTS


def test_the_example_of_the_page_runs() -> None:
    (example,) = re.findall(r"```python\n(.*?)```", page.PAGE.read_text(), flags=re.DOTALL)
    done = subprocess.run([sys.executable, "-c", example], capture_output=True, text=True, check=True)
    first, replication = done.stdout.splitlines()
    count, _, document = first.partition(" ")
    assert int(count) > 1000
    assert json.loads(document)["User"].startswith("u")
    assert 1.0 <= float(replication) < 2.0


def test_the_measured_part_is_what_the_result_says() -> None:
    result = json.loads((RESULTS / "documents.json").read_text())
    assert page.measured(result) in page.PAGE.read_text(), "run `python -m bench.documents --only ''`"


@pytest.mark.parametrize("column", ["name", "wanted", "measured", "met"])
def test_every_aim_says_what_was_wanted_and_measured(column: str) -> None:
    result = json.loads((RESULTS / "documents.json").read_text())
    assert result["aims"]
    assert all(column in aim for aim in result["aims"])
