"""Commands of the guides are run as they are written: what is marked `<!-- tried -->`, line for line, by a shell."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from etl.settings import PROJECT

pytestmark = pytest.mark.stack

TRIED = re.compile(r"<!-- tried -->\n```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(
    ("guide", "says"),
    [
        ("getting-started.md", ("loaded", "went into the warehouse", "index.html")),
        ("how-to/own-tables.md", ("rides.toml is good", '"outcome": "loaded"', '"accepted": 3')),
    ],
)
def test_the_commands_of_a_guide_do_what_it_says(
    guide: str, says: tuple[str, ...], database: str, tmp_path: Path
) -> None:
    blocks = TRIED.findall((PROJECT / "docs" / guide).read_text())
    assert blocks, "the guide has commands that are tried"
    env = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "FRONTSTAGE_HOME": str(tmp_path / "home"),
        "FRONTSTAGE_POSTGRES_DSN": database,
        "FRONTSTAGE_JARS": str(PROJECT / "var" / "jars"),
        "NO_COLOR": "1",
    }
    script = "set -euo pipefail\n" + "\n".join(blocks)
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=540
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert [word for word in says if word not in done.stdout] == [], done.stdout
