"""Every figure of the paper on semi-stream joins, regenerated: in cost units and in time, beside the paper's result.

    workload   masters and streams            measure    one run: counts, clocks
    runs       joins in their steady state    result     a figure as a value; why it may differ
    caching    5a–5d and 6                    datasets   5e, 5f, 5g
    shedding   7, 8                           design     9a–9f

    python -m bench.figures --rows 1M --only 5a,7

Nothing here is tuned to look like the paper. `holds` says whether the shape of the paper's figure is there; where
a ratio is smaller, `reason` says why, with numbers measured in the same run.
"""
