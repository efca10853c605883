"""The stream log and the state of correlations, beside the ledger that they share with pipelines."""

from __future__ import annotations

from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.execute(
        """
        -- A number is given once, even if the try that got it was never decided: references must stay unique.
        create sequence etl.segment_number;

        -- Segments of the stream log; event times are microseconds since 1970.
        create table etl.segment (
            number   bigint primary key,
            stream   text not null,
            rows     bigint not null,
            bytes    bigint not null,
            earliest bigint not null,
            latest   bigint not null,
            batch    bigint not null
        );

        -- One row per correlation that has run: what it was declared as; watermarks, routers, scaling.
        create table etl.correlation (
            name     text primary key,
            declared jsonb not null,
            since    bigint not null,  -- the first batch it saw
            state    jsonb not null
        );

        -- The runs of a correlation's state that count: which unit holds which file.
        create table etl.state_run (
            correlation text not null references etl.correlation on delete cascade,
            name        text not null,
            step        integer not null,
            unit        integer not null,
            side        text not null check (side in ('left', 'right')),
            period      bigint not null,
            tuples      bigint not null,
            bytes       bigint not null,
            earliest    bigint not null,
            latest      bigint not null,
            batch       bigint not null,
            primary key (correlation, name)
        );

        -- Aggregates of correlations, a table each.
        create schema correlation;
        """
    )


def downgrade() -> None:
    op.execute(
        "drop schema correlation cascade; drop table etl.state_run, etl.correlation, etl.segment; "
        "drop sequence etl.segment_number"
    )
