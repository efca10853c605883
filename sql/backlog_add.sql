-- A new file of events that wait.
insert into etl.backlog_file (pipeline, path, batch, waiting, cause, since)
values (%(pipeline)s, %(path)s, %(batch)s, %(waiting)s, %(cause)s, %(since)s);
