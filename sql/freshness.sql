-- From landing to the mart, over all orders.
select
    round(percentile_cont(0.50) within group (order by extract(epoch from loaded_at - landed_at))::numeric, 2) as p50,
    round(percentile_cont(0.95) within group (order by extract(epoch from loaded_at - landed_at))::numeric, 2) as p95
from mart.orders;
