"""What the resident driver keeps between batches: the only place for such state.

    keepers   by file: the front stages as they were last configured, with what their policies know of keys outside them
    accounts  by file: what a front stage may spend on learning
    arrow     what the driver that reads Arrow knows of the servers' types
    fences    by table: where its pages begin; any fences but none give every row once, so they may be a little old

Losing it costs time, never rows: a new driver reads front stages from their files and finds fences again.
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
        """The keeper of the front stage in a file; another configuration begins with what the file holds."""
        known = self._keepers.get(path)
        if known is None or known.config != config:
            known = self._keepers[path] = FrontStageKeeper(path, config)
        return known

    def account(self, path: Path) -> LearningAccount:
        """What the front stage in a file may spend on learning."""
        return self._accounts.setdefault(path, LearningAccount())

    def fences(self, origin: str, now: datetime, find: Callable[[], pa.Table]) -> pa.Table:
        """The fences of a table: found again after a while, and as long as there are none."""
        known = self._fences.get(origin)
        if known is None or not known[1].num_rows or now - known[0] >= FENCES_FOR:
            known = self._fences[origin] = now, find()
        return known[1]


_STATE = DriverState()


def driver_state() -> DriverState:
    """The state of this process."""
    return _STATE
