"""Tries at a batch that were lost with the process that made them, and how far the search for their cause is."""

from __future__ import annotations

from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    op.execute("alter table etl.batch add column losses jsonb not null default '{}'")


def downgrade() -> None:
    op.execute("alter table etl.batch drop column losses")
