"""Databases that are there already: brought to this schema, or refused with a sentence before anything is changed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg2
import pytest
import sqlalchemy
from alembic import command
from alembic.config import Config

from etl.adapters import ledger, postgres
from etl.adapters.postgres import connection as connections
from etl.adapters.postgres import migrations
from etl.adapters.postgres.migrations import DatabaseRefused
from etl.errors import PostgresUnavailable, TerminalError

pytestmark = pytest.mark.slow

OF_ORDERS = """
insert into etl.batch (batch, run_id, state, started_at, counts, master_versions)
values (1, 'run', 'loaded', now(), '{}', '{}')
"""
OF_ANY = """
insert into etl.pipeline (name, declared) values ('visits', '{}');
insert into etl.batch (pipeline, batch, run_id, state, started_at, decided_at, loaded_at, counts)
values ('visits', 7, 'run', 'loaded', now(), now(), now(), '{"lines": 3, "accepted": 3}');
insert into etl.total (pipeline, batches, lines, accepted) values ('visits', 7, 3, 3);
"""


@pytest.fixture
def empty(postgres_server: str) -> Iterator[str]:
    """A database with nothing in it."""
    execute(postgres_server, "create database not_migrated")
    yield postgres_server.replace("/frontstage?", "/not_migrated?")
    execute(postgres_server, "drop database not_migrated with (force)")


def execute(dsn: str, text: str) -> None:
    with closing(psycopg2.connect(dsn)) as connection, connection.cursor() as cursor:
        connection.autocommit = True
        cursor.execute(text)


def upgraded(dsn: str, revision: str) -> str:
    """The database as an earlier version made it."""
    config, engine = Config(), sqlalchemy.create_engine("postgresql+psycopg2://", creator=lambda: psycopg2.connect(dsn))
    config.set_main_option("script_location", str(migrations._MIGRATIONS))
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
    engine.dispose()
    return dsn


def version(dsn: str) -> Any:
    with closing(psycopg2.connect(dsn)) as connection, connection.cursor() as cursor:
        cursor.execute("select version_num from schema_version")
        return (cursor.fetchone() or (None,))[0]


def test_batches_of_an_earlier_version_are_there_after_it(empty: str) -> None:
    execute(upgraded(empty, "0003"), OF_ANY)
    postgres.migrate(empty)
    with ledger.reading(empty, "visits") as book:
        assert book.get(7).state == "loaded"
        assert book.totals()["fact"] == 3


def test_batches_of_the_layout_for_orders_alone_are_refused_and_stay(empty: str) -> None:
    execute(upgraded(empty, "0002"), OF_ORDERS)
    with pytest.raises(TerminalError, match=r"holds 1 batches of an earlier layout.*land the events again"):
        postgres.migrate(empty)
    assert version(empty) == "0002"


def test_a_database_of_a_newer_version_is_refused(empty: str) -> None:
    postgres.migrate(empty)
    execute(empty, "update schema_version set version_num = '9999'")
    with pytest.raises(DatabaseRefused, match=r"a newer Frontstage has changed it .*'9999'"):
        postgres.migrate(empty)


def test_a_schema_of_somebody_else_is_refused_and_stays(empty: str) -> None:
    execute(empty, "create schema mart; create table mart.mine (a int)")
    with pytest.raises(DatabaseRefused, match='schema "mart" already exists, and is not Frontstage'):
        postgres.migrate(empty)
    execute(empty, "select a from mart.mine")


def test_nobody_waits_for_ever_for_whoever_is_at_it(empty: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(psycopg2.connect(empty)) as other, other.cursor() as cursor, monkeypatch.context() as impatient:
        impatient.setattr(connections, "LOCK_TIMEOUT", "set lock_timeout = '50ms'")
        cursor.execute("select pg_advisory_xact_lock(%s)", (migrations._MIGRATION_LOCK,))
        with pytest.raises(PostgresUnavailable, match="lock timeout"):
            postgres.migrate(empty)
    postgres.migrate(empty)
