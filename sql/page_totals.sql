-- Where every event of some pipelines is: as `frontstage status` tells it, for all of them at once.
select total.pipeline, batches, lines, accepted as fact, quarantined as quarantine, duplicates, backlog_added,
       backlog_resolved, backlog_added - backlog_resolved as backlog_open,
       quarantined - coalesce(verdicts.decided, 0) as quarantine_open
from etl.total as total
left join (select pipeline, count(*) as decided from etl.quarantine_verdict group by pipeline) as verdicts
  on verdicts.pipeline = total.pipeline
where total.pipeline = any(%(pipelines)s);
