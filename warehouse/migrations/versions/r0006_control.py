"""What a batch may take in and read so that it ends in time is fixed with its input."""

from __future__ import annotations

from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.execute("alter table etl.batch add column control jsonb")


def downgrade() -> None:
    op.execute("alter table etl.batch drop column control")
