-- The oldest batch of each pipeline that is begun and not loaded, or loaded but for what a person has to decide about.
select distinct on (open.pipeline) open.pipeline, open.batch, open.run_id, open.state, open.started_at, declared.holder
from (
    select pipeline, batch, run_id, state, started_at
    from etl.batch
    where state <> 'loaded' and pipeline = any(%(pipelines)s)
    union all
    select pipeline, batch, run_id, 'held', started_at
    from etl.batch
    where aside > 0 and verdict is null and state = 'loaded' and pipeline = any(%(pipelines)s)
) as open
join etl.pipeline as declared on declared.name = open.pipeline
order by open.pipeline, open.batch;
