-- A run of claimed keys counts from now on.
insert into etl.claim_run (pipeline, path, entries, crc32, batch)
values (%(pipeline)s, %(path)s, %(entries)s, %(crc32)s, %(batch)s);
