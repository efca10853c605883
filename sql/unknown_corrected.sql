-- Events of such a file whose member is known by now.
update etl.unknown_file set waiting = waiting - %(count)s
where pipeline = %(pipeline)s and path = %(path)s and waiting >= %(count)s;
