-- The decision: what became of a batch. Everything after is derived from it.
update etl.batch
set state = 'decided', decided_at = %(decided_at)s, decision = %(decision)s, counts = %(counts)s,
    master_versions = %(versions)s
where pipeline = %(pipeline)s and batch = %(batch)s and state = 'reading';
