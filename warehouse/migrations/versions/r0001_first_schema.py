"""The first schema: master data with its version, the ledger and order registry, and the mart."""

from __future__ import annotations

from alembic import op

revision = "0001"
down_revision = None

_MASTER = """
create schema master;

create table master.customers (
    customer_id     bigint primary key,
    name            text not null,
    address         text not null,
    nation          text not null,
    region          text not null,
    market_segment  text not null,
    phone           text not null,
    account_balance numeric(12, 2) not null,
    updated_at      timestamptz not null default now()
);

create table master.products (
    product_id   bigint primary key,
    name         text not null,
    brand        text not null,
    category     text not null,
    size         integer not null,
    container    text not null,
    retail_price numeric(12, 2) not null,
    updated_at   timestamptz not null default now()
);

-- History depends on `updated_at`: who changes a row and forgets it gets the time of the change.
create function master.stamp() returns trigger language plpgsql as $$
begin
    if new.updated_at <= old.updated_at and new is distinct from old then
        new.updated_at := greatest(clock_timestamp(), old.updated_at + interval '1 microsecond');
    end if;
    return new;
end $$;

create trigger stamp before update on master.customers for each row execute function master.stamp();
create trigger stamp before update on master.products for each row execute function master.stamp();

-- The version of a master table rises with every statement that changes it, in the same transaction. A batch reads
-- it inside its own snapshot, so "same version" means "same rows" and front stages may live on between batches.
create table master.version (
    table_name text primary key,
    version    bigint not null default 0
);
insert into master.version (table_name) values ('master.customers'), ('master.products');

create function master.raise_version() returns trigger language plpgsql as $$
begin
    update master.version set version = version + 1 where table_name = tg_table_schema || '.' || tg_table_name;
    return null;
end $$;

create trigger raise_version after insert or update or delete or truncate on master.customers
    for each statement execute function master.raise_version();
create trigger raise_version after insert or update or delete or truncate on master.products
    for each statement execute function master.raise_version();
"""

_LEDGER = """
create schema etl;

-- One writer at a time: who takes the lock raises the epoch, and a load commits only under the epoch it began with.
create table etl.writer (
    one    boolean primary key default true check (one),
    epoch  bigint not null default 0,
    holder text not null default ''
);
insert into etl.writer default values;

-- A streaming checkpoint counts its batches from 0. `base` keeps the sequence rising when a checkpoint is replaced.
create table etl.checkpoint (
    checkpoint_id text primary key,
    base          bigint not null,
    created_at    timestamptz not null default now()
);

create table etl.batch (
    batch           bigint primary key,
    run_id          text not null,
    state           text not null check (state in ('staged', 'passed', 'held', 'released', 'loaded')),
    started_at      timestamptz not null,
    staged_at       timestamptz not null default now(),
    loaded_at       timestamptz,
    counts          jsonb not null,
    master_versions jsonb not null,
    seconds         jsonb not null default '{}',
    gate            jsonb,
    freshness       jsonb
);
create index on etl.batch (state) where state <> 'loaded';

-- The files a batch was read from. A file that comes again under the same name is told apart by size and time.
create table etl.landed_file (
    name        text primary key,
    size        bigint not null,
    modified_ns bigint not null,
    batch       bigint not null
);
create index on etl.landed_file (batch);

-- The claims: which payload an order id stands for. The first acceptable one wins; a refused line claims nothing, so a
-- corrected order may be sent again under the same id.
create table etl.order_claim (
    order_id     bigint primary key,
    payload_hash bigint not null,
    batch        bigint not null,
    route        text not null check (route in ('accepted', 'backlog')),
    reason       text,
    landed_at    timestamptz not null
);
create index order_waiting on etl.order_claim (batch) where route = 'backlog';
"""

_MART = """
create schema mart;

create table mart.orders (
    order_id       bigint primary key,
    ordered_at     timestamptz not null,
    order_date     date not null,
    customer_id    bigint not null,
    customer_name  text not null,
    nation         text not null,
    region         text not null,
    market_segment text not null,
    product_id     bigint not null,
    product_name   text not null,
    brand          text not null,
    category       text not null,
    quantity       integer not null,
    unit_price     numeric(18, 4) not null,
    amount         numeric(28, 4) not null,
    batch          bigint not null,
    landed_at      timestamptz not null,
    loaded_at      timestamptz not null
);
create index on mart.orders (order_date);
create index on mart.orders (batch);

create table mart.daily_sales (
    order_date     date not null,
    region         text not null,
    market_segment text not null,
    category       text not null,
    orders         bigint not null,
    quantity       bigint not null,
    amount         numeric(38, 4) not null,
    primary key (order_date, region, market_segment, category)
);
"""


def upgrade() -> None:
    for script in (_MASTER, _LEDGER, _MART):
        op.execute(script)


def downgrade() -> None:
    op.execute("drop schema mart cascade; drop schema etl cascade; drop schema master cascade")
