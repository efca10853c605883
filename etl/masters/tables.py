"""Schemas of master tables from their stores: columns, types and key."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from etl.adapters import postgres
from etl.contract.model import Pipeline
from etl.contract.words.types import stored_type
from etl.masters.delta.table import open_table
from etl.masters.postgres import catalog


@dataclass(frozen=True, slots=True)
class TableDescription:
    """A table that can be a master. `key` is empty where the store has no primary keys (Delta)."""

    schema: pa.Schema
    key: tuple[str, ...]


def describe_postgres(connection: postgres.Connection, table: str) -> TableDescription:
    """A table of Postgres."""
    return TableDescription(catalog.table_schema(connection, table), catalog.primary_key(connection, table))


def describe_delta(location: str) -> TableDescription:
    """A Delta table at a path or URL."""
    schema = pa.schema(open_table(location).schema().to_arrow())
    # Its reader returns text as views and large strings; joins use plain strings.
    return TableDescription(pa.schema([one.with_type(stored_type(one.type) or one.type) for one in schema]), ())


def master_schemas(pipeline: Pipeline, dsn: str | None, home: Path) -> dict[str, pa.Schema]:
    """The schemas of a pipeline's masters, by name. `dsn` is needed when one of them is in Postgres."""
    found: dict[str, pa.Schema] = {}
    with _connection(pipeline, dsn) as connection:
        for master in pipeline.masters:
            if connection is not None and master.store == "postgres":
                found[master.name] = describe_postgres(connection, master.table).schema
            else:
                found[master.name] = describe_delta(master.location(home)).schema
    return found


@contextmanager
def _connection(pipeline: Pipeline, dsn: str | None) -> Iterator[postgres.Connection | None]:
    needed = any(master.store == "postgres" for master in pipeline.masters)
    assert dsn is not None or not needed, "a pipeline with masters in Postgres needs its DSN"
    opened: AbstractContextManager[postgres.Connection | None] = nullcontext()
    if needed and dsn is not None:
        opened = postgres.connect(dsn, autocommit=True)
    with opened as connection:
        yield connection
