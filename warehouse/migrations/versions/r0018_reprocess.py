"""Events that wait, or are in the fact with an unknown member, may be asked to be looked up again."""

from __future__ import annotations

from alembic import op

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    op.execute(
        """
        alter table etl.backlog_file add column retry boolean not null default false;
        alter table etl.unknown_file add column retry boolean not null default false;
        """
    )


def downgrade() -> None:
    op.execute(
        """
        alter table etl.backlog_file drop column retry;
        alter table etl.unknown_file drop column retry;
        """
    )
