"""The runtime of streams that meet streams: a log of segments, versions of state, one micro-batch for all correlations.

    declared      files of streams and correlations ──► compiled queries, or a sentence with file and line
    microbatch    fix input ─ run ─ decide ─ publish, reading top-down; `steps` for DAGs and commands
    planning      makes the plan of one try
    tasks         dispatch: slices ──► segment, late tuples, thin tuples routed to units
                  join, of units: state, probes, pairs ──► the next join, or `results`
    storage       immutable, sealed files on any file system; the stream log: rows by reference
    ledger        what is decided, in Postgres: segments, runs of state, watermarks, routing
    state         runs as files; what a batch changes of them: watermarks, expiry, scaling; rebuilt after damage
    recovery      what either of ledger and warehouse has forgotten since a restore is put back
    inspection    how correlations stand, for commands, pages and reports
    views         aggregates, kept in Postgres in the ledger's transaction

The kernels are in `etl.correlate`; Spark only carries messages between the tasks (`etl.spark.correlate`).
"""
