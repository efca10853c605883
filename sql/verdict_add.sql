-- Words about refused lines; those that have one keep it. Gives the lines whose word is new.
insert into etl.quarantine_verdict (pipeline, batch, number, verdict, decided_by, decided_at, note, file)
select %(pipeline)s, wanted.batch, wanted.number, %(verdict)s, %(decided_by)s, %(decided_at)s, %(note)s, %(file)s
from unnest(%(batches)s::bigint[], %(numbers)s::bigint[]) as wanted (batch, number)
order by wanted.batch, wanted.number
on conflict do nothing
returning batch, number;
