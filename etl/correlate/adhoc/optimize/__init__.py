"""Which joins to share, in which order to join, how many tasks to use: chosen by cost, explained in words and numbers.

statistics  samples of the streams with every query's selections as bits; cardinalities, distinct keys
cost        equations 1 and 2 of the paper
grouping    queries that pay off together share a join (figure 7a)
ordering    join orders with shared cost (figure 7b)
optimizer   eager at creation, incremental when few queries changed, holistic past one half
scaling     up, out, down, in by latency and load
decisions   the log of all of it, as plain data
"""
