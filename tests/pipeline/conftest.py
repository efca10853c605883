"""Fixtures of tests that run whole batches of a pipeline."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from tests.support.backups import Backup, Backups
from tests.support.site import Site, order


@pytest.fixture
def backup(postgres_server: str) -> Iterator[Backup]:
    """Copies the database of a site; what it gives puts the site on that copy, as a restore does."""
    made = Backups(postgres_server)

    def copy(site: Site) -> Callable[[], Site]:
        site.close()
        dsn = made.copy(site.dsn)
        return lambda: replace(site.restarted(), dsn=dsn, steps=replace(site.steps, dsn=dsn))

    yield copy
    made.close()


@pytest.fixture
def commanded(site: Site, monkeypatch: pytest.MonkeyPatch) -> Site:
    """A site that commands find in their settings."""
    for name in [name for name in os.environ if name.startswith("FRONTSTAGE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("FRONTSTAGE_HOME", str(site.settings.home))
    monkeypatch.setenv("FRONTSTAGE_POSTGRES_DSN", site.dsn)
    return site


@pytest.fixture
def told(commanded: Site) -> Site:
    """A site with one batch, which the commands find in their settings."""
    commanded.land("a.jsonl", order(1), order(1), order(2, customer_id=77), b"{")
    commanded.step("report", commanded.run())
    return commanded
