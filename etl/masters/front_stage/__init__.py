"""The front stage between batches: `keeper` learns and admits in the driver, workers map `file` (ADR 17)."""
