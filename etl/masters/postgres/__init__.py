"""Master tables in Postgres: `reader` reads inside an exported snapshot, `source` publishes and follows changes.

catalog   columns, key and indexes of a table     key_sql   conditions on its key     copy   rows as Arrow
"""
