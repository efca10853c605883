"""No page of ours has a serious barrier, in light or in dark: every kind of address, and every report."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute
from playwright.sync_api import Browser, Page

from etl.adapters import postgres
from etl.contract.load import load_all
from etl.page.actions import ACTIONS
from etl.page.app import create_app
from etl.page.ports import Order, User
from etl.pipeline.inspection import digest
from etl.pipeline.steps import Steps
from etl.pipeline.tasks import in_process as pipelines_here
from etl.report import benchmark
from etl.report.correlations.folder import write as write_report
from etl.samples import generate_master
from etl.streams.tasks import in_process as streams_here
from tests.support.browser import barriers, chromium
from tests.support.document_site import STREAM as LOGS
from tests.support.document_site import seconds
from tests.support.page_access import DAGS, MemoryAccess
from tests.support.query_site import QuerySite, at
from tests.support.site import Site, order
from tests.support.stream_site import quiet
from tests.support.web_server import serving

pytestmark = pytest.mark.browser

SQL = "select l.id as a, r.id as b from l join r on l.k = r.k"
PAGES = (
    "", "p/orders", "p/trips", "p/orders/history", "p/orders/history?span=30d", "p/orders/batches",
    "p/orders/batches/1", "p/orders/batches/2", "p/orders/quarantine", "p/orders/event", "p/orders/event?key=1",
    "p/orders/event?key=900", "p/orders/event?key=950", "p/orders/event?key=7777",
    "c/", "c/history", "c/batches", "c/of/pairs", "c/of/near", "c/of/documents", "q/", "q/of/asked", "reports",
    "started?dag=orders&run=manual__1&action=run&pipeline=orders",
    "act/run?pipeline=orders", "act/release-batch?pipeline=orders&batch=1",
    "act/release-lines?pipeline=orders&batch=2", "act/reject-lines?pipeline=orders&batch=2",
    "act/drain-backlog", "act/refresh-masters", "act/delete-query?query=asked",
    f"act/create-query?query=more&within=20s&sql={SQL.replace(' ', '+')}",
    "files/reports/orders/index.html", "files/reports/orders/2/index.html",
    "files/reports/correlations/index.html", "files/reports/correlations/1/index.html",
    "files/reports/digest/index.html", "files/reports/digest/{day}/index.html",
    "files/reports/benchmark/index.html", "files/reports/benchmark/pipeline/index.html",
    "files/data_docs/index.html",
)  # fmt: skip
ERRORS = {"nothing": 404, "p/none": 404, "act/reject-lines": 400, "c/of/none": 404}
NO_PAGES = {"/now.json", "/static/{path:path}", "/{path:path}", "/p/{pipeline}/run", "/c/run"}
"""Data, files, and addresses that only lead elsewhere."""


@dataclass(frozen=True)
class Served:
    """The page over a warehouse that has something of everything."""

    app: FastAPI
    url: str
    reports: Path
    data_docs: Path


@pytest.fixture(scope="module")
def served(module_database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    asked = QuerySite.under(tmp_path_factory.mktemp("all"), module_database, streams_here.InProcess())
    own = asked.under_it.settings
    run_pipelines(Site(Steps(own, module_database, pipelines_here.InProcess()), own, module_database))
    run_correlations(asked)
    now = datetime.now(UTC)
    digest.write(own, module_database, load_all(own.pipelines, own.var).pipelines, now.date(), now)
    benchmark.write("pipeline", "50,000 events: 1.9 s", [], own.reports / "benchmark", now)
    access = MemoryAccess({"ada": frozenset(DAGS)})
    access.start(User("ada", "Ada"), Order("run", "orders", {}, "", False))
    app = create_app(own, lambda: module_database, access)
    with serving(app) as url:
        yield Served(app, url, own.reports, own.data_docs)


def run_pipelines(site: Site) -> None:
    """Good orders; then a duplicate, one that waits and refused ones, one of them a line of no sense."""
    with postgres.connect(site.dsn) as connection:
        generate_master(connection, seed=1, customers=10, products=10)
    site.land("one.jsonl", *[order(number) for number in range(1, 31)])
    site.step("report", site.run())
    bad = [order(1), order(900, customer_id=999), order(950, quantity=-1), b"<b>no JSON"]
    site.land("two.jsonl", *[order(number) for number in range(31, 41)], *bad)
    site.step("report", site.run())
    site.close()


def run_correlations(asked: QuerySite) -> None:
    """By equality, by nearness, of documents, and somebody's query."""
    site = asked.under_it
    (site.settings.streams / "logs.toml").write_text(LOGS)
    site.declare("pairs", SQL, within="30s", lateness="1h")
    site.declare("near", "select l.id as a, r.id as b from l join r on abs(l.x - r.x) < 2", within="30s", lateness="1h")
    documents = '[documents]\nstream = "logs"\nwindow = "5 seconds"\npartitions = 2\n'
    (site.settings.correlations / "documents.toml").write_text(documents)
    asked.create("asked", SQL, owner="Ada")
    for number, stream in enumerate(("l", "r")):
        asked.land(stream, [{"id": 100 * number + i, "k": i, "x": i, "t": at(i)} for i in range(20)])
    site.land("logs", "1a", [{"time": seconds(i), "n": {"id": i}, "user": i % 3, "page": i % 2} for i in range(20)])
    told = site.steps.run("report", "test", asked.run()["batch"], quiet)
    write_report(told, site.settings.reports / "correlations", 5)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def tab(browser: Browser) -> Page:
    return browser.new_context(extra_http_headers={"x-user": "ada"}, viewport={"width": 1280, "height": 900}).new_page()


