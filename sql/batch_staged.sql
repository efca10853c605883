-- Staging holds this batch now. The row is written once; a repeated run finds it there.
insert into etl.batch (batch, run_id, state, started_at, counts, master_versions)
values (%(batch)s, %(run_id)s, 'staged', %(started_at)s, %(counts)s, %(versions)s)
on conflict (batch) do nothing;
