-- How many events began to wait for a master row in a span of time, or came into the fact with an unknown member.
select
    (select coalesce(sum(waiting), 0) from etl.backlog_file
     where pipeline = %(pipeline)s and since >= %(begin)s and since < %(end)s and cause = 'master') as waiting,
    (select coalesce(sum(waiting), 0) from etl.unknown_file
     where pipeline = %(pipeline)s and since >= %(begin)s and since < %(end)s) as unknown;
