-- New orders enter the mart once, and exactly those are added to the daily sums.
with loaded as (
    insert into mart.orders
    select order_id, ordered_at, (ordered_at at time zone 'UTC')::date, customer_id, customer_name, nation, region,
           market_segment, product_id, product_name, brand, category, quantity, unit_price, amount,
           %(batch)s, landed_at, %(loaded_at)s
    from {stage}
    where route = 'accepted'
    on conflict (order_id) do nothing
    returning *
)
insert into mart.daily_sales (order_date, region, market_segment, category, orders, quantity, amount)
select order_date, region, market_segment, category, count(*), sum(quantity), sum(amount)
from loaded
group by order_date, region, market_segment, category
on conflict (order_date, region, market_segment, category) do update
    set orders = daily_sales.orders + excluded.orders,
        quantity = daily_sales.quantity + excluded.quantity,
        amount = daily_sales.amount + excluded.amount;
