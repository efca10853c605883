-- Every correlation that has run: since when, what it is declared as, and what its state holds.
select correlation.name, correlation.since, coalesce(held.tuples, 0) as tuples, coalesce(held.bytes, 0) as bytes,
       coalesce(held.runs, 0) as runs, coalesce(held.units, 0) as units
from etl.correlation as correlation
left join (
    select correlation, sum(tuples) as tuples, sum(bytes) as bytes, count(*) as runs,
           count(distinct (step, unit)) as units
    from etl.state_run
    group by correlation
) as held on held.correlation = correlation.name
order by correlation.name;
