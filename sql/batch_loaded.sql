-- The batch is loaded: state, time, and how old its orders were by then.
update etl.batch
set state = 'loaded',
    loaded_at = %(loaded_at)s,
    freshness = (
        select case when count(*) > 0 then jsonb_build_object(
            'p50', round(percentile_cont(0.50) within group (order by extract(epoch from %(loaded_at)s - landed_at))::numeric, 3),
            'p95', round(percentile_cont(0.95) within group (order by extract(epoch from %(loaded_at)s - landed_at))::numeric, 3)
        ) end
        from {stage}
        where route = 'accepted'
    )
where batch = %(batch)s and state in ('passed', 'released')
returning batch;
