"""The ledger of any pipeline: what a batch reads is fixed before, what became of it is one commit.

A warehouse whose batches were loaded by the layout before this one cannot be carried over (its claims, tables and mart
have another shape), so it is refused before anything is changed.
"""

from __future__ import annotations

from alembic import op

from etl.errors import TerminalError

revision = "0003"
down_revision = "0002"

_LEDGER = """
drop schema mart cascade;
create schema mart;
drop schema etl cascade;
create schema etl;

-- One row per declared pipeline: what it was declared as, who may write, and what its Delta tables hold.
create table etl.pipeline (
    name      text primary key,
    declared  jsonb not null,
    epoch     bigint not null default 0,
    holder    text not null default '',
    published jsonb not null default '{}'  -- by table, the newest batch that added files to it
);

-- reading → decided → passed | held → released → loaded
create table etl.batch (
    pipeline        text not null references etl.pipeline,
    batch           bigint not null,
    run_id          text not null,
    state           text not null check (state in ('reading', 'decided', 'passed', 'held', 'released', 'loaded')),
    started_at      timestamptz not null,
    decided_at      timestamptz,
    loaded_at       timestamptz,
    decision        jsonb,  -- the files of every table, by which the batch is published
    counts          jsonb,
    master_versions jsonb not null default '{}',
    seconds         jsonb not null default '{}',
    joins           jsonb not null default '{}',
    audit           jsonb,
    freshness       jsonb,
    primary key (pipeline, batch)
);
create index batch_open on etl.batch (pipeline, batch) where state <> 'loaded';

-- The bytes of landed files that a batch reads. Names are bytes: a file system allows more than text does.
create table etl.input_slice (
    pipeline    text not null,
    batch       bigint not null,
    ordinal     integer not null,
    name        bytea not null,
    size        bigint not null,
    modified_ns bigint not null,
    inode       numeric(20) not null,
    first_byte  bigint not null,
    last_byte   bigint not null,
    digest      text,
    lines       bigint,
    put_away    boolean not null default false,
    primary key (pipeline, batch, ordinal),
    foreign key (pipeline, batch) references etl.batch on delete cascade
);
create index input_slice_here on etl.input_slice (pipeline, name) where not put_away;

-- The runs of claimed keys that count.
create table etl.claim_run (
    pipeline text not null references etl.pipeline,
    path     text not null,
    entries  bigint not null,
    crc32    bigint not null,
    batch    bigint not null,
    primary key (pipeline, path)
);

-- Files of the backlog with events that still wait: for a master row, or for a batch with more room.
create table etl.backlog_file (
    pipeline text not null references etl.pipeline,
    path     text not null,
    batch    bigint not null,
    waiting  bigint not null,
    cause    text not null check (cause in ('master', 'time')),
    since    timestamptz not null,
    primary key (pipeline, path)
);

-- What all loaded batches add up to, so that nobody sums up history.
create table etl.total (
    pipeline text primary key references etl.pipeline,
    batches  bigint not null default 0,
    lines    bigint not null default 0,
    accepted bigint not null default 0,
    quarantined bigint not null default 0,
    duplicates bigint not null default 0,
    backlog_added bigint not null default 0,
    backlog_resolved bigint not null default 0
);
"""


def upgrade() -> None:
    loaded = op.get_bind().exec_driver_sql("select count(*) from etl.batch").scalar()
    if loaded:
        raise TerminalError(
            f"this Postgres holds {loaded} batches of an earlier layout, which cannot be carried over; "
            "point FRONTSTAGE_POSTGRES_DSN and FRONTSTAGE_WAREHOUSE at new places and land the events again"
        )
    op.execute(_LEDGER)


def downgrade() -> None:
    raise TerminalError("the ledger of any pipeline cannot be turned into the one of orders; restore a backup instead")
