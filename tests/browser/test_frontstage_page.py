"""The Frontstage page in a real browser and a real Airflow: log in, run, look, act, be refused."""

from __future__ import annotations

import json
import re
import shutil
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from etl import settings as configuration
from etl.adapters import postgres
from etl.samples import generate_master
from etl.settings import PROJECT, Settings
from etl.stack.airflow import services as airflow_services
from etl.stack.airflow.client import Airflow
from etl.stack.postgres import dsn
from etl.stack.stack import Stack
from tests.support.browser import SCHEMES, barriers, chromium_path
from tests.support.command import frontstage
from tests.support.site import order

pytestmark = [pytest.mark.browser, pytest.mark.stack, pytest.mark.timeout(1500)]

ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking"]
HOSTILE = '<script>alert("x")</script><img src=x onerror=alert(1)>'
PATIENCE_MS = 120_000
PAGES = (
    "", "p/orders", "p/orders/history", "p/orders/history?span=30d", "p/orders/batches", "p/orders/batches/1",
    "p/orders/quarantine", "p/orders/event?key=1", "c/", "c/history", "c/batches", "c/of/paid_orders", "reports",
    "act/reject-lines?pipeline=orders&batch=1", "files/reports/orders/1/index.html",
)  # fmt: skip
CLOSED = (*PAGES, "now.json", "files/data_docs/index.html", "static/page.js", "p/orders/run?id=x", "started", "nothing")


@dataclass
class Running:
    """A stack with two users, somebody who has logged in, and where pictures are kept."""

    settings: Settings
    url: str
    browser: Browser
    admin: BrowserContext
    pictures: Path
    said: list[str]

    def open(self, path: str) -> Page:
        """A page of ours, as the administrator sees it."""
        page = self.admin.new_page()
        page.on("dialog", lambda dialog: (self.said.append(dialog.message), dialog.dismiss()))
        answer = page.goto(f"{self.url}/frontstage/{path}")
        assert answer is not None
        assert answer.status == 200, page.inner_text("body")
        return page

    def keep(self, page: Page, name: str) -> None:
        """Keep a picture as an artefact."""
        page.screenshot(path=self.pictures / f"{name}.png", full_page=True)

    def run(self, dag: str) -> str:
        """Run a DAG to its end; how it ended."""
        with Airflow.of(self.settings) as airflow:
            airflow.unpause(dag)
            return airflow.wait(dag, airflow.trigger(dag), 600).state


def land(own: Settings, folder: str, name: str, *lines: dict[str, Any] | bytes) -> None:
    home = own.var / "landing" / folder
    home.mkdir(parents=True, exist_ok=True)
    texts = [one if isinstance(one, bytes) else json.dumps(one).encode() for one in lines]
    (home / f".{name}").write_bytes(b"".join(text + b"\n" for text in texts))
    (home / f".{name}").rename(home / name)


def land_everything(own: Settings) -> None:
    """Orders, one of them refused for a rule that is too strict, one hostile line; orders and payments that meet."""
    orders = [order(number, customer_id=1 + number % 40) for number in range(1, 61)]
    land(own, "orders", "one.jsonl", *orders, order(1, customer_id=2), order(500, quantity=2000), HOSTILE.encode())
    now = datetime.now(UTC) - timedelta(hours=1)
    placed = [
        {"order_id": n, "region": "europe", "pay_by": "card", "amount": "9.90", "ordered_at": now.isoformat()}
        for n in range(1, 41)
    ]
    paid = [
        {"payment_id": n, "order_id": n, "method": "card", "status": "ok", "amount": "9.90",
         "paid_at": (now + timedelta(minutes=5)).isoformat()}
        for n in range(1, 31)
    ]  # fmt: skip
    land(own, "orders_placed", "placed.jsonl", *placed)
    land(own, "payments", "paid.jsonl", *paid)


def seed(dsn: str) -> None:
    postgres.migrate(dsn)
    with postgres.connect(dsn) as connection:
        generate_master(connection, seed=1, customers=50, products=20)


@pytest.fixture(scope="module")
def running(session_home: Path) -> Iterator[Running]:
    chromium = chromium_path()
    home = session_home / "page"
    shutil.copytree(PROJECT / "warehouse" / "pipelines", home / "pipelines")
    declare_limit(home, 1_000)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    own = configuration.load(
        home=home, jars=PROJECT / "var" / "jars", airflow_port=port, schedule="none", pipelines=home / "pipelines"
    )
    land_everything(own)
    pictures = PROJECT / "var" / "pictures"
    pictures.mkdir(parents=True, exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        options = airflow_services._options
        users = {"CORE__SIMPLE_AUTH_MANAGER_USERS": "admin:admin,vera:viewer"}
        patch.setattr(airflow_services, "_options", lambda given: options(given) | users)
        with Stack(own, on_postgres=seed) as stack, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=ARGUMENTS)
            assert stack.airflow_url is not None
            admin = logged_in(browser, stack.airflow_url, *stack.login)
            yield Running(own, stack.airflow_url, browser, admin, pictures, [])
            browser.close()


