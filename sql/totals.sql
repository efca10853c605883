-- Where every event is: sums over loaded batches, and what still waits.
select batches, lines, accepted as fact, quarantined as quarantine, duplicates, backlog_added, backlog_resolved,
       backlog_added - backlog_resolved as backlog_open
from etl.total
where pipeline = %(pipeline)s;
