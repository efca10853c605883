"""The folder of reports: one folder per batch and a list, all files written atomically.

    reports/
      index.html              the list of reports
      index.json              its lines, so that it is redrawn from one small file
      latest.json             the newest report
      <batch>/index.html      the page of one report
      <batch>/report.json     the same as JSON

Every file is written atomically (to a temporary file, then renamed). `report.json` comes last in a
batch's folder, so a folder that has one is complete; one that is missing in the list because a writer
died is added by the next write.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from etl.errors import TerminalError
from etl.report import listing, page
from etl.report.fields import is_batch_name
from etl.report.model import HISTORY_BATCHES, HistoryPoint, RunReport, Summary

DATA_DOCS = "../data_docs/index.html"

_LIST = TypeAdapter(tuple[Summary, ...])


class NoReport(TerminalError):
    """The requested report does not exist."""

    def __init__(self, batch: str | None, folder: str) -> None:
        super().__init__(batch, folder)
        self.batch, self.folder = batch, folder

    def __str__(self) -> str:
        which = "no run report" if self.batch is None else f"no run report of batch {self.batch!r}"
        return f"{self.folder} has {which}; `frontstage run` makes one, older ones are removed after a while"


@dataclass(frozen=True, slots=True)
class Written:
    """The paths of a written report."""

    html: Path
    json: Path


def write(report: RunReport, folder: Path, keep: int) -> Written:
    """Write a report into `folder`, update the list, and remove all but the newest `keep` reports."""
    if keep < 1:
        raise ValueError(f"keep={keep} is not positive; keep at least the report being written")
    # 1. The report itself.
    home = folder / report.batch
    home.mkdir(parents=True, exist_ok=True)
    written = Written(home / "index.html", home / "report.json")
    whole = report.model_dump_json(indent=2)
    put(written.html, page.render(report))
    put(written.json, whole)
    # 2. The list. The report just written stays even if a clock that was set back makes it look old.
    others = [summary for summary in summaries(folder) if summary.batch != report.batch]
    kept = _newest_first([report.summary(), *others[: keep - 1]])
    put(folder / "index.json", _LIST.dump_json(tuple(kept), indent=1).decode())
    put(folder / "index.html", listing.render(kept, DATA_DOCS))
    if kept[0].batch == report.batch:
        put(folder / "latest.json", whole)
    # 3. Only now, with no link left to them, the reports beyond `keep`.
    for old in others[keep - 1 :]:
        shutil.rmtree(folder / old.batch, ignore_errors=True)
    return written


def summaries(folder: Path) -> tuple[Summary, ...]:
    """The lines of the list, newest first. Deleted reports are left out, unlisted ones are read."""
    present = {path.parent.name for path in folder.glob("*/report.json") if is_batch_name(path.parent.name)}
    listed = [summary for summary in _listed(folder) if summary.batch in present]
    unlisted = present - {summary.batch for summary in listed}
    found = [report.summary() for name in unlisted if (report := _report(folder / name / "report.json"))]
    return tuple(_newest_first(listed + found))


def history(folder: Path, batches: int = HISTORY_BATCHES) -> tuple[HistoryPoint, ...]:
    """The newest batches as points of the trends, oldest first: what the next report shows before itself.

    Runs that found nothing are left out, or a quiet night would fill every trend with zeros.
    """
    busy = [summary.point() for summary in summaries(folder) if summary.outcome != "empty"]
    return tuple(reversed(busy[:batches]))


def read(folder: Path, batch: str | None = None) -> RunReport:
    """The report of a batch, or the newest one. Raises `NoReport`."""
    if batch is not None and not is_batch_name(batch):
        raise NoReport(batch, str(folder))
    report = _report(folder / "latest.json" if batch is None else folder / batch / "report.json")
    if report is None:
        raise NoReport(batch, str(folder))
    return report


def _listed(folder: Path) -> tuple[Summary, ...]:
    """The lines of the last list; a missing or damaged list is rebuilt from the reports."""
    try:
        return _LIST.validate_json((folder / "index.json").read_bytes())
    except (FileNotFoundError, ValidationError):
        return ()


def _report(path: Path) -> RunReport | None:
    try:
        return RunReport.model_validate_json(path.read_bytes())
    except (FileNotFoundError, ValidationError):
        return None


def _newest_first(lines: list[Summary]) -> list[Summary]:
    return sorted(lines, key=lambda summary: (summary.finished_at, summary.batch), reverse=True)


def put(path: Path, text: str) -> None:
    """Write a file atomically."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with beside.open("w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
