"""Multi-way window joins over streams at several sites, planned to ship few bytes (PMJoin).

    query        sites, streams, windows, equalities: plain data, validated on creation
    statistics   rates and value histograms per stream and join attribute, in sketches with exponential decay
    rates        equations 1 to 3: output rate of a join of any set of streams, and its tuples per window
    planning/    algorithm 1, its baselines and the optimum; partitioning; algorithm 2 for several attributes
    execution/   a plan as steps over folders: extract, ship, join, gather; all outputs are immutable files
    explain      the plan as a text tree, with expected and measured bytes

Streams of a query are numbered; a set of streams is a bit mask. The result of joining a set of streams does not depend
on the plan, so rates, sizes and stored tuples are all keyed by mask.
"""
