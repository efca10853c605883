"""Ad-hoc queries over streams: who asked for what, until when, and from which batch to which it took effect."""

from __future__ import annotations

from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    op.execute(
        """
        -- One row per query that was ever asked for. Batches are those of correlations; null: not in effect yet.
        create table etl.query (
            id            bigint generated always as identity primary key,
            name          text not null,
            owner         text not null,
            sql           text not null,
            within_us     bigint not null,
            created_at    timestamptz not null,  -- asked for
            expires_at    timestamptz not null,
            state         text not null default 'active' check (state in ('active', 'suspended', 'deleted')),
            reason        text not null default '',
            created_batch bigint,                -- the first batch it sees
            deployed_at   timestamptz,           -- when that batch was decided
            deleted_at    timestamptz,           -- asked to go, or expired
            deleted_by    text,
            deleted_batch bigint                 -- the first batch it does not see any more
        );
        create unique index query_name on etl.query (name) where deleted_at is null;
        create index query_owner on etl.query (owner) where deleted_at is null;

        -- What the next batch depends on: event time, segments in use, the file of queries and plan. One row.
        create table etl.query_state (
            single boolean primary key default true check (single),
            state jsonb not null
        );

        -- What was decided about queries and plans, and why.
        create table etl.query_log (
            number  bigint generated always as identity primary key,
            at      timestamptz not null,
            batch   bigint,
            kind    text not null,
            subject text not null,
            words   text not null,
            numbers jsonb not null default '{}'
        );
        create index query_log_subject on etl.query_log (subject, number);
        """
    )


def downgrade() -> None:
    op.execute("drop table etl.query_log, etl.query_state, etl.query")
