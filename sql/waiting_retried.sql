-- Files that were read again, as somebody wanted; those whose events wait no longer are gone.
with unknown as (
    update etl.unknown_file set retry = false
    where pipeline = %(pipeline)s and path = any(%(paths)s)
)
update etl.backlog_file set retry = false
where pipeline = %(pipeline)s and path = any(%(paths)s);
