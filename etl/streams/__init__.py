"""The runtime of streams that meet streams: a log of segments, versions of state, one micro-batch for all correlations.

    declared      files of streams and correlations ──► compiled queries, or a sentence with file and line
    microbatch    fix input ─ run ─ decide ─ publish, reading top-down; `steps` for DAGs and commands
    known         correlations that have run, as a batch finds them; `planning` makes the plan of one try
    dispatch      the task that reads: slices ──► segment, late tuples, thin tuples routed to units
    join          the task of units: state, probes, pairs ──► the next join, or `results`
    files, log    immutable, sealed files on any file system; rows by reference
    ledger        what is decided, in Postgres: segments, runs of state, watermarks, routing
    evolve        what a batch changes of a correlation's state: watermarks, expiry, scaling
    views         aggregates, kept in Postgres in the ledger's transaction

The kernels are in `etl.correlate`; Spark only carries messages between the tasks (`etl.spark.correlate`).
"""
