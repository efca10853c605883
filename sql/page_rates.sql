-- What was loaded lately, by pipeline.
select pipeline, count(*) as batches, coalesce(sum(lines), 0) as lines
from etl.batch
where pipeline = any(%(pipelines)s) and loaded_at >= %(since)s
group by pipeline;
