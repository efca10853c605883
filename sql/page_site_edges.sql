-- What crossed from site to site in the newest finished batch of one correlation, by the streams of what was shipped.
select members.streams, crossed.origin, crossed.destination, crossed.replayed,
       sum(crossed.tuples)::bigint as tuples, sum(crossed.bytes)::bigint as bytes
from etl.site_correlation as known
join etl.site_shipment as crossed
  on crossed.correlation = known.name
 and crossed.number = (select max(number) from etl.site_batch where correlation = known.name)
cross join lateral (
    select string_agg(alias, ' ⋈ ' order by place) as streams
    from jsonb_array_elements_text(known.declared -> 'aliases') with ordinality as one (alias, place)
    where crossed.streams & (1::bigint << (place - 1)::int) <> 0
) as members
where known.name = %(name)s
group by members.streams, crossed.origin, crossed.destination, crossed.replayed
order by crossed.replayed, bytes desc, members.streams, crossed.origin, crossed.destination;
