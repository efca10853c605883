-- A new writer raises the epoch: whoever wrote before is refused at its next commit.
insert into etl.pipeline (name, declared, epoch, holder) values (%(pipeline)s, '{}', 1, %(holder)s)
on conflict (name) do update
set epoch = pipeline.epoch + 1, holder = excluded.holder, beat_at = clock_timestamp()
returning epoch;
