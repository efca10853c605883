"""What the queries that end in one join get.

sink        counts, aggregates or rows, as each query asks
count       count(*) of all queries at once
aggregate   counts, sums, averages, minima, maxima without multiplying out
tally       the same of results that are multiplied out: to compare with
result      rows and partial aggregates of one slot
"""
