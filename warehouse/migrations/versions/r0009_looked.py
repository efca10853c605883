"""The versions of masters at which the backlog was last looked into in vain, so that nobody starts a run for that."""

from __future__ import annotations

from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.execute("alter table etl.pipeline add column looked jsonb not null default '{}'")


def downgrade() -> None:
    op.execute("alter table etl.pipeline drop column looked")
