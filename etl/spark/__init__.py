"""Running tasks on Spark, which schedules, shuffles and retries them; their rows are Arrow from end to end.

session        starts Spark; its Python workers are forked from `daemon`
executor       a pipeline's batch: one job, two stages       correlate     the same for all correlations
runner         the resident driver and its client            tables        Delta's own maintenance
enrich         joins on a data frame, outside of batches; `engine_notes` accumulates their metrics
"""
