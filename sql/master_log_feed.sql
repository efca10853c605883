-- The triggers that feed the change log of a table; empty unless all four are there and fire for everybody's changes.
-- Triggers that were dropped and made again have other numbers; one that was disabled and enabled again has been written
-- by another transaction (xmin). So a gap in the log shows. What logical replication applies fires no such trigger: a
-- table that is fed by a subscription has no log that could be trusted.
-- `file`: statements that write a table anew (ALTER … TYPE … USING, say) fire no trigger, but give it another file.
select coalesce(string_agg(oid || ':' || made_by, ' ' order by oid) filter (where fed = 4), '') as feed,
       (select relfilenode::text from pg_class where oid = to_regclass($1)) as file
from (select oid, xmin::text as made_by, count(*) over () as fed
      from pg_trigger
      where tgrelid = to_regclass($1)
        and tgfoid = to_regproc('master.log_change')
        and tgenabled in ('O', 'A')
        and not exists (select from pg_subscription_rel where srrelid = to_regclass($1))) as feeding
