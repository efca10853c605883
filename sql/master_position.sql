-- Where this transaction stands: which server and history, what it sees, and since when others are at work. A transaction
-- that has only read so far has no number yet, but what it writes later is dated by its begin.
select (select system_identifier::text from pg_control_system()) as server,
       (select timeline_id::text from pg_control_checkpoint()) as timeline,
       (select oid::text from pg_database where datname = current_database()) as database,
       pg_current_snapshot()::text as snapshot,
       least(now(), (select min(xact_start) from pg_stat_activity
                     where datname = current_database() and pid <> pg_backend_pid()
                       and (backend_xid is not null or backend_type = 'client backend'))) as quiet_since
