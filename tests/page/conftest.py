"""One warehouse with a few batches for all tests of the page, and browsers of people with different rights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from etl.adapters import postgres
from etl.page.app import create_app
from etl.pipeline.tasks.in_process import InProcess
from etl.samples import generate_master
from tests.support.page_access import DAGS, Client, MemoryAccess
from tests.support.site import Site, order

HOSTILE = '<script>alert("x")</script>\u202e<img src=x onerror=alert(1)>'


@dataclass(frozen=True)
class Desk:
    """The page over a warehouse, as several people see it."""

    site: Site
    access: MemoryAccess
    admin: Client
    viewer: Client
    clerk: Client  # may see orders and nothing else
    anonymous: Client


@pytest.fixture(scope="module")
def busy(module_database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Three batches of orders: good ones, refused ones with hostile text, duplicates, one that waits."""
    with postgres.connect(module_database) as connection:
        generate_master(connection, seed=1, customers=10, products=10)
    site = Site.under(tmp_path_factory.mktemp("page"), module_database, InProcess())
    site.land("one.jsonl", *[order(number) for number in range(1, 31)], order(1), order(900, customer_id=999))
    site.run()
    site.land("two.jsonl", *[order(number) for number in range(31, 41)], HOSTILE.encode(), order(950, quantity=-1))
    batch = site.run()
    site.step("report", batch)
    site.land(f"{HOSTILE.replace('/', '_')}.jsonl", *[order(number) for number in range(41, 51)])
    site.run()
    yield site
    site.close()


@pytest.fixture(scope="module")
def desk(busy: Site) -> Desk:
    everything = frozenset(DAGS)
    access = MemoryAccess({"admin": everything, "clerk": frozenset({"orders"})})
    app = create_app(busy.settings, lambda: busy.dsn, access)

    people = {name: Client(app, name) for name in ("admin", "viewer", "clerk")}
    return Desk(busy, access, **people, anonymous=Client(app))
