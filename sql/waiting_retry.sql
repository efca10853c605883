-- The same events are to be looked up again.
with unknown as (
    update etl.unknown_file set retry = true
    where pipeline = %(pipeline)s and since >= %(begin)s and since < %(end)s
)
update etl.backlog_file set retry = true
where pipeline = %(pipeline)s and since >= %(begin)s and since < %(end)s and cause = 'master';
