"""The part of tasks: new results of all queries in a batch, from mapped segments.

plan      the input of tasks; the queries themselves are in a file
late      dispatchers announce new segments, and write late tuples to a table
buckets   tuples of segments by slot and by key of a join attribute, mapped, indexed once
join      new results of all queries in a batch
results   rows ──► files, aggregates ──► the driver
"""
