-- Whether the change log of a table still holds all that a snapshot did not show.
select coalesce((select pruned_below > pg_snapshot_xmin($2::pg_snapshot)
                 from master.change_log_pruned where table_name = $1), false) as pruned,
       pg_snapshot_xmax($2::pg_snapshot) > pg_snapshot_xmax(pg_current_snapshot()) as ahead