def declare_limit(home: Path, largest: int) -> None:
    """How many of a product an order may have."""
    file = home / "pipelines" / "orders.toml"
    limit = re.compile(r'(quantity = \{ type = "int", min = 1, max = )[\d_]+')
    file.write_text(limit.sub(rf"\g<1>{largest}", file.read_text()))


def logged_in(browser: Browser, url: str, user: str, password: str) -> BrowserContext:
    """A browser in which somebody has logged in through Airflow's own form."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    page.goto(url)
    page.fill("input[name=username]", user)
    page.fill("input[name=password]", password)
    page.keyboard.press("Enter")
    page.get_by_text("Dags", exact=True).first.wait_for()
    page.close()
    return context


def test_a_run_is_triggered_through_airflows_form_and_succeeds(running: Running) -> None:
    with Airflow.of(running.settings) as airflow:
        airflow.wait_for_dag("orders", 120)
        page = running.admin.new_page()
        page.goto(f"{running.url}/dags/orders")
        page.get_by_role("button", name="Trigger").click()
        expect(page.get_by_text("Release a held batch")).to_be_visible(timeout=PATIENCE_MS)
        page.get_by_role("dialog").get_by_role("button", name="Trigger").click()
        page.wait_for_url("**/dags/orders/runs/**")
        (run,) = airflow.runs("orders")
        assert airflow.wait("orders", run.run_id, 600).state == "success"
        page.reload()
        page.get_by_text("Success").first.wait_for()
        running.keep(page, "airflow-run")
    page.close()


def test_the_page_is_in_the_navigation_and_shows_the_numbers_of_the_command(running: Running) -> None:
    page = running.admin.new_page()
    page.goto(running.url)
    page.get_by_text("Frontstage", exact=True).first.click()
    inside = page.frame_locator("iframe[title=Frontstage]")
    inside.get_by_role("heading", name="orders").get_by_role("link").click()
    inside.get_by_role("heading", name="Every event is in exactly one place").wait_for()
    shown = {
        one.get_attribute("data-total"): int(one.inner_text().replace(",", ""))
        for one in inside.locator("[data-total]").all()
    }
    own = running.settings
    told = frontstage(
        "status", "--json", home=own.home, FRONTSTAGE_PIPELINES=str(own.pipelines),
        FRONTSTAGE_AIRFLOW_PORT=str(own.airflow_port),
    )  # fmt: skip
    totals = json.loads(told.stdout)["pipelines"]["orders"]["totals"]
    assert shown == {name: totals[name] for name in shown}
    assert shown["lines"] == 63
    page.screenshot(path=running.pictures / "in-airflow.png")
    inside.get_by_role("link", name="1", exact=True).click()
    inside.get_by_role("link", name="manual__").click()
    page.wait_for_url("**/dags/orders/runs/**", timeout=PATIENCE_MS)
    page.close()


def test_a_task_links_to_its_batch_its_report_and_its_data_docs(running: Running) -> None:
    with Airflow.of(running.settings) as airflow:
        (run,) = airflow.runs("orders")
    page = running.admin.new_page()
    instance = running.admin.request.get(
        f"{running.url}/api/v2/dags/orders/dagRuns/{quote(run.run_id)}/taskInstances/report/links"
    )
    assert sorted(instance.json()["extra_links"]) == ["Data Docs", "Frontstage page", "Run report"]
    page.goto(f"{running.url}/dags/orders/runs/{run.run_id}/tasks/report/details")
    for name, address in (
        ("Frontstage page", "/frontstage/p/orders/batches/1"),
        ("Run report", "/frontstage/files/reports/orders/1/index.html"),
        ("Data Docs", "/frontstage/files/data_docs/validations/orders/orders-1/"),
    ):
        target = page.get_by_role("link", name=name).get_attribute("href")
        opened = running.admin.new_page()
        answer = opened.goto(f"{running.url}{target}" if str(target).startswith("/") else str(target))
        assert answer is not None
        assert answer.status == 200
        assert address in opened.url
        opened.close()
    page.close()


@pytest.mark.parametrize("path", PAGES)
def test_no_page_has_a_serious_barrier_in_light_or_in_dark(running: Running, path: str) -> None:
    page = running.open(path)
    assert barriers(page) == []
    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme)
        running.keep(page, f"{re.sub(r'[^a-z0-9]+', '-', path.lower()) or 'now'}-{scheme}")
    page.close()


@pytest.mark.parametrize("path", ["", "p/orders", "p/orders/batches/1", "p/orders/quarantine", "c/of/paid_orders"])
def test_a_page_fits_a_phone_and_is_used_by_the_keyboard(running: Running, path: str) -> None:
    page = running.open(path)
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390, "only tables scroll sideways"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the page"
    page.close()


def test_hostile_text_is_shown_and_harmless(running: Running) -> None:
    for path in ("p/orders/quarantine", "p/orders/batches/1", "files/reports/orders/1/index.html"):
        page = running.open(path)
        assert page.locator("main img, main script").count() == 0
        assert "quarantine" not in path or HOSTILE in page.inner_text("main")
        page.close()
    assert running.said == [], "no dialog opened"


def test_a_refused_event_is_released_on_the_page_and_is_in_the_fact_after_the_next_batch(running: Running) -> None:
    page = running.open("p/orders/event?key=500")
    expect(page.get_by_role("heading", name="500 is in quarantine")).to_be_visible()
    declare_limit(running.settings.home, 100_000)
    page.goto(f"{running.url}/frontstage/p/orders/quarantine")
    page.get_by_role("row", name="2000").get_by_role("checkbox").check()
    page.get_by_role("button", name="Release those").click()
    page.get_by_label("Why").fill("the limit was too low")
    page.get_by_role("button", name="Release", exact=True).click()
    page.wait_for_url("**/started?**")
    expect(page.locator("[data-run-state]")).to_have_attribute("data-run-state", "success", timeout=5 * PATIENCE_MS)
    running.keep(page, "released")
    assert running.run("orders") == "success"
    page.goto(f"{running.url}/frontstage/p/orders/event?key=500")
    expect(page.get_by_role("heading", name="500 is in the fact table")).to_be_visible()
    page.close()
    with postgres.connect(dsn(running.settings, "airflow")) as connection, connection.cursor() as cursor:
        cursor.execute("select owner, extra from log where event = 'frontstage.release-lines'")
        ((owner, extra),) = cursor.fetchall()
    assert owner == "admin"
    assert json.loads(extra)["note"] == "the limit was too low"


def test_a_correlation_shows_its_rates_and_its_state(running: Running) -> None:
    assert running.run("correlations") == "success"
    page = running.open("c/of/paid_orders")
    names, values = (page.locator(f".tiles {part}").all_inner_texts() for part in ("dt", ".value"))
    tiles = dict(zip(names, values, strict=True))
    assert (tiles["Tuples in"], tiles["Pairs out"], tiles["Late tuples"]) == ("70", "30", "0")
    assert tiles["State"] != "0 bytes"
    expect(page.get_by_role("heading", name="Units")).to_be_visible()
    running.keep(page, "correlation")
    page.close()


def test_fresh_orders_are_seen_in_airflow_on_the_page_and_in_the_digest(running: Running) -> None:
    """The pictures of the README: an ordinary day, with a little dirt."""
    own = running.settings
    places = {"FRONTSTAGE_PIPELINES": str(own.pipelines), "FRONTSTAGE_AIRFLOW_PORT": str(own.airflow_port)}
    for seed in ("2", "3", "4"):
        sizes = ("--count", "5000", "--customers", "50", "--products", "20", "--seed", seed)
        done = frontstage("generate", "orders", *sizes, home=own.home, **places)
        assert done.returncode == 0, done.stderr
        assert running.run("orders") == "success"
    page = running.admin.new_page()
    with Airflow.of(own) as airflow:
        page.goto(f"{running.url}/dags/orders/runs/{airflow.runs('orders')[0].run_id}")
        page.get_by_text("Success").first.wait_for()
        page.screenshot(path=running.pictures / "readme-airflow-run.png")
        day = datetime.now(UTC).date().isoformat()
        airflow.unpause("digest")
        assert airflow.wait("digest", airflow.trigger("digest", {"day": day}), 300).state == "success"
    page.goto(running.url)
    page.get_by_text("Frontstage", exact=True).first.click()
    inside = page.frame_locator("iframe[title=Frontstage]")
    expect(inside.get_by_text("fresh and complete")).to_be_visible()
    page.screenshot(path=running.pictures / "readme-page.png")
    page.close()
    digest = running.open(f"files/reports/digest/{day}/index.html")
    expect(digest.get_by_text("malformed_json").first).to_be_visible()
    running.keep(digest, "readme-digest")
    digest.close()


def test_viewers_and_strangers_are_refused_at_every_address(running: Running) -> None:
    passwords = json.loads((running.settings.var / "airflow" / "passwords.json").read_text())
    viewer = logged_in(running.browser, running.url, "vera", passwords["vera"])
    stranger = running.browser.new_context()
    for path in CLOSED:
        address = f"{running.url}/frontstage/{path}"
        assert viewer.request.get(address, max_redirects=0).status == 403, path
        assert stranger.request.get(address, max_redirects=0).status == 401, path
    for action in ("run", "release-lines", "refresh-masters"):
        address = f"{running.url}/frontstage/act/{action}"
        assert viewer.request.post(address, form={"pipeline": "orders"}).status == 403
        assert stranger.request.post(address, form={"pipeline": "orders"}).status == 401
        assert running.admin.request.post(address, form={"pipeline": "orders"}).status == 403, "nobody signed this"
    viewer.close()
    stranger.close()
