-- The triggers that feed the change log of a table; empty unless all four are there and enabled. Triggers that were
-- dropped and made again have other numbers, so a gap in the log shows.
select coalesce(string_agg(oid::text, ' ' order by oid) filter (where fed = 4), '') as feed
from (select oid, count(*) over () as fed
      from pg_trigger
      where tgrelid = to_regclass($1)
        and tgfoid = to_regproc('master.log_change')
        and tgenabled <> 'D') as feeding
