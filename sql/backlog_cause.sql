-- What events of backlog files wait for, now that they have been tried again.
update etl.backlog_file set cause = %(cause)s
where pipeline = %(pipeline)s and path = any(%(paths)s);
