-- Forget batches that were loaded long ago and of whose input nothing is where it landed. The newest always stay: runs
-- number on from them, and waiting events are compared with the masters they saw. So does the last one that read of a
-- topic's partition: it says where the next one begins.
delete from etl.batch as old
where old.pipeline = %(pipeline)s and old.state = 'loaded' and old.aside = 0 and old.loaded_at < %(before)s
  and old.batch < (select min(batch) from (select batch from etl.batch where pipeline = %(pipeline)s
                                           order by batch desc limit %(keep)s) as newest)
  and not exists (select from etl.input_slice as slice
                  where slice.pipeline = old.pipeline and slice.batch = old.batch and not slice.put_away
                    and (slice.name = any(%(here)s::bytea[])
                         or (position('/'::bytea in slice.name) > 0
                             and not exists (select from etl.input_slice as later
                                             where later.pipeline = slice.pipeline and later.name = slice.name
                                               and not later.put_away and later.batch > slice.batch))));
