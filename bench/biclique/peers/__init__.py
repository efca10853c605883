"""The same micro-batches through other systems, on the same files, to the same pairs.

    data         two streams as Parquet: files that fill a window, then the batches that are timed
    contender    what every system must do with a batch, and how the pairs of all of them are compared
    spark_join   Structured Streaming's own join, state in RocksDB                      equality
    spark_window every batch joined with the window's rows, bands by bins               equality and band
    native       DuckDB over the window's rows, the reference                           equality and band
    ours         correlations on Spark, log, ledger and Delta included                  equality and band
    figure       all of them, one process each, one run; ratios and aims

    python -m bench.biclique --only peers
    python -m bench.biclique.peers duckdb --condition band --stored 100000 --batch 5000      # one alone

A batch is timed from its files having landed to its pairs lying on disk. Everything is as each system's documentation
advises it; what is set differs from the default only where that makes it faster here.
"""
