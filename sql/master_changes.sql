-- Which keys of a master table were touched by transactions that a snapshot did not show yet.
select distinct op, key
from master.change_log
where table_name = $1
  and xid >= pg_snapshot_xmin($2::pg_snapshot)
  and not pg_visible_in_snapshot(xid, $2::pg_snapshot)
