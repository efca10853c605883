"""A database of one's own that no batch has used yet: who only looks is told so."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest

from etl import settings as configuration
from etl.page.app import create_app
from tests.support.command import frontstage, one_sentence
from tests.support.page_access import DAGS, Client, MemoryAccess

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def empty(postgres_server: str) -> Iterator[str]:
    """A database with nothing in it."""

    def on_server(command: str) -> None:
        with closing(psycopg2.connect(postgres_server)) as connection, connection.cursor() as cursor:
            connection.autocommit = True
            cursor.execute(command)

    on_server("create database of_ones_own")
    yield postgres_server.replace("/frontstage?", "/of_ones_own?")
    on_server("drop database of_ones_own with (force)")


def test_status_says_in_one_sentence_that_nothing_has_run(empty: str, tmp_path: Path) -> None:
    done = frontstage("status", home=tmp_path, FRONTSTAGE_POSTGRES_DSN=empty)
    assert "has no tables of Frontstage yet; the first batch makes them" in one_sentence(done)


def test_the_doctor_looks_at_the_machine_all_the_same(empty: str, tmp_path: Path) -> None:
    done = frontstage("doctor", "--no-deep", "--json", home=tmp_path, FRONTSTAGE_POSTGRES_DSN=empty)
    found = json.loads(done.stdout)
    assert {one["name"]: one["ok"] for one in found["machine"]}["Postgres"]
    (pipelines,) = found["pipelines"]
    assert pipelines["state"] == "warning"
    assert "the first batch makes them" in pipelines["what"]


def test_the_page_says_so_too(empty: str, tmp_path: Path) -> None:
    app = create_app(configuration.load(home=tmp_path), lambda: empty, MemoryAccess({"ada": frozenset(DAGS)}))
    answer = Client(app, "ada").get("/")
    assert answer.status_code == 400
    assert "the first batch makes them" in answer.text
