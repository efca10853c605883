-- Where every order is: sums over loaded batches, and the claims that still wait.
select
    coalesce(sum((counts ->> 'landed')::bigint), 0)      as orders_landed,
    coalesce(sum((counts ->> 'accepted')::bigint), 0)    as fact,
    coalesce(sum((counts ->> 'quarantined')::bigint), 0) as quarantine,
    coalesce(sum((counts ->> 'duplicates')::bigint), 0)  as duplicates,
    (select count(*) from etl.order_claim where route = 'backlog') as backlog_open,
    (select count(*) from etl.order_claim where route = 'backlog' and reason like 'unknown_%%') as unmatched_open,
    (select count(*) from etl.order_claim where route = 'backlog' and reason = 'shed') as shed_open
from etl.batch
where state = 'loaded';