def opened(tab: Page, address: str) -> int:
    answer = tab.goto(address)
    assert answer is not None, "the page is fetched"
    return answer.status


@pytest.mark.parametrize("path", PAGES)
def test_a_page_has_no_serious_barrier(served: Served, tab: Page, path: str) -> None:
    address = f"{served.url}/{path.format(day=datetime.now(UTC).date())}"
    assert opened(tab, address) == 200, tab.inner_text("body")
    assert barriers(tab) == []


@pytest.mark.parametrize("path", ERRORS)
def test_a_page_that_says_no_has_no_serious_barrier(served: Served, tab: Page, path: str) -> None:
    assert opened(tab, f"{served.url}/{path}") == ERRORS[path]
    assert barriers(tab) == []


def test_a_stranger_is_told_to_log_in_without_a_serious_barrier(served: Served, browser: Browser) -> None:
    page = browser.new_page()
    assert opened(page, f"{served.url}/") == 401
    assert barriers(page) == []
    page.close()


def test_no_page_of_data_docs_has_a_serious_barrier(served: Served, tab: Page) -> None:
    pages = sorted(path.relative_to(served.data_docs) for path in served.data_docs.rglob("*.html"))
    kinds = {path.parts[0]: path for path in pages}
    assert set(kinds) == {"index.html", "validations"}, "a page of every kind"
    for path in kinds.values():
        opened(tab, f"{served.url}/files/data_docs/{path}")
        assert barriers(tab) == [], path


def test_every_kind_of_address_every_action_and_every_report_is_looked_at(served: Served) -> None:
    tried = {path.partition("?")[0] for path in PAGES}
    routes = [one for one in served.app.routes if isinstance(one, APIRoute) and "GET" in (one.methods or ())]
    missed = {one.path for one in routes if not any(one.path_regex.match(f"/{path}") for path in tried)}
    assert missed - NO_PAGES == set()
    assert {path.removeprefix("act/") for path in tried if path.startswith("act/")} == set(ACTIONS)
    written = {
        re.sub(r"\d[\d-]*", "N", str(path.relative_to(served.reports))) for path in served.reports.rglob("*.html")
    }
    looked_at = {path.removeprefix("files/reports/") for path in tried if path.startswith("files/reports/")}
    assert written == {re.sub(r"\d[\d-]*|\{day\}", "N", path) for path in looked_at}
