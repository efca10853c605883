"""Sites, and the correlations over streams that live at several of them: batches, plans, what was shipped."""

from __future__ import annotations

from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    op.execute(
        """
        -- Sites whose root has been reached once: from then on a root without its marker is a site that is away.
        create table etl.site (
            name text primary key,
            root text not null
        );

        -- One row per correlation over sites. Its batches are numbered from the first that it saw.
        create table etl.site_correlation (
            name      text primary key,
            token     text not null unique,      -- names its files at all sites
            declared  jsonb not null,
            since     bigint not null,           -- the batch of the ledger that is its number 0
            live      bigint not null default 0, -- the first of its batches that is still in some window
            published bigint not null default 0  -- all of its batches before are in the table
        );

        -- Correlations that are gone, by the names of files that may still lie at sites.
        create table etl.site_gone (
            token text primary key
        );

        create table etl.site_entry (
            correlation text not null references etl.site_correlation on delete cascade,
            number      bigint not null,
            content     jsonb not null,
            primary key (correlation, number)
        );

        create table etl.site_plan (
            correlation text not null references etl.site_correlation on delete cascade,
            number      bigint not null,
            content     jsonb not null,
            adopted_at  timestamptz not null default now(),
            primary key (correlation, number)
        );

        -- Batches all of whose steps are done, and, once they are in the table, their figures.
        create table etl.site_batch (
            correlation text not null references etl.site_correlation on delete cascade,
            number      bigint not null,
            batch       bigint not null,
            finished_at timestamptz not null default now(),
            figures     jsonb,
            primary key (correlation, number)
        );

        -- What crossed from one site to another: for a batch, or to fill the windows of a new plan before it.
        create table etl.site_shipment (
            correlation text not null references etl.site_correlation on delete cascade,
            number      bigint not null,
            batch       bigint not null,
            kind        text not null,
            streams     bigint not null,  -- a bit per stream of the SQL, in its order
            origin      text not null,
            destination text not null,
            tuples      bigint not null,
            bytes       bigint not null,
            replayed    boolean not null
        );
        create index on etl.site_shipment (correlation, number);

        -- Rates and sketches of join values, by stream of the SQL; `through` is the last batch in them.
        create table etl.site_statistics (
            correlation text not null references etl.site_correlation on delete cascade,
            stream      integer not null,
            through     bigint not null,
            content     bytea not null,
            primary key (correlation, stream)
        );
        """
    )


def downgrade() -> None:
    op.execute(
        "drop table etl.site_statistics, etl.site_shipment, etl.site_batch, etl.site_plan, etl.site_entry, "
        "etl.site_gone, etl.site_correlation, etl.site"
    )
