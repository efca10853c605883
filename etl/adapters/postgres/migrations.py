"""Schema migrations: Alembic's scripts in `warehouse/migrations`, one process at a time."""

from __future__ import annotations

from pathlib import Path

import psycopg2
from psycopg2 import errors

from etl.adapters.postgres.connection import NOTICED, place, reason, session_settings
from etl.errors import PostgresUnavailable, TerminalError

_MIGRATIONS = Path(__file__).resolve().parents[3] / "warehouse" / "migrations"
_MIGRATION_LOCK = 0x46_53_4D_49


class DatabaseRefused(TerminalError):
    """A database that cannot be migrated to this version's schema; nothing in it was changed."""

    exit_code = 78

    def __init__(self, where: str, why: str) -> None:
        super().__init__(where, why)
        self.where, self.why = where, why

    def __str__(self) -> str:
        return f"the database at {self.where} cannot be used: {self.why}"


def migrate(dsn: str) -> None:
    """Bring the schema to the newest version. Safe to call from several processes at once."""
    import sqlalchemy
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS))
    engine = sqlalchemy.create_engine("postgresql+psycopg2://", creator=lambda: psycopg2.connect(dsn, **NOTICED))
    try:
        with engine.begin() as connection:
            connection.execute(sqlalchemy.text(session_settings()))
            connection.execute(sqlalchemy.text("select pg_advisory_xact_lock(:key)"), {"key": _MIGRATION_LOCK})
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
    except sqlalchemy.exc.OperationalError as error:
        raise PostgresUnavailable(place(dsn), reason(error.orig or error, dsn)) from None
    except sqlalchemy.exc.ProgrammingError as error:
        if not isinstance(error.orig, errors.DuplicateSchema):
            raise
        why = f"{reason(error.orig, dsn)}, and is not Frontstage's; give it a database of its own"
        raise DatabaseRefused(place(dsn), why) from None
    except CommandError as error:
        why = f"a newer Frontstage has changed it ({error}); install that one, or restore a backup from before"
        raise DatabaseRefused(place(dsn), why) from None
    finally:
        engine.dispose()
