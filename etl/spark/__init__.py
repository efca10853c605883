"""Spark: where tasks run. It schedules, shuffles and repeats them; their rows are Arrow from end to end.

session        one way to start it; `daemon` is what its Python workers are forked from
executor       a pipeline's batch: one job, two stages       correlate     the same for all correlations
runner         the resident driver, and how to ask it        tables        Delta's own maintenance
enrich         joins on a data frame, outside of batches; `engine_notes` adds up how they went
"""
