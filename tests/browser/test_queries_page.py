"""Ad-hoc queries on the Frontstage page in a real browser: viewers look and do not create; mistakes are sentences."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from etl.page.app import create_app
from etl.page.ports import Order, User
from etl.streams.adhoc.service import Queries
from etl.streams.tasks.in_process import InProcess
from tests.support.browser import chromium
from tests.support.correlate_histories import at
from tests.support.page_access import DAGS, MemoryAccess
from tests.support.query_site import QuerySite
from tests.support.web_server import serving

pytestmark = pytest.mark.browser

SQL = "select l.id as a, r.id as b from l join r on l.k = r.k"


@dataclass
class PerformingAccess(MemoryAccess):
    """Runs of the DAG `query` do at once what they would do in Airflow."""

    queries: Queries | None = None

    def start(self, user: User, order: Order) -> str:
        assert self.queries is not None, "the site is there"
        if order.dag == "query":
            self.queries.perform(order.conf, user.name)
        return super().start(user, order)


@pytest.fixture
def site(tmp_path: Path, database: str) -> QuerySite:
    return QuerySite.under(tmp_path, database, InProcess())


@pytest.fixture
def address(site: QuerySite) -> Iterator[str]:
    may = {"ada": frozenset(DAGS), "viewer": frozenset({"correlations"})}
    access = PerformingAccess(may, queries=site.queries)
    app = create_app(site.under_it.settings, lambda: site.under_it.dsn, access)
    with serving(app) as url:
        yield url


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


def as_user(browser: Browser, name: str) -> Page:
    return browser.new_context(extra_http_headers={"x-user": name}).new_page()


def land(site: QuerySite) -> None:
    for number, stream in enumerate(("l", "r")):
        rows = [{"id": 100 * number + i, "k": i, "t": at(i)} for i in range(3)]
        site.land(stream, rows)
    site.run()


def test_a_viewer_looks_and_does_not_create(site: QuerySite, address: str, browser: Browser) -> None:
    site.create("pairs", SQL)
    land(site)
    page = as_user(browser, "viewer")
    page.goto(f"{address}/q/")
    assert page.get_by_label("SQL").count() == 0
    page.get_by_role("link", name="pairs").click()
    assert "3 of 3 rows" in page.inner_text("body")
    assert page.get_by_role("link", name="Delete this query…").count() == 0
    refused = page.goto(f"{address}/act/create-query?query=mine&within=20s&sql=select")
    assert refused is not None
    assert refused.status == 403
    assert [one["name"] for one in site.queries.summaries()] == ["pairs"]


def test_what_cannot_be_asked_for_is_a_sentence_before_anything_starts(
    site: QuerySite, address: str, browser: Browser
) -> None:
    page = as_user(browser, "ada")
    page.goto(f"{address}/q/")
    page.get_by_label("Name").fill("wrong")
    page.get_by_label("SQL").fill("select l.z from l join r on l.k = r.k")
    page.get_by_role("button", name="Create…").click()
    assert "line 1, column 8: column 'z' is unknown" in page.inner_text("body")
    assert site.queries.summaries() == []


def test_a_query_is_created_seen_with_plan_and_rows_and_deleted(
    site: QuerySite, address: str, browser: Browser
) -> None:
    page = as_user(browser, "ada")
    page.goto(f"{address}/q/")
    page.get_by_label("Name").fill("pairs")
    page.get_by_label("Window").fill("20s")
    page.get_by_label("SQL").fill(SQL)
    page.get_by_role("button", name="Create…").click()
    assert "Create the query pairs within 20s" in page.content()
    page.get_by_role("button", name="Create this query").click()
    page.wait_for_url("**/started**")
    land(site)
    page.goto(f"{address}/q/")
    page.get_by_role("link", name="pairs").click()
    text = page.inner_text("body")
    for shown in ("batch 1", "after it was asked for", "(l ⋈ r)", "l.k = r.k", "3 of 3 rows", "by Ada"):
        assert shown in text, shown
    page.get_by_role("link", name="Delete this query…").click()
    page.get_by_role("button", name="Delete this query").click()
    page.wait_for_url("**/started**")
    page.goto(f"{address}/q/")
    assert "Nobody asks for anything" in page.inner_text("body")
