-- Correlations over sites that have begun, all or one, with their newest finished batches, oldest first: what crossed, and
-- what it was expected to be and would have been by other plans.
select known.name, known.since, newest.batch, newest.finished_at, newest.figures,
       crossed.bytes as shipped_bytes, crossed.tuples as shipped_tuples, crossed.replayed as replayed_bytes
from etl.site_correlation as known
left join lateral (
    select number, batch, finished_at, figures
    from etl.site_batch
    where correlation = known.name
    order by number desc
    limit %(limit)s
) as newest on true
left join lateral (
    select coalesce(sum(bytes) filter (where not replayed), 0)::bigint as bytes,
           coalesce(sum(tuples) filter (where not replayed), 0)::bigint as tuples,
           coalesce(sum(bytes) filter (where replayed), 0)::bigint as replayed
    from etl.site_shipment
    where correlation = known.name and number = newest.number
) as crossed on newest.number is not null
where known.name = coalesce(%(name)s, known.name)
order by known.name, newest.number;
