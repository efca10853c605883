-- Every correlation over sites that has begun: since when, and what its newest finished batch shipped.
select known.name, known.since, last.batch, last.figures, crossed.bytes, crossed.tuples
from etl.site_correlation as known
left join lateral (
    select number, batch, figures
    from etl.site_batch
    where correlation = known.name
    order by number desc
    limit 1
) as last on true
left join lateral (
    select sum(bytes)::bigint as bytes, sum(tuples)::bigint as tuples
    from etl.site_shipment
    where correlation = known.name and number = last.number and not replayed
) as crossed on true
order by known.name;
