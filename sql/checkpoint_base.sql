-- The base of a streaming checkpoint. A checkpoint seen for the first time starts after every batch there is.
with made as (
    insert into etl.checkpoint (checkpoint_id, base)
    select %(checkpoint_id)s, coalesce(max(batch) / 1000000 + 1, 0) from etl.batch
    on conflict (checkpoint_id) do nothing
    returning base
)
select base from made
union all
select base from etl.checkpoint where checkpoint_id = %(checkpoint_id)s
limit 1;
