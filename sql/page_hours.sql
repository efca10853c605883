-- Lines that were loaded in every hour since a moment, by pipeline; all of it comes from the index `batch_history`.
select pipeline, floor(extract(epoch from loaded_at - %(first)s) / 3600)::int as hour, coalesce(sum(lines), 0) as lines
from etl.batch
where pipeline = any(%(pipelines)s) and loaded_at >= %(first)s
group by pipeline, hour;
