-- Forget the entries of a table that every reader at or after a snapshot has seen.
with floor as (
    insert into master.change_log_pruned (table_name, pruned_below)
    values (%(table)s, pg_snapshot_xmin(%(snapshot)s::pg_snapshot))
    on conflict (table_name) do update
        set pruned_below = greatest(change_log_pruned.pruned_below, excluded.pruned_below)
    returning pruned_below
)
delete from master.change_log
using floor
where table_name = %(table)s and xid < floor.pruned_below
