"""Data Docs in a real browser with the network cut off: styled, filled and asking for nothing but files beside them."""

from __future__ import annotations

import functools
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from playwright.sync_api import Browser, Page

from etl.adapters.great_expectations.audit import Audit
from etl.contract.tables import fact_schema
from tests.support.browser import Visit, chromium
from tests.support.declared import NOW, resolve

pytestmark = pytest.mark.browser

PIPELINE = """
name = "shown"
[stream]
source = { landing = "shown" }
key = ["id"]
[stream.fields]
id = "bigint"
kind = { type = "string", one_of = ["a", "b"] }
[[expectations]]
type = "expect_column_distinct_values_to_be_in_set"
column = "kind"
value_set = ["a", "b"]
"""
HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def docs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site of one batch that failed."""
    home = tmp_path_factory.mktemp("docs")
    resolved = resolve(home, PIPELINE)
    schema = pa.schema([field.with_nullable(True) for field in fact_schema(resolved)])
    rows = [{"id": 1, "kind": "a"}, {"id": 2, "kind": HOSTILE}]
    audit = Audit(home / "results", home / "var" / "data_docs", 3)
    audit.check(pa.Table.from_pylist(rows, schema), resolved.pipeline, NOW, 1, 2)
    audit.build_docs("shown", 1)
    return home / "var" / "data_docs"


@pytest.fixture(scope="module")
def served(docs: Path) -> Iterator[str]:
    """The same site under a prefix of a web server."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            """A test says what it has to say by failing."""

    handler = functools.partial(Quiet, directory=str(docs.parent))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/data_docs/"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture(params=["file", "served"])
def visit(request: pytest.FixtureRequest, browser: Browser, docs: Path, served: str) -> Iterator[Visit]:
    """The index, opened from the disk or from a server; whatever is elsewhere does not answer."""
    home = docs.as_uri() + "/" if request.param == "file" else served
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.route(lambda url: not url.startswith((home, "data:")), lambda route: route.abort())
    visit = Visit(context.new_page(), home)
    visit.open("index.html")
    yield visit
    assert [url for url in visit.asked if not url.startswith((home, "data:"))] == []
    assert [word for word in visit.said if "favicon" not in word] == []
    context.close()


def styled(page: Page) -> bool:
    """Whether Bootstrap's rules and fonts are at work."""
    return bool(
        page.evaluate(
            """async () => {
              await document.fonts.ready;
              const row = getComputedStyle(document.querySelector('.row')).display === 'flex';
              const font = getComputedStyle(document.body).fontFamily.includes('Segoe UI');
              return row && font;
            }"""
        )
    )


def test_the_index_is_styled_and_its_table_is_filled(visit: Visit) -> None:
    assert styled(visit.page)
    row = visit.page.locator("table tbody tr").first
    assert "shown" in row.inner_text()
    assert visit.page.locator(".navbar-brand img").evaluate("image => image.naturalWidth > 0")
    assert visit.page.evaluate("document.fonts.check('900 16px \"Font Awesome 6 Free\"')")


def test_a_result_opens_from_the_index_and_shows_what_failed(visit: Visit) -> None:
    visit.page.locator("table tbody a").first.click()
    visit.page.wait_for_url("**/validations/**")
    assert styled(visit.page)
    text = visit.page.locator("body").inner_text()
    assert "Failed" in text
    assert "<img" in text, "hostile text is shown as text"


def test_the_list_is_searched(visit: Visit) -> None:
    rows = visit.page.locator("table tbody tr")
    visit.page.get_by_label("Search the results").fill("no such run")
    assert rows.first.is_hidden()
    visit.page.get_by_label("Search the results").fill("SHOWN")
    assert rows.first.is_visible()


def test_only_what_failed_is_shown_when_asked_and_details_open(visit: Visit) -> None:
    page = visit.page
    page.locator("table tbody a").first.click()
    page.wait_for_url("**/validations/**")
    good = page.locator("tr .fa-check-circle").first
    assert good.is_visible()
    page.get_by_text("Failed Only").click()
    assert good.is_hidden()
    assert page.get_by_text("&lt;img").or_(page.get_by_text("<img")).first.is_visible(), "what failed stays"
    page.get_by_text("Show All").click()
    assert good.is_visible()
    page.get_by_text("Show more info...").click()
    assert page.locator(".collapse.show").first.is_visible()
