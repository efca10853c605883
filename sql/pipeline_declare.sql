-- What a pipeline is declared as. The first declaration makes its rows.
with made as (
    insert into etl.pipeline (name, declared) values (%(pipeline)s, %(declared)s)
    on conflict (name) do update set declared = excluded.declared
    returning name
)
insert into etl.total (pipeline) select name from made on conflict do nothing;
