"""Upkeep of a pipeline's tables and files: compaction, garbage removal, retention."""
