"""Events in the fact with an unknown member, to be corrected when the master's row comes."""

from __future__ import annotations

from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    op.execute(
        "create table etl.unknown_file ("
        "pipeline text not null references etl.pipeline, path text not null, batch bigint not null, "
        "waiting bigint not null, since timestamptz not null, primary key (pipeline, path))"
    )


def downgrade() -> None:
    op.execute("drop table etl.unknown_file")
