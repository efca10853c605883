-- The files of a batch. A name that comes again stands for its newest file.
insert into etl.landed_file (name, size, modified_ns, batch)
values %s
on conflict (name) do update
    set size = excluded.size, modified_ns = excluded.modified_ns, batch = excluded.batch;
