-- A person has seen that a figure of a batch is unusual; said again, the last word counts.
insert into etl.acknowledged (pipeline, batch, check_name, new_normal, by, at, note)
values (%(pipeline)s, %(batch)s, %(check)s, %(new_normal)s, %(by)s, %(at)s, %(note)s)
on conflict (pipeline, batch, check_name) do update
set new_normal = excluded.new_normal, by = excluded.by, at = excluded.at, note = excluded.note
