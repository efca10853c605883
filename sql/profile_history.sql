-- The figures of the last batches before one, newest first: from the end of the primary key, so whatever the history.
select batch, audit -> 'profile' as profile
from etl.batch
where pipeline = %(pipeline)s and batch < %(batch)s and audit ? 'profile'
order by batch desc
limit %(limit)s
