"""Ad-hoc queries inside the micro-batch of all correlations: created and dropped while the streams run, sharing work.

    registry   who asked for what: queries, their states and the log of decisions, in Postgres
    version    queries and their plan as one sealed file, that every task opens
    planning   in the driver, at a batch's start: who comes, who goes, how they share; one boundary for all tasks
    tasks      in the tasks: buckets of mapped segments, what is new in a batch; rows ──► files, aggregates ──► driver
    evolve     in the driver, before the decision: event time, segments in use, aggregates of all tasks merged
    publish    a Delta table per query; one that fails is suspended, the others go on
    service    create, list, show, explain, rows, delete: for commands, the form in Airflow and the page

A query sees tuples that come with the batch that creates it, and later ones; its results belong to the batch of the
tuple that came last (ADR 85). Segments are all the state there is: everything else can be made of them again.
"""
