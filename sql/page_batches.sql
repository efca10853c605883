-- Batches of one pipeline, newest first, from below a number.
select batch, run_id, state, started_at, decided_at, loaded_at, lines, accepted, quarantined, duplicates,
       backlog_added, backlog_resolved, shed, probes, hits, pairs, late, took_s, fresh_p50_s, fresh_p95_s
from etl.batch
where pipeline = %(pipeline)s and batch < %(before)s
order by batch desc
limit %(limit)s;
