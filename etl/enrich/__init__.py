"""Enrich: semi-stream joins of stream keys with master rows, in a fixed number of bytes. NumPy and Arrow only.

    batch          the entry point of micro-batches: keys in, one answer per key out
    spec, build    the kind of join (a tactic, with or without a front stage), and its assembly within a byte budget
    join           the driver: stream buffer, front stage, shedding, one tactic
    front_stage/   the most frequent master rows, kept by row
    tactics/       MESHJOIN, HYBRIDJOIN, index nested loop; their pending tuples
    planning/      sizes from the budget, costs, and the choice of `auto`
    ports          how master data is read
    step           the values that the parts exchange

`docs/joins.md` explains the algorithms.
"""
