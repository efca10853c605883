"""The page of a benchmark run from Airflow: its figures and output, with its results as JSON beside it.

benchmark/index.html, <bench>/index.html, <bench>/*.json
"""

from __future__ import annotations

import base64
import shutil
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from etl.report.folder import put
from etl.report.templating import fill

_SAID_LINES = 200


def write(bench: str, said: str, results: Sequence[Path], folder: Path, now: datetime) -> Path:
    """Write the page of a benchmark into `folder`, and update the list of benchmarks."""
    home = folder / bench
    home.mkdir(parents=True, exist_ok=True)
    drawings = [(path.stem, _embedded(path)) for path in sorted(results) if path.suffix == ".svg"]
    figures = [path for path in sorted(results) if path.suffix == ".json"]
    for path in figures:
        shutil.copyfile(path, home / path.name)
    shown = "\n".join(said.splitlines()[-_SAID_LINES:])
    names = [path.name for path in figures]
    page = home / "index.html"
    put(page, fill("benchmark.html.j2", bench=bench, said=shown, drawings=drawings, figures=names, now=now))
    benches = sorted(path.parent.name for path in folder.glob("*/index.html"))
    put(folder / "index.html", fill("benchmark_index.html.j2", benches=benches))
    return page


def _embedded(path: Path) -> str:
    """A drawing as a data URL, so that the page is self-contained."""
    return "data:image/svg+xml;base64," + base64.b64encode(path.read_bytes()).decode()
