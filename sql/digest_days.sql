-- What loaded batches did, by day, oldest first.
select (loaded_at at time zone 'UTC')::date as day,
       count(*) as batches,
       coalesce(sum((counts ->> 'lines')::bigint), 0)::bigint as landed,
       coalesce(sum((counts ->> 'accepted')::bigint), 0)::bigint as accepted,
       coalesce(sum((counts ->> 'quarantined')::bigint), 0)::bigint as quarantined,
       coalesce(sum((counts ->> 'duplicates')::bigint), 0)::bigint as duplicates,
       max((freshness ->> 'p95')::double precision) as freshness_p95_s
from etl.batch
where pipeline = %(pipeline)s and loaded_at >= %(since)s and loaded_at < %(until)s
group by 1
order by 1
