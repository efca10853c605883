-- The change log of master tables: which keys were touched, by which transaction.
--
--   select master.keep_change_log('master.customers', 'customer_id');
--
-- A reader asks for the entries that its last snapshot did not show, and reads the rows of those keys as they are now.
-- `xid` and not `seq` is what it goes by: numbers are drawn when a row is written but become visible when its
-- transaction commits, so a reader that remembers the highest number seen would skip whoever commits late.
create schema if not exists master;

create table if not exists master.change_log (
    seq        bigint generated always as identity primary key,
    table_name text not null,
    key        jsonb,  -- the key's values, one after the other; null when all rows may have changed
    op         char not null check (op in ('I', 'U', 'D', 'T', 'B')),  -- insert, update, delete, truncate, bulk
    xid        xid8 not null default pg_current_xact_id(),
    changed_at timestamptz not null default now()
);
create index if not exists change_log_by_transaction on master.change_log (table_name, xid);

-- Entries of transactions below `pruned_below` may be gone; a reader further behind has to read the whole table.
create table if not exists master.change_log_pruned (
    table_name   text primary key,
    pruned_below xid8 not null
);

-- One entry per key and statement. A statement that touches very many rows leaves a single entry: reading the whole
-- table again is cheaper than following it row by row. It runs as the log's owner: an application that changes the table
-- has no rights here, and must not fail for that.
create or replace function master.log_change() returns trigger language plpgsql
security definer set search_path = pg_catalog, pg_temp as $$
declare
    logged text := tg_table_schema || '.' || tg_table_name;
    root constant regclass := pg_partition_root(tg_relid);
    bulk constant bigint := 250000;
    touched bigint;
    key_values text;
    rows_of text := 'select * from changed';
begin
    if root <> tg_relid::regclass then  -- a statement that names a partition; others fire the triggers of the whole table
        select nspname || '.' || relname into logged
        from pg_class join pg_namespace on pg_namespace.oid = relnamespace where pg_class.oid = root;
    end if;
    if tg_op = 'TRUNCATE' then
        insert into master.change_log (table_name, op) values (logged, 'T');
        return null;
    end if;
    select count(*) into touched from changed;
    if touched > bulk then
        insert into master.change_log (table_name, op) values (logged, 'B');
        return null;
    end if;
    if tg_op = 'UPDATE' then  -- a key may itself have changed
        rows_of := 'select * from changed union all select * from before';
    end if;
    select string_agg(format('r.%I', name), ', ' order by place) into key_values
    from unnest(tg_argv) with ordinality as part (name, place);
    execute format(
        'insert into master.change_log (table_name, key, op) select distinct %L, jsonb_build_array(%s), %L from (%s) r',
        logged, key_values, left(tg_op, 1), rows_of
    );
    return null;
end $$;

create or replace function master.keep_change_log(master_table regclass, variadic key_columns text[])
returns void language plpgsql as $$
declare
    arguments text;
    part regclass;
begin
    for part in select relid from pg_partition_tree(master_table) where level = 1 loop
        perform master.keep_change_log(part, variadic key_columns);
    end loop;
    select string_agg(quote_literal(name), ', ' order by place) into arguments
    from unnest(key_columns) with ordinality as part (name, place);
    execute format('create or replace trigger log_insert after insert on %s referencing new table as changed '
                   'for each statement execute function master.log_change(%s)', master_table, arguments);
    execute format('create or replace trigger log_update after update on %s referencing new table as changed '
                   'old table as before for each statement execute function master.log_change(%s)',
                   master_table, arguments);
    execute format('create or replace trigger log_delete after delete on %s referencing old table as changed '
                   'for each statement execute function master.log_change(%s)', master_table, arguments);
    execute format('create or replace trigger log_truncate after truncate on %s '
                   'for each statement execute function master.log_change()', master_table);
end $$;
