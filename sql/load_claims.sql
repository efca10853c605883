-- Accepted and waiting orders claim their id; an order that left the backlog for quarantine gives its claim back.
insert into etl.order_claim (order_id, payload_hash, batch, route, reason, landed_at)
select order_id, payload_hash, %(batch)s, route, reason, landed_at
from {stage}
where route in ('accepted', 'backlog')
on conflict (order_id) do update
    set batch = excluded.batch, route = excluded.route, reason = excluded.reason;

delete from etl.order_claim as claim
using {stage} as stage
where stage.route = 'quarantined'
  and stage.from_backlog
  and claim.order_id = stage.order_id
  and claim.payload_hash = stage.payload_hash;
