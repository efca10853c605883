-- A person's word about a batch whose audit failed. A held one that is released goes on from here; what is aside is taken
-- up by the next batch, and so is a held one that is rejected.
update etl.batch
set verdict = %(verdict)s,
    state = case when state = 'held' and %(verdict)s::jsonb ->> 'word' = 'released' then 'released' else state end
where pipeline = %(pipeline)s and batch = %(batch)s and verdict is null
  and (state = 'held' or aside > 0);
