"""From settings to masters: which store joins read, and where pages are published from."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from etl.masters.delta.source import DeltaMaster
from etl.masters.direct import DeltaMasters, PostgresMasters
from etl.masters.masters import Masters, PagesMasters
from etl.masters.postgres.source import PostgresMaster
from etl.masters.source import MasterSource
from etl.settings import Settings
from warehouse.contract import Master


def masters_of(settings: Settings, masters: Sequence[Master], dsn: str) -> Masters:
    """The store that the settings name."""
    if settings.master_store == "postgres":
        return PostgresMasters(dsn, masters, settings.lookup_rows)
    if settings.master_store == "delta":
        return DeltaMasters(masters, partial(delta_path, settings), settings.var / "master_pins")
    return PagesMasters(settings.master_pages, masters, partial(source_of, settings, dsn))


def source_of(settings: Settings, dsn: str, master: Master) -> MasterSource:
    """Where a master's pages are published from."""
    if settings.master_source == "delta":
        return DeltaMaster(delta_path(settings, master), [master.key])
    return PostgresMaster(dsn, master.table, [master.key], follow=settings.master_follow)


def delta_path(settings: Settings, master: Master) -> Path:
    """The folder of a master that is kept in Delta: `<master_delta>/customers` for `master.customers`."""
    return settings.master_delta / master.table.rsplit(".", 1)[-1]
