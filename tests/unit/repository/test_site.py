"""The documentation site: it builds with every link checked, and its pages load nothing from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from etl.settings import PROJECT

pytestmark = pytest.mark.slow

LOADED = re.compile(r"<(?:script|img|link|iframe)\b[^>]*\b(?:src|href)=\"?(https?:)?//")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` does."""
    home = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(home)]
    done = subprocess.run(command, cwd=PROJECT, env=dict(os.environ), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return home


def test_every_page_is_there_and_loads_nothing_from_elsewhere(site: Path) -> None:
    pages = {str(path.relative_to(site)): path.read_text() for path in site.rglob("*.html")}
    assert {"getting-started.html", "how-to/own-tables.html", "runbook.html", "reference/commands.html"} <= set(pages)
    assert len([name for name in pages if name.startswith("adr/")]) == len(
        list((PROJECT / "docs" / "adr").glob("*.md"))
    )
    assert [name for name, page in pages.items() if LOADED.search(page)] == []


def test_the_reference_is_generated_from_the_code(site: Path) -> None:
    commands = (site / "reference" / "commands.html").read_text()
    assert "frontstage report acknowledge" in commands
    assert "--new-normal" in commands
    assert "Days of history" in (site / "reference" / "dags.html").read_text()
    assert "hold_on" in (site / "reference" / "schemas.html").read_text()
    assert "frontstage.batch.duration" in (site / "reference" / "metrics.html").read_text()
