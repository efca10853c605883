"""Fixtures of tests that run whole batches of a pipeline."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from tests.support.backups import Backup, Backups
from tests.support.site import Site


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
