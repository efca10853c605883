"""What people do on the page: asked first, checked, signed, in their name, and by a run of a DAG."""

from __future__ import annotations

import re
import time

import pytest
from httpx import Response

from etl.page.ports import User
from etl.page.security import FormRefused, check, sign
from tests.page.conftest import HOSTILE, Desk


def fields(page: Response) -> dict[str, list[str]]:
    """The hidden fields of a confirmation."""
    found: dict[str, list[str]] = {}
    for name, value in re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', page.text):
        found.setdefault(name, []).append(value)
    return found


def test_an_action_is_confirmed_and_then_a_run_of_its_dag(desk: Desk) -> None:
    page = desk.admin.get("/act/release-lines", params={"pipeline": "orders", "row": ["2-1", "2-2"]})
    assert "2 refused lines (2-1, 2-2)" in page.text
    done = desk.admin.post("/act/release-lines", data={**fields(page), "note": "looked at it"})
    assert done.status_code == 303
    who, order = desk.access.started[-1]
    assert (who, order.dag, order.note) == ("admin", "quarantine", "looked at it")
    assert order.conf == {
        "pipeline": "orders", "action": "release", "rows": ["2-1", "2-2"], "batch": None, "reason": None,
        "note": "looked at it",
    }  # fmt: skip
    assert "queued" in desk.admin.get("/" + done.headers["location"].removeprefix("../")).text


@pytest.mark.parametrize(
    ("action", "asked", "dag", "conf"),
    [
        ("run", {"pipeline": "orders"}, "orders", {}),
        ("release-batch", {"pipeline": "orders", "batch": "12"}, "orders", {"release": 12}),
        ("drain-backlog", {}, "backlog", {}),
        ("refresh-masters", {}, "master_data", {}),
    ],
)
def test_each_action_has_its_dag(
    desk: Desk, action: str, asked: dict[str, str], dag: str, conf: dict[str, object]
) -> None:
    page = desk.admin.get(f"/act/{action}", params=asked)
    assert desk.admin.post(f"/act/{action}", data=fields(page)).status_code == 303
    assert (desk.access.started[-1][1].dag, desk.access.started[-1][1].conf) == (dag, conf)


def test_a_form_for_other_values_another_action_or_another_person_is_refused(desk: Desk) -> None:
    before = len(desk.access.started)
    form = fields(desk.admin.get("/act/release-batch", params={"pipeline": "orders", "batch": "2"}))
    signatures = [{"signature": given} for given in ("", "1.x", f"{int(time.time())}.é")]
    for changed in ({"batch": "3"}, {"pipeline": "trips"}, {"row": "1-1"}, *signatures):
        assert desk.admin.post("/act/release-batch", data={**form, **changed}).status_code == 403, changed
    assert desk.admin.post("/act/reject-lines", data=form).status_code == 403
    assert desk.clerk.post("/act/release-batch", data=form).status_code == 403
    assert len(desk.access.started) == before


def test_a_request_from_another_site_is_refused_though_its_form_is_good(desk: Desk) -> None:
    form = fields(desk.admin.get("/act/run", params={"pipeline": "orders"}))
    for headers in ({"sec-fetch-site": "cross-site"}, {"sec-fetch-site": "same-site"}, {"origin": "https://evil"}):
        assert desk.admin.post("/act/run", data=form, headers=headers).status_code == 403, headers
    good = {"sec-fetch-site": "same-origin", "origin": "http://testserver"}
    assert desk.admin.post("/act/run", data=form, headers=good).status_code == 303


def test_a_form_is_good_for_an_hour() -> None:
    user = User("a", "A")
    check(b"k", user, "run", {}, sign(b"k", user, "run", {}))
    for at in (time.time() - 3700, time.time() + 60):
        with pytest.raises(FormRefused):
            check(b"k", user, "run", {}, sign(b"k", user, "run", {}, at))
    with pytest.raises(FormRefused):
        check(b"other", user, "run", {}, sign(b"k", user, "run", {}))


@pytest.mark.parametrize(
    ("action", "asked", "sentence"),
    [
        ("release-batch", {"pipeline": "orders"}, "batch=&#39;&#39; is not allowed"),
        ("release-batch", {"pipeline": "orders", "batch": "x"}, "a number such as 12"),
        ("release-batch", {"pipeline": "orders", "batch": "0"}, "a number such as 12"),
        ("release-lines", {"pipeline": "orders"}, "refused lines, a batch or a reason"),
        ("release-lines", {"pipeline": "orders", "row": HOSTILE}, "names no refused line"),
        ("run", {}, "the name of a pipeline"),
    ],
)
def test_values_that_an_action_cannot_use_are_refused_with_a_sentence(
    desk: Desk, action: str, asked: dict[str, str], sentence: str
) -> None:
    answer = desk.admin.get(f"/act/{action}", params=asked)
    assert answer.status_code == 400
    assert sentence in answer.text
    assert "<script>alert" not in answer.text


def test_a_rejection_needs_a_reason(desk: Desk) -> None:
    form = fields(desk.admin.get("/act/reject-lines", params={"pipeline": "orders", "batch": "2"}))
    answer = desk.admin.post("/act/reject-lines", data={**form, "note": "  "})
    assert answer.status_code == 400
    assert "a reason: this is final" in answer.text


def test_what_airflow_refuses_is_said_in_its_words(desk: Desk) -> None:
    form = fields(desk.admin.get("/act/run", params={"pipeline": "orders"}))
    desk.access.refusal = "Invalid input for param release"
    try:
        answer = desk.admin.post("/act/run", data=form)
    finally:
        desk.access.refusal = None
    assert answer.status_code == 400
    assert "no run of orders was started: Invalid input for param release" in answer.text


def test_an_action_without_its_dag_is_not_offered(desk: Desk) -> None:
    assert "act/drain-backlog" in desk.admin.get("/p/orders").text
    desk.access.dags.pop("backlog")
    try:
        assert "act/drain-backlog" not in desk.admin.get("/p/orders").text
        assert desk.admin.get("/act/drain-backlog", params={"pipeline": "orders"}).status_code == 400
    finally:
        desk.access.dags["backlog"] = False


def test_a_paused_dag_is_unpaused_when_the_person_says_so(desk: Desk) -> None:
    desk.access.dags["quarantine"] = True
    try:
        page = desk.admin.get("/act/release-lines", params={"pipeline": "orders", "batch": "2"})
    finally:
        desk.access.dags["quarantine"] = False
    assert "DAG quarantine is paused" in page.text
    for given, expected in (({"unpause": "yes"}, True), ({}, False)):
        desk.admin.post("/act/release-lines", data={**fields(page), **given})
        assert desk.access.started[-1][1].unpause is expected
