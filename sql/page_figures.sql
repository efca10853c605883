-- What every correlation did in the newest decided batch.
select batch, decided_at, loaded_at, seconds, decision -> 'correlations' as correlations, decision -> 'streams' as streams
from etl.batch
where pipeline = 'correlations' and decided_at is not null
order by batch desc
limit 1;
