-- The newest decided batch of each pipeline: one step of the primary key each.
select wanted.name as pipeline, last.*
from unnest(%(pipelines)s) as wanted (name)
cross join lateral (
    select batch, run_id, state, started_at, decided_at, loaded_at, lines, accepted, quarantined, duplicates,
           backlog_added, backlog_resolved, shed, probes, hits, pairs, late, took_s, fresh_p50_s, fresh_p95_s,
           joins, audit, control, master_versions
    from etl.batch
    where batch.pipeline = wanted.name and decided_at is not null
    order by batch desc
    limit 1
) as last;
