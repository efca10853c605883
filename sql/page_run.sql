-- The batch that a run of Airflow began.
select batch from etl.batch where pipeline = %(pipeline)s and run_id = %(run_id)s order by batch desc limit 1;
