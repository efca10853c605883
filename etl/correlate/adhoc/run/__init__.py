"""How queries run: buckets, joins that multiply nothing out, sinks, and changes at bucket boundaries.

scan          all that the readers of one stream need together
joins/        buckets of a stream's tuples, which of them meet, and their joins, late materialised
sinks/        what the queries that end in one join get: counts, aggregates, rows
changes/      what changes at a boundary, and how all tasks agree on it
components    queries that share joins, with what they computed together
engine        one slot after the other for all queries
"""
