"""Masters: the tables that a stream is joined with, read at one pinned version.

masters, direct    every master pinned for one batch: published pages, a Postgres snapshot, a Delta version
pages/             master pages: sorted, memory-mapped files, published and refreshed from a source
postgres/, delta/  a reader of the table itself, and a source from which pages are published
memory             a master in memory: tests and small tables
front_stage/       the front stage between batches: the driver's copy and the file that workers map
upkeep/            publish, refresh, compact, prune, status
rows/              columns and keys of master rows, keys as sortable codes
source             the port of a source                         pins     versions that are in use
wiring             from settings to masters                     explanation   a join's memory, costs and choice
tables             schemas and keys of master tables            declared      the masters of all pipelines
worker_cache, driver_state   state of processes between tasks and between batches
"""
