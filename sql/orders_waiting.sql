-- Which of these orders still wait in the backlog.
select claim.order_id
from etl.order_claim as claim
where claim.order_id = any({ids}::bigint[])
  and claim.route = 'backlog'
