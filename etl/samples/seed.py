"""Initial data of a new stack: the schema, master data if there is none, and a live generator."""

from __future__ import annotations

import shutil
import sys

import psycopg2
from psycopg2 import sql

from etl.adapters import postgres
from etl.samples import OrderConfig, generate_master
from etl.settings import Settings
from etl.stack.stack import Extra

DAGS = ("orders", "correlations", "master_data", "maintenance")
"""The DAGs that run automatically in a new stack: for others there is no master data yet."""

SCHEMAS = ("master", "etl", "mart", "correlation")


def prepare(dsn: str) -> None:
    """Schema and, in an empty database, the default customers and products."""
    postgres.migrate(dsn)
    config = OrderConfig()
    with postgres.connect(dsn) as connection:
        if not _has_customers(connection):
            generate_master(connection, config.seed, config.customers, config.products)


def generator(rate_per_s: float) -> Extra:
    """The service that generates landing events."""
    return Extra("generator", (sys.executable, "-m", "etl.cli", "generate", "live", "--rate", str(rate_per_s)))


def forget(dsn: str) -> None:
    """Remove all of our tables from the database; the next `prepare` starts from scratch."""
    with postgres.connect(dsn) as connection, connection.cursor() as cursor:
        for schema in SCHEMAS:
            cursor.execute(sql.SQL("drop schema if exists {} cascade").format(sql.Identifier(schema)))
        cursor.execute("drop table if exists public.schema_version")
        connection.commit()


def clean(settings: Settings) -> None:
    """Remove the output of runs below `var`; the Postgres cluster and Airflow's schema stay."""
    made = ("landing", "archive", "warehouse", "reports", "data_docs", "audit", "spark", "master_pages", "front-stage")
    for folder in made:
        shutil.rmtree(settings.var / folder, ignore_errors=True)


def _has_customers(connection: psycopg2.extensions.connection) -> bool:
    with connection.cursor() as cursor:
        cursor.execute("select exists (select from master.customers)")
        (found,) = cursor.fetchone() or (False,)
    connection.commit()
    return bool(found)
