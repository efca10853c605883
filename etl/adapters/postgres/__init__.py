"""Postgres: connections, statements, COPY and migrations.

connection   connect, statement, identifier, place     migrations   migrate
secret       SecretDsn
copy         copy_in, copy_file, copy_out, arrow_types      binary       write_values (kernels: import it where needed)
"""

from etl.adapters.postgres.connection import (
    LOCK_TIMEOUT,
    Connection,
    Cursor,
    connect,
    identifier,
    place,
    statement,
    with_keepalives,
)
from etl.adapters.postgres.copy import arrow_types, copy_file, copy_in, copy_out
from etl.adapters.postgres.migrations import migrate
from etl.adapters.postgres.secret import SecretDsn

__all__ = [
    "LOCK_TIMEOUT",
    "Connection",
    "Cursor",
    "SecretDsn",
    "arrow_types",
    "connect",
    "copy_file",
    "copy_in",
    "copy_out",
    "identifier",
    "migrate",
    "place",
    "statement",
    "with_keepalives",
]
