"""What was in archived files that retention has removed, so that raw lines still add up."""

from __future__ import annotations

from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.execute(
        """
        -- A day's folder of the archive that is gone, or about to go: its lines were counted before.
        create table etl.archive_removed (
            pipeline text not null references etl.pipeline,
            day      text not null,
            lines    bigint not null,
            primary key (pipeline, day)
        );
        """
    )


def downgrade() -> None:
    op.execute("drop table etl.archive_removed")
