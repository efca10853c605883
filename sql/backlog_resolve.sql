-- Events of a backlog file that wait no longer.
update etl.backlog_file set waiting = waiting - %(count)s
where pipeline = %(pipeline)s and path = %(path)s and waiting >= %(count)s;
