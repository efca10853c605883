"""Schema migrations: Alembic's scripts in `warehouse/migrations`, one process at a time."""

from __future__ import annotations

from pathlib import Path

import psycopg2

from etl.adapters.postgres.connection import NOTICED, place, reason
from etl.errors import PostgresUnavailable

_MIGRATIONS = Path(__file__).resolve().parents[3] / "warehouse" / "migrations"
_MIGRATION_LOCK = 0x46_53_4D_49


def migrate(dsn: str) -> None:
    """Bring the schema to the newest version. Safe to call from several processes at once."""
    import sqlalchemy
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS))
    engine = sqlalchemy.create_engine("postgresql+psycopg2://", creator=lambda: psycopg2.connect(dsn, **NOTICED))
    try:
        with engine.begin() as connection:
            connection.execute(sqlalchemy.text("select pg_advisory_xact_lock(:key)"), {"key": _MIGRATION_LOCK})
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
    except sqlalchemy.exc.OperationalError as error:
        raise PostgresUnavailable(place(dsn), reason(error.orig or error, dsn)) from None
    finally:
        engine.dispose()
