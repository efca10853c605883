"""Upkeep of published masters: the operations of commands and the DAG `master_data`, and their status.

maintenance       publish, refresh, compact, follow, prune
status            versions, sizes, age, pins; read-only
observed_source   a source that reports how far it has been read
"""
