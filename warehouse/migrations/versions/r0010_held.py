"""Batches whose audit failed: what a person decided, and how many of their events wait aside for that."""

from __future__ import annotations

from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    op.execute("alter table etl.batch add column verdict jsonb, add column aside bigint not null default 0")
    op.execute("create index batch_aside on etl.batch (pipeline, batch) where aside > 0")


def downgrade() -> None:
    op.execute("alter table etl.batch drop column verdict, drop column aside")
