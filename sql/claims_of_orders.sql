-- The payloads that already stand for these order ids. The temporary values list keeps the plan on the primary key.
select claim.order_id, claim.payload_hash
from etl.order_claim as claim
where claim.order_id = any({ids}::bigint[])
