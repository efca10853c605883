"""How queries run: buckets, joins that multiply nothing out, sinks, and changes at bucket boundaries.

scan          all that the readers of one stream need together
bucket        a stream's tuples of one slot, indexed by join attribute
kernels       the loops over matched keys
factor        joins of buckets, late materialised; re-indexing by reference
eager         the same joins, multiplied out at each step: to compare with
count         count(*) of all queries at once
aggregate     counts, sums, averages, minima, maxima without multiplying out
result        rows and partial aggregates of one slot
sink          what the queries that end in one join get
changelog     what changes at a boundary
partitioning  which task joins which key, before, while and after the number of tasks changes
protocol      how all tasks agree on a boundary: atomic and not
combine       which buckets meet
components    queries that share joins, with what they computed together
engine        one slot after the other for all queries
"""
