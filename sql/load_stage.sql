-- What the executors copy a batch into before the one transaction that makes it visible. Unlogged: it is made again
-- from the Delta staging whenever the load is repeated.
create unlogged table {stage} (
    order_id bigint, payload_hash bigint, route text, reason text, from_backlog boolean, landed_at timestamptz,
    ordered_at timestamptz, customer_id bigint, customer_name text, nation text, region text, market_segment text,
    product_id bigint, product_name text, brand text, category text, quantity integer, unit_price numeric(18, 4),
    amount numeric(28, 4)
);
