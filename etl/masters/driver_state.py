"""State of masters that the resident driver keeps between batches: its only owner.

    keepers   by file: front stages with their configuration, and the policies' statistics on keys that are not in them
    accounts  by file: the time budget of a front stage for learning
    arrow     the ADBC driver's catalogue of types, by server
    fences    by table: the first keys of its pages; stale fences still give every row exactly once

It is a cache: a new driver reads front stages from their files and computes the fences again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa

from etl.enrich.front_stage.stage import FrontStageConfig
from etl.masters.front_stage.keeper import FrontStageKeeper
from etl.masters.front_stage.learning import LearningAccount
from etl.masters.postgres.connections import ArrowConnections

FENCES_FOR = timedelta(hours=1)


@dataclass(slots=True)
class DriverState:
    """One per process that drives batches."""

    arrow: ArrowConnections = field(default_factory=ArrowConnections)
    _keepers: dict[Path, FrontStageKeeper] = field(default_factory=dict)
    _accounts: dict[Path, LearningAccount] = field(default_factory=dict)
    _fences: dict[str, tuple[datetime, pa.Table]] = field(default_factory=dict)

    def keeper(self, path: Path, config: FrontStageConfig) -> FrontStageKeeper:
        """The keeper of a front-stage file; a changed configuration starts again from the file."""
        known = self._keepers.get(path)
        if known is None or known.config != config:
            known = self._keepers[path] = FrontStageKeeper(path, config)
        return known

    def account(self, path: Path) -> LearningAccount:
        """The learning budget of a front-stage file."""
        return self._accounts.setdefault(path, LearningAccount())

    def fences(self, origin: str, now: datetime, find: Callable[[], pa.Table]) -> pa.Table:
        """The fences of a table: computed again after a while, and while there are none."""
        known = self._fences.get(origin)
        if known is None or not known[1].num_rows or now - known[0] >= FENCES_FOR:
            known = self._fences[origin] = now, find()
        return known[1]


_STATE = DriverState()


def driver_state() -> DriverState:
    """The state of this process."""
    return _STATE
