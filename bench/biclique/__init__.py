"""The figures of the paper on the join-biclique, in counters (simulated units, real kernels), and peers on Spark.

    workload   TPC-H streams as tuples          settings    JM16, JB16, JB16-CR4, …
    simulate   batches through all units        memory      6a, 6b, 10 (15, 16, 17), table 4, SGR
    work       7, 8, 9                          bandwidth   11 (18, 19), 13 and 14
    elastic    12                               skew        fullest unit over mean
    kernel     speed of state in one process    result      rows, figures, aims; what another part stored is kept
    peers      whole micro-batches on Spark beside Spark's own joins and DuckDB

    python -m bench.biclique --only 6a,11

Counters are the same on every machine: bytes stored, tuples sent, lookups, candidates. Only `kernel` and `peers` read a
clock.
"""
