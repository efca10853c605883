"""Masters: the tables that a stream is joined with, read at one pinned version.

masters, direct    every master pinned for one batch: published pages, a Postgres snapshot, a Delta version
pages/             master pages: sorted, memory-mapped files, published and refreshed from a source
postgres/, delta/  a reader of the table itself, and a source that pages are published from
memory             a master in memory: tests and small tables
front_stage/       the front stage between batches: the driver's copy and the file that workers map
upkeep/            publish, refresh, compact, prune; what is published now
rows/              columns and keys of master rows, keys as sortable codes
source             what publishing needs of a source            pins     which versions are still needed
wiring             from settings to masters                     explanation   why a join does what it does
tables             tables as their stores describe them         declared      the masters of all pipelines
worker_cache, driver_state   what processes keep between tasks and between batches
"""
