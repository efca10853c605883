-- Why events were refused in a stretch of time, the most frequent reasons first.
select reason, sum(events::bigint)::bigint as events
from etl.batch, jsonb_each_text(counts -> 'reasons') as refused (reason, events)
where pipeline = %(pipeline)s and loaded_at >= %(since)s and loaded_at < %(until)s
group by reason
order by events desc, reason
limit %(limit)s
