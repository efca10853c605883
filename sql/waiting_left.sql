-- Files that a batch has left out, or read in part: the next batch tries their events again.
with unknown as (
    update etl.unknown_file set retry = true
    where pipeline = %(pipeline)s and path = any(%(paths)s)
)
update etl.backlog_file set retry = true
where pipeline = %(pipeline)s and path = any(%(paths)s);
