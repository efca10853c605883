"""From settings to masters: the store that joins read, and the source of published pages."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from etl.contract.model import Master
from etl.masters.delta.source import DeltaMaster
from etl.masters.direct import DirectMasters
from etl.masters.masters import Masters, PagesMasters
from etl.masters.postgres.source import PostgresMaster
from etl.masters.source import MasterSource
from etl.settings import Settings


def masters_of(settings: Settings, masters: Sequence[Master], dsn: str) -> Masters:
    """The store selected by the settings."""
    if settings.master_store == "direct":
        return DirectMasters(
            masters, dsn, settings.lookup_rows, partial(delta_path, settings), settings.var / "master_pins"
        )
    return PagesMasters(settings.master_pages, masters, partial(source_of, settings, dsn))


def source_of(settings: Settings, dsn: str, master: Master) -> MasterSource:
    """The source of a master's pages."""
    if master.store == "delta":
        return DeltaMaster(delta_path(settings, master), list(master.key_columns))
    dated_by = master.version or "updated_at"
    return PostgresMaster(dsn, master.table, list(master.key_columns), follow=master.follow, dated_by=dated_by)


def delta_path(settings: Settings, master: Master) -> Path:
    """The folder of a master that is kept in Delta; a relative one is under `var`."""
    path = Path(master.table)
    return path if path.is_absolute() else settings.var / path
