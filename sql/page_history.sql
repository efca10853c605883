-- What was loaded between two moments, in spans of equal length; all of it comes from the index `batch_history`.
select floor(extract(epoch from loaded_at - %(first)s) / %(width_s)s)::int as span, count(*) as batches,
       sum(lines) as lines, sum(accepted) as accepted, sum(quarantined) as quarantined,
       sum(duplicates) as duplicates, sum(backlog_added) as backlog_added, sum(backlog_resolved) as backlog_resolved,
       sum(shed) as shed, sum(probes) as probes, sum(hits) as hits, sum(pairs) as pairs, sum(late) as late,
       sum(took_s) as took_s, avg(fresh_p50_s) as fresh_p50_s, max(fresh_p95_s) as fresh_p95_s
from etl.batch
where pipeline = %(pipeline)s and loaded_at >= %(first)s and loaded_at < %(last)s
group by span
order by span;
