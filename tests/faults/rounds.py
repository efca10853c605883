"""Rounds of maintenance for drawn histories: files grow old, a round compacts and removes, and may end anywhere.

grow_old   every file of the warehouse was written, and every log entry made, some days earlier
Tools      OPTIMIZE by delta-rs, and VACUUM as Spark does it: by the times of files and log entries
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from etl.adapters import claims, ledger
from etl.adapters.delta import compact as compaction
from etl.pipeline.upkeep import maintenance, retention

POINTS = (
    "after claims are merged", "before optimize", "after optimize", "before the backlog is compacted",
    "between file and entry", "after the backlog is compacted", "before vacuum", "in the middle of vacuum",
    "after vacuum", "before a day of the archive is removed", "before batches are forgotten",
)  # fmt: skip
Reached = Callable[[str], None]


def often(replace_attribute: Callable[[Any, str, Any], None]) -> None:
    """Let few files be many, so that short histories have something to compact and to merge."""
    replace_attribute(maintenance, "MANY_FILES", 2)
    replace_attribute(claims, "FAN_IN", 3)


def reaching(replace_attribute: Callable[[Any, str, Any], None], reached: Reached) -> None:
    """Call `reached` at points that have no name in the code, most of them between the parts of a round."""
    _before(replace_attribute, maintenance, "compact", "before the backlog is compacted", reached)
    _before(replace_attribute, retention, "remove_folder", "before a day of the archive is removed", reached)
    _before(replace_attribute, retention, "forget_batches", "before batches are forgotten", reached)
    _before(replace_attribute, ledger.Ledger, "set_aside", "before the ledger sets events aside", reached)
    write = compaction.write_part

    def written(*arguments: Any) -> Any:
        result = write(*arguments)
        reached("between file and entry")
        return result

    replace_attribute(compaction, "write_part", written)


def _before(replace: Callable[[Any, str, Any], None], module: Any, name: str, point: str, reached: Reached) -> None:
    function = getattr(module, name)

    def wrapped(*arguments: Any, **named: Any) -> Any:
        reached(point)
        result = function(*arguments, **named)
        reached(point.replace("before", "after"))
        return result

    replace(module, name, wrapped)


def grow_old(folders: Iterable[Path], by: timedelta) -> None:
    """Let every file in these folders be so much older."""
    for path in (path for folder in folders for path in folder.rglob("*") if path.is_file()):
        at = path.stat().st_mtime - by.total_seconds()
        os.utime(path, (at, at))


def young(paths: Iterable[Path]) -> list[Path]:
    """Those that a restored backup need not have: it is never older than what maintenance keeps."""
    since = time.time() - maintenance.KEPT_FOR.total_seconds() + 3600
    return [path for path in paths if path.stat().st_mtime > since]


@dataclass(frozen=True)
class Tools:
    """Delta's own maintenance, which calls `reached` around each operation."""

    reached: Reached

    def optimize(self, folder: Path) -> None:
        self.reached("before optimize")
        DeltaTable(str(folder)).optimize.compact()
        self.reached("after optimize")

    def vacuum(self, folder: Path, keep: timedelta) -> None:
        self.reached("before vacuum")
        before = time.time() - keep.total_seconds()
        kept = {uri.rpartition("/")[2] for uri in DeltaTable(str(folder)).file_uris()} | set(_removed(folder, before))
        for path in sorted(folder.glob("*.parquet")):
            if path.name not in kept and path.stat().st_mtime < before:
                path.unlink()
                self.reached("in the middle of vacuum")
        self.reached("after vacuum")


def _removed(folder: Path, since: float) -> Iterator[str]:
    """Files that log entries since a time have removed."""
    for entry in (folder / "_delta_log").glob("*.json"):
        if entry.stat().st_mtime >= since:
            for line in entry.read_text().splitlines():
                action = json.loads(line)
                if "remove" in action:
                    yield action["remove"]["path"]
