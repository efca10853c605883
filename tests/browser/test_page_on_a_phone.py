"""The Frontstage page on a phone, whatever a pipeline has to say: served in this process, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page

from etl.adapters import postgres
from etl.page.app import create_app
from etl.page.queries.overview import PipelineNow
from etl.pipeline.tasks.in_process import InProcess
from etl.samples import generate_master
from tests.support.browser import chromium
from tests.support.page_access import DAGS, MemoryAccess
from tests.support.site import Site, order
from tests.support.web_server import serving

pytestmark = pytest.mark.browser

PHONE = {"width": 390, "height": 800}
WIDER = """[...document.querySelectorAll('main *, nav *')]
  .filter(one => !one.closest('.scroll, .skip') && one.getBoundingClientRect().right > 390)
  .map(one => one.outerHTML.slice(0, 200))"""
STANDINGS = (
    "12,345,678 events are not in exactly one place",
    "overloaded: more arrives than one batch serves in time",
    "the newest batch was later than its deadline of 120 s",
    "fresh and complete; some refused lines wait for a decision",
)


@pytest.fixture(scope="module")
def address(module_database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Orders with refused lines, a long word among them, and events that wait."""
    with postgres.connect(module_database) as connection:
        generate_master(connection, seed=1, customers=10, products=10)
    site = Site.under(tmp_path_factory.mktemp("phone"), module_database, InProcess())
    good = [order(number) for number in range(1, 31)]
    site.land("one.jsonl", *good, order(900, customer_id=999), order(950, quantity=-1), b"x" * 300)
    site.step("report", site.run())
    app = create_app(site.settings, lambda: site.dsn, MemoryAccess({"ada": frozenset(DAGS)}))
    with serving(app) as url:
        yield url
    site.close()


@pytest.fixture(scope="module")
def phone() -> Iterator[Page]:
    with chromium() as browser:
        yield browser.new_context(extra_http_headers={"x-user": "ada"}, viewport=PHONE).new_page()


def assert_fits(page: Page) -> None:
    wide = page.evaluate("document.documentElement.scrollWidth")
    assert wide <= PHONE["width"], f"{wide} pixels; only tables scroll sideways: {page.evaluate(WIDER)}"


@pytest.mark.parametrize("standing", STANDINGS)
@pytest.mark.parametrize("path", ["", "p/orders"])
def test_how_a_pipeline_stands_is_read_on_a_phone(
    address: str, phone: Page, monkeypatch: pytest.MonkeyPatch, path: str, standing: str
) -> None:
    monkeypatch.setattr(PipelineNow, "standing", property(lambda _: ("warn", standing)))
    phone.goto(f"{address}/{path}")
    assert standing in phone.inner_text("main")
    assert_fits(phone)


@pytest.mark.parametrize(
    "path", ["p/orders/history", "p/orders/batches", "p/orders/batches/1", "p/orders/quarantine",
             "p/orders/event?key=950", "c/", "q/", "reports", "act/run?pipeline=orders"]
)  # fmt: skip
def test_every_kind_of_page_fits_a_phone(address: str, phone: Page, path: str) -> None:
    answer = phone.goto(f"{address}/{path}")
    assert answer is not None
    assert answer.status == 200, phone.inner_text("body")
    assert_fits(phone)
