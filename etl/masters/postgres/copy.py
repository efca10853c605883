"""Rows of a Postgres master as Arrow; failures become our errors."""

from __future__ import annotations

import re

import psycopg2
import pyarrow as pa
from psycopg2 import sql

from etl.adapters import postgres
from etl.adapters.postgres import Connection
from etl.errors import MasterUnavailable, MissingPart
from etl.masters.pages.errors import ColumnMismatch

_REMEDY = "create it, grant SELECT on it, or correct its name in the pipeline's file"


def copied(connection: Connection, table: str, query: sql.Composable, schema: pa.Schema) -> pa.Table:
    """The rows of a query on a master table."""
    try:
        return postgres.copy_out(connection, query, schema)
    except pa.ArrowInvalid as error:  # NaN and infinity are values to Postgres
        number = re.search(r"CSV column #(\d+)", str(error))
        column = schema.field(int(number[1]) if number else 0)
        raise ColumnMismatch(table, column.name, "no finite value in some row", str(column.type)) from None
    except (psycopg2.ProgrammingError, psycopg2.DataError) as error:
        raise unreadable(table, str(error).strip().splitlines()[0]) from None
    except psycopg2.Error as error:
        raise MasterUnavailable(table) from error


def selected(field: pa.Field) -> sql.Composable:
    """A column's expression in the query, readable from COPY's text."""
    spelled = "{}::text" if pa.types.is_boolean(field.type) else "{}"  # true and false, not COPY's t and f
    return sql.SQL(spelled).format(sql.Identifier(field.name))


def unreadable(table: str, why: str) -> MissingPart:
    """The error for a table, or a part of it, that is missing or not permitted."""
    return MissingPart(f"master table {table} cannot be read ({why})", _REMEDY)
