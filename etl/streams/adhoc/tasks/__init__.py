"""The part of tasks: what is new in a batch, for all queries, from mapped segments.

plan      what tasks need to know; the queries themselves are in a file
late      dispatchers say which segments are new, and put aside what comes too late
buckets   tuples of segments by slot and by key of a join attribute, mapped, indexed once
join      what is new in a batch, for all queries
results   rows ──► files, aggregates ──► the driver
"""
