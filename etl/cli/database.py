"""The database of a command: a running one, or the embedded server for the command's duration."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from etl.errors import MissingPart
from etl.settings import Settings


@contextmanager
def existing_database(own: Settings) -> Iterator[str]:
    """The DSN of a Postgres that answers; nothing is started."""
    from etl.stack import postgres
    from etl.stack.state import state

    if own.postgres_dsn is None and not state(own).running:
        raise MissingPart("the embedded Postgres is not running", "start the stack with `frontstage up`")
    postgres.check(own)
    yield postgres.dsn(own)


@contextmanager
def migrated_database(own: Settings) -> Iterator[str]:
    """The DSN of a migrated database: the running one, or the embedded server for as long as we need it."""
    from etl.adapters.postgres import migrate
    from etl.stack import postgres
    from etl.stack.state import state

    running = own.postgres_dsn is not None or state(own).running
    with existing_database(own) if running else postgres.embedded_postgres(own) as dsn:
        migrate(dsn)
        yield dsn
