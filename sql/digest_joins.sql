-- How the joins of a stretch of time went, by master.
select master,
       sum((joined ->> 'probes')::bigint)::bigint as probes,
       sum((joined ->> 'hits')::bigint)::bigint as hits,
       sum((joined ->> 'unmatched')::bigint)::bigint as unmatched
from etl.batch, jsonb_each(counts -> 'joins') as each (master, joined)
where pipeline = %(pipeline)s and loaded_at >= %(since)s and loaded_at < %(until)s
group by master
order by master
