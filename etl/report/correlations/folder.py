"""The folder of these reports: one folder per batch and a list, all files written atomically.

    correlations/index.html, index.json, latest.json, <batch>/index.html, <batch>/report.json

As in `etl.report.folder`: files are written atomically, and a report missing in the list is added by the next write.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from etl.report.correlations import page
from etl.report.correlations.model import HISTORY_BATCHES, BatchReport, Point
from etl.report.fields import is_batch_name
from etl.report.folder import NoReport, Written, put

_LIST = TypeAdapter(tuple[Point, ...])


def write(result: Mapping[str, Any], folder: Path, keep: int) -> Written:
    """Put the report of a batch's result into `folder`, renew the list, and remove all but the newest `keep`."""
    if keep < 1:
        raise ValueError(f"keep={keep} is not positive; keep at least the report being written")
    earlier = [point for point in points(folder) if point.batch != str(result["batch"])]
    history = tuple(reversed(earlier[:HISTORY_BATCHES]))
    report = BatchReport.model_validate({**result, "batch": str(result["batch"]), "history": history})
    home = folder / report.batch
    home.mkdir(parents=True, exist_ok=True)
    written, whole = Written(home / "index.html", home / "report.json"), report.model_dump_json(indent=2)
    put(written.html, page.render(report))
    put(written.json, whole)
    kept = _newest_first([report.point(), *earlier[: keep - 1]])
    put(folder / "index.json", _LIST.dump_json(tuple(kept), indent=1).decode())
    put(folder / "index.html", page.render_list(kept))
    if kept[0].batch == report.batch:
        put(folder / "latest.json", whole)
    for old in earlier[keep - 1 :]:
        shutil.rmtree(folder / old.batch, ignore_errors=True)
    return written


def points(folder: Path) -> list[Point]:
    """Batches that have a report, newest first."""
    present = {path.parent.name for path in folder.glob("*/report.json") if is_batch_name(path.parent.name)}
    listed = [point for point in _listed(folder) if point.batch in present]
    unlisted = present - {point.batch for point in listed}
    found = [report.point() for name in unlisted if (report := _report(folder / name / "report.json"))]
    return _newest_first([*listed, *found])


def read(folder: Path, batch: int | None = None) -> BatchReport:
    """The report of a batch, or the newest one. Raises `NoReport`."""
    report = _report(folder / "latest.json" if batch is None else folder / str(batch) / "report.json")
    if report is None:
        raise NoReport(None if batch is None else str(batch), str(folder))
    return report


def _listed(folder: Path) -> tuple[Point, ...]:
    try:
        return _LIST.validate_json((folder / "index.json").read_bytes())
    except (FileNotFoundError, ValidationError):
        return ()


def _report(path: Path) -> BatchReport | None:
    try:
        return BatchReport.model_validate_json(path.read_bytes())
    except (FileNotFoundError, ValidationError):
        return None


def _newest_first(lines: list[Point]) -> list[Point]:
    return sorted(lines, key=lambda point: (point.finished_at, int(point.batch) if point.batch.isdigit() else 0),
                  reverse=True)  # fmt: skip
