"""The same join, done by others and by us, timed in one run.

    one R (Postgres, Delta, master pages)   one set of order batches   one action: every column of every row, to noop
        │
        ├─ Spark with its defaults    spark-jdbc  spark-delta  spark-cached  any-lookup  identity
        └─ Spark as our pipeline      auto  cinlj  chybridjoin  cmeshjoin, and who only moves rows

    __main__     options, data, Postgres, the result file
    phases       one Spark after the other, each in a process of its own
    spark_peers  what others do               jars      the JDBC driver, pinned
    ours         what we do                   measure   batches, warm-up, answers checked, medians
    plan         what is measured             results   ratios, and what they have to be

Peers get what suits them best: adaptive planning, whole-stage code, the optimising compiler and a heap that holds R.
No two timed runs of a cell see the same orders, so nobody can have learned a batch by heart.
"""
