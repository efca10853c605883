-- Since when the oldest open order of the backlog waits.
select coalesce(min(batch.staged_at), now()) as since
from etl.order_claim as claim
join etl.batch as batch using (batch)
where claim.route = 'backlog';
