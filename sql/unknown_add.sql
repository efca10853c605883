-- A file of events that are in the fact with an unknown member.
insert into etl.unknown_file (pipeline, path, batch, waiting, since)
values (%(pipeline)s, %(path)s, %(batch)s, %(waiting)s, %(since)s);
