-- A batch begins: what it reads is written down beside it, in the same transaction.
insert into etl.batch (pipeline, batch, run_id, state, started_at, control)
values (%(pipeline)s, %(batch)s, %(run_id)s, 'reading', %(started_at)s, %(control)s);
