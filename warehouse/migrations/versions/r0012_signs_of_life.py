"""When the writer of a pipeline last gave a sign of life: one that is silent for long is overtaken."""

from __future__ import annotations

from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    op.execute("alter table etl.pipeline add column beat_at timestamptz not null default clock_timestamp()")


def downgrade() -> None:
    op.execute("alter table etl.pipeline drop column beat_at")
