-- What one correlation did in the newest decided batches, oldest first.
select batch, state, decided_at, loaded_at, seconds, decision -> 'correlations' -> %(name)s as figures
from (
    select batch, state, decided_at, loaded_at, seconds, decision
    from etl.batch
    where pipeline = 'correlations' and decided_at is not null
    order by batch desc
    limit %(limit)s
) as newest
where decision -> 'correlations' ? %(name)s
order by batch;
