"""What the page shows, to whom, and what it refuses."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from starlette.routing import Route

from etl import settings as configuration
from etl.page.app import create_app
from tests.page.conftest import HOSTILE, Desk
from tests.support.page_access import Client

ADDRESSES = (
    "/", "/now.json", "/p/orders", "/p/orders/history", "/p/orders/history?span=30d", "/p/orders/batches",
    "/p/orders/batches/1", "/p/orders/event", "/p/orders/event?key=1", "/p/orders/event?key=950&raw=true",
    "/p/orders/quarantine", "/c/", "/c/history", "/c/batches", "/c/of/paid_orders",
    "/files/reports/orders/2/index.html", "/files/reports/orders/index.html", "/files/data_docs/index.html",
    "/reports", "/act/run?pipeline=orders", "/act/refresh-masters", "/static/page.js", "/static/icon.svg",
)  # fmt: skip


@pytest.mark.parametrize("address", ADDRESSES)
def test_every_address_opens_for_somebody_who_may_run_the_dags(desk: Desk, address: str) -> None:
    answer = desk.admin.get(address)
    assert answer.status_code == 200, answer.text
    assert "script-src 'self'" in answer.headers["content-security-policy"]


@pytest.mark.parametrize("address", [*ADDRESSES, "/nothing", "/p/nothing", "/static/nothing", "/started?dag=x&run=y"])
def test_every_address_is_closed_to_viewers_and_to_those_who_have_not_logged_in(desk: Desk, address: str) -> None:
    assert desk.anonymous.get(address).status_code == 401
    assert desk.viewer.get(address).status_code == 403


def test_every_route_is_behind_the_door(desk: Desk) -> None:
    app = create_app(desk.site.settings, lambda: desk.site.dsn, desk.access)
    for route in app.routes:
        assert isinstance(route, Route)
        address = re.sub(r"\{[^}]*\}", "x", route.path)
        for method in route.methods or ():
            assert desk.anonymous.request(method, address).status_code == 401, (method, address)
            assert desk.viewer.request(method, address).status_code == 403, (method, address)


def test_who_may_run_one_dag_sees_that_pipeline_and_no_other(desk: Desk) -> None:
    start = desk.clerk.get("/")
    assert start.status_code == 200
    assert "p/orders" in start.text
    assert "p/trips" not in start.text
    assert desk.clerk.get("/p/orders").status_code == 200
    assert desk.clerk.get("/files/reports/orders/2/index.html").status_code == 200
    for closed in ("/p/trips", "/c/", "/files/data_docs/index.html", "/act/refresh-masters", "/act/run?pipeline=trips"):
        assert desk.clerk.get(closed).status_code == 403, closed


def test_the_numbers_are_those_of_the_ledger(desk: Desk) -> None:
    totals = desk.site.totals()
    text = desk.admin.get("/p/orders").text
    shown = {name: int(value.replace(",", "")) for name, value in re.findall(r'data-total="(\w+)">([\d,]+)<', text)}
    assert shown == {name: totals[name] for name in ("lines", "fact", "quarantine", "duplicates", "backlog_open")} | {
        "quarantine_open": 2
    }
    found = json.loads(desk.admin.get("/now.json").text)["pipelines"]["orders"]
    assert found["totals"] == {**totals, "quarantine_open": 2}
    assert found["last_batch"] == 3
    assert found["backlog"][0]["cause"] == "master"
    assert found["audit"] == {"success": True, "failed": []}
    assert {one["master"] for one in found["joins"]} == {"customer", "product"}
    assert sum(found["lines_by_hour"]) == totals["lines"]


def test_a_batch_shows_its_flow_with_a_count_on_every_edge(desk: Desk) -> None:
    text = desk.admin.get("/p/orders/batches/1").text
    for name, events in (("Landed lines", 32), ("Fact", 30), ("Duplicates", 1), ("To the backlog", 1)):
        assert f"{name} <b>{events}</b>" in text
    assert "customer" in text
    assert "one.jsonl, bytes 0 to" in text
    assert "../dags/orders/runs/test" in text


def test_a_batch_links_to_its_report_and_its_data_docs(desk: Desk) -> None:
    text = desk.admin.get("/p/orders/batches/2").text
    links = re.findall(r'href="\.\./\.\./\.\./(files/[^"]+)"', text)
    links += re.findall(r'href="\./(files/[^"]+)"', desk.admin.get("/reports").text)
    assert {link.split("/")[1] for link in links} >= {"reports", "data_docs"}
    for link in links:
        assert desk.admin.get(f"/{link}").status_code == 200, link


def test_a_run_of_airflow_leads_to_its_batch_and_its_pages(desk: Desk) -> None:
    answer = desk.admin.get("/p/orders/run", params={"id": "test"})
    assert (answer.status_code, answer.headers["location"]) == (303, "../../p/orders/batches/3")
    unknown = desk.admin.get("/p/orders/run", params={"id": "of another"})
    assert unknown.headers["location"] == "../../p/orders"


@pytest.mark.parametrize(
    ("key", "place"),
    [
        ("1", "is in the fact table"),
        ("950", "is in quarantine"),
        ("900", "waits in the backlog"),
        ("7777", "not known"),
    ],
)
def test_an_event_is_found_wherever_it_is(desk: Desk, key: str, place: str) -> None:
    assert place in desk.admin.get("/p/orders/event", params={"key": key}).text


def test_a_key_that_cannot_be_one_is_answered_with_a_sentence(desk: Desk) -> None:
    answer = desk.admin.get("/p/orders/event", params={"key": "x" * 2000 + HOSTILE})
    assert answer.status_code == 400
    assert "is no key of orders" in answer.text


@pytest.mark.parametrize("address", ["/p/orders/quarantine", "/p/orders/batches/3", "/p/orders/batches/2"])
def test_hostile_text_is_shown_and_not_obeyed(desk: Desk, address: str) -> None:
    text = desk.admin.get(address).text
    assert "<script>alert" not in text
    assert "<img src=x" not in text
    assert "\u202e" not in text
    assert "batches/2" in address or "‹U+202E›" in text


@pytest.mark.parametrize(
    "given", ["/p/orders/batches/0", "/p/orders/batches/99", "/p/orders/batches/99999999999999999999", "/p/nothing"]
)
def test_what_is_not_there_is_said_to_be_not_there(desk: Desk, given: str) -> None:
    assert desk.admin.get(given).status_code == 404


@pytest.mark.parametrize("given", ["/p/orders/history?span=99y", "/p/orders/batches?before=-1", "/p/orders/batches/x"])
def test_values_that_are_not_allowed_are_named(desk: Desk, given: str) -> None:
    answer = desk.admin.get(given)
    assert answer.status_code == 400
    assert "is not allowed" in answer.text


@pytest.mark.parametrize(
    "path",
    [
        "../secrets.json", "%2e%2e/secrets.json", "..%2fsecrets.json", "orders/../../secrets.json", "/etc/passwd",
        "%2fetc%2fpasswd", "orders/link.html", "orders/2/notes.txt", "orders/%00.html", "orders/nothing.html",
    ],
)  # fmt: skip
def test_no_path_leads_out_of_the_reports(desk: Desk, path: str) -> None:
    var = desk.site.settings.var
    (var / "secrets.json").write_text('"secret"')
    (var / "reports" / "orders" / "2" / "notes.txt").write_text("secret")
    link = var / "reports" / "orders" / "link.html"
    if not link.is_symlink():
        link.symlink_to(var / "secrets.json")
    answer = desk.admin.get(f"/files/reports/{path}")
    assert answer.status_code in (404, 400)
    assert "secret" not in re.sub(r"secrets\.json", "", answer.text)


@pytest.mark.parametrize(
    "path",
    [
        "reports/trips/secret.html", "reports/orders/%2e%2e/trips/secret.html", "reports/orders/..%2ftrips/secret.html",
        "reports/orders/there.html", "data_docs/trips/secret.html", "data_docs/static/%2e%2e/trips/secret.html",
        "data_docs/orders/%2e%2e/trips/secret.html",
    ],
)  # fmt: skip
def test_no_path_leads_to_files_of_a_pipeline_that_somebody_may_not_see(desk: Desk, path: str) -> None:
    reports, docs = desk.site.settings.reports, desk.site.settings.data_docs
    for folder in (reports / "trips", docs / "trips"):
        folder.mkdir(exist_ok=True)
        (folder / "secret.html").write_text("secret")
    (docs / "static").mkdir(exist_ok=True)
    (docs / "orders").mkdir(exist_ok=True)
    link = reports / "orders" / "there.html"
    if not link.is_symlink():
        link.symlink_to(reports / "trips" / "secret.html")
    answer = desk.clerk.get(f"/files/{path}")
    assert answer.status_code == 403
    assert "secret" not in re.sub(r"secret\.html", "", answer.text)


@pytest.mark.parametrize("address", ["/", "/p/orders", "/p/orders/batches/1", "/p/orders/history", "/c/of/paid_orders"])
def test_every_link_is_relative_and_asks_nobody_else(desk: Desk, address: str) -> None:
    text = desk.admin.get(address).text
    links = re.findall(r'(?:href|src|action|formaction)="([^"]*)"', text)
    assert links
    assert [link for link in links if link.startswith(("/", "http", "//"))] == []


def test_an_installation_without_a_single_batch_has_a_page(database: str, tmp_path: Path, desk: Desk) -> None:
    own = configuration.load(home=tmp_path)
    client = Client(create_app(own, lambda: database, desk.access), "admin")
    for address in ("/", "/p/orders", "/p/orders/history", "/p/orders/batches", "/p/orders/quarantine", "/c/"):
        assert client.get(address).status_code == 200, address
    text = client.get("/").text
    assert "nothing has landed yet" in text
    assert re.findall(r'data-answer="(\w+)">([^<]+)<', text) == [
        ("fresh", "not yet"), ("complete", "not yet"), ("correct", "not yet"),
    ]  # fmt: skip
