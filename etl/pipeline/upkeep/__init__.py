"""Upkeep of a pipeline's tables and files: what keeps batches cheap, and what goes when it is old."""
