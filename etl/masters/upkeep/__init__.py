"""Upkeep of published masters: what commands and the DAG `master_data` do, and how the masters stand.

maintenance       publish, refresh, compact, follow, prune
status            versions, sizes, age, pins; read-only
observed_source   a source that reports how far it has been read
"""
