"""How alembic reaches the database: the connection is handed over by `etl.adapters.postgres.migrate`."""

from __future__ import annotations

from alembic import context

connection = context.config.attributes["connection"]
context.configure(connection=connection, version_table="schema_version", version_table_schema="public")
with context.begin_transaction():
    context.run_migrations()
