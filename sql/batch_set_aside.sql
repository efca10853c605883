-- A batch whose audit failed passes without its accepted events: they wait aside for a person's word.
update etl.batch
set state = 'passed', decision = %(decision)s, counts = %(counts)s, audit = %(audit)s, aside = %(events)s
where pipeline = %(pipeline)s and batch = %(batch)s and state in ('decided', 'held');
