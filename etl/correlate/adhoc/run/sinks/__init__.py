"""Sinks: results of the queries with the same last join.

sink        counts, aggregates or rows, per query
count       count(*) of all queries at once
aggregate   counts, sums, averages, minima, maxima without materialising
tally       the same for materialised results, as a baseline
result      rows and partial aggregates of one slot
"""
