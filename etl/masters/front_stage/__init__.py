"""The front stage between batches: `keeper` learns and admits in the driver, `file` is what workers map (ADR 17)."""
