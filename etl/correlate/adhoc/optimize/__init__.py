"""Cost-based choice of shared joins, join orders and number of tasks, with explanations.

statistics  samples of the streams with every query's selections as bits; cardinalities, distinct keys
cost        equations 1 and 2 of the paper
grouping    queries share a join where that is cheaper (figure 7a)
ordering    join orders with shared cost (figure 7b)
optimizer   eager at creation, incremental when few queries changed, holistic past one half
scaling     up, out, down, in by latency and load
decisions   the log of decisions, as plain data
"""
