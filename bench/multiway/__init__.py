"""Multi-way joins over sites: the paper's figures 5 to 11 by simulation, and real executions over three folders.

distributions   the values of section 4: uniform, normal, Zipf, self-similar; hot spots together or spread
simulate        arrivals one by one, counting what a plan ships
figures         5 to 11            executions   bytes that really crossed, beside the model's
plots, page     SVGs and docs/correlations-sites.md

python -m bench.multiway [--only 5,6,real] [--quick]
"""
