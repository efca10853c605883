-- The batch is loaded: its state, what its tables hold, and the sums over all batches, in the mart's transaction.
with loaded as (
    update etl.batch
    set state = 'loaded', loaded_at = %(loaded_at)s, freshness = %(freshness)s
    where pipeline = %(pipeline)s and batch = %(batch)s and state in ('passed', 'released')
    returning counts
), published as (
    update etl.pipeline set published = published || %(published)s from loaded where name = %(pipeline)s
)
update etl.total
set batches = batches + 1,
    lines = lines + (counts ->> 'lines')::bigint,
    accepted = accepted + (counts ->> 'accepted')::bigint,
    quarantined = quarantined + (counts ->> 'quarantined')::bigint,
    duplicates = duplicates + (counts ->> 'duplicates')::bigint,
    backlog_added = backlog_added + (counts ->> 'backlog_added')::bigint,
    backlog_resolved = backlog_resolved + (counts ->> 'backlog_resolved')::bigint
from loaded
where pipeline = %(pipeline)s;
