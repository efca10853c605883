"""Adapters: the databases, tables and tools that the pipeline writes to, behind small interfaces of ours."""
