-- Runs of a correlation's state that a batch wrote.
insert into etl.state_run
    (correlation, step, unit, side, period, name, tuples, bytes, earliest, latest, batch)
values %s;
