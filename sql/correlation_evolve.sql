-- A correlation after a batch: watermarks, routers, scaling. The first batch makes its row.
insert into etl.correlation (name, declared, since, state)
values (%(name)s, %(declared)s, %(since)s, %(state)s)
on conflict (name) do update set declared = excluded.declared, state = excluded.state;
