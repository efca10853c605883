-- What was not as in the batches before it, newest first, and whether somebody has seen it.
select batch.batch, finding, seen.by
from etl.batch as batch
cross join lateral jsonb_array_elements(batch.audit -> 'unusual') as finding
left join etl.acknowledged as seen
    on seen.pipeline = batch.pipeline and seen.batch = batch.batch and seen.check_name = finding ->> 'check'
where batch.pipeline = %(pipeline)s and batch.decided_at >= %(since)s and batch.decided_at < %(until)s
order by batch.batch desc
limit %(limit)s
