"""The state of correlations: runs as files, changed by batches, kept by new declarations, rebuilt after damage."""
