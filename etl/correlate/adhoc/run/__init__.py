"""Execution of queries: buckets, late materialised joins, sinks, and changes at bucket boundaries.

scan          the shared scan of a stream for all of its queries
joins/        buckets of a stream's tuples, their combinations, and their late materialised joins
sinks/        results of the queries with the same last join: counts, aggregates, rows
changes/      changes at a boundary, and how all tasks agree on it
components    queries that share joins, with their shared results
engine        one slot after the other for all queries
"""
