"""What people have said about figures of batches that are not as they were."""

from __future__ import annotations

from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    op.execute(
        """
        create table etl.acknowledged (
            pipeline   text not null references etl.pipeline,
            batch      bigint not null,
            check_name text not null,
            new_normal boolean not null,  -- bounds are learnt from this batch on
            by         text not null,
            at         timestamptz not null,
            note       text not null,
            primary key (pipeline, batch, check_name)
        )
        """
    )


def downgrade() -> None:
    op.execute("drop table etl.acknowledged")
