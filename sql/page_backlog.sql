-- What waits in the backlog, by cause: how much, and since when. What failed its audit waits for a person.
select pipeline, cause, sum(events) as waiting, min(since) as since
from (
    select pipeline, cause, waiting as events, since
    from etl.backlog_file
    where pipeline = any(%(pipelines)s)
    union all
    select pipeline, 'person', aside, decided_at
    from etl.batch
    where aside > 0 and pipeline = any(%(pipelines)s)
) as waiting
group by pipeline, cause
order by pipeline, cause;
