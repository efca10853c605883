"""Ad-hoc queries inside the micro-batch of all correlations: created and dropped while the streams run, sharing work.

    registry   queries, their states and the log of decisions, in Postgres
    version    queries and their plan as one sealed file, opened by every task
    planning   in the driver, at a batch's start: queries that start or end, and shared work; for all tasks at once
    tasks      in the tasks: buckets of mapped segments, new results; rows ──► files, aggregates ──► driver
    evolve     in the driver, before the decision: event time, segments in use, aggregates of all tasks merged
    publish    a Delta table per query; a failing query is suspended, the others go on
    service    create, list, show, explain, rows, delete: for commands, the form in Airflow and the page

A query sees tuples from the batch that creates it on; a result belongs to the batch of its latest tuple (ADR 85).
Segments are the only state: everything else can be rebuilt from them.
"""
