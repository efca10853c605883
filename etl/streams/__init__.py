"""The runtime of stream-stream joins: a log of segments, versioned state, one micro-batch for all correlations.

    declared      files of streams and correlations ──► compiled queries, or an error with file and line
    microbatch    fix input ─ run ─ decide ─ publish; `steps` for DAGs and commands
    planning      the plan of one try
    tasks         dispatch: slices ──► segment, late tuples, thin tuples routed to units
                  join, of units: state, probes, pairs ──► the next join, or `results`
    storage       immutable, sealed files on any file system; the stream log: rows by reference
    ledger        decisions in Postgres: segments, runs of state, watermarks, routing
    state         runs as files, and their changes per batch: watermarks, expiry, scaling; rebuilt after damage
    recovery      reconciles ledger and warehouse after a restore
    inspection    status of correlations, for commands, pages and reports
    views         aggregates, updated in Postgres in the ledger's transaction

The kernels are in `etl.correlate`; Spark only carries messages between the tasks (`etl.spark.correlate`).
"""
