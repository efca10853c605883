"""State of masters that a worker process keeps between its tasks: its only owner.

    page stores    by folder: a store remembers which pages it has verified (ADR 18)
    front stages   by file: the mapped rows, until the file is rewritten (ADR 17)
    feedback       by master and kind of store: measured costs of reading, corrected by every round (ADR 19)

Spark reuses Python workers, so a task finds the state of earlier ones. It is a cache: a new process gives the same
results, only slower at first. Entries are keyed by identity (a file and its time, a master and its store), not by task.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from etl.enrich.front_stage.shared import HotRows
from etl.enrich.planning.feedback import Feedback
from etl.masters.front_stage import file as front_stage_file
from etl.masters.front_stage.file import FrontStageDamaged
from etl.masters.pages.store import PageStore


@dataclass(frozen=True, slots=True)
class StoreName:
    """A master as one kind of store reads it."""

    table: str
    kind: str


@dataclass(frozen=True, slots=True)
class _Mapped:
    """A front-stage file as it was when it was mapped."""

    rows_id: str
    modified_ns: int
    hot: HotRows


@dataclass(slots=True)
class WorkerCache:
    """One per process."""

    feedback: dict[StoreName, Feedback] = field(default_factory=dict)
    _stores: dict[Path, PageStore] = field(default_factory=dict)
    _front_stages: dict[Path, _Mapped] = field(default_factory=dict)

    def page_store(self, root: Path) -> PageStore:
        """The store under a root."""
        return self._stores.setdefault(root, PageStore(root))

    def hot_rows(self, path: Path | None, rows_id: str) -> HotRows | None:
        """The front stage in a file, mapped; None when there is none for these rows."""
        if path is None:
            return None
        try:
            modified = path.stat().st_mtime_ns
            known = self._front_stages.get(path)
            if known is None or (known.rows_id, known.modified_ns) != (rows_id, modified):
                hot, provenance = front_stage_file.load(path, verify=False)
                known = self._front_stages[path] = _Mapped(provenance.rows_id, modified, hot)
        except (OSError, FrontStageDamaged, pa.ArrowInvalid):
            return None
        return known.hot if known.rows_id == rows_id else None


_CACHE = WorkerCache()


def worker_cache() -> WorkerCache:
    """The cache of this process."""
    return _CACHE
