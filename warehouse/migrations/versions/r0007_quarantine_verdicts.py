"""What people decided about refused lines, and the files in which released ones came back."""

from __future__ import annotations

from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.execute(
        """
        -- A file of ours with released lines. It is written after this row is committed, and once.
        create table etl.release_file (
            pipeline text not null references etl.pipeline,
            name     text not null,
            landed   boolean not null default false,
            primary key (pipeline, name)
        );

        -- One word about one refused line, for good: `number` is its place among the refused lines of its batch.
        create table etl.quarantine_verdict (
            pipeline   text not null references etl.pipeline,
            batch      bigint not null,
            number     bigint not null,
            verdict    text not null check (verdict in ('released', 'rejected')),
            decided_by text not null,
            decided_at timestamptz not null,
            note       text not null,
            file       text,
            primary key (pipeline, batch, number),
            foreign key (pipeline, file) references etl.release_file,
            check ((verdict = 'released') = (file is not null))
        );
        create index quarantine_verdict_file on etl.quarantine_verdict (pipeline, file) where file is not null;
        """
    )


def downgrade() -> None:
    op.execute("drop table etl.quarantine_verdict; drop table etl.release_file")
