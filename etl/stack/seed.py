"""What a fresh database receives before anything uses it: the schema, and master data when there is none."""

from __future__ import annotations

import psycopg2
from psycopg2 import sql

from etl.adapters import postgres
from etl.samples import OrderConfig, generate_master

SCHEMAS = ("master", "etl", "mart")


def prepare(dsn: str) -> None:
    """Schema and, in an empty database, the default customers and products."""
    postgres.migrate(dsn)
    config = OrderConfig()
    with postgres.connect(dsn) as connection:
        if not _has_customers(connection):
            generate_master(connection, config.seed, config.customers, config.products)


def forget(dsn: str) -> None:
    """Remove everything of ours from the database; the next `prepare` starts afresh."""
    with postgres.connect(dsn) as connection, connection.cursor() as cursor:
        for schema in SCHEMAS:
            cursor.execute(sql.SQL("drop schema if exists {} cascade").format(sql.Identifier(schema)))
        cursor.execute("drop table if exists public.schema_version")
        connection.commit()


def _has_customers(connection: psycopg2.extensions.connection) -> bool:
    with connection.cursor() as cursor:
        cursor.execute("select exists (select from master.customers)")
        (found,) = cursor.fetchone() or (False,)
    connection.commit()
    return bool(found)
