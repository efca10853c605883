"""Multi-way window joins over streams that live at several sites, planned so that few bytes cross (PMJoin).

    query        sites, streams, windows, equalities: plain data, checked when it is made
    statistics   rates and value histograms per stream and join attribute, in sketches that age
    rates        equations 1 to 3: what a join of any set of streams emits, and what a window of it holds
    planning/    algorithm 1, its baselines and the optimum; partitioning; algorithm 2 for several attributes
    execution/   a plan as steps over folders: extract, ship, join, gather; all outputs are immutable files
    explain      the plan as a tree of text, expected and measured bytes beside each other

Streams of a query are numbered; a set of streams is a bit mask. What a join of a set of streams holds is the same
however it was made, so rates, sizes and stored tuples are all kept by mask.
"""
