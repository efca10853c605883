-- The triggers that feed the change log of a table; empty unless all four are there and fire for everybody's changes.
-- Triggers that were dropped and made again have other numbers; one that was disabled and enabled again has been written
-- by another transaction (xmin). So a gap in the log shows. What logical replication applies fires no such trigger: a
-- table that is fed by a subscription has no log that could be trusted.
-- A statement fires the triggers of the table that it names. So every partition has to have them, too; a table that is
-- itself a part of another one, or has heirs, has no log that could be trusted.
-- `file`: statements that write a table anew (ALTER … TYPE … USING, say) fire no trigger, but give it another file.
with recursive member as (
    select to_regclass($1)::oid as oid
    union
    select pg_inherits.inhrelid from member join pg_inherits on pg_inherits.inhparent = member.oid
), feeding as (
    select tgrelid, pg_trigger.oid, pg_trigger.xmin::text as made_by
    from member join pg_trigger on tgrelid = member.oid
    where tgfoid = to_regproc('master.log_change') and tgenabled in ('O', 'A')
), complete as (
    select bool_and((select count(*) from feeding where tgrelid = member.oid) = 4
                    and not exists (select from pg_subscription_rel where srrelid = member.oid)
                    and (relispartition or member.oid = to_regclass($1))
                    and not (member.oid = to_regclass($1)
                             and exists (select from pg_inherits where inhrelid = member.oid))) as fed,
           count(*) = 1 as single,
           string_agg(relfilenode::text, ' ' order by member.oid) as files
    from member join pg_class on pg_class.oid = member.oid
)
select case when fed then (select case when single then agg else md5(agg) end
                           from (select string_agg(oid || ':' || made_by, ' ' order by oid) as agg from feeding) as all_of)
            else '' end as feed,
       case when single then files else md5(files) end as file
from complete
